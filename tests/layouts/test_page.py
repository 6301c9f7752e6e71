"""The HTML page: its arithmetic against the library's under node, and the page itself in a headless browser."""

import functools
import itertools
import json
import random
import re
import shutil
import subprocess

import numpy as np
import pytest

from glueball.errors import LayoutError
from glueball.explain.layout_page import layout_page
from glueball.layouts import (
    HARDWARE,
    AMDMFMALayout,
    AutoLayout,
    BlockedLayout,
    DistributedLinearLayout,
    DotOperandLayout,
    LinearLayout,
    NVMMADistributedLayout,
    NVMMASharedLayout,
    PaddedSharedLayout,
    PartitionedSharedLayout,
    SharedLinearLayout,
    SharedMemory,
    SliceLayout,
    SwizzledSharedLayout,
    TensorMemoryLayout,
    global_access,
    tile_access,
)
from glueball.layouts.display import holders
from glueball.targets import TARGETS

NODE = shutil.which("node")
BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
BLOCKED = BlockedLayout([1, 4], [8, 4], [4, 1], [1, 0])
CASES = 300

RUNNER = """
const source = process.argv[1];
const algebra = new Function(source + "; return algebra;")();
const attempt = (compute) => {
  try { return compute(); } catch (error) { if (error instanceof algebra.LayoutError) return null; throw error; }
};
const answers = JSON.parse(require("fs").readFileSync(0, "utf8")).map((given) => attempt(() => {
  const { shape, blocked, swizzled } = given;
  const map = blocked ? algebra.blocked(blocked, shape) : algebra.mapFromCoordinates(given.bases, shape);
  const tile = swizzled ? algebra.swizzled(swizzled, shape) : algebra.mapFromCoordinates(given.tile, shape);
  const { first, copies } = algebra.holders(map);
  const access = (store) => {
    const { vector, requests, sectors, useful } = algebra.globalAccess(map, given.strides, given.bits, store);
    return [vector, requests, sectors, useful];
  };
  const traffic = (store) => attempt(() => {
    const found = algebra.sharedTraffic(map, tile, given.padding, given.bits, given.memory, store);
    return [found.vector, found.instructions, found.wavefronts, found.least];
  });
  return { map: map.bases, tile: tile.bases, free: algebra.freeVariables(map),
    holders: Array.from(first, (mask) => Array.from(copies, (copy) => mask ^ copy)),
    load: access(false), store: access(true), read: traffic(false), write: traffic(true) };
}));
process.stdout.write(JSON.stringify(answers));
"""


def script_of(page: str) -> str:
    return re.search(r'<script id="algebra">\n(.*?)</script>', page, re.DOTALL)[1]


def random_blocked(source: random.Random, rank: int) -> BlockedLayout:
    def sizes(most):
        return [1 << source.randint(0, most) for _ in range(rank)]

    split = source.randint(-1, rank - 1)
    cga = [[int(axis == split) for axis in range(rank)]] if split >= 0 else []
    return BlockedLayout(sizes(1), sizes(5 if rank < 3 else 2), sizes(1), source.sample(range(rank), rank), cga)


def random_linear(source: random.Random, shape: list[int]) -> LinearLayout:
    """Any surjective map: the unit vectors mixed by random sums, and some more vectors."""
    bits = (np.prod(shape).item()).bit_length() - 1
    columns = [1 << bit for bit in range(bits)]
    source.shuffle(columns)
    for _ in range(bits):
        first, second = source.randrange(bits), source.randrange(bits)
        if first != second and source.random() < 0.3:
            columns[first] ^= columns[second]
    for _ in range(source.randint(0, 3)):
        columns.insert(source.randint(0, len(columns)), source.randrange(1 << bits) if source.random() < 0.5 else 0)
    cuts = sorted(source.randint(0, len(columns)) for _ in range(2))
    parts = [columns[: cuts[0]], columns[cuts[0] : cuts[1]], columns[cuts[1] :], []]
    return LinearLayout.from_flat_bases(dict(zip(HARDWARE, parts, strict=True)), shape)


