"""Numbers of microscaling formats as torch tensors: four-bit floats (e2m1) and scales that are powers of two (e8m0)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

MAGNITUDES = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)
"""The absolute values of e2m1 in the order of their codes."""
SIGN = 8
SCALE_BIAS = 127
GREATEST_SCALE, NO_SCALE = 254, 255


class MXFP4Tensor:
    """Four-bit floats, one code a byte in `data`: the nearest ones to those of a tensor, ties to the even code.

    Without `data`, `random` fills a tensor of `size`. What is greater than 6 becomes 6. Errors: `ValueError` for
    neither data nor size, and for NaN, which e2m1 does not have.
    """

    def __init__(self, data: Any = None, size: Sequence[int] | None = None, device: Any = None) -> None:
        self.size = _size(data, size)
        self.device = device if data is None else data.device
        self.data: Any = None if data is None else self._nearest(data.to(torch.float32))

    def random(self) -> MXFP4Tensor:
        """Fills the tensor with random codes; gives the tensor itself."""
        self.data = torch.randint(0, 2 * SIGN, self.size, dtype=torch.uint8, device=self.device)
        return self

    def to(self, dtype: Any) -> Any:
        """The numbers as a tensor of floats."""
        values = torch.tensor([*MAGNITUDES, *(-value for value in MAGNITUDES)], dtype=dtype, device=self.device)
        return values[self.data.to(torch.int64)]

    def to_packed_tensor(self, dim: int) -> Any:
        """Two codes a byte, neighbours along `dim`, the first in the low bits; an odd one out is paired with 0."""
        pairs = self.data.movedim(dim, -1)
        if pairs.shape[-1] % 2:
            pairs = torch.nn.functional.pad(pairs, (0, 1))
        return (pairs[..., ::2] | (pairs[..., 1::2] << 4)).movedim(-1, dim).contiguous()

    def unpack_packed_tensor(self, packed_tensor: Any, dim: int, original_shape: Sequence[int]) -> Any:
        """The codes that were packed along `dim`, one a byte."""
        pairs = packed_tensor.movedim(dim, -1)
        codes = torch.stack((pairs & 15, pairs >> 4), dim=-1).flatten(-2)
        return codes[..., : original_shape[dim]].movedim(-1, dim).contiguous()

    def _nearest(self, values: Any) -> Any:
        if values.isnan().any():
            raise ValueError("a four-bit float is no NaN")
        magnitudes = torch.tensor(MAGNITUDES, device=self.device)
        between = (magnitudes[1:] + magnitudes[:-1]) / 2
        code = torch.bucketize(values.abs(), between)
        tied = (code < between.numel()) & (values.abs() == between[code.clamp(max=between.numel() - 1)])
        code = code + (tied & (code % 2 == 1)).to(code.dtype)
        return (code | (values.signbit() * SIGN)).to(torch.uint8)


class MXScaleTensor:
    """Scales, one biased exponent a byte in `data`: the greatest powers of two up to the numbers of a tensor.

    Without `data`, `random` fills a tensor of `size`. What is not positive and finite becomes NaN. Errors: `ValueError`
    for neither data nor size.
    """

    def __init__(self, data: Any = None, size: Sequence[int] | None = None, device: Any = None) -> None:
        self.size = _size(data, size)
        self.device = device if data is None else data.device
        self.data: Any = None if data is None else self._exponents(data.to(torch.float32))

    def random(self, low: float | None = None, high: float | None = None) -> MXScaleTensor:
        """Fills the tensor with random powers of two from `low` to `high`; gives the tensor itself."""
        first = 0 if low is None else int(self._exponents(torch.tensor(float(low))))
        last = GREATEST_SCALE if high is None else int(self._exponents(torch.tensor(float(high))))
        self.data = torch.randint(first, last + 1, self.size, dtype=torch.uint8, device=self.device)
        return self

    def to(self, dtype: Any) -> Any:
        """The numbers as a tensor of floats."""
        powers = torch.exp2(self.data.to(torch.float64) - SCALE_BIAS)
        return torch.where(self.data == NO_SCALE, torch.nan, powers).to(dtype)

    def _exponents(self, values: Any) -> Any:
        exponents = (torch.frexp(values).exponent - 1 + SCALE_BIAS).clamp(0, GREATEST_SCALE)
        return torch.where(values.isfinite() & (values > 0), exponents, NO_SCALE).to(torch.uint8)


def _size(data: Any, size: Sequence[int] | None) -> tuple[int, ...]:
    if data is not None:
        return tuple(data.shape)
    if size is None:
        raise ValueError("either data or a size is needed")
    return tuple(size)
