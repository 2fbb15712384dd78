"""Parts of groups, which several channels have made, joined by slice and whole numbers, against plain Python."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from decimal import Decimal
from typing import Any, Final

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tidegate.operators.core.streams import BatchStream
from tidegate.operators.duckdb.instances import Instance
from tidegate.operators.slices import dense_slices
from tidegate.operators.slices.dense_slices import DenseSlices, GroupsOfSlices, WholeGroups
from tidegate.operators.slices.group_positions import GroupKey
from tidegate.operators.slices.group_totals import GroupState

from ..searching import tries

Part = tuple[Any, ...]
PARTS: Final = pa.schema(
    [
        pa.field("slice", pa.int64(), False),
        ("k", pa.int32()),
        ("sum", pa.decimal128(38, 0)),
        ("count", pa.int64()),
        ("least", pa.int8()),
    ]
)
TOTAL: Final = """
    SELECT c0, c1, CAST(sum(c2) AS DECIMAL(38, 0)), CAST(sum(c3) AS BIGINT), min(c4) FROM in0 GROUP BY (c0, c1)
"""
ORDERED: Final = f"{TOTAL} ORDER BY 1 NULLS FIRST, 2 NULLS FIRST"
GROUPS: Final = GroupsOfSlices(
    keys=(GroupKey(column=0), GroupKey(column=1)),
    states=(
        GroupState(function="sum", values=2, condition=None),
        GroupState(function="sum", values=3, condition=None),
        GroupState(function="min", values=4, condition=None),
    ),
    groups="SELECT c0, c1, c2, c3, c4 FROM in0",
    whole=WholeGroups(states=PARTS, aggregate=TOTAL, ordered=ORDERED, total=ORDERED, values=None),
)
WIDE: Final = st.integers(-(10**30), 10**30)
PART: Final = st.tuples(
    st.integers(-20, 20),
    st.none() | st.integers(-3, 9),
    st.none() | st.integers(-(2**40), 2**40),
    st.integers(0, 2**20),
    st.none() | st.integers(-128, 127),
)
FITTING: Final[Sequence[Part]] = [(at % 40, at % 7, at - 500, at, at % 5) for at in range(1_000)]


def joined(instance: Instance, parts: Sequence[Part], *, in_duckdb: bool = True) -> list[Part]:
    columns = list(zip(*parts, strict=True)) or [()] * len(PARTS)
    table = pa.table([pa.array(column, type_) for column, type_ in zip(columns, PARTS.types, strict=True)], PARTS)
    operator = DenseSlices(PARTS, groups=GROUPS, schema=PARTS, size_class=1_000, instance=instance)
    try:
        if not in_duckdb:
            for fragment in operator._fragments:
                fragment.run = lambda _: pytest.fail("DuckDB joins parts")  # type: ignore[method-assign]
        answer = pa.Table.from_batches(operator.run([BatchStream(PARTS, table.to_batches())]), PARTS)
    finally:
        operator.close()
    return list(zip(*(column.to_pylist() for column in answer.columns), strict=True))


def naive(parts: Sequence[Part]) -> list[Part]:
    """The groups by slice and key, null first."""
    groups: dict[Part, list[Part]] = defaultdict(list)
    for part in parts:
        groups[part[:2]].append(part[2:])
    order = sorted(groups, key=lambda key: (key[0], key[1] is not None, key[1]))
    return [(*key, *_of_all(groups[key])) for key in order]


def _of_all(parts: Sequence[Part]) -> Part:
    sums = [value for value, _, _ in parts if value is not None]
    least = [value for _, _, value in parts if value is not None]
    return Decimal(sum(sums)) if sums else None, sum(count for _, count, _ in parts), min(least, default=None)


@settings(max_examples=tries(60), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(PART, max_size=60))
@example([(0, None, 1, 1, None), (0, None, None, 5, None), (0, 1, None, 0, None)])
def test_groups_have_the_states_of_their_parts(warm: Instance, parts: list[Part]) -> None:
    assert joined(warm, parts) == naive(parts)


@settings(max_examples=tries(30), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(PART, max_size=30),
    st.lists(
        PART.flatmap(lambda part: st.tuples(*map(st.just, part[:2]), WIDE, st.just(1), st.none())),
        min_size=1,
        max_size=5,
    ),
    st.integers(0, 30),
)
def test_sums_that_64_bits_do_not_hold(warm: Instance, parts: list[Part], wide: list[Part], at: int) -> None:
    parts = [*parts[:at], *wide, *parts[at:]]
    assert joined(warm, parts) == naive(parts)


def test_sums_that_64_bits_hold_stay_in_arrays(warm: Instance) -> None:
    assert joined(warm, FITTING, in_duckdb=False) == naive(FITTING)


@pytest.mark.parametrize("at", [0, 1, 500, 999])
def test_a_wide_sum_behind_others_is_added_to_theirs(warm: Instance, at: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dense_slices, "BLOCK_ROWS", 100)
    parts = [*FITTING[:at], (3, 3, 10**25, 1, None), *FITTING[at:]]
    assert joined(warm, parts) == naive(parts)
