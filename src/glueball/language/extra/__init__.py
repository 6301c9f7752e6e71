"""What a device library of the vendors offers under its own names: `gl.extra.libdevice`."""

from glueball.language.extra import libdevice

__all__ = ["libdevice"]
