"""Launches on a real GPU."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import glueball
from tests.runtime.kernels import copy, count_programs, layout, write_scalars

pytestmark = [pytest.mark.gpu, pytest.mark.torch]


@pytest.fixture
def torch(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    monkeypatch.setenv("GLUEBALL_CACHE_DIR", str(tmp_path))
    return pytest.importorskip("torch")


def test_copy_and_what_is_known_of_the_kernel(torch: Any) -> None:
    spread = layout()
    x = torch.arange(5000, device="cuda", dtype=torch.float32)
    for size in (5000, 4999, 1, 0):
        y = torch.zeros_like(x)
        kernel = copy[(glueball.cdiv(5000, 1024),)](x, y, size, 1024, spread)
        assert torch.equal(y[:size], x[:size])
        assert not y[size:].any()
    assert kernel.n_regs > 0
    assert kernel.n_spills == 0
    assert kernel.asm["cubin"][:4] == b"\x7fELF"


def test_launch_uses_the_current_stream(torch: Any) -> None:
    spread, stream = layout(), torch.cuda.Stream()
    x = torch.rand(1 << 20, device="cuda")
    y = torch.zeros_like(x)
    copy[(1024,)](x, y, x.numel(), 1024, spread)  # compiled, so that later launches are faster than the sleep
    for _ in range(3):
        y.zero_()
        torch.cuda.synchronize()
        with torch.cuda.stream(stream):
            torch.cuda._sleep(20_000_000)
            copy[(1024,)](x, y, x.numel(), 1024, spread)
            assert not stream.query()
        stream.synchronize()
        assert torch.equal(x, y)


def test_scalars_and_computed_grids(torch: Any) -> None:
    y = torch.zeros(4, device="cuda", dtype=torch.float64)
    for value in (2, np.int64(3)):
        write_scalars[(1,)](y, value, 1e300, d=0.5)
        assert y.tolist() == [value, 1e300, 5, 0.5]
    counts = torch.zeros(24, device="cuda", dtype=torch.int32)
    for _ in range(2):
        counts.zero_()
        count_programs[lambda bound: (2, 3, bound["y"].numel() // 6)](counts)
        assert counts.tolist() == list(range(1, 25))


def test_host_and_device_arrays_do_not_mix(torch: Any) -> None:
    with pytest.raises(TypeError, match=r"`x` \(on device 0\) and `y` \(on the host\)"):
        copy[(1,)](torch.zeros(4, device="cuda"), np.zeros(4, np.float32), 4, 4, layout())
