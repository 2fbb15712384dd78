"""Freed memory goes back to the system before a statement takes all that it may, and while its rows come out."""

from collections.abc import Iterator
from types import SimpleNamespace
from unittest.mock import Mock

import numpy as np
import pyarrow as pa
import pytest

from tidegate.operators.core import wide_rows
from tidegate.operators.core.streams import BatchStream
from tidegate.operators.duckdb import statement_inputs
from tidegate.operators.duckdb.fragment import Fragment
from tidegate.operators.duckdb.instances import Instance
from tidegate.operators.duckdb.statement_inputs import StreamSource
from tidegate.operators.sources import files_ahead
from tidegate.operators.sources.files_ahead import FilesAhead, FreedAhead

X = pa.schema([("x", pa.int64())])
BATCHES, ROWS = 6, 65_536


def sorted_run(instance: Instance, events: list[str]) -> None:
    """A sort of three megabytes."""

    def batches() -> Iterator[pa.RecordBatch]:
        for at in range(BATCHES):
            events.append("in")
            yield pa.record_batch({"x": np.arange(at * ROWS, (at + 1) * ROWS)})

    source = StreamSource(relation="in0", schema=X, size_class=10**8)
    fragment = Fragment("SELECT c0 FROM in0 ORDER BY c0 DESC", schema=X, instance=instance, streams=[source])
    rows = 0
    for batch in fragment.run([BatchStream(X, batches())]):
        events.append("out")
        rows += batch.num_rows
    assert rows == BATCHES * ROWS
    fragment.close()


@pytest.mark.parametrize(("every", "gives_back"), [(1 << 20, True), (64 << 20, False)])
def test_a_statement_that_holds_its_rows_gives_back_before_and_while_they_come_out(
    instance: Instance, monkeypatch: pytest.MonkeyPatch, every: int, gives_back: bool
) -> None:
    events: list[str] = []
    monkeypatch.setattr(wide_rows, "give_back", lambda: events.append("back"))
    monkeypatch.setattr(statement_inputs, "_PASSING_BYTES", every)
    sorted_run(instance, events)
    if not gives_back:
        assert "back" not in events
        return
    first, last = events.index("out"), len(events) - 1 - events[::-1].index("in")
    assert events[last + 1 : first].count("back") >= 1, "behind the last row that goes in"
    assert events[:last].count("back") >= 2
    assert events[first:].count("back") >= 2


def test_a_statement_of_one_row_after_the_other_keeps_the_memory_of_narrow_rows(
    instance: Instance, monkeypatch: pytest.MonkeyPatch
) -> None:
    events: list[str] = []
    monkeypatch.setattr(wide_rows, "give_back", lambda: events.append("back"))
    monkeypatch.setattr(statement_inputs, "_PASSING_BYTES", 2 << 20)
    source = StreamSource(relation="in0", schema=X, size_class=10**8)
    fragment = Fragment("SELECT c0 + 1 FROM in0", schema=X, instance=instance, streams=[source], row_wise=True)
    narrow = pa.record_batch({"x": np.arange(BATCHES * ROWS)})
    assert sum(batch.num_rows for batch in fragment.run([BatchStream(X, [narrow])])) == narrow.num_rows
    assert events == []
    fragment.close()


@pytest.mark.parametrize(("memory", "times"), [(256 << 20, 7), (4 << 30, 0)])
def test_a_thread_that_reads_ahead_releases_what_the_caller_has_freed(
    monkeypatch: pytest.MonkeyPatch, memory: int, times: int
) -> None:
    """After so many bytes, and at the end of the file; where there is much memory, fresh memory would cost more."""
    released: list[str] = []
    pool = SimpleNamespace(release_unused=lambda: released.append("released"))
    monkeypatch.setattr(files_ahead, "pa", SimpleNamespace(default_memory_pool=lambda: pool))
    numbers = (number for number in range(24))

    room = FilesAhead(Mock(), 32 << 20, FreedAhead(memory))
    file = files_ahead._FileAhead(numbers, lambda _: 8 << 20, room)
    read: list[int | None] = []
    while None not in read:
        file._fill()  # on this thread
        read += [file.next() for _ in range(max(len(file._read), 1))]
    assert read == [*range(24), None]
    assert len(released) == times
