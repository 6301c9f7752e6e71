"""A kernel inside `jax.jit`, with a derivative: through XLA's foreign function interface, on the CPU and on GPUs.

python examples/interop/jax_call.py
"""

import jax
import jax.numpy as jnp
import numpy as np

import glueball
import glueball.language as gl
from glueball.interop.jax import call

BLOCK = 1024
LAYOUT = gl.BlockedLayout(size_per_thread=[4], threads_per_warp=[32], warps_per_cta=[4], order=[0])


@glueball.jit
def multiply(x_ptr, y_ptr, out_ptr, n, BLOCK: gl.constexpr, layout: gl.constexpr):
    offsets = gl.program_id(0) * BLOCK + gl.arange(0, BLOCK, layout=layout)
    mask = offsets < n
    gl.store(out_ptr + offsets, gl.load(x_ptr + offsets, mask=mask) * gl.load(y_ptr + offsets, mask=mask), mask=mask)


def launch(x, y, out):
    """What XLA runs: the inputs' and the output's memory, as NumPy arrays on the CPU."""
    multiply[(glueball.cdiv(x.size, BLOCK),)](x, y, out, x.size, BLOCK, LAYOUT, num_warps=4)


@jax.custom_vjp
def product(x, y):
    return call(launch, jax.ShapeDtypeStruct(x.shape, x.dtype), x, y, vmap_method="broadcast_all")


product.defvjp(
    lambda x, y: (product(x, y), (x, y)),
    lambda saved, gradient: (product(gradient, saved[1]), product(gradient, saved[0])),
)


@jax.jit
def loss(x, y):
    return jnp.sum(product(product(x, y), y))


def main() -> None:
    generator = np.random.default_rng(0)
    x, y = (generator.integers(-8, 8, (50, 70)).astype(np.float32) for _ in range(2))

    assert np.array_equal(jax.jit(product)(x, y), x * y)
    assert np.array_equal(jax.vmap(product)(x, y), x * y)
    assert loss(x, y) == np.sum(x * y * y)
    assert np.array_equal(jax.grad(loss)(x, y), y * y)
    print(f"values and gradients on {jax.devices()[0].platform} are equal to NumPy's")


if __name__ == "__main__":
    main()
