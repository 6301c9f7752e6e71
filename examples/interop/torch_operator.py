"""A kernel as a differentiable operator of torch, compiled into one graph and replayed from a CUDA graph.

python examples/interop/torch_operator.py
"""

import numpy as np
import torch

import glueball
import glueball.language as gl
from glueball.interop.torch import custom_op

BLOCK = 1024
LAYOUT = gl.BlockedLayout(size_per_thread=[4], threads_per_warp=[32], warps_per_cta=[4], order=[0])


@glueball.jit
def scaled_sum(x_ptr, y_ptr, out_ptr, n, factor, BLOCK: gl.constexpr, layout: gl.constexpr):
    offsets = gl.program_id(0) * BLOCK + gl.arange(0, BLOCK, layout=layout)
    mask = offsets < n
    x = gl.load(x_ptr + offsets, mask=mask)
    y = gl.load(y_ptr + offsets, mask=mask)
    gl.store(out_ptr + offsets, x * factor + y, mask=mask)


def gradients(saved, gradient):
    return gradient * saved.factor, gradient, None


@custom_op("glueball_examples::scale_add", like="x", saves=("factor",), backward=gradients)
def scale_add(x: torch.Tensor, y: torch.Tensor, factor: float) -> torch.Tensor:
    # The kernel goes through memory in order; arguments with other strides are copied first.
    out = torch.empty_like(x)
    x, y = x.contiguous(), y.contiguous()
    result = out if out.is_contiguous() else torch.empty_like(x)
    grid = (glueball.cdiv(x.numel(), BLOCK),)
    scaled_sum[grid](x, y, result, x.numel(), factor, BLOCK, LAYOUT, num_warps=4)
    return out if result is out else out.copy_(result)


def model(x, y):
    return scale_add(torch.relu(scale_add(x, y, 2.0)), y, -0.5)


def main() -> None:
    device = "cuda" if torch.cuda.is_available() else "cpu"
    x = torch.randn(100, 33, device=device, requires_grad=True)
    y = torch.randn(33, 100, device=device).T

    # fullgraph=True is an error where a graph would be split. "aot_eager" needs no compiler; leave it out for Inductor.
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
    result = compiled(x, y)
    host_x, host_y = x.detach().cpu().numpy(), y.cpu().numpy()
    inner = host_x * np.float32(2) + host_y
    assert np.array_equal(result.detach().cpu().numpy(), np.maximum(inner, 0) * np.float32(-0.5) + host_y)

    result.sum().backward()
    assert np.array_equal(x.grad.cpu().numpy(), np.where(inner > 0, np.float32(-1), np.float32(0)))
    print("values and gradients through one graph are equal to NumPy's")

    if device == "cuda":
        replay(x.detach(), y)


def replay(x, y):
    """Captures the model, changes its input and replays it. The calls before had every kernel compiled and loaded."""
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = model(x, y)
    x.copy_(torch.randn_like(x))
    graph.replay()
    assert torch.equal(captured, model(x, y))
    print("a replayed CUDA graph gives the same bits")


if __name__ == "__main__":
    main()
