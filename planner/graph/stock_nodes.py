"""SQL nodes and stock operations as steps: their columns checked, their SQL written, their channels fed and merged.

On several channels a join, an aggregate and a distinct get all rows of a key on one channel; the other operations get
any rows, and one more step brings the channels' results together.

The statements are not made from relations, whose types and functions are Substrait's: a stream may have any type that
DuckDB reads (dictionaries, large texts), and measures follow DuckDB (sums of unsigned numbers, means of decimals).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final, assert_never

import pyarrow as pa
from pyarrow import types as kinds

from ...operators.arrays.ordering import Order, obstacle
from ...operators.core.quoting import identifier, writable
from ...operators.core.sizes import fixed_row_bytes
from ...operators.duckdb.sql_text import BadStatementError, StatementReads, names_of, reads_of, schema_of, unended
from ...proto.errors import ExecutionError
from ...proto.graph import (
    ONLY_STREAM,
    Aggregate,
    ByKey,
    Count,
    Distinct,
    Input,
    Join,
    JoinType,
    Measure,
    MeasureFunction,
    Sort,
    Spread,
    SqlNode,
    StockNode,
)
from .sql_growth import growth
from .steps import MergeStep, SqlStep, over_inputs, relation

Schemas = Mapping[str, pa.Schema]

_JOINS: Final = {
    JoinType.INNER: "INNER JOIN",
    JoinType.LEFT: "LEFT JOIN",
    JoinType.RIGHT: "RIGHT JOIN",
    JoinType.FULL: "FULL JOIN",
    JoinType.SEMI: "SEMI JOIN",
    JoinType.ANTI: "ANTI JOIN",
}
_ONE_SIDE: Final = frozenset({JoinType.SEMI, JoinType.ANTI})


class Wrong(Exception):
    """A use of columns that does not fit the schemas: the reason and the message of a `Problem`."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


def sql_step(node: SqlNode, schemas: Schemas) -> SqlStep:
    """The step of an SQL node. Raises `Wrong`."""
    reads = _reads(node.statement)
    known = {stream.name.casefold(): stream.name for stream in node.inputs}
    there = ", ".join(known.values())
    for name in reads.relations:
        if name not in known:
            raise Wrong(
                "UNKNOWN_STREAM", f"its statement reads {name!r}, and there is no stream {name!r}; there are: {there}"
            )
    for folded, name in known.items():
        if folded not in reads.relations:
            raise Wrong("UNREAD", f"its statement does not read stream {name!r}: leave the stream out")
    what = " ".join(node.statement.split())
    return _step(node.name, node.inputs, unended(node.statement), schemas, f"SQL {what}", node.channels, reads)


def stock_steps(node: StockNode, schemas: Schemas, unused: Callable[[str], str]) -> Iterator[SqlStep | MergeStep]:
    """The steps of an operation, of which the last has the node's name; `unused` makes a name that no other step has.
    Raises `Wrong`.
    """
    match node.operation:
        case Join():
            yield _join(node, node.operation, schemas)
        case Aggregate():
            yield _aggregate(node, node.operation, schemas)
        case Distinct():
            yield _distinct(node, node.operation, schemas)
        case Sort(first=None):
            yield from _sort(node, node.operation, schemas, unused)
        case Sort():
            yield from _twice(node, schemas, unused, _sorted(node, node.operation, schemas), None)
        case Count():
            rows, total = (f'SELECT {count}::BIGINT AS count FROM "rows"' for count in ("count(*)", "sum(count)"))
            yield from _twice(node, schemas, unused, (rows, "count"), (total, "sum of the channels' counts"))
        case _:
            assert_never(node.operation)


# ------------------------------------------------------------------------------------------------------ operations


def _join(node: StockNode, join: Join, schemas: Schemas) -> SqlStep:
    left, right = (schemas[stream.source] for stream in node.inputs)
    _check(left, [one for one, _ in join.keys], "left")
    _check(right, [other for _, other in join.keys], "right")
    columns = [f"l.{identifier(name)}" for name in left.names]
    row_numbers = [("l", _not_in("place", left))]
    if join.type not in _ONE_SIDE:
        columns = list(_joined(join, left, right))
        row_numbers.append(("r", _not_in("place", right)))
    equal = " AND ".join(f"l.{identifier(one)} = r.{identifier(other)}" for one, other in join.keys)
    statement = f"SELECT {', '.join(columns)} FROM {{}} AS l {_JOINS[join.type]} {{}} AS r ON ({equal})"
    placed = [
        f'(SELECT *, row_number() OVER () AS {identifier(number)} FROM "{side}")'
        for side, (_, number) in zip(("left", "right"), [*row_numbers, ("r", "place")], strict=False)
    ]
    order = ", ".join(f"{side}.{identifier(number)} NULLS LAST" for side, number in row_numbers)
    pairs = " and ".join(one if one == other else f"{one} = {other}" for one, other in join.keys)
    step = _step(
        node.name,
        _keyed(node, list(zip(*join.keys, strict=True))),
        statement.format('"left"', '"right"'),
        schemas,
        f"{join.type.value} join by {pairs}",
        node.channels,
    )
    ordered = f"{statement.format(*placed)} ORDER BY {order}"
    return replace(step, ordered=over_inputs(ordered, [stream.name for stream in node.inputs], [left, right]))


