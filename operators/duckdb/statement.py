"""A fragment's SQL on its connection: registered inputs, kept plans, and the values that are bound for each epoch."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import closing, contextmanager
from math import prod
from typing import Protocol

import pyarrow as pa

from ..core.piece import FilePiece
from ..core.quoting import identifier
from ..sources.file_relations import FileSource, define
from . import builds, failures
from .duckdb_calls import Connection, Engine, Relation, batches_of
from .instances import Instance
from .statement_functions import StatementFunctions
from .statement_inputs import ContextInput, ContextSource, FragmentInput, StreamSource

#: Rows that are fetched at once lie in memory that DuckDB does not count, even for blocking statements and streamed
#: results of EXECUTE. 10M groups of 48 bytes under a memory limit of 100 MB peaked at 694 MB by EXECUTE, fetched as a
#: table or read as a stream, and at 216 MB read lazily (10M rows of 32 bytes passed on: 420 and 118 MB). The number of
#: groups is unknown before, and planning again costs half a millisecond. So rows are fetched at once only where no
#: input has more rows than this, ...
FETCHED_INPUT = 1_000_000
#: ... and the rows of all inputs multiplied are no more than this, ...
FETCHED_ROWS = 10_000_000
#: ... and all inputs together have no more bytes than this: a sort, for one, gives as many back.
FETCHED_BYTES = 32 << 20
#: A recursion of several columns may make far more rows than it reads, often all pairs of values, so none of its inputs
#: may be larger than this. A recursion of a single column only copies values that it has read.
FETCHED_RECURSIVE = 1_000

_PREPARED = "fragment"
_RESULT = "fragment result"
_STREAM_SUFFIX = " stream"


class Ordered(Protocol):
    """The ordered form of a statement: the same rows of the same inputs, in an order that its joins do not decide.
    `joins` are the joins' plan paths. `builds` says whether DuckDB builds hash tables for them, None where DuckDB has
    to be asked. The joins of a loop's steps do not count where the loop's rows are the statement's.
    """

    @property
    def sql(self) -> str: ...

    @property
    def joins(self) -> tuple[str, ...]: ...

    @property
    def builds(self) -> bool | None: ...


class Statement:
    """A statement on a connection. `recursive_columns` are the columns of that loop of the statement that has most of
    them.

    `planned` counts how often DuckDB planned the statement. `joins` says whether it builds hash tables for joins, where
    that is known before its files are. `profile` is the profile of its last run, if that run was counted and has ended.
    A `row_wise` statement is executed for each block.
    """

    def __init__(
        self,
        sql: str,
        *,
        instance: Instance,
        connection: Connection,
        streams: Sequence[tuple[StreamSource, FragmentInput]],
        files: Sequence[FileSource],
        context: tuple[str, Relation] | None,
        lazy: bool = False,
        row_wise: bool = False,
        recursive_columns: int = 0,
    ) -> None:
        self.planned = 0
        self.profile: str | None = None
        self._counted = False
        self._instance = instance
        self._engine = engine = instance.engine
        self._connection = connection
        self._files = tuple(files)
        self._reads_late = True
        self._text = sql
        self._replayed = register(engine, connection, streams, context)
        self._sql = with_definitions(sql, self._replayed)
        sources = [source for source, _ in streams]
        most = FETCHED_RECURSIVE if recursive_columns > 1 else FETCHED_INPUT
        self.prepared = not files and not lazy and (row_wise or _is_small(sources, most))
        self.joins: bool | None = None
        if not files:
            run = self._sql
            if self.prepared:
                self._begin_planning()
                engine.prepare(connection, _PREPARED, self._sql)
                self.planned += 1
                run = engine.prepared(_PREPARED, self._sql)  # the kept plan is explained: DuckDB does not plan again
            self.joins = self.explained_joins(run, ())

    def bound(
        self, pieces: Mapping[str, Sequence[FilePiece]], paths: Mapping[str, str], sql: str | None = None
    ) -> tuple[str, tuple[object, ...]]:
        """The statement over these files, opened by these paths, and its values; or those of another statement, `sql`,
        over the same inputs.
        """
        definitions: list[str] = []
        values: list[object] = []
        self._reads_late = True
        for file in self._files:
            definition = define(file, pieces[file.relation], len(values) + 1, paths)
            definitions.append(definition.sql)
            values.extend(definition.values)
            self._reads_late &= not definition.positioned
        return with_definitions(sql or self._text, [*definitions, *self._replayed]), tuple(values)

    def explained_joins(self, sql: str, values: Sequence[object]) -> bool:
        self._begin_planning()
        row = self._connection.execute(f"EXPLAIN (FORMAT JSON) {sql}", list(values) or None).fetchone()
        return builds.has_hash_join(row[1] if row else "[]")

    def execute(self) -> Sequence[pa.RecordBatch]:
        """All rows at once, by the kept plan."""
        if not self._engine.prepares:
            self.planned += 1
        return self._engine.execute(self._connection, _PREPARED, self._sql)

    def count(self, counted: bool) -> None:
        """Set whether the next runs leave a profile."""
        self.profile = None
        if counted is not self._counted:
            self._connection.execute("SET enable_profiling = 'no_output'" if counted else "RESET enable_profiling")
            self._counted = counted

    def stream(self, sql: str, values: Sequence[object], rows: int) -> Generator[pa.RecordBatch]:
        """The statement's rows, read lazily in batches of so many rows. Closing the iterator stops the statement and
        closes its inputs.
        """
        self._begin_planning()
        self.planned += 1
        with closing(batches_of(self._engine.stream(self._connection, sql, values, rows))) as batches:
            yield from batches
        if self._counted:
            self.profile = self._connection.get_profiling_information("json")

    @contextmanager
    def executed(
        self, sql: str, values: Sequence[object], rows: Callable[[], int]
    ) -> Generator[tuple[str, Iterable[pa.RecordBatch]]]:
        """Run the statement to its end. The context gives its profile and its rows, in batches of so many rows, as long
        as it lasts.
        """
        table = identifier(_RESULT)
        run = f"EXPLAIN (ANALYZE, FORMAT JSON) CREATE OR REPLACE TEMP TABLE {table} AS {sql}"
        self._begin_planning()
        self.planned += 1
        try:
            row = self._connection.execute(run, list(values) or None).fetchone()
            profile = self.profile = row[1] if row else "{}"
            reader = self._engine.stream(self._connection, f"SELECT * FROM {table}", (), rows())
            with closing(reader):
                yield profile, reader
        finally:
            self._connection.execute(f"DROP TABLE IF EXISTS {table}")

    def _begin_planning(self) -> None:
        """Settle how the instance plans the statement. Call it last before the statement is planned: the inputs are
        other statements of the instance.
        """
        self._instance.tune_for(self._text)
        if self._files:
            self._instance.read_late(self._reads_late)


def register(
    engine: Engine,
    connection: Connection,
    streams: Sequence[tuple[StreamSource, FragmentInput]],
    context: tuple[str, Relation] | None,
) -> list[str]:
    """Register the inputs of a statement on the connection. Return the definitions of those that are read more than
    once.
    """
    for source, relation in streams:
        engine.register(connection, _registered(source), relation)
    if context is not None:
        engine.register(connection, context[0], context[1])
    return [_materialized(source) for source, _ in streams if source.replayed]


def refusal(instance: Instance, sql: str, streams: Sequence[StreamSource], context: ContextSource | None) -> str | None:
    """DuckDB's reason to refuse the statement, whatever its streams hold; None if DuckDB takes it. DuckDB plans the
    statement and does not run it.
    """
    connection = instance.connect()
    memory = instance.settings.memory_limit
    functions = StatementFunctions(sql, connection, memory=memory, threads=1, check=_go_on)
    inputs = [(s, FragmentInput(s, strict=False, check=_go_on, memory=memory, plan_path="")) for s in streams]
    clock = None if context is None else (context.relation, ContextInput(context))
    try:
        definitions = register(instance.engine, connection, inputs, clock)
        instance.tune_for(sql)
        instance.engine.prepare(connection, "trial", with_definitions(functions.named(sql), definitions))
    except failures.ENGINE_ERRORS as error:
        instance.broken = instance.broken or failures.is_fatal(error)
        return failures.sentence(failures.text_of(error))
    finally:
        functions.close()
        instance.disconnect(connection)
    return None


def failure(instance: Instance, values: Sequence[str]) -> str | None:
    """DuckDB's reason why one of these constant expressions has no value; None if all have one."""
    connection = instance.connect()
    try:
        connection.execute(f"SELECT {', '.join(values)}").fetchall()
    except failures.ENGINE_ERRORS as error:
        instance.broken = instance.broken or failures.is_fatal(error)
        return failures.sentence(failures.text_of(error))
    finally:
        instance.disconnect(connection)
    return None


def _go_on() -> None:
    """Lets a stream go on: no stream is read to plan a statement."""


def with_definitions(sql: str, definitions: Sequence[str]) -> str:
    """`sql`, which has no WITH in front, over these common table expressions."""
    return f"WITH {', '.join(definitions)} {sql}" if definitions else sql


def _is_small(streams: Sequence[StreamSource], most: int) -> bool:
    sizes = [max(stream.size_class, 1) for stream in streams for _ in range(2 if stream.replayed else 1)]
    return max(sizes, default=1) <= most and prod(sizes) <= FETCHED_ROWS


def _registered(source: StreamSource) -> str:
    return source.relation + _STREAM_SUFFIX if source.replayed else source.relation


def _materialized(source: StreamSource) -> str:
    return f"{identifier(source.relation)} AS MATERIALIZED (SELECT * FROM {identifier(_registered(source))})"
