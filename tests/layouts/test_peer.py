"""Random layouts of every class against Triton's own maps; GLUEBALL_PEER_PYTHON names an interpreter that has it."""

import json
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

from glueball import layouts
from glueball.errors import LayoutError
from tests.layouts.peer_layouts import KINDS, NVIDIA_KINDS, scaled_operand, shared_memory

SERVER = Path(__file__).with_name("peer_server.py")
PYTHON = os.environ.get("GLUEBALL_PEER_PYTHON", sys.executable)
COUNT = int(os.environ.get("GLUEBALL_PEER_COUNT", "40"))
NAMES = {name: getattr(layouts, name) for name in layouts.__all__ if name.endswith("Layout")}


def has_peer():
    # Not by importing it here: the peer, imported, changes how this process handles its own errors.
    code = "import triton, triton.experimental.gluon; assert triton.__version__.startswith('3.9.')"
    return subprocess.run([PYTHON, "-c", code], capture_output=True, check=False).returncode == 0


pytestmark = [pytest.mark.oracle, pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.fixture(scope="module", autouse=True)
def peer():
    if not has_peer():
        pytest.skip("Triton 3.9 is not installed")


def ask(questions):
    """The peer's answers; None where it refuses, or ends its process, which a new one then continues."""
    answers = []
    while len(answers) < len(questions):
        rest = "\n".join(json.dumps(question) for question in questions[len(answers) :])
        done = subprocess.run([PYTHON, str(SERVER)], input=rest, capture_output=True, text=True, check=False)
        lines = [json.loads(line) for line in done.stdout.splitlines()]
        answers += [None if isinstance(answer, dict) and "refused" in answer else answer for answer in lines]
        if len(answers) < len(questions):
            answers.append(None)
    return answers


def expected(layout, shape):
    """Our map in the peer's words."""
    linear = layout.linear(shape)
    if isinstance(layout, layouts.SharedLayout):
        names = {"offset": "offset_bases", "block": "block_bases"}
    elif isinstance(layout, layouts.DistributedLayout):
        names = {"register": "reg_bases", "lane": "lane_bases", "warp": "warp_bases", "block": "block_bases"}
    else:
        names = {"row": "rows", "column": "cols"}
    answer = {theirs: linear.bases[ours] for ours, theirs in names.items()}
    # The peer leaves the alignment of partitions to the one who allocates them.
    if isinstance(layout, layouts.SharedLayout) and not isinstance(layout, layouts.PartitionedSharedLayout):
        answer["alignment"] = layout.alignment
    return answer


@pytest.mark.parametrize("kind", KINDS)
def test_maps_agree(kind):
    draw = random.Random(kind)
    questions = []
    while len(questions) < COUNT:
        text, shape = KINDS[kind](draw)
        try:
            eval(text, dict(NAMES)).linear(shape)
        except LayoutError:
            continue
        questions.append([text, shape])
    answers = ask(questions)
    compared = 0
    for (text, shape), answer in zip(questions, answers, strict=True):
        if answer is not None:
            ours = expected(eval(text, dict(NAMES)), shape)
            assert {name: answer[name] for name in ours} == ours, (text, shape)
            compared += 1
    assert compared > COUNT // 2


def test_scales_agree():
    draw = random.Random("scales")
    questions = [scaled_operand(draw) for _ in range(COUNT)]
    for (text, shape, factor), answer in zip(questions, ask(questions), strict=True):
        operand = eval(text, dict(NAMES))
        mfma = isinstance(operand.parent, layouts.AMDMFMALayout)
        make = layouts.mfma_scale_layout if mfma else layouts.wmma_scale_layout
        ours = make(operand, shape, factor)
        assert expected(ours, shape) == {name: answer[name] for name in expected(ours, shape)}, (text, shape, factor)


def test_padded_operands_agree():
    draw = random.Random("padded")
    questions = []
    for _ in range(3 * COUNT):
        tile = draw.choice([16, 32])
        parent = f"AMDMFMALayout(4, [{tile}, {tile}, {512 // tile}], False, [2, 2])"
        operand = f"DotOperandLayout({draw.choice([0, 1])}, {parent}, {draw.choice([4, 8, 16, 32])})"
        shape = [draw.choice([16, 32, 64, 128, 256]) for _ in range(2)]
        questions.append(["padded", operand, shape, draw.choice([8, 16, 32]), draw.random() < 0.5])
    found = 0
    for (_, text, shape, bits, contiguous), answer in zip(questions, ask(questions), strict=True):
        ours = layouts.efficient_padded_shared_layout(eval(text, dict(NAMES)), shape, bits, contiguous)
        vectors = None if ours is None else [ours.interval_padding_pairs, ours.offset_bases]
        assert json.loads(json.dumps(vectors)) == answer, (text, shape, bits, contiguous)
        found += ours is not None
    assert found > COUNT // 2


def test_bank_conflicts_agree():
    draw = random.Random("conflicts")
    questions, counts = [], []
    while len(questions) < COUNT:
        text, shape = draw.choice(NVIDIA_KINDS)(draw)
        bits = draw.choice([8, 16, 32, 64])
        shared = shared_memory(draw, len(shape), bits)
        layout = eval(text, dict(NAMES))
        try:
            count = layouts.bank_conflicts(layout, eval(shared, dict(NAMES)), tuple(shape), bits)
        except LayoutError:
            continue
        if not layout.cga_layout:
            questions.append([text, shared, shape, bits])
            counts.append(count)
    pairs = [(ours, theirs) for ours, theirs in zip(counts, ask(questions), strict=True) if theirs is not None]
    assert [ours for ours, _ in pairs] == [theirs for _, theirs in pairs]
    assert len(pairs) > COUNT // 2
    assert any(ours for ours, _ in pairs)