def random_tile(
    source: random.Random, shape: list[int]
) -> SwizzledSharedLayout | SharedLinearLayout | PaddedSharedLayout:
    rank = len(shape)
    swizzled = SwizzledSharedLayout(*(1 << source.randint(0, 3) for _ in range(3)), source.sample(range(rank), rank))
    kind = source.choice(["swizzled", "linear", "padded"])
    if kind == "swizzled" or np.prod(shape) == 1:
        return swizzled
    bases = swizzled.linear(shape).bases["offset"]
    if kind == "linear":
        source.shuffle(bases)
        return SharedLinearLayout(bases)
    intervals = source.sample([2, 4, 8, 16, 32, 64], source.randint(1, 2))
    return PaddedSharedLayout([[interval, 1 << source.randint(0, 3)] for interval in intervals], bases, [], shape)


@functools.cache
def memories(lanes: int) -> list[dict]:
    """Those of the page for targets whose warps have so many lanes."""
    found = [model_of(layout_page(BLOCKED, [32, 16], target=target))["memories"] for target in TARGETS.values()]
    return [
        memory
        for memory in itertools.chain(*found)
        if memory["groups"] is None or len(list(itertools.chain(*memory["groups"]))) == lanes
    ]


def random_case(source: random.Random) -> tuple[dict, LinearLayout, object]:
    rank = source.randint(1, 3)
    shape = [1 << source.randint(0, (9, 6, 3)[rank - 1]) for _ in range(rank)]
    blocked = random_blocked(source, rank) if source.random() < 0.6 else None
    linear = blocked.linear(shape) if blocked else random_linear(source, shape)
    tile, bits = random_tile(source, shape), source.choice([8, 16, 32, 64])
    memory = source.choice(memories(linear.size("lane")))
    if source.random() < 0.1:
        # Sixty-four lanes that read 16 bytes each, for which AMD has rules of its own.
        shape, bits, blocked = [64, 32], 16, None
        linear = DotOperandLayout(0, AMDMFMALayout(4, [16, 16, 32], True, [2, 2]), 8).linear(shape)
        tile = SwizzledSharedLayout(8, 1 << source.randint(0, 2), 1 << source.randint(0, 3), [1, 0])
        memory = source.choice([memory for memory in memories(64) if memory["groups"]])
    given = {
        "shape": shape,
        "bases": linear.bases,
        "tile": tile.linear(shape).bases,
        "strides": [source.choice([0, 1, 1, 2, 3, 8, 64, 100, -1, 4096]) for _ in shape],
        "bits": bits,
        "memory": memory,
        "padding": tile.interval_padding_pairs if isinstance(tile, PaddedSharedLayout) else [],
    }
    if blocked:
        names = ("size_per_thread", "threads_per_warp", "warps_per_cta", "order", "cga_layout")
        fields = ("sizePerThread", "threadsPerWarp", "warpsPerCta", "order", "ctas")
        given["blocked"] = {field: getattr(blocked, name) for field, name in zip(fields, names, strict=True)}
    if isinstance(tile, SwizzledSharedLayout):
        given["swizzled"] = {
            "vec": tile.vec,
            "perPhase": tile.per_phase,
            "maxPhase": tile.max_phase,
            "order": tile.order,
        }
    return given, linear, tile


def expected_traffic(given: dict, linear: LinearLayout, tile: object, store: bool) -> list[int] | None:
    memory = SharedMemory(linear.size("lane"), given["memory"]["banks"], given["memory"]["groups"] is not None)
    registers = DistributedLinearLayout.from_linear(linear)
    try:
        found = tile_access(registers, tile, tuple(given["shape"]), given["bits"], memory=memory, store=store)
    except LayoutError:
        return None
    return [found.vector_elements, found.instructions, found.wavefronts, found.least]


def expected_access(given: dict, linear: LinearLayout, store: bool) -> list[int]:
    found = global_access(linear, given["strides"], given["bits"], store=store)
    return [found.vector_elements, found.requests, found.sectors, found.useful_bytes]


