"""Kernels inside `jax.jit`, on JAX's default device."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from glueball.errors import ReadOnlyWriteError
from tests.interop.kernels import launch

jax = pytest.importorskip("jax")
jnp = jax.numpy
from glueball.interop.jax import call  # noqa: E402 - needs JAX


@pytest.fixture(autouse=True, params=["cpu", pytest.param("gpu", marks=pytest.mark.gpu)])
def device(request: pytest.FixtureRequest) -> Iterator[Any]:
    try:
        found = jax.devices(request.param)[0]
    except RuntimeError as error:
        pytest.skip(str(error))
    with jax.default_device(found):
        yield found


def scale_add(x: Any, y: Any, **options: Any) -> Any:
    return call(launch, jax.ShapeDtypeStruct(x.shape, x.dtype), x, y, **options)


def arrays(dtype: Any = np.float32) -> tuple[Any, Any]:
    return jnp.arange(1000, dtype=dtype).reshape(10, 100) % 64, jnp.ones((10, 100), dtype)


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "int32", "uint8"])
def test_values(dtype: str) -> None:
    x, y = arrays(getattr(jnp, dtype))
    wanted = (x.astype(jnp.float32) * 2 + 1).astype(x.dtype)
    if not jnp.issubdtype(x.dtype, jnp.floating):
        x, y = x.astype(jnp.float32), y.astype(jnp.float32)
        wanted = wanted.astype(jnp.float32)
    for function in (scale_add, jax.jit(scale_add)):
        assert np.array_equal(function(x, y), wanted)


def test_two_calls_in_one_program() -> None:
    x, y = arrays()

    @jax.jit
    def twice(x: Any, y: Any) -> Any:
        return scale_add(scale_add(x, y) * 2, y) + 1

    assert np.array_equal(twice(x, y), (x * 2 + y) * 4 + y + 1)


def test_several_outputs() -> None:
    x, y = arrays()

    def both(x: Any, y: Any, left: Any, right: Any) -> None:
        launch(x, y, left)
        launch(y, x, right)

    shape = jax.ShapeDtypeStruct(x.shape, x.dtype)
    left, right = jax.jit(lambda x, y: call(both, (shape, shape), x, y))(x, y)
    assert np.array_equal(left, x * 2 + y)
    assert np.array_equal(right, y * 2 + x)


def in_place(x: Any, out: Any) -> None:
    pointers = [array.ctypes.data if isinstance(array, np.ndarray) else array.pointer for array in (x, out)]
    assert pointers[0] == pointers[1]
    launch(x, x, out)


def test_an_output_takes_over_the_memory_of_an_input() -> None:
    x, _ = arrays()
    run = jax.jit(lambda x: call(in_place, jax.ShapeDtypeStruct(x.shape, x.dtype), x * 2, aliases={0: 0}))
    assert np.array_equal(run(x), 6 * x)


@pytest.mark.parametrize("method", ["sequential", "broadcast_all"])
def test_vmap(method: str) -> None:
    x, y = arrays()
    assert np.array_equal(jax.vmap(lambda x, y: scale_add(x, y, vmap_method=method))(x, y), x * 2 + y)


def test_gradients() -> None:
    @jax.custom_vjp
    def function(x: Any, y: Any) -> Any:
        return scale_add(x, y)

    function.defvjp(lambda x, y: (function(x, y), None), lambda _, g: (scale_add(g, jnp.zeros_like(g)), g))
    x, y = arrays()
    left, right = jax.grad(lambda x, y: (function(x, y) * 3).sum(), argnums=(0, 1))(x, y)
    assert np.array_equal(left, jnp.full_like(x, 6))
    assert np.array_equal(right, jnp.full_like(x, 3))


def failing(x: Any, out: Any) -> None:
    raise ValueError("the number of columns must be even")


def test_errors_are_told() -> None:
    x, _ = arrays()
    with pytest.raises(jax.errors.JaxRuntimeError, match="ValueError: the number of columns must be even"):
        jax.block_until_ready(call(failing, jax.ShapeDtypeStruct(x.shape, x.dtype), x))


def test_element_types_that_kernels_lack() -> None:
    x = jnp.ones(8, jnp.complex64)
    with pytest.raises(jax.errors.JaxRuntimeError, match="element type 15"):
        jax.block_until_ready(call(failing, jax.ShapeDtypeStruct(x.shape, x.dtype), x))


def test_arrays_outside_of_jit(device: Any) -> None:
    """A launch reads JAX's arrays where they are; they are immutable, so on the host it must not write them."""
    if device.platform != "cpu":
        pytest.skip("arrays on a GPU are not checked")
    x, y = arrays()
    out = np.zeros(x.shape, np.float32)
    launch(x, y, out)
    assert np.array_equal(out, x * 2 + y)
    with pytest.raises(ReadOnlyWriteError):
        launch(x, y, x)
