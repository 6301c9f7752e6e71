"""Another name of `glueball.amd.cdna5`."""

from glueball.amd.cdna5 import TensorDescriptor

__all__ = ["TensorDescriptor"]