@pytest.mark.skipif(NODE is None, reason="needs node")
def test_the_pages_arithmetic_is_the_librarys():
    source = random.Random(20260)
    cases = [random_case(source) for _ in range(CASES)]
    script = script_of(layout_page(BLOCKED, [32, 16]))
    answers = json.loads(
        subprocess.run(
            [NODE, "-e", RUNNER, script],
            input=json.dumps([given for given, _, _ in cases]),
            capture_output=True,
            text=True,
            check=True,
        ).stdout
    )
    assert len(answers) == CASES
    conflicts = grouped = merged = 0
    for (given, linear, tile), answer in zip(cases, answers, strict=True):
        assert answer is not None, given
        assert answer["map"] == {name: list(linear.flat_bases(name)) for name in HARDWARE}, given
        stored = tile.linear(given["shape"])
        assert answer["tile"] == {name: list(stored.flat_bases(name)) for name in ("offset", "block")}, given
        assert answer["free"] == linear.free_variables(), given
        assert answer["holders"] == holders(linear).tolist(), given
        for name, store in (("load", False), ("store", True)):
            assert answer[name] == expected_access(given, linear, store), given
        for name, store in (("read", False), ("write", True)):
            assert answer[name] == expected_traffic(given, linear, tile, store), given
        conflicts += answer["read"] is not None and answer["read"][2] > answer["read"][3]
        merged += answer["read"] is not None and answer["read"][3] < answer["write"][3]
        grouped += given["memory"]["groups"] is not None and answer["read"] != answer["write"]
    assert conflicts > CASES // 10
    assert grouped > 0
    assert merged > 0


@pytest.mark.skipif(NODE is None, reason="needs node")
@pytest.mark.parametrize(
    "given",
    [
        {"shape": [3], "bases": {"register": []}, "tile": {"offset": []}},
        {"shape": [4], "bases": {"register": [[1]]}, "tile": {"offset": [[1], [2]]}},
        {"shape": [2], "bases": {"register": [[2]]}, "tile": {"offset": [[1]]}},
        {"shape": [2], "bases": {"register": [[1, 0]]}, "tile": {"offset": [[1]]}},
        {"shape": [1 << 25], "bases": {"register": []}, "tile": {"offset": []}},
        {
            "shape": [2],
            "blocked": {"sizePerThread": [3], "threadsPerWarp": [1], "warpsPerCta": [1], "order": [0]},
            "tile": {"offset": [[1]]},
        },
        {
            "shape": [2],
            "blocked": {"sizePerThread": [1], "threadsPerWarp": [1], "warpsPerCta": [1], "order": [1]},
            "tile": {"offset": [[1]]},
        },
    ],
)
def test_the_page_refuses_what_is_no_layout(given):
    script = script_of(layout_page(BLOCKED, [32, 16]))
    done = subprocess.run(
        [NODE, "-e", RUNNER, script], input=json.dumps([given]), capture_output=True, text=True, check=True
    )
    assert json.loads(done.stdout) == [None]


def model_of(page: str) -> dict:
    return json.loads(re.search(r'id="model">(.*?)</script>', page)[1])


def test_pages_are_small_and_load_nothing():
    page = layout_page(BLOCKED, [256, 256])
    assert len(page.encode()) < 1_000_000
    assert len(page.encode()) < len(layout_page(BLOCKED, [32, 16]).encode()) + 1000
    assert not re.search(r"https?:|src=|<link|@import|url\(|fetch\(|XMLHttpRequest|import\(", page)
    assert "default-src 'none'" in page
    assert not re.search(r"@[A-Z]+@", page)


