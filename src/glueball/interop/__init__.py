"""Kernels among other libraries' arrays. Nothing here is needed to launch a kernel on such an array.

`arrays`: memory handed on through DLPack and the array interfaces. `torch`: custom operators. `jax`: calls inside
`jax.jit`. CuPy needs nothing: its arrays, and the stream that it works on, are known to every launch.
"""
