"""Class of bug: a process that remembers callers' types for good, by which a few plans fill its memory."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Sequence

import pyarrow as pa

from tidegate.operators.arrays.casts import cast
from tidegate.planner.analysis.vocabulary import vocabulary
from tidegate.planner.decode import decode_plan
from tidegate.planner.functions import overloads, result_types
from tidegate.planner.ir import types
from tidegate.planner.prepare import prepare
from tidegate.proto.values import PlanBytes, TaskOptions

from .decode.plans import I64, call, encode, field, plan, project

WIDTH = 50
PLANS = 4


def planned(number: int) -> None:
    """Plans the comparison of two structs with fields that no other plan has."""
    names = ["s", *(f"{number} {at}" for at in range(WIDTH))]
    base = {"names": names, "struct": {"types": [{"struct": {"types": [I64] * WIDTH}}]}}
    read = {"read": {"baseSchema": base, "namedTable": {"names": ["t"]}}}
    decoded = decode_plan(
        PlanBytes(binary=encode(plan(project(read, call("equal", field(0), field(0))), [*names, "p"])))
    )
    assert vocabulary(decoded.plan)
    assert prepare(decoded, TaskOptions())


def remembered() -> Sequence[int]:
    """The sizes of what the process remembers by types."""
    return (
        len(overloads._KNOWN),
        result_types._remembered.cache_info().currsize,
        types._other_scalar.cache_info().currsize,
    )


def test_nothing_is_remembered_by_the_nested_types_of_plans() -> None:
    planned(0)
    before = remembered()
    for number in range(1, PLANS):
        planned(number)
    assert remembered() == before


def test_nothing_is_remembered_by_the_types_of_rows() -> None:
    kind = pa.struct([("a", pa.list_(pa.field("item", pa.int64(), nullable=False)))])
    gone = weakref.ref(kind)
    rows = pa.nulls(1, kind)
    assert cast(rows, kind).equals(rows)
    del kind, rows
    gc.collect()
    assert gone() is None