def test_pages_hold_what_was_asked_about():
    other = BlockedLayout([8, 1], [8, 4], [1, 4], [0, 1])
    both = model_of(layout_page(BLOCKED, [64, 64], element_bits=16, convert_to=other))
    assert [side["fields"]["order"] for side in both["state"]["sides"]] == [[1, 0], [0, 1]]
    assert both["plan"].startswith("Conversion through 8192 bytes of shared memory")
    assert both["state"]["shared"]["kind"] == "bases"
    shared = model_of(layout_page(NVMMASharedLayout(128, 16), [64, 64], element_bits=16, convert_to=BLOCKED))
    assert (shared["view"], len(shared["state"]["sides"])) == ("shared", 1)
    alone = model_of(layout_page(SwizzledSharedLayout(4, 1, 8, [1, 0]), [32, 32], target=TARGETS["gfx942"]))
    assert alone["state"]["shared"]["fields"]["maxPhase"] == 8
    threads = alone["state"]["sides"][0]["fields"]["threadsPerWarp"]
    assert (np.prod(threads), alone["lanes"]) == (64, 64)
    padded = model_of(layout_page(PaddedSharedLayout.with_identity_for([[32, 4]], [8, 32], [1, 0]), [8, 32]))
    assert padded["state"]["shared"]["padding"] == "32:4"
    for strides, order in (([1, 32], "column"), ([16, 1], "row"), ([100, 1], "custom")):
        state = model_of(layout_page(BLOCKED, [32, 16], strides=strides))["state"]
        assert (state["order"], state["stridesText"]) == (order, ", ".join(map(str, strides)))


def test_pages_refuse_what_they_cannot_show():
    for layout in (AutoLayout(), TensorMemoryLayout([64, 2], 1)):
        with pytest.raises(LayoutError):
            layout_page(layout, [64, 2])
    partitioned = PartitionedSharedLayout(2, 2, 0, SwizzledSharedLayout(1, 1, 1, [1, 0]))
    with pytest.raises(LayoutError, match="no page about PartitionedSharedLayout"):
        layout_page(partitioned, [32, 16])
    with pytest.raises(LayoutError, match="no page about SwizzledSharedLayout and NVMMASharedLayout"):
        layout_page(SwizzledSharedLayout(1, 1, 1, [1, 0]), [8, 64], convert_to=NVMMASharedLayout(128, 16))


DRIVER = """
<script>
(() => {
  const viewport = document.getElementById("viewport");
  const text = (id) => document.getElementById(id).innerText.replace(/\\s+/g, " ").trim();
  const press = (key) => viewport.dispatchEvent(new KeyboardEvent("keydown", { key }));
  const set = (label, value) => {
    const box = document.querySelector(`[aria-label="${label}"]`);
    box.value = value;
    box.dispatchEvent(new Event("change"));
  };
  const click = (id, value) => document.querySelector(`#${id} [data-value="${value}"]`).click();
  const seen = { element: [], costs: [], spelling: [], errors: [] };
  const note = () => {
    seen.element.push(text("element"));
    seen.costs.push(text("costs"));
    seen.spelling.push(text("spelling"));
    seen.errors.push(Array.from(document.querySelectorAll(".error"), (box) => box.innerText).join());
  };
  const steps = { press, set, click, note, point: (x, y) => {
    const box = viewport.getBoundingClientRect();
    viewport.dispatchEvent(new MouseEvent("mousemove", { clientX: box.left + x, clientY: box.top + y }));
  } };
  addEventListener("error", (event) => { seen.crash = event.message; });
  for (const [name, ...given] of STEPS) steps[name](...given);
  const box = document.getElementById("canvas").getContext("2d").getImageData(60, 30, 400, 200).data;
  const pixels = Array.from({ length: box.length / 4 }, (_, index) => box.slice(4 * index, 4 * index + 3).join());
  seen.colors = new Set(pixels).size;
  document.documentElement.innerHTML = "<pre id=seen></pre>";
  document.getElementById("seen").textContent = JSON.stringify(seen);
})();
</script>
</body>
"""


def browse(page: str, steps: list[list], folder) -> dict:
    """Run steps on a page in a browser, and return what was noted."""
    file = folder / "page.html"
    file.write_text(page.replace("</body>\n", DRIVER.replace("STEPS", json.dumps(steps)), 1), encoding="utf-8")
    done = subprocess.run(
        [
            BROWSER,
            *("--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--window-size=1360,900"),
            *(f"--user-data-dir={folder / 'profile'}", "--virtual-time-budget=2000", "--dump-dom", file.as_uri()),
        ],
        capture_output=True,
        text=True,
        check=True,
        timeout=100,
    )
    return json.loads(re.search(r'<pre id="seen">(.*?)</pre>', done.stdout, re.DOTALL)[1].replace("&gt;", ">"))


