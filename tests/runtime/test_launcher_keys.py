"""What a call's key tells apart, and the bytes that each argument becomes."""

from __future__ import annotations

import struct
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from glueball.runtime.launcher import KeyFlag, VariantTable
from glueball.runtime.launcher_ir import MAXIMUM_ARGUMENTS
from glueball.runtime.launcher_native import MAXIMUM_TENSOR_TYPES, native_supported
from tests.runtime.launcher_support import (
    FLOAT16,
    FLOAT32,
    ExchangeTensor,
    OtherTensor,
    Runtime,
    Tensor,
    each_launcher,
)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (0, struct.pack("<q", 0)),
        (-1, struct.pack("<q", -1)),
        (2**31 - 1, struct.pack("<q", 2**31 - 1)),
        (-(2**63), struct.pack("<q", -(2**63))),
        (2**63 - 1, struct.pack("<q", 2**63 - 1)),
        (2**63, struct.pack("<Q", 2**63)),
        (2**64 - 1, struct.pack("<Q", 2**64 - 1)),
        (True, struct.pack("<q", 1)),
        (False, struct.pack("<q", 0)),
        (float("inf"), struct.pack("<fi", float("inf"), 0)),
        (1e300, struct.pack("<fi", float("inf"), 0)),
        (-0.0, struct.pack("<fi", -0.0, 0)),
        (0.1, struct.pack("<fi", 0.1, 0)),
    ],
)
@each_launcher
def test_a_scalar_is_passed_as_its_bytes(native: bool, value: Any, expected: bytes) -> None:
    assert Runtime(native).raw(value) == [expected]


@each_launcher
def test_a_float64_parameter_gets_all_bits(native: bool) -> None:
    assert Runtime(native, [("x", KeyFlag.FLOAT64)]).raw(0.1) == [struct.pack("<d", 0.1)]


@each_launcher
def test_only_the_named_arguments_are_passed_in_their_order(native: bool) -> None:
    runtime = Runtime(native, [("a", KeyFlag.NORMAL), ("b", KeyFlag.NORMAL)], passed=(2, 0))
    assert runtime.raw(7, None, b=9) == [struct.pack("<q", 9), struct.pack("<q", 7)]


# One row per fact of the key: two calls, and whether the second finds the first's variant.
BIG = 1 << 40
SAME_KEY = [
    ((3,), (5,), True),
    ((16,), (32,), True),
    ((0,), (-48,), True),
    ((3,), (1,), False),
    ((3,), (16,), False),
    ((3,), (BIG + 1,), False),
    ((BIG + 1,), (-BIG - 1,), True),
    ((BIG + 1,), (2**63 + 1,), False),
    ((3,), (3.0,), False),
    ((3.5,), (1.0,), True),
    ((1,), (True,), False),
    ((True,), (False,), True),
    ((None,), (None,), True),
    ((None,), (0,), False),
    (("a",), ("b",), False),
    ((3, 5), (5, 3), True),
    ((3,), (3, 5), False),
    ((Tensor(),), (Tensor(),), True),
    ((Tensor(0x1000),), (Tensor(0x1010),), True),
    ((Tensor(0x1000),), (Tensor(0x1008),), False),
    ((Tensor(0x1008),), (Tensor(0x1004),), True),
    ((Tensor(0),), (Tensor(0x1000),), True),
    ((Tensor(dtype=FLOAT32),), (Tensor(dtype=FLOAT16),), False),
    ((Tensor(device=0),), (Tensor(device=1),), False),
    ((Tensor(device=-1),), (Tensor(device=0),), False),
    ((Tensor(),), (FLOAT32,), False),
    ((ExchangeTensor(),), (ExchangeTensor(),), True),
    ((ExchangeTensor(0x1000),), (ExchangeTensor(0x2010),), True),
    ((ExchangeTensor(0x1000),), (ExchangeTensor(0x0FF8, offset=8),), True),
    ((ExchangeTensor(0x1000),), (ExchangeTensor(0x1000, offset=8),), False),
    ((ExchangeTensor(0x1008),), (ExchangeTensor(0x1004),), True),
    ((ExchangeTensor(),), (ExchangeTensor(dtype=(1, 32, 1)),), False),
    ((ExchangeTensor(),), (ExchangeTensor(dtype=(2, 16, 1)),), False),
    ((ExchangeTensor(),), (ExchangeTensor(dtype=(2, 32, 2)),), False),
    ((ExchangeTensor(),), (ExchangeTensor(device=(2, 1)),), False),
    ((ExchangeTensor(),), (ExchangeTensor(device=(1, 0)),), False),
    ((ExchangeTensor(),), (Tensor(),), False),
    ((ExchangeTensor(),), (ExchangeTensor(0, shape=(3, 0, 2)),), True),
]


