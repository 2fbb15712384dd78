"""Fragment: a relational subtree that DuckDB runs as one statement.

Order: in a strict task, the same rows in the same order for the same pieces and streams, whatever batches they come in;
else the statement's own order. Memory: the instance bounds DuckDB's. A result is read lazily, in batches of 65,536
rows, unless its inputs bound it to few rows. Where hash joins may not fit in memory, `spill` says how a strict fragment
runs. It then holds the rows of its streams in memory, up to a sixteenth of the instance's, and the rest in the
instance's temp folder, up to its spill limit. Barrier: nothing but the plan is kept from one epoch to the next. Closing
the output closes the inputs and stops reading files.

A statement over streams alone whose result is small is planned once and executed per epoch. A statement whose result
may be large is read lazily, which plans it again (`plans` counts). A statement that reads files is planned for each
epoch.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from contextlib import closing, suppress
from math import prod

import duckdb
import pyarrow as pa

from ...proto.arrow.spill_buffer import SpillRoom
from ...proto.errors import ExecutionError, InternalError, TidegateError
from ...proto.values import Spill
from ..core.interrupts import interrupted
from ..core.operator import Operator, Stream
from ..core.piece import Piece
from ..core.sizes import BATCH_BYTES, batch_bytes, fixed_row_bytes, rows_within
from ..core.small_parts import PART_BYTES
from ..core.wide_rows import wide_bytes
from ..kernels import SMALL_ROWS, Kernels
from ..sources import file_reads
from ..sources.file_reads import FileReads
from ..sources.file_relations import FileSource
from ..sources.statement_files import StatementFiles
from . import builds, failures
from .canonical_order import in_canonical_order
from .conform import Conform
from .duckdb_calls import BATCH_ROWS, estimate_progress, hand_on_at_once
from .held import limited_room
from .instances import Instance
from .long_values import LongValues
from .loop_resources import Later, LoopBound, LoopWatch, counted, never
from .statement import FETCHED_BYTES, Ordered, Statement
from .statement_functions import StatementFunctions
from .statement_inputs import ContextInput, ContextSource, FragmentInput, StreamSource, long_bytes, passing_rows

_SMALL_BYTES = 8 << 20
#: The rows that are handed out at once where rows behind the first ones may be wider.
_TEXT_ROWS = 16_384
#: The rows that are handed out at once where expressions may make them wide: a batch costs some microseconds.
_MADE_ROWS = 32
#: Inputs that are held so that their rows may be fetched at once take one part in so many of the instance's memory.
_FETCHED_SHARE = 8
#: The long values beside a statement may take one part in so many of the instance's memory before they go to disk.
_LONG_SHARE = 16


class Fragment(Operator):
    """A fragment. `run` takes one stream per entry of `streams`, in order; `assign` takes the pieces of each of
    `files`. A `lazy` fragment takes rows one by one, in order, and reads its inputs only as its own rows are wanted: it
    is neither executed at once nor cut into blocks. A `row_wise` fragment makes its rows of one row each of its only
    stream, in order: it is executed block by block.

    A fragment without an `ordered` form refuses joins that do not fit. `loops` are those that the statement recurses
    in. The long values of streams that the statement does not look at are kept beside it, and come out in the columns
    `long`. With `loop_seconds` the statement must give its first row by then, or `later` interrupts it. Where the
    statement's rows are those of the loop `result`, in any order, the fragment counts them and gives them in canonical
    order; rows beyond an eighth of the instance's memory spill.
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
        long: Sequence[int] = (),
        loop_seconds: float = 0.0,
        later: Later = never,
        kernels: Kernels | None = None,
        plan_path: str = "",
    ) -> None:
        self.schema = schema
        self._instance = instance
        self._strict = strict
        self._ordered = ordered
        self._spill = Spill.ERROR if ordered is None else spill
        self._plan_path = plan_path
        self._sources = tuple(streams)
        self._files = StatementFiles(files, plan_path)
        self._by_blocks = row_wise and not lazy and not files and [stream.replayed for stream in streams] == [False]
        are_cut = strict and not lazy and not self._by_blocks  # a row that is made of one row depends on no cut
        look, memory = self._stop_if_interrupted, self._memory
        self._inputs = tuple(
            FragmentInput(s, strict=are_cut, check=look, memory=memory, plan_path=plan_path) for s in streams
        )
        self._context = None if context is None else ContextInput(context)
        self._conform = Conform(schema, plan_path)
        self._result = result
        self._long = tuple(long)
        self._beside: LongValues | None = None
        in_blocks = self._by_blocks and kernels is not None and kernels.pay_at_any_size
        self._kernels = None if in_blocks else kernels
        self._block_kernels = kernels if in_blocks else None
        self._watch = LoopWatch(loops, seconds=loop_seconds, later=later, interrupt=self.interrupt)
        self._reads = file_reads.NOTHING
        self._connection = instance.connect()
        threads = instance.settings.threads
        self._functions = StatementFunctions(
            sql, self._connection, memory=self._memory, threads=threads, check=look, plan_path=plan_path
        )
        try:
            if files:
                estimate_progress(self._connection)
            if any(stream.may_be_wide for stream in streams):
                hand_on_at_once(self._connection)
            self._statement = Statement(
                self._functions.named(sql),
                instance=instance,
                connection=self._connection,
                streams=tuple(zip(self._sources, self._inputs, strict=True)),
                files=self._files.sources,
                context=None if context is None or self._context is None else (context.relation, self._context),
                lazy=lazy,
                row_wise=self._by_blocks,
                recursive_columns=max((loop.columns for loop in loops), default=0),
            )
        except BaseException as error:
            self.close()
            if isinstance(error, failures.ENGINE_ERRORS):
                raise failures.translate(error, plan_path, self._memory) from error
            raise

    @property
    def plans(self) -> int:
        """The number of times that DuckDB has planned the statement."""
        return self._statement.planned

    @property
    def reads(self) -> FileReads:
        """The reads of files by the last run, which has ended or was closed."""
        return self._reads

    def assign(self, source: str, pieces: Sequence[Piece]) -> None:
        """Set the pieces of `source` in the next epoch. `native_obstacle` must be None for them."""
        self._files.assign(source, pieces)

    def assign_to(self, relation: str, pieces: Sequence[Piece]) -> None:
        """Set the pieces of one of several relations over the same source."""
        self._files.assign_to(relation, pieces)

    def set_context(self, row: pa.RecordBatch) -> None:
        """Set the one row of the context relation in the next epochs."""
        if self._context is None:
            raise InternalError(f"{self._plan_path}: the fragment has no context")
        self._context.set(row)

    def run(self, inputs: Sequence[Stream]) -> Iterator[pa.RecordBatch]:
        if len(inputs) != len(self._inputs):
            raise InternalError(f"{self._plan_path}: {len(inputs)} inputs for {len(self._inputs)} streams")
        self._interrupted = False
        self._reads = file_reads.NOTHING
        return self._run(inputs)

    def interrupt(self) -> None:
        """Stop the statement, and the reading of its inputs at their next batch. The call may miss a statement that is
        just about to start: call again until `run` has ended.
        """
        super().interrupt()
        with suppress(duckdb.Error):  # closed meanwhile
            self._connection.interrupt()

    def share(self) -> float | None:
        """DuckDB's estimate of the share of the running statement that is done, from 0 to 1; None where none runs. Any
        thread may call it.
        """
        with suppress(duckdb.Error):  # closed meanwhile
            done = self._connection.query_progress()
            return min(done / 100, 1.0) if done >= 0 else None
        return None

    def close(self) -> None:
        self._functions.close()
        self._instance.disconnect(self._connection)

    def _run(self, inputs: Sequence[Stream]) -> Iterator[pa.RecordBatch]:
        files, given_out = self._files, 0
        has_files = bool(files.all_pieces)
        self._watch.begin()
        try:
            self._begin(inputs)
            counted = files.open(self._instance.read_log)
            if has_files:
                self._statement.count(counted)
            with closing(self._rows()) as rows, closing(self._finished(rows)) as finished:
                for batch in finished:
                    self._watch.end()
                    given_out += batch.num_rows
                    yield batch
            self._check_read()
        except failures.ENGINE_ERRORS as error:
            raise self._cause(error) from error
        except GeneratorExit as exit_:
            if given_out and not self._interrupted and not failures.follows_error(exit_):
                self._check_read()  # the rows so far are kept
            raise
        finally:
            self._watch.end()
            self._reads = files.reads(self._statement.profile, given_out)
            files.close()
            for relation in self._inputs:
                relation.end()
            if self._beside is not None:
                self._beside.close()

    def _check_read(self) -> None:
        """Raise where a stream failed when it was closed, or a page that was read differs from its checksum."""
        for relation in self._inputs:
            if relation.failure is not None:
                raise relation.failure
        self._files.check(self._stop_if_interrupted)

    def _finished(self, rows: Iterator[pa.RecordBatch]) -> Generator[pa.RecordBatch]:
        if self._result is None:
            return self._conformed(rows)
        batches = counted(self._result, self._conformed(rows))
        return in_canonical_order(batches, self.schema, self._memory // 8, self._spill_room())

    def _conformed(self, rows: Iterator[pa.RecordBatch]) -> Generator[pa.RecordBatch]:
        passing = passing_rows(self._memory)
        for batch in rows:
            self._stop_if_interrupted()
            passing.add_bytes(wide_bytes(batch) if self._by_blocks else batch_bytes(batch))
            for part in (batch,) if self._beside is None else self._beside.restored(batch, self._long):
                if part.num_rows:
                    yield self._conform(part)

    def _begin(self, inputs: Sequence[Stream]) -> None:
        for relation, stream in zip(self._inputs, inputs, strict=True):
            relation.begin(stream)
        if any(source.long for source in self._sources):
            self._put_long_values_aside()
        if self._context is not None and not self._context.is_set:
            raise InternalError(f"{self._plan_path}: the fragment runs without its context row")

    def _put_long_values_aside(self) -> None:
        room, most = self._spill_room(), self._memory // _LONG_SHARE
        long = long_bytes(self._inputs, sum(len(source.long) for source in self._sources), self._memory)
        self._beside = LongValues(most, room, self._stop_if_interrupted, long=long)
        for relation in self._inputs:
            relation.put_aside(self._beside)

    def _rows(self) -> Generator[pa.RecordBatch]:
        """The statement's rows: fetched, streamed, run to the end first, or in order. Sizes alone decide which."""
        self._stop_if_interrupted()
        if self._kernels is not None and (computed := self._computed(self._kernels)) is not None:
            return (batch for batch in (computed,))
        if self._by_blocks:
            return self._block_by_block(*self._inputs)
        if not self._joins():
            return self._fetched() if self._is_small() else self._streamed(*self._bound(), last=True)
        if self._fits():
            return self._fetched() if self._is_small() else self._guarded()
        return self._in_order() if self._spill is Spill.ORDERED else self._checked()

    def _computed(self, kernels: Kernels) -> pa.RecordBatch | None:
        """The rows by kernels; None where there are too many rows, or the kernels decline."""
        [relation] = self._inputs
        rows = relation.whole(SMALL_ROWS, _SMALL_BYTES, self._spill_room)
        return None if rows is None else kernels.of(rows)

    def _joins(self) -> bool:
        """True where hash joins may decide the order of the rows."""
        known = self._statement.joins if self._strict else False
        if self._result is not None and self._ordered is not None and self._ordered.builds is False:
            return False  # the joins of the loop's steps decide nothing: the loop's rows are sorted
        if known is None and self._ordered is not None:
            known = self._ordered.builds  # planning a statement over files takes as long as thousands of rows
        if known is not None:
            return known
        if not self._inputs and self._files.size(builds.row_bytes) <= builds.harmless(self._memory):
            return True  # so few rows that asking DuckDB would cost more than the guard against large joins
        return self._statement.explained_joins(*self._bound())

    def _fits(self) -> bool:
        """True where no builds made of the inputs can be too large. The rows of streams are held to find out."""
        most = builds.harmless(self._memory)
        size = self._files.size(builds.row_bytes)
        room = self._spill_room()
        for relation in self._inputs:
            size += relation.hold(most - size, room)
        return size <= most

    def _spill_room(self) -> SpillRoom:
        return limited_room(self._instance.temp_folder, self._instance.settings.spill_limit, self._out_of_room)

    def _out_of_room(self) -> TidegateError:
        return self._watch.named(failures.out_of_memory(self._plan_path, self._memory))

    def _block_by_block(self, relation: FragmentInput) -> Generator[pa.RecordBatch]:
        for block in relation.one_by_one():
            computed = None if self._block_kernels is None else self._block_kernels.of(block)
            yield from self._in_parts(relation, block) if computed is None else (computed,)

    def _in_parts(self, relation: FragmentInput, block: pa.RecordBatch) -> Generator[pa.RecordBatch]:
        """The rows that are made of a block's rows; of fewer rows at once, where they are too large."""
        parts = [block]
        while parts:
            part = parts.pop()
            relation.hand_out(part)
            try:
                yield from self._fetched()
            except failures.ENGINE_ERRORS:
                if self._functions.failure is None or part.num_rows == 1:
                    raise
                half = part.num_rows // 2
                parts += (part.slice(half), part.slice(0, half))

    def _is_small(self) -> bool:
        """True where the rows can be fetched at once. The rows of streams are held to find out."""
        if not self._statement.prepared:
            return False
        size, room, most = 0, self._spill_room(), min(FETCHED_BYTES, self._memory // _FETCHED_SHARE)
        for relation in self._inputs:
            size += relation.hold(most - size, room)
        return size <= most and not (
            self._functions.counting and prod(max(relation.held_rows, 1) for relation in self._inputs) > BATCH_ROWS
        )

    def _fetched(self) -> Generator[pa.RecordBatch]:
        self._functions.begin(in_all=True)
        yield from self._statement.execute()

    def _streamed(self, sql: str, values: Sequence[object], *, last: bool = False) -> Generator[pa.RecordBatch]:
        room = self._spill_room()
        for relation in self._inputs:
            relation.hold(0, room)  # the first rows, which tell how wide they are
            if last:
                relation.read_last()
        self._functions.begin(in_all=False)
        rows = self._statement.stream(sql, values, self._batch_rows())
        return self._functions.gathered(rows) if self._functions.counting else rows

    def _batch_rows(self) -> int:
        """The number of rows to hand out at once: a row may be made of one row of each input."""
        if any(source.growth for source in self._sources):
            return rows_within(PART_BYTES, self._input_row_bytes(), _TEXT_ROWS)
        fixed = fixed_row_bytes(self.schema)
        most = _MADE_ROWS if self._functions.counting else BATCH_ROWS if fixed is not None else _TEXT_ROWS
        widest = max(fixed or 0, self._files.widest_bytes, self._input_row_bytes())
        return rows_within(BATCH_BYTES, widest, most)

    def _bound(self) -> tuple[str, tuple[object, ...]]:
        return self._statement.bound(self._files.pieces, self._files.paths)

    def _checked(self) -> Generator[pa.RecordBatch]:
        """The rows, handed out only once the profile has shown that the joins' builds were not too large."""
        if self._spill is Spill.AUTO:
            for relation in self._inputs:
                relation.keep()
        self._functions.begin(in_all=False)
        with self._statement.executed(*self._bound(), self._batch_rows) as (profile, rows):
            excess = builds.excess(profile, self._memory, self._input_row_bytes())
            if excess is None:
                yield from rows
                return
        yield from self._rather_in_order(excess)

    def _guarded(self) -> Generator[pa.RecordBatch]:
        """The rows, under the assumption that the files are too small for large builds. Where that is wrong, it mostly
        shows before the first row; after the first row it is an error.
        """
        excess: builds.Excess | None = None
        with closing(self._streamed(*self._bound())) as rows:
            for number, batch in enumerate(rows):
                held = self._instance.hash_table_bytes()
                if held > builds.bound(self._memory):
                    excess = builds.Excess(held)
                    if number:
                        raise self._too_large(excess)
                    break
                yield batch
        if excess is not None:
            yield from self._rather_in_order(excess)

    def _rather_in_order(self, excess: builds.Excess) -> Generator[pa.RecordBatch]:
        """The rows in the ordered form, in place of rows that were not handed out."""
        if self._spill is Spill.ERROR:
            raise self._too_large(excess)
        return self._in_order()

    def _in_order(self) -> Generator[pa.RecordBatch]:
        if self._ordered is None:
            raise InternalError(f"{self._plan_path}: the fragment has no ordered form")
        for relation in self._inputs:
            relation.read_again()
        return self._streamed(
            *self._statement.bound(self._files.pieces, self._files.paths, self._functions.named(self._ordered.sql))
        )

    def _too_large(self, excess: builds.Excess) -> ExecutionError:
        return builds.too_large(excess, self._memory, self._plan_path, self._ordered.joins if self._ordered else ())

    @property
    def _memory(self) -> int:
        return self._instance.settings.memory_limit

    def _input_row_bytes(self) -> int:
        """About the bytes of a row that consists of one row of every input, by the rows seen so far."""
        return self._files.row_bytes + sum(relation.row_bytes for relation in self._inputs)

    def _interruption(self) -> TidegateError:
        """The error of an interruption, by a loop that takes too long or from outside."""
        return self._watch.overdue() or interrupted(self._plan_path)

    def _cause(self, error: BaseException) -> BaseException:
        """The cause of an error: a stream's failure, a bad file, or the statement itself."""
        for relation in self._inputs:
            if relation.failure is not None:
                return relation.failure
        if self._interrupted:
            return self._interruption()
        if failures.is_of_signal(error):
            return KeyboardInterrupt()
        if self._functions.failure is not None:
            return self._functions.failure
        loop = self._watch.cause(error)
        if loop is not None:
            return loop
        if failures.is_fatal(error):
            self._instance.broken = True
        is_blamed = failures.may_be_a_file(error)
        if is_blamed and (blamed := self._files.bad_file(self._stop_if_interrupted)) is not None:
            return blamed
        return self._watch.named(
            failures.translate(error, self._plan_path, self._memory, self._files.named(failures.text_of(error)))
        )