@pytest.mark.skipif(BROWSER is None, reason="needs Chromium")
def test_elements_are_pointed_at_and_layouts_edited(tmp_path):
    steps = [
        *[["press", "ArrowDown"]] * 9,
        *[["press", "ArrowRight"]] * 6,
        ["note"],
        ["point", 300, 100],
        ["note"],
        ["set", "threads_per_warp, dimension 0", 32],
        ["set", "threads_per_warp, dimension 1", 1],
        ["note"],
        ["set", "max_phase", 8],
        ["click", "view", "shared"],
        ["note"],
        ["set", "shape", "12x16"],
        ["note"],
        ["set", "shape", "2x16x16"],
        ["click", "view", "hardware"],
        ["note"],
    ]
    seen = browse(layout_page(BLOCKED, [32, 16], element_bits=32), steps, tmp_path)
    assert "crash" not in seen
    start, pointed, edited, swizzled, wrong, cubic = zip(
        seen["element"], seen["costs"], seen["spelling"], seen["errors"], strict=True
    )
    # Row 9, column 6: warp 1, whose lane 5 holds columns 4 to 7 of that row, at byte 4 * (9 * 16 + 6).
    assert start[0] == ("[9, 6] register 2 lane 5 thread 37 warp 1 sector 18 byte 600 bank 22 offset 150, byte 600")
    assert "sectors a request 16 16 bytes used 100 % 100 %" in start[1]
    assert "bank conflicts none none" in start[1]
    assert pointed[0] != start[0]
    assert edited[2] == "BlockedLayout([1, 4], [32, 1], [4, 1], [1, 0])"
    tall = BlockedLayout([1, 4], [32, 1], [4, 1], [1, 0])
    access = global_access(tall.linear([32, 16]), [16, 1], 32)
    assert f"sectors a request 16 {access.sectors_per_request:g}" in edited[1]
    dense, phased = (tile_access(tall, SwizzledSharedLayout(1, 1, phases, [1, 0]), (32, 16), 32) for phases in (1, 8))
    assert f"bank conflicts none {dense.wavefronts / dense.least:g}-fold" in edited[1]
    assert f"wavefronts a warp 4 {phased.wavefronts // 4}" in swizzled[1]
    assert '"12x16" is no shape' in wrong[3]
    assert [part[3] for part in (start, pointed, edited, swizzled, cubic)] == [""] * 5
    assert cubic[2] == "BlockedLayout([1, 1, 4], [1, 32, 1], [1, 4, 1], [2, 1, 0])"
    assert seen["colors"] > 3


@pytest.mark.skipif(BROWSER is None, reason="needs Chromium")
def test_pages_open_on_every_kind_of_layout(tmp_path):
    mma = NVMMADistributedLayout([3, 0], [4, 1], [16, 64, 16])
    cases = {
        "shared": layout_page(NVMMASharedLayout(128, 16), [64, 64], element_bits=16, convert_to=mma),
        "slice": layout_page(SliceLayout(1, mma), [64]),
        "large": layout_page(BlockedLayout([1, 1, 4], [4, 4, 2], [4, 1, 1], [2, 1, 0]), [512, 64, 8]),
    }
    found = {}
    for name, page in cases.items():
        (tmp_path / name).mkdir()
        steps = [["press", "ArrowDown"], ["note"], ["click", "view", "hardware"], ["note"]]
        found[name] = browse(page, steps, tmp_path / name)
        assert "crash" not in found[name]
        assert found[name]["colors"] > 3
    assert "bank conflicts none none" in found["shared"]["costs"][0]
    assert found["slice"]["element"][0].startswith("[32] register 0 lane 0 thread 64 warp 2")
    assert "held by T64:0 T65:0 T66:0 T67:0" in found["slice"]["element"][0]
    assert found["large"]["element"][0].startswith("[0, 1, 0] register 0 lane 2")
