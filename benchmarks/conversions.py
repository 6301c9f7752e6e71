"""Shared-memory wavefronts of 500 conversions three ways: the plan, the simulator, and the hardware's counters.

    python benchmarks/conversions.py [--no-gpu] [--make-sample]

The pairs stand in conversion_sample.json. Runs itself under Nsight Compute (`ncu`, on PATH), about 50 conversions a
kernel, told apart by the source line of each instruction. Kernels are compiled, simulated and read back on all cores;
only the launches, of one block each, follow one another. Writes results/conversions.json, and the shared accesses that
ncu printed to results/conversions_ncu.csv; exit status 1 where any count differs.
"""

from __future__ import annotations

import argparse
import csv
import io
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path
from typing import Any

from conversion_pairs import WIDTHS, Batch, Pair, counted_wavefronts, planned_wavefronts, random_pairs, simulate
from report import RESULTS, write

import glueball
from glueball.codegen import disassembly
from glueball.layouts import LinearLayout, SharedRoundTrip, plan_conversion
from glueball.targets import TARGETS

SAMPLE = Path(__file__).parent / "conversion_sample.json"
TARGET = TARGETS["sm_90a"]
COUNT, PER_KERNEL, SEED = 500, 50, 500
METRIC = "memory_l1_wavefronts_shared"
SHARED = re.compile(r"\b(LDS|STS|LDSM|STSM)\b")
NAMES = ("register", "lane", "warp")

Counts = dict[int, tuple[int, int]]
"""By line of a kernel's source, the wavefronts that all warps write and read in."""


def make_sample() -> None:
    """Writes pairs that go through shared memory, as many of each number of warps as come up."""
    kept = []
    for pair in random_pairs(SEED, 8 * COUNT, lanes=(TARGET.lanes,)):
        plan = plan_conversion(
            pair.source,
            pair.destination,
            pair.width,
            shared_bytes=TARGET.shared_bytes,
            matrix_loads=TARGET.supports("load_matrix"),
            matrix_stores=TARGET.supports("store_matrix"),
        )
        if isinstance(plan, SharedRoundTrip) and len(kept) < COUNT:
            kept.append(pair)
    kept.sort(key=lambda pair: pair.warps)
    rows = [
        {"width": pair.width, "elements": pair.elements}
        | {
            side: {name: list(layout.flat_bases(name)) for name in NAMES}
            for side, layout in (("source", pair.source), ("destination", pair.destination))
        }
        for pair in kept
    ]
    lines = ",\n".join(json.dumps(item) for item in rows)
    SAMPLE.write_text(f"[\n{lines}\n]\n")


