"""Finished kernels, written in the language."""
