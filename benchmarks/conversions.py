"""Shared-memory wavefronts of 500 conversions three ways: the plan, the simulator, and the hardware's counters.

    python benchmarks/conversions.py [--no-gpu] [--make-sample]

The pairs stand in conversion_sample.json. Runs itself under Nsight Compute (`ncu`, on PATH), about 50 conversions a
kernel, told apart by the source line of each instruction. Writes results/conversions.json, and what ncu printed to
results/conversions_ncu.csv; exit status 1 where any count differs.
"""

from __future__ import annotations

import argparse
import csv
import io
import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from conversion_pairs import Batch, Pair, counted_wavefronts, planned_wavefronts, random_pairs, simulate
from report import RESULTS, write

from glueball.layouts import LinearLayout, SharedRoundTrip, plan_conversion
from glueball.targets import TARGETS

SAMPLE = Path(__file__).parent / "conversion_sample.json"
TARGET = TARGETS["sm_90a"]
COUNT, PER_KERNEL, SEED = 500, 50, 500
METRICS = "memory_l1_wavefronts_shared,memory_l1_wavefronts_shared_ideal,inst_executed"
SHARED = re.compile(r"\b(LDS|STS|LDSM|STSM)\b")
NAMES = ("register", "lane", "warp")


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


def launch_all(folder: Path) -> None:
    """Runs every kernel on the GPU once, and leaves its cubin in the folder."""
    import torch

    for number, batch in enumerate(sample()):
        sources, destinations = batch.arrays(number)
        outputs = [torch.from_numpy(array).cuda() for array in destinations]
        arguments: list[Any] = []
        for array, output in zip(sources, outputs, strict=True):
            arguments += [torch.from_numpy(array).cuda(), output]
        kernel = batch.kernel(source_path(folder, number))[(1,)](*arguments, num_warps=batch.pairs[0].warps)
        (folder / f"{number}.cubin").write_bytes(kernel.asm["cubin"])
        if wrong := batch.misplaced(sources, [output.cpu().numpy() for output in outputs]):
            raise SystemExit(f"kernel {number} misplaces elements of its pairs {wrong}")


def hardware(folder: Path) -> list[dict[int, tuple[int, int]]]:
    """By kernel and line, the wavefronts that ncu counted: written and read."""
    stored = folder / "conversions.ncu-rep"
    command = ["ncu", "--clock-control", "none", "--section", "SourceCounters", "--metrics", METRICS]
    command += ["--kernel-name", "regex:^convert_all", "-f", "-o", str(stored.with_suffix(""))]
    done = subprocess.run([*command, sys.executable, __file__, "--launch", str(folder)], text=True, check=False)
    if done.returncode != 0 or not stored.is_file():
        raise SystemExit(f"ncu failed with status {done.returncode}")
    command = ["ncu", "-i", str(stored), "--page", "source", "--csv", "--print-source", "sass"]
    shown = subprocess.run(command, capture_output=True, text=True, check=False)
    (RESULTS / "conversions_ncu.csv").write_text(shown.stdout + shown.stderr)
    tables = list(instruction_tables(shown.stdout))
    return [by_line(table, folder, number) for number, table in enumerate(tables)]


def instruction_tables(text: str) -> Iterator[list[tuple[str, int]]]:
    """For each kernel of ncu's source page, its shared accesses in order: SASS text and wavefronts."""
    header: list[str] | None = None
    table: list[tuple[str, int]] = []
    for cells in csv.reader(io.StringIO(text)):
        names = [re.sub(r"[^a-z0-9]+", "_", cell.lower()) for cell in cells]
        if "source" in names and any("wavefronts_shared" in name for name in names):
            if header is not None:
                yield table
            header, table = names, []
        elif header is not None and len(cells) == len(header):
            row = dict(zip(header, cells, strict=True))
            if SHARED.search(row["source"]):
                column = next(name for name in header if re.search(r"wavefronts_shared$", name))
                table.append((row["source"], int(float(row[column].replace(",", "") or 0))))
    if header is None:
        raise SystemExit(f"ncu's source page has no column of shared wavefronts; see {RESULTS}")
    yield table


def by_line(table: list[tuple[str, int]], folder: Path, number: int) -> dict[int, tuple[int, int]]:
    """Sums over the instructions of each line, by the line table of the kernel's machine code."""
    from glueball.codegen import disassembly

    path = source_path(folder, number)
    machine = disassembly.line_table((folder / f"{number}.cubin").read_bytes())
    own = [item for item in machine if SHARED.search(item.text)]
    if len(own) != len(table):
        raise SystemExit(f"kernel {number} has {len(own)} shared accesses, ncu shows {len(table)}")
    found: dict[int, tuple[int, int]] = {}
    for item, (text, wavefronts) in zip(own, table, strict=True):
        opcodes = [found.group(1) for found in (SHARED.search(item.text), SHARED.search(text)) if found]
        if len(set(opcodes)) != 1 or item.line is None or Path(item.line[0]).name != path.name:
            raise SystemExit(f"kernel {number}: ncu shows {text!r} where the machine code has {item}")
        write, read = found.get(item.line[1], (0, 0))
        storing = opcodes[0].startswith("ST")
        found[item.line[1]] = (write + wavefronts, read) if storing else (write, read + wavefronts)
    return found


def compare(batches: list[Batch], counted: list[dict[int, tuple[int, int]]] | None, folder: Path) -> list[Any]:
    """One row per pair: wavefronts written and read, of all warps."""
    rows = []
    for number, batch in enumerate(batches):
        function, report, wrong = simulate(batch, TARGET, source_path(folder, number), number)
        if wrong:
            raise SystemExit(f"kernel {number} misplaces elements of its pairs {wrong} on the simulator")
        planned, simulated = planned_wavefronts(function), counted_wavefronts(report)
        for index, pair in enumerate(batch.pairs):
            line = batch.line_of(index)
            sides = {"plan": planned[line], "simulator": simulated[line]}
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
        counted = None if options.no_gpu else hardware(folder)
        rows = compare(batches, counted, folder)
    equal = sum(row["equal"] for row in rows)
    device = "none: plan and simulator only"
    if counted is not None:
        import torch

        device = torch.cuda.get_device_name()
    print(f"{equal} of {len(rows)} equal; written: {write('conversions.json', device, rows, equal=equal)}")
    return 0 if equal == len(rows) else 1


if __name__ == "__main__":
    sys.exit(main())
