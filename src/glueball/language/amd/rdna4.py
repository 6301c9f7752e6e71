"""What gfx1200 brought: matrix products, which are not there yet."""

from glueball.language.module_names import later, missing

NOT_YET = ("wmma",)

__getattr__ = later(__name__, NOT_YET, missing(__name__, NOT_YET))
