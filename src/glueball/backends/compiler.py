"""`GPUTarget`, by the path that programs import it from."""

from __future__ import annotations

from glueball.gpu_target import GPUTarget

__all__ = ["GPUTarget"]
