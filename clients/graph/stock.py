"""Ready-made nodes of a graph's builder: SQL, join, aggregate, distinct, sort, top-k, count."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Literal, TypeAlias, TypeVar

from ..partitions import UNSAID, PartitionLike, Unsaid, partitions_of
from ..proto.errors import InvalidRequest
from ..proto.graph import (
    ONLY_STREAM,
    Aggregate,
    Count,
    Distinct,
    GraphNode,
    Input,
    Join,
    JoinType,
    Measure,
    MeasureFunction,
    Operation,
    Partition,
    Sort,
    SqlNode,
    StockNode,
)
from .stream import Stream

StreamLike: TypeAlias = Stream | str
Partitions: TypeAlias = PartitionLike | Mapping[str, PartitionLike] | Unsaid
Columns: TypeAlias = str | Sequence[str]
MeasureLike: TypeAlias = Literal["count"] | tuple[Literal["count", "count_distinct", "sum", "mean", "min", "max"], str]

_Choice = TypeVar("_Choice", bound=Enum)


class StockNodes(ABC):
    """Nodes that need no executor of yours.

    `channels=n` runs a node on n channels side by side. Except for SQL, the node itself decides which channel gets
    which rows.
    """

    def sql(
        self,
        name: str,
        statement: str,
        streams: Mapping[str, StreamLike],
        *,
        channels: int = 1,
        partition: Partitions = UNSAID,
    ) -> Stream:
        """A SELECT in DuckDB's SQL over these streams, by their names. It reads nothing else: no files, no tables.

        The statement itself reads Parquet files: only the columns and row groups that it needs. On several channels,
        each runs the statement over the rows that `partition` gives it, as for `node`.
        """
        parts: Mapping[str, Partition] = partitions_of(name, list(streams), partition, channels)
        inputs = tuple(
            Input(name=stream, source=self._name_of(source, name), partition=parts[stream])
            for stream, source in streams.items()
        )
        return self._add(SqlNode(name=name, inputs=inputs, statement=statement, channels=channels))

    def join(
        self,
        name: str,
        left: StreamLike,
        right: StreamLike,
        on: Columns | Mapping[str, str],
        *,
        how: Literal["inner", "left", "right", "full", "semi", "anti"] = "inner",
        channels: int = 1,
    ) -> Stream:
        """Rows of `left` with the rows of `right` that have equal keys: columns of both, or `{"of left": "of right"}`.

        `how` is inner, left, right, full, semi or anti. The columns are those of `left`, then those of `right` without
        keys of the same name. Nulls equal nothing.
        """
        keys = tuple(on.items()) if isinstance(on, Mapping) else tuple((key, key) for key in columns_of(name, "on", on))
        if not keys:
            raise InvalidRequest(f"node {name!r} joins by no column: name a column in `on`", reason="NO_KEYS")
        operation = Join(keys=keys, type=_one_of(JoinType, how, f"node {name!r}: how"))
        return self._operation(name, {"left": left, "right": right}, operation, channels)

    def aggregate(
        self,
        name: str,
        stream: StreamLike,
        by: Columns,
        measures: Mapping[str, MeasureLike],
        *,
        channels: int = 1,
    ) -> Stream:
        """A row for each combination of the values of `by`; one row if `by` is empty.

        `measures` defines each new column: `("sum", "price")`, with sum, mean, min, max, count (of values) or
        count_distinct; or "count", of rows. A sum of whole numbers is an int64, and an error beyond that.
        """
        checked = tuple(_measure(name, column, measure) for column, measure in measures.items())
        keys = columns_of(name, "by", by)
        if not keys and not checked:
            raise InvalidRequest(f"node {name!r} has neither keys nor measures", reason="NO_MEASURES")
        return self._operation(name, {ONLY_STREAM: stream}, Aggregate(keys=keys, measures=checked), channels)

    def distinct(self, name: str, stream: StreamLike, columns: Columns | None = None, *, channels: int = 1) -> Stream:
        """Every row once; nulls are equal. Of all columns, or only of these."""
        chosen = None if columns is None else columns_of(name, "columns", columns)
        return self._operation(name, {ONLY_STREAM: stream}, Distinct(columns=chosen), channels)

    def sort(
        self, name: str, stream: StreamLike, by: Columns, *, descending: bool | Columns = False, channels: int = 1
    ) -> Stream:
        """All rows sorted by these columns, all or some of them descending; nulls last.

        Several channels sort at once.
        """
        return self._operation(name, {ONLY_STREAM: stream}, Sort(keys=_keys(name, by, descending)), channels)

    def top(
        self,
        name: str,
        stream: StreamLike,
        count: int,
        by: Columns,
        *,
        descending: bool | Columns = False,
        channels: int = 1,
    ) -> Stream:
        """The first `count` rows of such a sort, in its order."""
        if isinstance(count, bool) or not isinstance(count, int) or count < 0:
            raise InvalidRequest(f"node {name!r}: {count!r} is not a number of rows", reason="BAD_COUNT")
        operation = Sort(keys=_keys(name, by, descending), first=count)
        return self._operation(name, {ONLY_STREAM: stream}, operation, channels)

    def count(self, name: str, stream: StreamLike, *, channels: int = 1) -> Stream:
        """The number of rows: one row, with an int64 called "count"."""
        return self._operation(name, {ONLY_STREAM: stream}, Count(), channels)

    def _operation(self, name: str, streams: Mapping[str, StreamLike], operation: Operation, channels: int) -> Stream:
        inputs = tuple(
            Input(name=stream_name, source=self._name_of(stream, name)) for stream_name, stream in streams.items()
        )
        return self._add(StockNode(name=name, inputs=inputs, operation=operation, channels=channels))

    @abstractmethod
    def _add(self, node: GraphNode) -> Stream: ...

    @abstractmethod
    def _name_of(self, stream: StreamLike, node: str) -> str: ...


def columns_of(node: str, what: str, columns: Columns) -> tuple[str, ...]:
    """One column's name or several, as a tuple."""
    several = (columns,) if isinstance(columns, str) else tuple(columns)
    if not all(isinstance(column, str) for column in several):
        raise InvalidRequest(
            f"node {node!r}: {what} must be a column's name or several names, not {columns!r}", reason="NOT_A_COLUMN"
        )
    return several


