"""Addresses in the shared memory of other CTAs of a cluster (PTX ISA, `mapa`)."""

from __future__ import annotations

from glueball.thread.ir import Emitter, Value


def remote_address(emitter: Emitter, address: str, rank: Value) -> str:
    """The address in the cluster's memory of what lies at an address of the CTA of a rank."""
    result = emitter.fresh()
    call = 'asm "mapa.shared::cluster.u32 $0, $1, $2;", "=r,r,r"'
    emitter.line(f"{result} = call i32 {call}(i32 {address}, i32 {emitter.name(rank)})")
    return result
