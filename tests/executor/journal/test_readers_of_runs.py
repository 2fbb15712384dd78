"""Several readers of a task whose epochs get other rows, against a model: random reads, acknowledgements, restarts.

Each row says in which life of the service it was computed, or by which version of the engine. The model knows all rows
that an epoch has had. A reader keeps its rows with its cursor. One keeps no cursor, and acknowledges what it has.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import pyarrow as pa
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from tidegate.proto.arrow.without_rows import no_rows
from tidegate.proto.encoding import messages
from tidegate.proto.encoding.flight_messages import frame_batches, read_frame
from tidegate.proto.encoding.frames import decode_frames, encode_frames
from tidegate.proto.errors import OutOfRange, TaskFailed
from tidegate.proto.tidegate.v1 import tasks_pb2 as pb
from tidegate.proto.values import START, Barrier, Cursor, Data, Determinism, Frame, after

from ...searching import tries
from ..fakes import POISON, SCHEMA, FakeEngine
from .restarts import Restarts

VALUES: Final = st.lists(st.integers(0, 9), min_size=2, max_size=5)


def over_grpc(frames: Sequence[Frame]) -> Sequence[Frame]:
    return decode_frames(encode_frames(frames), SCHEMA)


def over_flight(frames: Sequence[Frame]) -> Sequence[Frame]:
    return [read_frame(*part) for frame in frames for part in frame_batches(frame, no_rows(SCHEMA))]


def sent(cursor: Cursor) -> Cursor:
    return messages.cursor_value(pb.Cursor.FromString(messages.cursor_message(cursor).SerializeToString()))


@dataclass
class Reader:
    """A reader's rows of an epoch, the first of which is row `first`, and the cursor behind them."""

    received: Callable[[Sequence[Frame]], Sequence[Frame]]
    cursor: Cursor = START
    first: int = 0
    rows: list[int] = field(default_factory=list)

    def go_to(self, cursor: Cursor) -> None:
        self.cursor, self.first, self.rows = cursor, cursor.row, []