def _keys(node: str, by: Columns, descending: bool | Columns) -> tuple[tuple[str, bool], ...]:
    columns = columns_of(node, "by", by)
    if not columns:
        raise InvalidRequest(f"node {node!r} sorts by no column: name a column in `by`", reason="NO_KEYS")
    if isinstance(descending, bool):
        return tuple((column, descending) for column in columns)
    down = columns_of(node, "descending", descending)
    if others := sorted(set(down) - set(columns)):
        raise InvalidRequest(
            f"node {node!r}: descending names {', '.join(map(repr, others))}, but the node sorts by "
            f"{', '.join(columns)}",
            reason="NOT_A_KEY",
        )
    return tuple((column, column in down) for column in columns)


def _measure(node: str, column: str, measure: MeasureLike) -> Measure:
    match measure:
        case "count":
            return Measure(name=column, function=MeasureFunction.COUNT)
        case (str() as function, str() as of):
            where = f"node {node!r}: measure {column!r}"
            return Measure(name=column, function=_one_of(MeasureFunction, function, where), column=of)
        case _:
            raise InvalidRequest(
                f'node {node!r}: measure {column!r} must be "count" or a pair like ("sum", "price"), not {measure!r}',
                reason="NOT_A_MEASURE",
            )


def _one_of(choices: type[_Choice], value: str, what: str) -> _Choice:
    for choice in choices:
        if choice.value == value:
            return choice
    there = ", ".join(str(choice.value) for choice in choices)
    raise InvalidRequest(f"{what} must be one of {there}, not {value!r}", reason="NOT_A_CHOICE")
