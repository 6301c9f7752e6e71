"""Sectors and requests of the copy ladder three ways: closed form, simulator, and the hardware's counters.

    python benchmarks/counters.py [--size 4096]

Runs itself under Nsight Compute (`ncu`), which must be on PATH, and compares. Writes results/counters.json; exit status
1 where any count differs.
"""

from __future__ import annotations

import argparse
import csv
import io
import os
import subprocess
import sys
from typing import Any

import numpy as np

from glueball.explain import explain
from glueball.kernels.ladder import RUNGS, Rung, tensors

NAMES = ("b1", "b2", "b4", "b8", "b16", "c", "d-wrong", "d-right", "f-rows", "f-columns", "f-converted", "g-opposite")
METRICS = {
    "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum": "load sectors",
    "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum": "load requests",
    "l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum": "store sectors",
    "l1tex__t_requests_pipe_lsu_mem_global_op_st.sum": "store requests",
    "smsp__sass_l1tex_data_pipe_lsu_wavefronts_mem_shared_op_ld.sum": "shared load wavefronts",
    "smsp__sass_l1tex_data_pipe_lsu_wavefronts_mem_shared_op_st.sum": "shared store wavefronts",
}
FACTS = {"smsp__inst_executed.sum": "warp instructions", "launch__registers_per_thread": "registers"}


def rungs() -> list[Rung]:
    """The rungs that are counted, in the order in which they run."""
    return [rung for rung in RUNGS if rung.name in NAMES]


def launch_all(size: int) -> None:
    """One launch of every rung on the GPU."""
    import torch

    for rung in rungs():
        source, destination = tensors(rung.view, lambda shape: torch.zeros(shape, device="cuda"), size, size)
        rung.launch(source, destination, 32).run()
    torch.cuda.synchronize()


def hardware(size: int) -> list[dict[str, int]]:
    """The counters of every launch, read by ncu."""
    metrics = ",".join([*METRICS, *FACTS])
    command = ["ncu", "--clock-control", "none", "--csv", "--metrics", metrics, "--kernel-name", "regex:^copy_"]
    command += [sys.executable, __file__, "--launch", "--size", str(size)]
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    table = output[output.index('"ID"') :]
    launches: dict[str, dict[str, int]] = {}
    for line in csv.DictReader(io.StringIO(table)):
        name = {**METRICS, **FACTS}.get(line["Metric Name"])
        if name is not None:
            launches.setdefault(line["ID"], {})[name] = int(line["Metric Value"].replace(",", "").split(".")[0])
    return list(launches.values())


def closed_form(rung: Rung, source: Any, destination: Any) -> dict[str, int]:
    """What the layouts say."""
    launch = rung.launch(source, destination, 32)
    report = explain(launch.kernel, launch.arguments, launch.keywords, target="sm_90a", grid=launch.grid)
    loads, stores, shared = report.loads, report.stores, (report.shared_loads, report.shared_stores)
    assert loads is not None and stores is not None and shared[0] is not None and shared[1] is not None
    return {
        "load sectors": loads.sectors,
        "load requests": loads.requests,
        "store sectors": stores.sectors,
        "store requests": stores.requests,
        "shared load wavefronts": shared[0].wavefronts,
        "shared store wavefronts": shared[1].wavefronts,
    }


def simulated(rung: Rung, source: Any, destination: Any) -> dict[str, int]:
    """What the simulator counts."""
    report = rung.launch(source, destination, 32).run().report
    return {
        "load sectors": report.global_loads.sectors,
        "load requests": report.global_loads.requests,
        "store sectors": report.global_stores.sectors,
        "store requests": report.global_stores.requests,
        "shared load wavefronts": report.shared_loads.wavefronts,
        "shared store wavefronts": report.shared_stores.wavefronts,
    }


def main() -> int:
    """Compares and writes the result file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", type=int, default=4096)
    parser.add_argument("--launch", action="store_true", help="only launch the kernels, for ncu")
    options = parser.parse_args()
    if options.launch:
        launch_all(options.size)
        return 0
    from report import write

    os.environ["GLUEBALL_EXECUTOR"] = "gpu"
    counted = hardware(options.size)
    os.environ["GLUEBALL_EXECUTOR"] = "sim"
    rows, equal = [], True
    for rung, hardware_counts in zip(rungs(), counted, strict=True):
        arrays = tensors(rung.view, lambda shape: np.zeros(shape, np.float32), options.size, options.size)
        sides = {"closed form": closed_form(rung, *arrays), "simulator": simulated(rung, *arrays)}
        sides["hardware"] = {name: hardware_counts[name] for name in METRICS.values()}
        same = sides["closed form"] == sides["simulator"] == sides["hardware"]
        equal = equal and same
        facts = {name: hardware_counts[name] for name in FACTS.values()}
        rows.append({"name": rung.name, "unit": "counts", "equal": same, "sides": sides, "facts": facts})
        print(f"{rung.name:<12} {'equal' if same else 'DIFFERENT'} {sides['hardware']} {facts}")
        if not same:
            print(f"{'':<12} closed form {sides['closed form']}\n{'':<12} simulator   {sides['simulator']}")
    import torch

    print(f"written: {write('counters.json', torch.cuda.get_device_name(), rows, shape=[options.size] * 2)}")
    return 0 if equal else 1


if __name__ == "__main__":
    sys.exit(main())