@pytest.mark.parametrize(("first", "second", "same"), SAME_KEY)
@each_launcher
def test_what_a_key_tells_apart(native: bool, first: Any, second: Any, same: bool) -> None:
    runtime = Runtime(native, passed=())
    runtime.launch(*first)
    assert runtime.hits(*first)
    assert runtime.hits(*second) is same


@pytest.mark.parametrize(
    ("flags", "first", "second", "same"),
    [
        (KeyFlag.NO_VALUE, 1, 3, True),
        (KeyFlag.NO_VALUE, 3, 16, False),
        (KeyFlag.NO_ALIGNMENT, 3, 16, True),
        (KeyFlag.NO_ALIGNMENT, 1, 3, False),
        (KeyFlag.NO_VALUE | KeyFlag.NO_ALIGNMENT, 1, 16, True),
        (KeyFlag.NO_VALUE | KeyFlag.NO_ALIGNMENT, 1, BIG, False),
        (KeyFlag.NO_ALIGNMENT, Tensor(0x1000), Tensor(0x1008), True),
        (KeyFlag.NO_ALIGNMENT, ExchangeTensor(0x1000), ExchangeTensor(0x1008), True),
        (KeyFlag.CONSTEXPR, 3, 5, False),
        (KeyFlag.CONSTEXPR, BIG + 3, int(str(BIG + 3)), True),
        (KeyFlag.CONSTEXPR, -1, 2**64 - 1, False),
        (KeyFlag.CONSTEXPR, 2.5, float("2.5"), True),
        (KeyFlag.CONSTEXPR, 0.0, -0.0, False),
        (KeyFlag.CONSTEXPR, True, False, False),
        (KeyFlag.CONSTEXPR, 1, True, False),
        (KeyFlag.CONSTEXPR, 0.1, struct.unpack("<f", struct.pack("<f", 0.1))[0], False),
    ],
)
@pytest.mark.parametrize("keyword", [False, True])
@each_launcher
def test_flags_of_a_parameter_decide_its_key(
    native: bool, flags: KeyFlag, first: Any, second: Any, same: bool, keyword: bool
) -> None:
    runtime = Runtime(native, [("other", KeyFlag.NORMAL), ("x", flags)], passed=())
    if keyword:
        runtime.launch(7, x=first)
        assert runtime.hits(7, x=first)
        assert runtime.hits(7, x=second) is same
    else:
        runtime.launch(7, first)
        assert runtime.hits(7, first)
        assert runtime.hits(7, second) is same


@each_launcher
def test_keywords_count_by_name_and_order(native: bool) -> None:
    runtime = Runtime(native, [(name, KeyFlag.NORMAL) for name in "ab"])
    runtime.launch(a=3, b=5)
    assert runtime.hits(a=5, b=3)
    assert not runtime.hits(b=5, a=3)
    assert not runtime.hits(a=3)
    assert not runtime.hits(3, b=5)
    assert not runtime.hits(3, 5)
    assert runtime.misses[1] == ((2, 3, 4), (), {"b": 5, "a": 3})


