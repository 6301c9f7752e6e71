"""What vendors offer under their own names: device libraries (`gl.extra.libdevice`) and more (`gl.extra.cuda`)."""

from glueball.language.extra import cuda, libdevice

__all__ = ["cuda", "libdevice"]
