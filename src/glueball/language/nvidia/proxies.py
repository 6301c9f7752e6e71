"""Order between accesses of threads and those of the asynchronous units (PTX ISA, `fence.proxy.async`)."""

from __future__ import annotations

from typing import Any

from glueball.language.builder import HIDDEN, KernelBuilder, builtin
from glueball.language.constexpr import _unwrap_if_constexpr
from glueball.language.features import require


@builtin
def fence_async_shared(cluster: Any = False, *, _builder: KernelBuilder = HIDDEN) -> None:
    """What each thread has written to shared memory comes before what asynchronous units do with it afterwards.

    It waits for nothing; that the threads have come here is for a barrier to say. `cluster` extends it to the shared
    memory of the other CTAs of the cluster.
    """
    require(_builder, "bulk_copy", "fence_async_shared", "sm_90")
    _builder.create("proxy_fence", attributes={"cluster": bool(_unwrap_if_constexpr(cluster))})
