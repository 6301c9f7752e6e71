"""The host's side of what the fifth family of AMD's compute GPUs has: descriptors, not there yet."""

from glueball.language.module_names import later, missing

__getattr__ = later(__name__, ("TensorDescriptor",), missing(__name__, ()))
