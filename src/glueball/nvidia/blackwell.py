"""The host's side of what NVIDIA GPUs have from compute capability 10.0 on."""

from glueball.nvidia.hopper import TensorDescriptor

__all__ = ["TensorDescriptor"]
