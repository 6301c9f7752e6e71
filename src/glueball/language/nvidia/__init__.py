"""What only NVIDIA GPUs have, by the generation that brought it: `ampere`, `hopper`, `blackwell`, `rubin`."""

from glueball.language.nvidia import ampere, blackwell, hopper, rubin

__all__ = ["ampere", "blackwell", "hopper", "rubin"]