class Readers(RuleBasedStateMachine):
    @initialize(relaxed=st.booleans(), keeps_cursors=st.booleans())
    def start(self, relaxed: bool, keeps_cursors: bool) -> None:
        memory = Path("/dev/shm")
        folder = tempfile.mkdtemp(prefix="tidegate-test-", dir=memory if memory.is_dir() else None)
        self.relaxed, self.keeps_cursors = relaxed, keeps_cursors
        self.mark = 0
        self.service = Restarts(Path(folder), FakeEngine(function=self.marked(0)))
        self.task = self.service.create(
            determinism=Determinism.RELAXED if relaxed else Determinism.STRICT, max_pending_epochs=1_000
        )
        self.epochs: list[dict[int, int]] = []
        """The value of each split of each epoch."""
        self.known: list[list[list[int]]] = []
        """All rows that each epoch has had."""
        self.readers = [Reader(received) for received in (list, over_grpc, over_flight)]
        self.without_cursor = Reader(list)

    def teardown(self) -> None:
        if hasattr(self, "service"):
            self.service.close()

    def marked(self, mark: int) -> Callable[[pa.RecordBatch], pa.RecordBatch]:
        return lambda batch: pa.record_batch(
            [[value + 100 * mark for value in batch.column(0).to_pylist()]], schema=SCHEMA
        )

    def now(self, epoch: int) -> list[int]:
        """The rows of an epoch that the task computes now."""
        return [value + 100 * self.mark for value in self.epochs[epoch - 1].values()]

    def note(self) -> None:
        for epoch in range(1, len(self.epochs) + 1):
            if self.now(epoch) not in self.known[epoch - 1]:
                self.known[epoch - 1].append(self.now(epoch))

    # ------------------------------------------------------------------------------------------------ the rules

    @rule(values=VALUES)
    def feed(self, values: list[int]) -> None:
        self.epochs.append({self.task.add(value).sequence: value for value in values})
        self.task.seal()
        self.known.append([])
        self.note()

    @rule(version=st.integers(0, 2), flushed=st.booleans())
    def kill(self, version: int, flushed: bool) -> None:
        """A strict task gets other rows of another version alone."""
        if flushed:
            self.service.durable.flush()
        self.service.kill()
        self.mark = self.mark + 1 if self.relaxed else version
        self.service.engine.function = self.marked(self.mark)
        self.service.engine.versions = lambda: {"engine": str(version)}  # type: ignore[method-assign]
        self.service.start()
        self.task = self.service.attach(self.task)
        self.note()

    @precondition(lambda self: self.epochs)
    @rule(data=st.data())
    def leave_a_split_out(self, data: st.DataObject) -> None:
        """The task fails of a split behind all others, and goes on without it, and perhaps without another one."""
        poison = self.task.add(POISON).sequence
        self.task.seal()
        self.epochs.append({poison: POISON})
        self.known.append([[]])
        with pytest.raises(TaskFailed):
            self.task.epoch(len(self.epochs))
        first = self.task.info().acknowledged.epoch
        skip = [(epoch, number) for epoch in range(first, len(self.epochs)) for number in self.epochs[epoch - 1]]
        left_out = [(len(self.epochs), poison)]
        if skip and data.draw(st.booleans()):
            left_out.append(data.draw(st.sampled_from(skip)))
        self.mark += self.relaxed
        self.service.engine.function = self.marked(self.mark)
        for epoch, number in left_out:
            del self.epochs[epoch - 1][number]
        self.service.manager.recover_task(self.task.id, [("a", number) for _, number in left_out])
        self.note()

    @precondition(lambda self: self.epochs)
    @rule(which=st.integers(0, 2), times=st.integers(1, 4), acknowledges=st.booleans())
    def read(self, which: int, times: int, acknowledges: bool) -> None:
        for _ in range(times):
            reader = self.readers[which]
            if reader.cursor.epoch > len(self.epochs):
                return
            self.step(reader)
        if acknowledges and self.keeps_cursors:
            self.acknowledge(reader)

    @precondition(lambda self: self.epochs and not self.keeps_cursors)
    @rule(times=st.integers(1, 3))
    def read_without_a_cursor(self, times: int) -> None:
        """A program that starts again where it has acknowledged, with the rows that it has."""
        reader = self.without_cursor
        reader.cursor = self.task.info().acknowledged
        for _ in range(times):
            if reader.cursor.epoch <= len(self.epochs):
                self.step(reader)
        self.acknowledge(reader)
        self.service.durable.flush()  # else a kill may forget it, and the rows come again

    def step(self, reader: Reader) -> None:
        """Read a row or a barrier, or begin the epoch again. All rows that the reader has of it are of one run."""
        try:
            frames = reader.received(self.task.at(sent(reader.cursor), max_bytes=1))
        except OutOfRange as error:
            if error.reason not in ("EPOCH_RESTARTED", "CURSOR_OUT_OF_RANGE"):
                raise
            again = error.reason == "EPOCH_RESTARTED" and "read from row 0" in str(error)
            reader.go_to(Cursor(reader.cursor.epoch) if again else self.task.info().acknowledged)
            return
        known = self.known[reader.cursor.epoch - 1]
        for frame in frames:
            match frame:
                case Data():
                    reader.rows += [value for some in frame.batches for value in some.column(0).to_pylist()]
                    reader.cursor = after(frame, reader.cursor)
                    assert any(rows[reader.first : reader.cursor.row] == reader.rows for rows in known)
                case Barrier():
                    assert any(rows[reader.first :] == reader.rows for rows in known)
                    assert frame.rows == reader.first + len(reader.rows)
                    reader.go_to(after(frame, reader.cursor))

    def acknowledge(self, reader: Reader) -> None:
        """Acknowledge what a reader has. It may be told here, too, that it has rows of another run."""
        try:
            self.service.manager.acknowledge(self.task.id, sent(reader.cursor))
        except OutOfRange as error:
            if error.reason != "EPOCH_RESTARTED":
                raise


Readers.TestCase.settings = settings(max_examples=tries(15), stateful_step_count=30)
TestReaders = Readers.TestCase