def sample() -> list[Batch]:
    """The committed pairs, in kernels."""
    by_warps: dict[int, list[Pair]] = {}
    for item in json.loads(SAMPLE.read_text()):
        source, destination = (
            LinearLayout.from_flat_bases({**item[side], "block": ()}, (item["elements"],))
            for side in ("source", "destination")
        )
        by_warps.setdefault(source.size("warp"), []).append(Pair(source, destination, item["width"]))
    found = []
    for pairs in by_warps.values():
        kernels = -(-len(pairs) // PER_KERNEL)
        found += [Batch.of(pairs[index::kernels]) for index in range(kernels)]
    return found


def source_path(folder: Path, number: int) -> Path:
    """Where the source of a kernel stands."""
    return folder / f"conversions_{number}.py"


def compile_one(folder: Path, number: int) -> None:
    """Puts the machine code of a kernel into the cache, for the launch, and beside its source."""
    batch = sample()[number]
    kernel = batch.kernel(source_path(folder, number))
    pointers = [f"*i{width}:16" for width in WIDTHS for _ in "xy"]
    compiled = glueball.compile_only(kernel, *pointers, num_warps=batch.pairs[0].warps, target=TARGET)
    (folder / f"{number}.cubin").write_bytes(compiled.asm["cubin"])


def simulate_one(folder: Path, number: int) -> tuple[Counts, Counts]:
    """What the plans of a kernel say, and what the simulator counts."""
    path = folder / "simulated"
    path.mkdir(exist_ok=True)
    function, report, wrong = simulate(sample()[number], TARGET, source_path(path, number), number)
    if wrong:
        raise SystemExit(f"kernel {number} misplaces elements of its pairs {wrong} on the simulator")
    return planned_wavefronts(function), counted_wavefronts(report)


def launch_all(folder: Path) -> None:
    """Runs every kernel on the GPU once."""
    import torch

    for number, batch in enumerate(sample()):
        sources, destinations = batch.arrays(number)
        outputs = [torch.from_numpy(array).cuda() for array in destinations]
        arguments: list[Any] = []
        for array, output in zip(sources, outputs, strict=True):
            arguments += [torch.from_numpy(array).cuda(), output]
        kernel = batch.kernel(source_path(folder, number))[(1,)](*arguments, num_warps=batch.pairs[0].warps)
        if kernel.asm["cubin"] != (folder / f"{number}.cubin").read_bytes():
            raise SystemExit(f"kernel {number} was launched as other machine code than it was compiled to beforehand")
        if wrong := batch.misplaced(sources, [output.cpu().numpy() for output in outputs]):
            raise SystemExit(f"kernel {number} misplaces elements of its pairs {wrong}")


def profile(folder: Path) -> Path:
    """Launches every kernel under ncu; the report."""
    stored = folder / "conversions.ncu-rep"
    command = ["ncu", "--clock-control", "none", "--cache-control", "none", "--metrics", METRIC]
    command += ["--kernel-name", "regex:^convert_all", "-f", "-o", str(stored.with_suffix(""))]
    done = subprocess.run([*command, sys.executable, __file__, "--launch", str(folder)], text=True, check=False)
    if done.returncode != 0 or not stored.is_file():
        raise SystemExit(f"ncu failed with status {done.returncode}")
    return stored


def counted_by_hardware(stored: Path, number: int) -> tuple[str, Counts]:
    """The lines of ncu's source page on shared accesses of one kernel, and what they say of each line of its source."""
    command = ["ncu", "-i", str(stored), "--launch-skip", str(number), "--launch-count", "1"]
    command += ["--page", "source", "--csv", "--print-source", "sass", "--print-units", "base"]
    shown = subprocess.run(command, capture_output=True, text=True, check=False)
    lines = shown.stdout.splitlines()
    kept = (
        "".join(f"{line}\n" for line in lines if METRIC in line or SHARED.search(line)) or shown.stdout + shown.stderr
    )
    try:
        return kept, by_line(instruction_table(shown.stdout), stored.parent, number)
    except SystemExit:
        print(kept, file=sys.stderr)
        raise


def instruction_table(text: str) -> list[tuple[str, int]]:
    """The shared accesses of the kernel on ncu's source page, in order: SASS text and wavefronts."""
    header: list[str] | None = None
    table: list[tuple[str, int]] = []
    for cells in csv.reader(io.StringIO(text)):
        names = [re.sub(r"[^a-z0-9]+", "_", cell.lower()) for cell in cells]
        if "source" in names and METRIC in names:
            header = names
        elif header is not None and len(cells) == len(header):
            row = dict(zip(header, cells, strict=True))
            if SHARED.search(row["source"]):
                table.append((row["source"], int(float(row[METRIC].replace(",", "") or 0))))
    if header is None:
        raise SystemExit(f"ncu's source page has no column {METRIC}")
    return table


def by_line(table: list[tuple[str, int]], folder: Path, number: int) -> Counts:
    """Sums over the instructions of each line, by the line table of the kernel's machine code."""
    path = source_path(folder, number)
    machine = disassembly.line_table((folder / f"{number}.cubin").read_bytes())
    own = [item for item in machine if SHARED.search(item.text)]
    if len(own) != len(table):
        raise SystemExit(f"kernel {number} has {len(own)} shared accesses, ncu shows {len(table)}")
    found: Counts = {}
    for item, (text, wavefronts) in zip(own, table, strict=True):
        opcodes = [found.group(1) for found in (SHARED.search(item.text), SHARED.search(text)) if found]
        if len(set(opcodes)) != 1 or item.line is None or Path(item.line[0]).name != path.name:
            raise SystemExit(f"kernel {number}: ncu shows {text!r} where the machine code has {item}")
        write, read = found.get(item.line[1], (0, 0))
        storing = opcodes[0].startswith("ST")
        found[item.line[1]] = (write + wavefronts, read) if storing else (write, read + wavefronts)
    return found


def count_all(folder: Path, kernels: int, *, gpu: bool) -> tuple[list[tuple[Counts, Counts]], list[Counts] | None]:
    """For each kernel what plan and simulator say, and the hardware where there is one."""
    start = time.perf_counter()

    def passed(stage: str) -> None:
        print(f"{time.perf_counter() - start:6.1f} s {stage}", flush=True)

    os.environ["GLUEBALL_CACHE_DIR"] = str(folder / "cache")
    with ProcessPoolExecutor() as processes, ThreadPoolExecutor() as threads:
        numbers = range(kernels)
        compiled: list[Future[None]] = [processes.submit(compile_one, folder, number) for number in numbers if gpu]
        simulated = [processes.submit(simulate_one, folder, number) for number in numbers]
        counted = None
        if gpu:
            for each in compiled:
                each.result()
            passed("compiled")
            stored = profile(folder)
            passed("launched under ncu")
            shown = list(threads.map(lambda number: counted_by_hardware(stored, number), numbers))
            (RESULTS / "conversions_ncu.csv").write_text("".join(text for text, _ in shown))
            counted = [counts for _, counts in shown]
            passed("read from ncu's report")
        results = [each.result() for each in simulated]
        passed("simulated")
    return results, counted


def compare(
    batches: list[Batch], simulated: list[tuple[Counts, Counts]], counted: list[Counts] | None
) -> list[dict[str, Any]]:
    """One row per pair: wavefronts written and read, of all warps."""
    rows = []
    for number, batch in enumerate(batches):
        for index, pair in enumerate(batch.pairs):
            line = batch.line_of(index)
            sides = {"plan": simulated[number][0][line], "simulator": simulated[number][1][line]}
            if counted is not None:
                sides["hardware"] = counted[number].get(line, (0, 0))
            equal = len(set(sides.values())) == 1
            name = f"kernel {number} line {line}"
            facts = {"width": pair.width, "elements": pair.elements, "warps": pair.warps}
            rows.append({"name": name, "equal": equal, **facts, "wavefronts": sides})
            if not equal:
                print(f"{name} DIFFERENT {sides} {facts}")
    return rows


def main() -> int:
    """Compares and writes the result file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--no-gpu", action="store_true", help="compare plan and simulator only")
    parser.add_argument("--make-sample", action="store_true", help="write the sample anew")
    parser.add_argument("--launch", type=Path, metavar="FOLDER", help="only launch the kernels, for ncu")
    options = parser.parse_args()
    if options.make_sample:
        make_sample()
        return 0
    if options.launch:
        launch_all(options.launch)
        return 0
    RESULTS.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        batches = sample()
        simulated, counted = count_all(folder, len(batches), gpu=not options.no_gpu)
        rows = compare(batches, simulated, counted)
    equal = sum(row["equal"] for row in rows)
    device = "none: plan and simulator only"
    if counted is not None:
        import torch

        device = torch.cuda.get_device_name()
    print(f"{equal} of {len(rows)} equal; written: {write('conversions.json', device, rows, equal=equal)}")
    return 0 if equal == len(rows) else 1


if __name__ == "__main__":
    sys.exit(main())
