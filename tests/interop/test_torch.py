"""Kernels as operators of torch, on the CPU and on GPUs."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest

from tests.interop.kernels import launch

pytestmark = pytest.mark.torch
torch = pytest.importorskip("torch")
from glueball.interop.torch import custom_op  # noqa: E402 - needs torch

Tensor = torch.Tensor
DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)]
_numbers = itertools.count()


def name() -> str:
    """An operator's name that no other has."""
    return f"glueball_tests::operator_{next(_numbers)}"


def contiguous(x: Tensor, y: Tensor, factor: float) -> Tensor:
    return x.new_empty(x.shape)


@custom_op(
    name(), fake=contiguous, saves=("factor", "outputs", "y"),
    backward=lambda saved, gradient: (scale_add(gradient, torch.zeros_like(saved.y), saved.factor), gradient, None),
)  # fmt: skip
def scale_add(x: Tensor, y: Tensor, factor: float) -> Tensor:
    out = x.new_empty(x.shape)
    launch(x.contiguous(), y.contiguous(), out, factor)
    return out


@custom_op(name(), mutates=("x",))
def double(x: Tensor) -> None:
    launch(x, torch.zeros_like(x), x)


@custom_op(name(), like=("x", "y"), saves=("outputs",), backward=lambda saved, first, second: (
    first * torch.sign(saved.outputs[0]), second * torch.sign(saved.outputs[1])
))  # fmt: skip
def both(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    left, right = torch.empty_like(x), torch.empty_like(y)
    launch(x, torch.zeros_like(x), left)
    launch(y, torch.zeros_like(y), right)
    return left, right


def two_calls(x: Tensor, y: Tensor) -> Tensor:
    return scale_add(scale_add(x, y, 3.0).relu(), y, -2.0)


def plain(x: Tensor, y: Tensor) -> Tensor:
    return (x * 3 + y).relu() * -2 + y


def tensors(device: str, **options: Any) -> tuple[Tensor, Tensor]:
    """Whole numbers, so that every order of operations gives the same bits."""
    generator = torch.Generator().manual_seed(0)
    found = [torch.randint(-9, 9, (7, 30), generator=generator).float().to(device) for _ in range(2)]
    return tuple(value.requires_grad_(options.get("requires_grad", False)) for value in found)  # type: ignore[return-value]


@pytest.mark.parametrize("device", DEVICES)
def test_values_and_gradients(device: str) -> None:
    x, y = tensors(device, requires_grad=True)
    wanted = plain(x, y)
    wanted_gradients = torch.autograd.grad(wanted.sum(), (x, y))
    found = two_calls(x, y)
    assert torch.equal(found, wanted)
    for gradient, wanted_gradient in zip(torch.autograd.grad(found.sum(), (x, y)), wanted_gradients, strict=True):
        assert torch.equal(gradient, wanted_gradient)


@pytest.mark.parametrize("device", DEVICES)
def test_gradients_of_gradients(device: str) -> None:
    """The backward pass calls the operator itself, which is differentiable in turn."""
    x, y = tensors(device, requires_grad=True)
    (gradient,) = torch.autograd.grad((scale_add(x, y, 3.0) ** 2).sum(), x, create_graph=True)
    (second,) = torch.autograd.grad(gradient.sum(), x)
    assert torch.equal(second, torch.full_like(x, 18))


@pytest.mark.parametrize("device", DEVICES)
def test_views_and_strides(device: str) -> None:
    x, y = tensors(device)
    assert torch.equal(scale_add(x.T, y.T, 3.0), x.T * 3 + y.T)
    assert torch.equal(scale_add(x[1:, ::2], y[1:, ::2], 3.0), x[1:, ::2] * 3 + y[1:, ::2])
    rows = x.clone()
    double(rows[2:4])
    assert torch.equal(rows, torch.cat([x[:2], 2 * x[2:4], x[4:]]))


@pytest.mark.parametrize("device", DEVICES)
def test_several_results(device: str) -> None:
    x, y = tensors(device, requires_grad=True)
    left, right = both(x, y)
    assert torch.equal(left, 2 * x)
    assert torch.equal(right, 2 * y)
    (gradient,) = torch.autograd.grad((left + right).sum(), x)
    assert torch.equal(gradient, torch.sign(x))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(
    ("operator", "arguments"), [(scale_add, (3.0,)), (both, ()), (double, ())], ids=["fake", "like", "mutates"]
)
def test_torch_finds_nothing_wrong(device: str, operator: Any, arguments: tuple[Any, ...]) -> None:
    """Schema, fake, autograd and tracing agree with what the function does, for strided arguments too."""
    count = 1 if operator is double else 2
    for given in (tensors(device), tensors(device, requires_grad=operator is not double)):
        torch.library.opcheck(operator, (*given[:count], *arguments))
    if operator is scale_add:
        torch.library.opcheck(operator, (*(value.T for value in tensors(device)), *arguments))


@pytest.mark.parametrize("device", DEVICES)
def test_one_graph(device: str) -> None:
    torch._dynamo.reset()
    x, y = tensors(device)
    explained = torch._dynamo.explain(two_calls)(x, y)
    assert (explained.graph_count, explained.graph_break_count) == (1, 0)
    torch._dynamo.reset()
    compiled = torch.compile(two_calls, fullgraph=True, backend="aot_eager")
    assert torch.equal(compiled(x, y), plain(x, y))
    longer = [torch.cat([value, value]) for value in (x, y)]
    assert torch.equal(compiled(*longer), plain(*longer))


@pytest.mark.gpu
def test_one_graph_through_inductor() -> None:
    pytest.importorskip("triton", reason="Inductor makes its own kernels with triton")
    torch._dynamo.reset()
    x, y = tensors("cuda", requires_grad=True)
    compiled = torch.compile(two_calls, fullgraph=True)
    found = compiled(x, y)
    assert torch.equal(found, plain(x, y))
    gradients = torch.autograd.grad(found.sum(), (x, y))
    for gradient, wanted in zip(gradients, torch.autograd.grad(plain(x, y).sum(), (x, y)), strict=True):
        assert torch.equal(gradient, wanted)


@pytest.mark.parametrize("device", DEVICES)
def test_a_launch_in_a_compiled_function_splits_its_graph_once(device: str) -> None:
    """Without an operator around it a launch is right all the same, and tracing does not go into it."""

    def function(x: Tensor, y: Tensor) -> Tensor:
        x = x + 1
        out = torch.empty_like(x)
        launch(x, y, out)
        return out - 1

    torch._dynamo.reset()
    x, y = tensors(device)
    wanted = (x + 1) * 2 + y - 1
    for _ in range(2):
        assert torch.equal(torch.compile(function, backend="eager")(x, y), wanted)
    torch._dynamo.reset()
    assert torch._dynamo.explain(function)(x, y).graph_count == 2


@pytest.mark.gpu
def test_a_replayed_graph_gives_the_same_bits() -> None:
    x, y = (torch.randn(1000, device="cuda") for _ in range(2))
    two_calls(x, y)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = two_calls(x, y)
    for _ in range(3):
        x.copy_(torch.randn_like(x))
        graph.replay()
        assert torch.equal(captured, two_calls(x, y))


@pytest.mark.gpu
def test_work_stays_on_its_stream() -> None:
    """A launch follows what its stream waits for: on another stream it would see the old values."""
    stream = torch.cuda.Stream()
    x, y = torch.zeros(1 << 16, device="cuda"), torch.zeros(1 << 16, device="cuda")
    launch(x, y, torch.empty_like(x))
    for attempt in range(1, 20):
        with torch.cuda.stream(stream):
            torch.cuda._sleep(2_000_000)
            x.fill_(attempt)
            found = scale_add(x, y, 3.0)
        stream.synchronize()
        assert (found == 3 * attempt).all()


@pytest.mark.gpu
def test_an_unusual_device_is_the_arguments_own() -> None:
    if torch.cuda.device_count() < 2:
        pytest.skip("one GPU")
    x, y = (value.to("cuda:1") for value in tensors("cpu"))
    found = scale_add(x, y, 3.0)
    assert found.device.index == 1
    assert torch.equal(found, x * 3 + y)


@pytest.mark.parametrize("device", DEVICES)
def test_tensors_that_want_gradients_can_be_passed(device: str) -> None:
    x, y = tensors(device, requires_grad=True)
    out = torch.empty_like(x)
    launch(x, y, out)
    assert torch.equal(out, 2 * x + y)


def test_tensors_that_are_not_their_memory() -> None:
    x = torch.complex(torch.ones(8), torch.ones(8)).conj().imag
    assert x.is_neg()
    with pytest.raises(TypeError, match="resolve_neg"):
        launch(x, x, torch.empty(8))
    x = torch.empty(8, device="meta")
    with pytest.raises(TypeError, match="'meta'"):
        launch(x, x, x)


def declared(**options: Any) -> Callable[[], Any]:
    def function(x: Tensor, y: Tensor) -> Tensor:
        return x + y

    return lambda: custom_op(name(), **options)(function)


@pytest.mark.parametrize(
    ("declare", "error", "message"),
    [
        (declared(), TypeError, "say what the results are like"),
        (declared(like="x", fake=lambda x, y: x), TypeError, "not both"),
        (declared(like="z"), ValueError, "`like` names 'z'; the parameters are x, y"),
        (declared(like="x", saves=("output",)), ValueError, "`saves` names 'output'"),
        (declared(mutates=("outputs",)), ValueError, "`mutates` names 'outputs'"),
    ],
)
def test_declarations_that_do_not_fit(declare: Callable[[], Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        declare()
