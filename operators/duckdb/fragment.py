"""Fragment: a relational subtree that DuckDB runs as one statement.

Order: strict, the same rows in the same order for the same pieces and streams, whatever batches they come in; the
statement's own otherwise. Memory: DuckDB's is the instance's; a result is read lazily, in batches of 65,536 rows,
unless its inputs bound it to few rows. Where hash joins may not fit in it, `spill` says what a strict fragment does;
the rows of its streams are then held in memory, up to a sixteenth of the instance's, and beyond that in its temp
folder, up to its spill limit. Barrier: nothing is kept from one epoch to the next but the plan. Closing the
output closes the inputs and stops reading files.

A statement over streams alone is planned once and executed per epoch where its result is small; where it may be
large it is read lazily, which plans it again (`plans` counts). One that reads files is planned for each epoch.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from contextlib import closing, suppress
from typing import Protocol

import duckdb
import pyarrow as pa

from ...proto.errors import ExecutionError, InternalError, SplitError, TidegateError
from ...proto.values import Spill
from ..core.operator import Operator, Stream
from ..core.piece import FilePiece, Piece
from ..core.sizes import BATCH_BYTES, fixed_row_bytes, rows_within
from ..kernels import SMALL_ROWS, Kernels
from ..sources import file_reads
from ..sources.file_reads import FileReads
from ..sources.file_relations import FileSource
from ..sources.file_versions import HeldFiles
from ..sources.page_checks import check_read, is_nearly_all
from ..sources.scan import Scan
from . import builds, failures
from .canonical_order import in_canonical_order
from .conform import Conform
from .duckdb_calls import BATCH_ROWS, estimate_progress
from .held import SpillRoom
from .instances import Instance
from .loop_bounds import Later, LoopBound, LoopWatch, counted, never
from .statement import FETCHED_BYTES, Statement
from .statement_inputs import ContextInput, ContextSource, FragmentInput, StreamSource

_SMALL_BYTES = 8 << 20
#: How many rows are handed out at once where what follows the first of them may be wider.
_TEXT_ROWS = 16_384


class Ordered(Protocol):
    """The ordered form of a statement: the same rows of the same inputs, in an order that its joins do not decide.
    `joins` says where in the plan they are; `builds` whether DuckDB builds hash tables for them, None where it has to
    be asked. Those of a loop's steps are none of them where its rows are the statement's.
    """

    @property
    def sql(self) -> str: ...

    @property
    def joins(self) -> tuple[str, ...]: ...

    @property
    def builds(self) -> bool | None: ...


class Fragment(Operator):
    """`run` takes one stream per entry of `streams`, in order; `assign` the pieces of each of `files`. One that is
    `lazy` takes rows one by one, in order, and reads its inputs only as its own rows are asked for: they are neither
    executed at once nor cut into blocks. One that is `row_wise` makes its rows of one row each of its only stream, in
    order: it is executed block by block.

    Without an `ordered` form there is nothing to do about joins that do not fit but to refuse them. `loops` are those
    that the statement recurses in; with `loop_seconds` its first row must be there by then, or `later` interrupts it.
    Where the statement's rows are those of the loop `result`, in any order, they are counted here and come out in
    canonical order: those that are more than an eighth of the instance's memory spill.
    """

    def __init__(
        self,
        sql: str,
        *,
        schema: pa.Schema,
        instance: Instance,
        streams: Sequence[StreamSource] = (),
        files: Sequence[FileSource] = (),
        context: ContextSource | None = None,
        strict: bool = True,
        ordered: Ordered | None = None,
        spill: Spill = Spill.AUTO,
        lazy: bool = False,
        row_wise: bool = False,
        loops: Sequence[LoopBound] = (),
        result: LoopBound | None = None,
        loop_seconds: float = 0.0,
        later: Later = never,
        kernels: Kernels | None = None,
        place: str = "",
    ) -> None:
        self.schema = schema
        self._instance = instance
        self._strict = strict
        self._ordered = ordered
        self._spill = Spill.ERROR if ordered is None else spill
        self._place = place
        self._sources = tuple(streams)
        self._files = tuple(files)
        self._pieces: dict[str, tuple[FilePiece, ...]] = {file.relation: () for file in files}
        self._inputs = tuple(
            FragmentInput(s, strict=strict and not lazy, check=self._stop_if_interrupted) for s in streams
        )
        self._context = None if context is None else ContextInput(context)
        self._conform = Conform(schema, place)
        self._result = result
        self._kernels = kernels
        self._by_blocks = row_wise and not lazy and not files and [each.replayed for each in streams] == [False]
        self._interrupted = False
        self._watch = LoopWatch(loops, seconds=loop_seconds, later=later, interrupt=self.interrupt)
        self._reads = file_reads.NOTHING
        self._held = HeldFiles(())
        self._connection = instance.connect()
        try:
            if files:
                estimate_progress(self._connection)
            self._statement = Statement(
                sql,
                engine=instance.engine,
                connection=self._connection,
                streams=tuple(zip(self._sources, self._inputs, strict=True)),
                files=self._files,
                context=None if context is None or self._context is None else (context.relation, self._context),
                lazy=lazy,
                row_wise=self._by_blocks,
                recursive_columns=max((loop.columns for loop in loops), default=0),
            )
        except BaseException as error:
            self.close()
            if isinstance(error, failures.ENGINE_ERRORS):
                raise failures.translate(error, place, self._memory) from error
            raise

    @property
    def plans(self) -> int:
        """How often DuckDB has planned the statement."""
        return self._statement.planned

    @property
    def reads(self) -> FileReads:
        """What the last run, which has ended or was closed, has read of its files."""
        return self._reads

    def assign(self, source: str, pieces: Sequence[Piece]) -> None:
        """What `source` has in the next epoch. Only pieces that `native_obstacle` has nothing against."""
        relations = [file.relation for file in self._files if file.source == source]
        if not relations:
            raise InternalError(f"{self._place}: the fragment does not read {source!r}")
        for relation in relations:
            self.assign_to(relation, pieces)

    def assign_to(self, relation: str, pieces: Sequence[Piece]) -> None:
        """What one of several relations over the same source has."""
        files = tuple(piece for piece in pieces if isinstance(piece, FilePiece))
        if len(files) != len(pieces):
            raise InternalError(f"{self._place}: {relation!r} has pieces that are not files")
        self._pieces[relation] = files

    def set_context(self, row: pa.RecordBatch) -> None:
        """The one row of the context relation in the next epochs."""
        if self._context is None:
            raise InternalError(f"{self._place}: the fragment has no context")
        self._context.set(row)

    def run(self, inputs: Sequence[Stream]) -> Iterator[pa.RecordBatch]:
        if len(inputs) != len(self._inputs):
            raise InternalError(f"{self._place}: {len(inputs)} inputs for {len(self._inputs)} streams")
        self._interrupted = False
        self._reads = file_reads.NOTHING
        return self._run(inputs)

    def interrupt(self) -> None:
        """Stops the statement, and the reading of its inputs at their next batch. A statement that is just about to
        start may be missed: call again until `run` has ended.
        """
        self._interrupted = True
        with suppress(duckdb.Error):  # closed meanwhile
            self._connection.interrupt()

    def share(self) -> float | None:
        """How much of the statement that runs is done, from 0 to 1, as DuckDB estimates it; None where none runs. From
        any thread.
        """
        with suppress(duckdb.Error):  # closed meanwhile
            done = self._connection.query_progress()
            return min(done / 100, 1.0) if done >= 0 else None
        return None

    def close(self) -> None:
        self._instance.disconnect(self._connection)

    def _run(self, inputs: Sequence[Stream]) -> Iterator[pa.RecordBatch]:
        files = [piece for pieces in self._pieces.values() for piece in pieces]
        counted = file_reads.worth_counting(files)
        given_out = 0
        self._watch.begin()
        try:
            self._begin(inputs)
            self._held = HeldFiles(files)
            if files:
                self._statement.count(counted)
            with closing(self._rows()) as rows, closing(self._finished(rows)) as finished:
                for batch in finished:
                    self._watch.end()
                    given_out += batch.num_rows
                    yield batch
            self._check_pages(files, self._counts(files, counted=counted, given_out=given_out))
            self._held.check()
        except failures.ENGINE_ERRORS as error:
            raise self._cause(error) from error
        finally:
            self._watch.end()
            self._reads = self._counts(files, counted=counted, given_out=given_out)
            self._held.close()
            for relation in self._inputs:
                relation.end()

    def _check_pages(self, files: Sequence[FilePiece], reads: FileReads) -> None:
        if is_nearly_all(reads, files):
            for file in self._files:
                check_read(self._pieces[file.relation], file.columns, self._held, self._stop_if_interrupted)

    def _finished(self, rows: Iterator[pa.RecordBatch]) -> Generator[pa.RecordBatch]:
        if self._result is None:
            return self._conformed(rows)
        found = counted(self._result, self._conformed(rows))
        return in_canonical_order(found, self.schema, self._memory // 8, self._spill_room())

    def _conformed(self, rows: Iterator[pa.RecordBatch]) -> Generator[pa.RecordBatch]:
        for batch in rows:
            self._stop_if_interrupted()
            if batch.num_rows:
                yield self._conform(batch)

    def _counts(self, files: Sequence[FilePiece], *, counted: bool, given_out: int) -> FileReads:
        if not files:
            return file_reads.NOTHING
        if self._statement.profile is not None:
            return file_reads.profiled(self._statement.profile, files, self._held.paths)
        columns = min(len(file.columns) for file in self._files)
        return file_reads.stopped(files, given_out, columns) if counted else file_reads.whole(files)

    def _begin(self, inputs: Sequence[Stream]) -> None:
        for relation, stream in zip(self._inputs, inputs, strict=True):
            relation.begin(stream)
        if self._context is not None and not self._context.is_set:
            raise InternalError(f"{self._place}: the fragment runs without its context row")

    def _rows(self) -> Generator[pa.RecordBatch]:
        """Fetched, streamed, run to the end first, or in order: chosen by sizes alone."""
        self._stop_if_interrupted()
        if self._kernels is not None and (found := self._computed(self._kernels)) is not None:
            return (batch for batch in (found,))
        if self._by_blocks:
            return self._block_by_block(*self._inputs)
        if not self._joins():
            return self._fetched() if self._is_small() else self._streamed(*self._bound())
        if self._fits():
            return self._fetched() if self._is_small() else self._guarded()
        return self._in_order() if self._spill is Spill.ORDERED else self._checked()

    def _computed(self, kernels: Kernels) -> pa.RecordBatch | None:
        """By kernels, where the rows are few and these do not decline."""
        [relation] = self._inputs
        rows = relation.whole(SMALL_ROWS, _SMALL_BYTES, self._spill_room())
        return None if rows is None else kernels.of(rows)

    def _joins(self) -> bool:
        """Whether hash joins may decide the order of its rows."""
        known = self._statement.joins if self._strict else False
        if self._result is not None and self._ordered is not None and self._ordered.builds is False:
            return False  # those of its steps decide nothing: its rows are sorted
        if known is None and self._ordered is not None:
            known = self._ordered.builds  # planning a statement over files takes as long as thousands of rows
        if known is not None:
            return known
        if not self._inputs and self._file_bytes() <= builds.harmless(self._memory):
            return True  # so few rows that asking DuckDB would cost more than what is done about joins
        return self._statement.explained_joins(*self._bound())

    def _fits(self) -> bool:
        """Whether no builds made of its inputs can be too large. The rows of streams are held to find out."""
        most = builds.harmless(self._memory)
        size = self._file_bytes()
        room = self._spill_room()
        for relation in self._inputs:
            size += relation.hold(most - size, room)
        return size <= most

    def _spill_room(self) -> SpillRoom:
        return SpillRoom(self._instance.temp_folder, self._instance.settings.spill_limit, self._out_of_room)

    def _out_of_room(self) -> TidegateError:
        return self._watch.named(failures.out_of_memory(self._place, self._memory))

    def _block_by_block(self, relation: FragmentInput) -> Generator[pa.RecordBatch]:
        for _ in relation.one_by_one():
            yield from self._statement.execute()

    def _is_small(self) -> bool:
        """Whether its rows can be fetched at once. The rows of streams are held to find out."""
        if not self._statement.prepared:
            return False
        size, room = 0, self._spill_room()
        for relation in self._inputs:
            size += relation.hold(FETCHED_BYTES - size, room)
        return size <= FETCHED_BYTES

    def _fetched(self) -> Generator[pa.RecordBatch]:
        yield from self._statement.execute()

    def _streamed(self, sql: str, values: Sequence[object]) -> Generator[pa.RecordBatch]:
        room = self._spill_room()
        for relation in self._inputs:
            relation.hold(0, room)  # the first rows, which tell how wide they are
        return self._statement.stream(sql, values, self._batch_rows())

    def _batch_rows(self) -> int:
        """How many rows to hand out at once: a row may be made of one of each input."""
        fixed = fixed_row_bytes(self.schema)
        most = BATCH_ROWS if fixed is not None else _TEXT_ROWS
        return rows_within(BATCH_BYTES, max(fixed or 0, self._input_row_bytes()), most)

    def _bound(self) -> tuple[str, tuple[object, ...]]:
        return self._statement.bound(self._pieces, self._held.paths)

    def _checked(self) -> Generator[pa.RecordBatch]:
        """Rows are seen only once the profile has shown that their joins' builds were not too large."""
        if self._spill is Spill.AUTO:
            for relation in self._inputs:
                relation.keep()
        with self._statement.executed(*self._bound(), self._batch_rows) as (profile, rows):
            found = builds.excess(profile, self._memory, self._input_row_bytes())
            if found is None:
                yield from rows
                return
        yield from self._rather_in_order(found)

    def _guarded(self) -> Generator[pa.RecordBatch]:
        """The files are taken to be too small for large builds. Where they turn out not to be, it is mostly known
        before the first row; after that it is an error.
        """
        found: builds.Excess | None = None
        with closing(self._streamed(*self._bound())) as rows:
            for number, batch in enumerate(rows):
                held = self._instance.hash_table_bytes()
                if held > builds.bound(self._memory):
                    found = builds.Excess(held)
                    if number:
                        raise self._too_large(found)
                    break
                yield batch
        if found is not None:
            yield from self._rather_in_order(found)

    def _rather_in_order(self, found: builds.Excess) -> Generator[pa.RecordBatch]:
        """Instead of rows that nobody has seen."""
        if self._spill is Spill.ERROR:
            raise self._too_large(found)
        return self._in_order()

    def _in_order(self) -> Generator[pa.RecordBatch]:
        if self._ordered is None:
            raise InternalError(f"{self._place}: the fragment has no ordered form")
        for relation in self._inputs:
            relation.read_again()
        return self._streamed(*self._statement.bound(self._pieces, self._held.paths, self._ordered.sql))

    def _too_large(self, found: builds.Excess) -> ExecutionError:
        return builds.too_large(found, self._memory, self._place, self._ordered.joins if self._ordered else ())

    @property
    def _memory(self) -> int:
        return self._instance.settings.memory_limit

    def _file_bytes(self) -> int:
        """About what all files' rows take in memory, rather too many."""
        total = 0
        for file in self._files:
            width = builds.row_bytes([column.type for column in file.columns])
            total += sum(max((p.row_count or 0) * width, p.byte_count or 0) for p in self._pieces[file.relation])
        return total

    def _input_row_bytes(self) -> int:
        """About what a row that has one row of every input in it takes, as seen."""
        total = sum(relation.row_bytes for relation in self._inputs)
        for pieces in self._pieces.values():
            rows = sum(piece.row_count or 0 for piece in pieces)
            total += sum(piece.byte_count or 0 for piece in pieces) // max(rows, 1)
        return total

    def _stop_if_interrupted(self) -> None:
        if self._interrupted:
            raise self._interruption()

    def _interruption(self) -> TidegateError:
        """Whoever notices it first, the statement or the reading of its inputs: a loop's that takes too long, or
        somebody's from outside.
        """
        return self._watch.overdue() or failures.interrupted(self._place)

    def _cause(self, error: BaseException) -> BaseException:
        """Whose fault it is: a stream's, a file's, or the statement's."""
        for relation in self._inputs:
            if relation.failure is not None:
                return relation.failure
        if self._interrupted:
            return self._interruption()
        loop = self._watch.cause(error)
        if loop is not None:
            return loop
        if failures.is_fatal(error):
            self._instance.broken = True
        if failures.may_be_a_file(error):
            blamed = self._bad_file()
            if blamed is not None:
                return blamed
        return self._watch.named(failures.translate(error, self._place, self._memory, self._held.named(str(error))))

    def _bad_file(self) -> SplitError | None:
        """Read the files the slow way, which says what is wrong where."""
        for file in self._files:
            scan = Scan(file.source, file.columns)
            scan.assign(file.source, self._pieces[file.relation])
            try:
                for _ in scan.run(()):
                    self._stop_if_interrupted()
            except SplitError as error:
                return error
        return None
