"""The host's side of what only AMD GPUs have, by the family that brought it. Its names can be imported so far."""

from glueball.amd import cdna5, gfx1250

__all__ = ["cdna5", "gfx1250"]