def _joined(join: Join, left: pa.Schema, right: pa.Schema) -> Iterator[str]:
    """The columns of both sides; a key with the same name on both sides is there once."""
    same = {one for one, other in join.keys if one == other}
    of_left = set(left.names)
    for name in left.names:
        quoted = identifier(name)
        match join.type:
            case JoinType.RIGHT if name in same:
                yield f"r.{quoted} AS {quoted}"
            case JoinType.FULL if name in same:
                yield f"coalesce(l.{quoted}, r.{quoted}) AS {quoted}"
            case _:
                yield f"l.{quoted} AS {quoted}"
    for name in right.names:
        if name in same:
            continue
        if name in of_left:
            raise Wrong(
                "DUPLICATE_COLUMN",
                f"both streams have a column {name!r} that is not a key of both: rename the column in one of them "
                "first",
            )
        yield f"r.{identifier(name)} AS {identifier(name)}"


def _aggregate(node: StockNode, aggregate: Aggregate, schemas: Schemas) -> SqlStep:
    schema = schemas[node.inputs[0].source]
    _check(schema, aggregate.keys, ONLY_STREAM)
    _check(schema, [measure.column for measure in aggregate.measures if measure.column is not None], ONLY_STREAM)
    keys = [identifier(key) for key in aggregate.keys]
    measures = [f"{_measured(measure, schema)} AS {identifier(measure.name)}" for measure in aggregate.measures]
    grouped = f" GROUP BY {', '.join(keys)}" if keys else ""
    inputs = _keyed(node, [aggregate.keys])
    sql = f'SELECT {", ".join([*keys, *measures])} FROM "rows"{grouped}'
    by = f" by {', '.join(aggregate.keys)}" if keys else ""
    what = ", ".join(
        f"{measure.name} = {measure.function.value}({measure.column or ''})" for measure in aggregate.measures
    )
    return _step(node.name, inputs, sql, schemas, f"aggregate{by}: {what}" if what else f"aggregate{by}", node.channels)


def _measured(measure: Measure, schema: pa.Schema) -> str:
    if measure.column is None:
        return "count(*)::BIGINT"
    column, type_ = identifier(measure.column), schema.field(measure.column).type
    match measure.function:
        case MeasureFunction.COUNT:
            return f"count({column})::BIGINT"
        case MeasureFunction.COUNT_DISTINCT:
            return f"count(DISTINCT {column})::BIGINT"
        case MeasureFunction.SUM:
            return f"sum({column})::BIGINT" if kinds.is_integer(type_) else f"sum({column})"
        case MeasureFunction.MEAN:
            return f"avg({column})"
        case MeasureFunction.MIN | MeasureFunction.MAX:
            return f"{measure.function.value}({column})"
        case _:
            assert_never(measure.function)


def _distinct(node: StockNode, distinct: Distinct, schemas: Schemas) -> SqlStep:
    schema = schemas[node.inputs[0].source]
    columns = tuple(schema.names) if distinct.columns is None else distinct.columns
    _check(schema, columns, ONLY_STREAM)
    sql = f'SELECT DISTINCT {", ".join(map(identifier, columns))} FROM "rows"'
    return _step(node.name, _keyed(node, [columns]), sql, schemas, f"distinct {', '.join(columns)}", node.channels)


def _sort(node: StockNode, sort: Sort, schemas: Schemas, unused: Callable[[str], str]) -> Iterator[SqlStep | MergeStep]:
    sql, what = _sorted(node, sort, schemas)
    if node.channels == 1:
        yield _step(node.name, node.inputs, sql, schemas, what, 1)
        return
    schema = schemas[node.inputs[0].source]
    for key, _ in sort.keys:
        wrong = obstacle(schema.field(key).type)
        if wrong is not None:
            raise Wrong("UNSUPPORTED_TYPE", f"the node cannot sort by {key!r} on several channels: {wrong}")
    first = _step(unused(f"{node.name}.channels"), node.inputs, sql, schemas, what, node.channels)
    yield first
    order = tuple(Order(column=schema.names.index(key), descending=descending) for key, descending in sort.keys)
    yield MergeStep(name=node.name, source=first.name, order=order)


def _sorted(node: StockNode, sort: Sort, schemas: Schemas) -> tuple[str, str]:
    schema = schemas[node.inputs[0].source]
    keys = [key for key, _ in sort.keys]
    _check(schema, keys, ONLY_STREAM)
    by = ", ".join(f"{identifier(key)} {'DESC' if down else 'ASC'} NULLS LAST" for key, down in sort.keys)
    limit = "" if sort.first is None else f" LIMIT {sort.first:d}"
    sort_keys = ", ".join(f"{key} descending" if down else key for key, down in sort.keys)
    what = f"sort by {sort_keys}" if sort.first is None else f"first {sort.first:,} by {sort_keys}"
    return f'SELECT * FROM "rows" ORDER BY {by}{limit}', what


