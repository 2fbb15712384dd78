"""Class of bug: a frame by values (RANGE) that has other rows than its bounds say, or that fails at extreme keys.

Random keys with nulls, NaN, infinities and the least and greatest values, against frames found one pair of rows at a
time. Each row's value is a bit of its own, so a sum names the rows of its frame.
"""

from __future__ import annotations

import datetime as dt
import itertools
import json
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import tidegate

from ..searching import tries

Node = dict[str, Any]
NULLABLE: Final = {"nullability": "NULLABILITY_NULLABLE"}
ARITHMETIC: Final = "extension:io.substrait:functions_arithmetic"
DIRECTIONS: Final = {
    "SORT_DIRECTION_ASC_NULLS_FIRST": (False, True),
    "SORT_DIRECTION_ASC_NULLS_LAST": (False, False),
    "SORT_DIRECTION_DESC_NULLS_FIRST": (True, True),
    "SORT_DIRECTION_DESC_NULLS_LAST": (True, False),
}
"""Whether the order is descending, and whether nulls come first."""


@dataclass(frozen=True)
class Keys:
    """A type of keys, its values, and an offset as the plan writes it and as it is added to a key."""

    arrow: pa.DataType
    type_: Node
    values: st.SearchStrategy[Any]
    offset: Node
    added: Callable[[Any, int], Any]


def integers(bits: int) -> Keys:
    least, most = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1
    keys = st.integers(-5, 5) | st.sampled_from([least, least + 1, most - 1, most])
    return Keys(
        getattr(pa, f"int{bits}")(), {f"i{bits}": NULLABLE}, keys, {"offset": "2"}, lambda key, sign: key + 2 * sign
    )


def literal(node: Node) -> Node:
    return {"offsetExpr": {"literal": node}}


FLOATS: Final = st.sampled_from([-2.5, -1.0, -0.0, 0.0, 0.5, 1.0, 1.5, 1e308, -1e308, math.inf, -math.inf, math.nan])
DAY: Final = dt.timedelta(days=1)
DATES: Final = st.dates(dt.date(2024, 2, 27), dt.date(2024, 3, 3)) | st.just(dt.date(9999, 12, 29))
MOMENT: Final = {"precisionTimestamp": {"precision": 6, **NULLABLE}}
TWO_DAYS: Final = literal({"intervalDayToSecond": {"days": 2, "precision": 6}})
KINDS: Final = {
    "i8": integers(8),
    "i32": integers(32),
    "i64": integers(64),
    "fp64": Keys(pa.float64(), {"fp64": NULLABLE}, FLOATS, literal({"fp64": 1.5}), lambda key, sign: key + 1.5 * sign),
    "decimal": Keys(
        pa.decimal128(5, 2),
        {"decimal": {"precision": 5, "scale": 2, **NULLABLE}},
        st.sampled_from([Decimal("-999.99"), Decimal("-0.50"), Decimal("1.50"), Decimal("3.49"), Decimal("999.99")]),
        {"offset": "2"},
        lambda key, sign: key + 2 * sign,
    ),
    "date": Keys(pa.date32(), {"date": NULLABLE}, DATES, TWO_DAYS, lambda key, sign: key + 2 * DAY * sign),
    "timestamp": Keys(
        pa.timestamp("us"),
        MOMENT,
        DATES.map(lambda day: dt.datetime.combine(day, dt.time(13))),
        TWO_DAYS,
        lambda key, sign: key + 2 * DAY * sign,
    ),
}
BOUNDS: Final = st.sampled_from(["unbounded", "preceding", "currentRow", "following"])
SIGNS: Final = {"preceding": -1, "currentRow": 0, "following": 1}
FRAMES: Final = st.tuples(BOUNDS, BOUNDS).filter(
    lambda frame: SIGNS.get(frame[0], -2) <= SIGNS.get(frame[1], 2)  # others are refused
)


@st.composite
def windows(draw: st.DrawFn) -> tuple[str, list[Any], list[int], tuple[str, str], str]:
    kind = draw(st.sampled_from(sorted(KINDS)))
    rows = draw(st.lists(st.tuples(st.none() | KINDS[kind].values, st.integers(0, 1)), max_size=12))
    keys, groups = [key for key, _ in rows], [group for _, group in rows]
    return kind, keys, groups, draw(FRAMES), draw(st.sampled_from(sorted(DIRECTIONS)))


def ordered(key: Any) -> Any:
    """A key as what sorts: NaN is the greatest."""
    return (math.isnan(key), 0.0 if math.isnan(key) else key) if isinstance(key, float) else key


def before(one: Any, other: Any, direction: str) -> bool:
    """Tests whether a key comes before another one, not beside it."""
    descending, nulls_first = DIRECTIONS[direction]
    if one is None or other is None:
        return one is not other and (one is None) == nulls_first
    return bool(ordered(one) > ordered(other)) if descending else bool(ordered(one) < ordered(other))


