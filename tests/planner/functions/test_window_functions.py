"""Every window function that is no aggregate, against its definition in plain Python.

Partitions have nulls, ties and the ends of types; positions, offsets and defaults come from columns or are constants,
null, negative, and as large as they may be.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Final

import duckdb
import pytest

from tidegate.planner import ir
from tidegate.planner.functions import Bound, bind
from tidegate.planner.ir import types as t
from tidegate.planner.sql.expression_writer import render_window_call
from tidegate.planner.sql.literal_sql import literal

from .test_templates import SUPPORTED, Columns

URN: Final = "extension:io.substrait:functions_arithmetic"
URNS: Final = {"last_not_null": "extension:io.tidegate:functions_statistics"}
"""The extension of a function that is not in `URN`."""
SMALL: Final = t.Integer(bits=32)
LARGE: Final = t.Integer(bits=64)
TEXT: Final = t.String()
MOST: Final = 2**31 - 1


@dataclass(frozen=True)
class Row:
    """A row with its partition, a key that others may share, its position in the partition, and the arguments."""

    partition: int
    key: int | None
    position: int
    number: int | None
    text: str | None
    offset: int | None
    default: int | None


KEYS: Final[Sequence[Sequence[int | None]]] = ([1], [1, 1, 1], [1, 2, 2, 3, None, None], [3, 1, 2, 2, 5, 5, 7])
NUMBERS: Final = (None, MOST, -MOST - 1, 5, None, 0, 7)
OFFSETS: Final = (1, None, -1, 2, 0, MOST, -MOST - 1)


def _rows() -> Iterator[Row]:
    for partition, keys in enumerate(KEYS):
        for position, key in enumerate(sorted(keys, key=lambda key: (key is None, key or 0))):
            number = NUMBERS[(position + partition) % 7]
            text = None if number is None else f"ä{number}"
            yield Row(
                partition,
                key,
                position,
                number,
                text,
                OFFSETS[(position + 2 * partition) % 7],
                (None, -1)[position % 2],
            )


ROWS: Final = list(_rows())
FIELDS: Final = {"partition": SMALL, "key": SMALL, "position": SMALL, "number": SMALL, "text": TEXT}
TYPES: Final = {**FIELDS, "offset": SMALL, "default": SMALL}
COLUMNS: Final = {name: ir.Field(index=index, type=type_) for index, (name, type_) in enumerate(TYPES.items())}
Partition = Sequence[Row]
Definition = Callable[[Partition, int], Any]


def rank(rows: Partition, at: int) -> int:
    return 1 + [row.key for row in rows].index(rows[at].key)


def dense_rank(rows: Partition, at: int) -> int:
    return len(dict.fromkeys(row.key for row in rows[: at + 1]))


def cume_dist(rows: Partition, at: int) -> float:
    return sum(rank(rows, other) <= rank(rows, at) for other in range(len(rows))) / len(rows)


def ntile(bins: int) -> Definition:
    def definition(rows: Partition, at: int) -> int:
        least, larger = divmod(len(rows), bins)
        sizes = [least + (number < larger) for number in range(bins)]
        return next(tile for tile in range(1, bins + 1) if at < sum(sizes[:tile]))

    return definition


def shifted(direction: int, offset: Callable[[Row], int | None], default: Callable[[Row], int | None]) -> Definition:
    def definition(rows: Partition, at: int) -> int | None:
        if (steps := offset(rows[at])) is None:
            return None
        position = at + direction * steps
        return rows[position].number if 0 <= position < len(rows) else default(rows[at])

    return definition


def framed(pick: Callable[[list[Any], Row], Any], lower: int | None, upper: int | None, name: str) -> Definition:
    def definition(rows: Partition, at: int) -> Any:
        begin = 0 if lower is None else max(at + lower, 0)
        end = len(rows) if upper is None else max(at + upper + 1, 0)
        return pick([getattr(row, name) for row in rows[begin:end]], rows[at])

    return definition


def constant(value: int | None, type_: t.Type = SMALL) -> ir.Literal:
    return ir.Literal(value=value, type=type_)


@dataclass(frozen=True)
class Use:
    """A call with its arguments and frame, and its definition. Only ranks order by a key that rows share."""

    name: str
    arguments: Sequence[ir.Expression]
    definition: Definition
    order: str = "position"
    frame: tuple[int | None, int | None] = (None, None)


def _none(row: Row) -> None:
    del row


def _ranks() -> Iterator[Use]:
    yield Use("row_number", (), lambda rows, at: at + 1)
    yield Use("rank", (), rank, "key")
    yield Use("dense_rank", (), dense_rank, "key")
    yield Use("percent_rank", (), lambda rows, at: (rank(rows, at) - 1) / max(len(rows) - 1, 1), "key")
    yield Use("cume_dist", (), cume_dist, "key")
    for bins in (1, 2, 3, 9):
        yield Use("ntile", (constant(bins),), ntile(bins))
    yield Use("ntile", (constant(4, LARGE),), ntile(4))


def _shifts() -> Iterator[Use]:
    number, offset, default = COLUMNS["number"], COLUMNS["offset"], COLUMNS["default"]
    for name, direction in (("lead", 1), ("lag", -1)):
        yield Use(name, (number,), shifted(direction, lambda row: 1, _none))
        for steps in (0, 1, 2, -1, MOST, -MOST - 1, None):
            fixed = shifted(direction, lambda row, steps=steps: steps, _none)
            yield Use(name, (number, constant(steps)), fixed)
        yield Use(name, (number, offset), shifted(direction, lambda row: row.offset, _none))
        by_columns = shifted(direction, lambda row: row.offset, lambda row: row.default)
        yield Use(name, (number, offset, default), by_columns)


FRAMES: Final = ((None, None), (None, 0), (-1, 1), (1, 2), (None, -1))


def _frames() -> Iterator[Use]:
    for name in ("number", "text"):
        column = COLUMNS[name]
        for lower, upper in FRAMES:
            first = framed(lambda values, row: values[0] if values else None, lower, upper, name)
            last = framed(lambda values, row: values[-1] if values else None, lower, upper, name)
            yield Use("first_value", (column,), first, frame=(lower, upper))
            yield Use("last_value", (column,), last, frame=(lower, upper))
            there = framed(
                lambda values, row: next((value for value in reversed(values) if value is not None), None),
                lower,
                upper,
                name,
            )
            yield Use("last_not_null", (column,), there, frame=(lower, upper))
            for position in (1, 2, MOST):
                nth = framed(
                    lambda values, row, position=position: values[position - 1] if len(values) >= position else None,
                    lower,
                    upper,
                    name,
                )
                yield Use("nth_value", (column, constant(position)), nth, frame=(lower, upper))


USES: Final = [*_ranks(), *_shifts(), *_frames()]


@pytest.fixture(scope="module")
def partitions() -> Mapping[int, Partition]:
    return {partition: list(rows) for partition, rows in groupby(ROWS, lambda row: row.partition)}


@pytest.fixture(scope="module")
def filled(connection: duckdb.DuckDBPyConnection) -> duckdb.DuckDBPyConnection:
    """The connection with the rows, which lie backwards in their table."""
    lines = ", ".join(
        f"({', '.join(literal(getattr(row, name), type_) for name, type_ in TYPES.items())})" for row in ROWS[::-1]
    )
    names = ", ".join(f"c{column.index}" for column in COLUMNS.values())
    connection.execute(f"CREATE OR REPLACE TEMP TABLE window_rows AS SELECT * FROM (VALUES {lines}) r({names})")
    return connection


def _bound(use: Use) -> Bound:
    return bind(ir.FunctionKind.WINDOW, use.name, URNS.get(use.name, URN), use.arguments)


def computed(connection: duckdb.DuckDBPyConnection, use: Use) -> Mapping[tuple[int, int], Any]:
    bound = _bound(use)
    lower, upper = use.frame
    call = ir.WindowCall(
        function=bound.function,
        arguments=bound.arguments,
        type=bound.type,
        options=bound.options,
        partitions=(COLUMNS["partition"],),
        sorts=(ir.SortKey(expression=COLUMNS[use.order], direction=ir.Direction.ASC_NULLS_LAST),),
        lower=ir.Bound(offset=lower),
        upper=ir.Bound(offset=upper),
    )
    rows = connection.execute(f"SELECT c0, c2, {render_window_call(call, Columns())} FROM window_rows r").fetchall()
    return {(partition, position): value for partition, position, value in rows}


@pytest.mark.parametrize("name", sorted({use.name for use in USES}))
def test_every_value_is_what_the_definition_says(
    name: str, filled: duckdb.DuckDBPyConnection, partitions: Mapping[int, Partition]
) -> None:
    for use in (use for use in USES if use.name == name):
        expected = {
            (partition, row.position): use.definition(rows, at)
            for partition, rows in partitions.items()
            for at, row in enumerate(rows)
        }
        assert computed(filled, use) == expected, (use.arguments, use.frame)


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("ntile", (constant(0),)),
        ("ntile", (constant(-1, LARGE),)),
        ("nth_value", (COLUMNS["number"], constant(0))),
        ("nth_value", (COLUMNS["number"], COLUMNS["offset"])),
    ],
)
def test_a_number_below_one_is_an_error(
    filled: duckdb.DuckDBPyConnection, name: str, arguments: Sequence[ir.Expression]
) -> None:
    with pytest.raises(duckdb.Error, match=name if name == "nth_value" else "must be greater than zero"):
        computed(filled, Use(name, arguments, rank))


def test_every_implementation_has_a_use() -> None:
    bound = {_bound(use).function.signature for use in USES}
    assert bound == {i.signature for i in SUPPORTED if i.kind is ir.FunctionKind.WINDOW}
