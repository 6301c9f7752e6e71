"""Tile operations become instructions of one thread."""

from glueball.lower.lower import lower

__all__ = ["lower"]