def _twice(
    node: StockNode,
    schemas: Schemas,
    unused: Callable[[str], str],
    each_channel: tuple[str, str],
    together: tuple[str, str] | None,
) -> Iterator[SqlStep]:
    """One statement on each channel and, if there are several channels, one over their results (the same statement if
    `together` is None).
    """
    sql, what = each_channel
    if node.channels == 1:
        yield _step(node.name, node.inputs, sql, schemas, what, 1)
        return
    first = _step(unused(f"{node.name}.channels"), node.inputs, sql, schemas, what, node.channels)
    yield first
    sql, what = together or each_channel
    second = Input(name=ONLY_STREAM, source=first.name)
    yield _step(node.name, (second,), sql, {first.name: first.schema}, what, 1)


# -------------------------------------------------------------------------------------------------------- in common


def _step(
    name: str,
    inputs: Sequence[Input],
    statement: str,
    by_source: Schemas,
    what: str,
    channels: int,
    reads: StatementReads | None = None,
) -> SqlStep:
    schemas = [by_source[stream.source] for stream in inputs]
    for stream, schema in zip(inputs, schemas, strict=True):
        unnamed = next((column for column in (stream.name, *schema.names) if not writable(column)), None)
        if unnamed is not None:
            raise Wrong("UNNAMED", f"stream {stream.name!r}: {unnamed!r} cannot be written as a name in SQL")
        if not len(schema):
            raise Wrong("NO_COLUMNS", f"stream {stream.name!r} has no columns, and SQL has no tables without columns")
        _check_apart(f"stream {stream.name!r} has", schema.names)
    sql = over_inputs(statement, [stream.name for stream in inputs], schemas)
    try:
        schema = schema_of(sql, {relation(at): schema for at, schema in enumerate(schemas)})
        known = {stream.name: schema for stream, schema in zip(inputs, schemas, strict=True)}
        _check_apart("its rows have", names_of(statement, known))
    except BadStatementError as error:
        raise Wrong("BAD_STATEMENT", str(error)) from error
    except ExecutionError as error:
        raise Wrong("UNSUPPORTED_TYPE", error.message) from error
    return SqlStep(
        name=name,
        inputs=tuple(inputs),
        sql=sql,
        replayed=tuple(reads is not None and not reads.once(stream.name) for stream in inputs),
        schema=schema,
        what=what,
        channels=channels,
        growth=_growth(reads, known) if reads is not None and reads.makes else 0,
    )


def _growth(reads: StatementReads, by_stream: Schemas) -> int:
    """The bytes that a statement makes of a byte of a row."""
    variable = {
        name: [column.name for column in schema if fixed_row_bytes(pa.schema([column])) is None]
        for name, schema in by_stream.items()
    }
    return growth(reads.query, variable)


def _reads(statement: str) -> StatementReads:
    try:
        return reads_of(statement)
    except BadStatementError as error:
        raise Wrong("BAD_STATEMENT", str(error)) from error


def _keyed(node: StockNode, keys: Sequence[Sequence[str]]) -> tuple[Input, ...]:
    """The node's inputs, dealt by these columns of each if there are several channels."""
    if node.channels == 1:
        return node.inputs
    return tuple(
        replace(stream, partition=ByKey(tuple(columns)) if columns else Spread())
        for stream, columns in zip(node.inputs, keys, strict=True)
    )


def _check(schema: pa.Schema, columns: Sequence[str], stream: str) -> None:
    there = ", ".join(schema.names)
    for column in columns:
        if schema.names.count(column) > 1:
            raise Wrong("UNKNOWN_COLUMN", f"stream {stream!r}: several of the columns {there} are called {column!r}")
        if column not in schema.names:
            raise Wrong("UNKNOWN_COLUMN", f"stream {stream!r}: there is no column {column!r}; there are: {there}")


def _check_apart(what: str, names: Sequence[str]) -> None:
    """Refuses names that DuckDB takes for one: DuckDB would rename one of the columns, or read one for the other."""
    seen: dict[str, str] = {}
    for name in names:
        other = seen.get(name.casefold())
        if other is not None:
            alike = (
                f"two columns {name!r}"
                if other == name
                else f"columns {other!r} and {name!r}, which are the same name in SQL"
            )
            raise Wrong("DUPLICATE_COLUMN", f"{what} {alike}: give one of the columns another name")
        seen[name.casefold()] = name


def _not_in(name: str, schema: pa.Schema) -> str:
    """A name like this one that no column has."""
    taken = {column.casefold() for column in schema.names}
    while name in taken:
        name += "_"
    return name
