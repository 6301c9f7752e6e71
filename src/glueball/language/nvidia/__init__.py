"""What only NVIDIA GPUs have, by the generation that brought it: `ampere`, `hopper`, `blackwell`."""

from glueball.language.nvidia import ampere, blackwell, hopper

__all__ = ["ampere", "blackwell", "hopper"]