def frame_of(keys: Keys, key: Any, rows: Sequence[Any], frame: tuple[str, str], direction: str) -> list[bool]:
    """For each row, whether it is in the frame of the row with `key`."""

    def edge(bound: str) -> Any:
        sign = SIGNS[bound] * (-1 if DIRECTIONS[direction][0] else 1)
        return key if key is None or not sign else keys.added(key, sign)

    lower, upper = frame
    return [
        (lower == "unbounded" or not before(row, edge(lower), direction))
        and (upper == "unbounded" or not before(edge(upper), row, direction))
        for row in rows
    ]


def right(keys: Keys, values: list[Any], groups: list[int], frame: tuple[str, str], direction: str) -> list[Any]:
    answers = []
    for key, group in zip(values, groups, strict=True):
        inside = frame_of(keys, key, values, frame, direction)
        bits = [1 << at for at, one in enumerate(inside) if one and groups[at] == group]
        answers.append(sum(bits) if bits else None)
    return answers


def field(index: int) -> Node:
    return {"selection": {"directReference": {"structField": {"field": index}}, "rootReference": {}}}


def plan(keys: Keys, frame: tuple[str, str], direction: str, *, kind: str = "BOUNDS_TYPE_RANGE") -> str:
    lower, upper = ({bound: keys.offset if bound in ("preceding", "following") else {}} for bound in frame)
    window = {
        "functionReference": 1,
        "arguments": [{"value": field(3)}],
        "partitions": [field(1)],
        "sorts": [{"expr": field(2), "direction": direction}],
        "lowerBound": lower,
        "upperBound": upper,
        "boundsType": kind,
        "phase": "AGGREGATION_PHASE_INITIAL_TO_RESULT",
    }
    types = [{"i64": NULLABLE}, {"i64": NULLABLE}, keys.type_, {"i64": NULLABLE}]
    base = {"names": ["id", "g", "k", "bit"], "struct": {"types": types}}
    read = {"read": {"baseSchema": base, "namedTable": {"names": ["t"]}}}
    common = {"emit": {"outputMapping": [0, 4]}}
    project = {"project": {"common": common, "input": read, "expressions": [{"windowFunction": window}]}}
    declared = {"extensionUrnReference": 1, "functionAnchor": 1, "name": "sum"}
    return json.dumps(
        {
            "extensionUrns": [{"extensionUrnAnchor": 1, "urn": ARITHMETIC}],
            "extensions": [{"extensionFunction": declared}],
            "relations": [{"root": {"input": project, "names": ["id", "w"]}}],
        }
    )


@pytest.fixture(scope="module")
def client() -> Iterator[tidegate.Client]:
    with tidegate.local(roots=()) as client:
        yield client


@settings(max_examples=tries(100), suppress_health_check=[HealthCheck.too_slow])
@given(windows())
def test_a_frame_by_values_has_the_rows_between_its_bounds(
    client: tidegate.Client, window: tuple[str, list[Any], list[int], tuple[str, str], str]
) -> None:
    kind, values, groups, frame, direction = window
    keys, numbers = KINDS[kind], range(len(values))
    columns = {
        "id": pa.array(numbers, pa.int64()),
        "g": pa.array(groups, pa.int64()),
        "k": pa.array(values, keys.arrow),
        "bit": pa.array([1 << at for at in numbers], pa.int64()),
    }
    answer = client.query(plan(keys, frame, direction), {"t": pa.table(columns)}).sort_by("id")
    assert answer.column("w").to_pylist() == right(keys, values, groups, frame, direction)


@pytest.mark.parametrize(
    ("offset", "kind"),
    [
        (literal({"fp64": -1.5}), "BOUNDS_TYPE_RANGE"),
        (literal({"fp64": "NaN"}), "BOUNDS_TYPE_RANGE"),
        (literal({"fp64": "Infinity"}), "BOUNDS_TYPE_RANGE"),
        (literal({"intervalDayToSecond": {"days": -1, "precision": 6}}), "BOUNDS_TYPE_RANGE"),
        (literal({"fp64": 1.5}), "BOUNDS_TYPE_ROWS"),
    ],
)
def test_an_offset_that_means_no_frame_is_refused(client: tidegate.Client, offset: Node, kind: str) -> None:
    keys = KINDS["fp64"]
    wrong = Keys(keys.arrow, keys.type_, keys.values, offset, keys.added)
    problems = client.validate(plan(wrong, ("preceding", "currentRow"), "SORT_DIRECTION_ASC_NULLS_LAST", kind=kind))
    assert [problem.reason for problem in itertools.islice(problems, 2)] == ["BAD_BOUND"]
