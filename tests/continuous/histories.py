"""Histories of changes, what they sum to, and what a task's changes sum to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, TypeAlias

import datafusion
import pyarrow as pa
from datafusion.substrait import Serde

import tidegate

Row: TypeAlias = tuple[Any, ...]
Changed: TypeAlias = Sequence[tuple[Row, int]]
"""What changes in one epoch of a source: rows with weights."""
Epochs: TypeAlias = Sequence[Mapping[str, Changed]]

WEIGHT: Final = "change"
"""What tests call the change column of their splits."""


def planned(sql: str, schemas: Mapping[str, pa.Schema]) -> bytes:
    """DataFusion's plan of a query."""
    session = datafusion.SessionContext()
    for name, schema in schemas.items():
        session.register_record_batches(name, [[pa.RecordBatch.from_pylist([], schema)]])
    return bytes(Serde.serialize_bytes(sql, session))


def rows_of(table: pa.Table) -> list[Row]:
    return list(zip(*(column.to_pylist() for column in table.columns), strict=True))


def table(rows: Sequence[Row], schema: pa.Schema) -> pa.Table:
    columns = zip(*rows, strict=True) if rows else [()] * len(schema)
    return pa.table([pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)], schema)


def changes(changed: Changed, schema: pa.Schema) -> tidegate.Changes:
    """A split with a change column."""
    weighed = schema.append(pa.field(WEIGHT, pa.int64()))
    return tidegate.Changes(table([(*row, weight) for row, weight in changed], weighed), WEIGHT)


def total(history: Epochs, source: str, schema: pa.Schema) -> pa.Table:
    """The rows of a source after all these epochs."""
    counts: Counter[Row] = Counter()
    for epoch in history:
        for row, weight in epoch.get(source, ()):
            counts[row] += weight
    assert all(count >= 0 for count in counts.values()), "a history deletes what is not there"
    return table(list(counts.elements()), schema)


class Integral:
    """The sum of a task's changes so far. Each change is checked to be one: consolidated, its weights never 0."""

    def __init__(self) -> None:
        self.rows: Counter[Row] = Counter()

    def add(self, change: pa.Table) -> None:
        rows = rows_of(change)
        assert all(row[-1] for row in rows)
        assert len({hashable(row[:-1]) for row in rows}) == len(rows)
        for *row, weight in rows:
            self.rows[hashable(tuple(row))] += weight
        self.rows = Counter({row: weight for row, weight in self.rows.items() if weight})


def multiset(rows: Iterable[Row]) -> Counter[Row]:
    return Counter(hashable(row) for row in rows)


def hashable(value: Any) -> Any:
    """Values by which rows are equal: NaN is NaN, -0.0 is 0.0, lists are tuples."""
    match value:
        case float():
            return "nan" if value != value else value + 0.0
        case list() | tuple():
            return tuple(map(hashable, value))
        case dict():
            return tuple((key, hashable(item)) for key, item in value.items())
        case _:
            return value