@each_launcher
def test_a_keyword_that_is_no_parameter_is_a_constexpr_option(native: bool) -> None:
    runtime = Runtime(native, [("a", KeyFlag.NORMAL)], passed=(0,))
    runtime.launch(3, num_warps=4)
    assert runtime.hits(3, num_warps=4)
    assert not runtime.hits(3, num_warps=8)


@each_launcher
def test_a_name_built_at_run_time_still_launches(native: bool) -> None:
    runtime = Runtime(native, [("length", KeyFlag.NORMAL)])
    runtime.launch(length=3)
    runtime.launch(**{"".join(["len", "gth"]): 5})
    assert len(runtime.table) == 1


@each_launcher
def test_an_unregistered_type_is_keyed_by_identity(native: bool) -> None:
    runtime = Runtime(native, passed=())
    first, second = OtherTensor(), OtherTensor()
    runtime.launch(first)
    assert runtime.hits(first)
    assert not runtime.hits(second)
    runtime.table.register_tensor_type(OtherTensor)
    runtime.launch(first)
    assert runtime.hits(second)
    assert not runtime.hits(Tensor())


@each_launcher
def test_an_int_beyond_64_bits_has_no_key(native: bool) -> None:
    runtime = Runtime(native, [("n", KeyFlag.NORMAL), ("C", KeyFlag.CONSTEXPR)], passed=())
    for value in (2**64, -(2**63) - 1):
        assert runtime.table.key((value,), {}) is None
        assert not runtime.hits(value)
        assert not runtime.hits(value)
        runtime.launch(7, value)
        assert runtime.hits(7, value)


@each_launcher
def test_more_arguments_than_the_native_code_holds_miss(native: bool) -> None:
    runtime = Runtime(native)
    most = (3,) * MAXIMUM_ARGUMENTS
    runtime.launch(*most)
    assert runtime.hits(*most)
    assert not runtime.hits(*most, 3)
    assert not runtime.hits(*most, 3)
    assert runtime.misses[-1][1] == (*most, 3)


def test_a_table_knows_a_bounded_number_of_tensor_types() -> None:
    table = VariantTable(lambda *_: None)
    types = [type(f"Tensor{index}", (), {}) for index in range(MAXIMUM_TENSOR_TYPES)]
    for tensor_type in [*types, *types]:
        table.register_tensor_type(tensor_type)
    if native_supported():
        with pytest.raises(ValueError, match="at most"):
            table.register_tensor_type(Tensor)


SCALARS = st.one_of(
    st.integers(-(2**65), 2**65),
    st.sampled_from([0, 1, -1, 16, 2**31, 2**63, 2**64 - 1]),
    st.floats(),
    st.booleans(),
    st.none(),
    st.sampled_from([FLOAT32, "text", int]),
    st.builds(
        ExchangeTensor,
        st.integers(0, 2**64 - 1),
        st.tuples(st.integers(0, 255), st.integers(0, 255), st.integers(0, 2**16 - 1)),
        st.tuples(st.integers(-(2**31), 2**31 - 1), st.integers(-(2**31), 2**31 - 1)),
        st.integers(0, 2**64 - 1),
        st.sampled_from([0, 0, 0, -1]),
        st.lists(st.integers(0, 3), max_size=3).map(tuple),
    ),
    st.builds(Tensor, st.integers(0, 2**64 - 1), st.sampled_from([FLOAT32, FLOAT16]), st.integers(-1, 8)),
)


@pytest.mark.skipif(not native_supported(), reason="no native launcher here")
@settings(max_examples=300, deadline=None)
@given(
    st.lists(SCALARS, max_size=6),
    st.dictionaries(st.sampled_from(["a", "b", "c", "option"]), SCALARS),
    st.lists(st.integers(0, 15).map(KeyFlag), min_size=3, max_size=3),
)
def test_both_launchers_compute_the_same_key(
    arguments: list[Any], keywords: dict[str, Any], flags: list[KeyFlag]
) -> None:
    parameters = list(zip("abc", flags, strict=True))
    keys = [Runtime(native, parameters).table.key(tuple(arguments), keywords) for native in (True, False)]
    assert keys[0] == keys[1]
