"""ORC files are decoded in processes of their own: what ends one is the file's error, and none is left over."""

from __future__ import annotations

import os
import random
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import orc

from tidegate.operators.core.interrupts import Watch, looking
from tidegate.operators.core.piece import Piece
from tidegate.operators.sources.formats import orc_readers
from tidegate.operators.sources.formats.orc_frames import MEMORY
from tidegate.operators.sources.scan import Scan
from tidegate.proto.errors import ExecutionError, SplitError

from . import damaged
from .damaged_tables import narrow
from .data import column, pieces_of

ROWS = 200_000
COLUMNS = [column("k", pa.int64())]


def large(root: Path, first: int = 0) -> list[Piece]:
    """Pieces of a file of more rows than a socket holds."""
    path = root / f"{first}.orc"
    orc.write_table(pa.table({"k": range(first, first + ROWS)}), path)
    return pieces_of(path, root)


def reading(pieces: list[Piece]) -> Iterator[pa.RecordBatch]:
    scan = Scan("t", COLUMNS)
    scan.assign("t", pieces)
    return scan.run(())


def values(batches: Iterator[pa.RecordBatch]) -> list[int]:
    return [value for batch in batches for value in batch["k"].to_pylist()]


def test_a_file_that_ends_the_library_is_unreadable_and_the_next_one_is_read(root: Path) -> None:
    path, rows = root / "f.orc", narrow(np.random.default_rng(7))
    orc.write_table(rows, path)
    path.write_bytes(damaged.damaged(path.read_bytes(), random.Random(21_223)))
    columns = [column(field.name, field.type) for field in rows.schema]
    scan = Scan("t", columns)
    with pytest.raises(SplitError, match=r"f\.orc \(.*cannot be read as orc: ") as refused:
        _read(scan, path, root)
    assert refused.value.reason == "FILE_UNREADABLE"
    assert values(reading(large(root))) == list(range(ROWS))


def _read(scan: Scan, path: Path, root: Path) -> None:
    scan.assign("t", pieces_of(path, root))
    list(scan.run(()))


def test_a_file_that_ends_each_process_is_blamed(
    root: Path, started: list[subprocess.Popen[bytes]], monkeypatch: pytest.MonkeyPatch
) -> None:
    pieces = large(root)
    orc_readers.processes.close()
    real = orc_readers.ReaderProcess.read

    def read(process: orc_readers.ReaderProcess, *request: Any) -> Iterator[pa.RecordBatch]:
        started[-1].kill()
        yield from real(process, *request)

    monkeypatch.setattr(orc_readers.ReaderProcess, "read", read)
    with pytest.raises(SplitError, match=r"0\.orc .*ended by SIGKILL") as refused:
        list(reading(pieces))
    assert refused.value.reason == "FILE_UNREADABLE"


def test_a_process_that_is_killed_in_the_middle_is_replaced(root: Path, started: list[subprocess.Popen[bytes]]) -> None:
    pieces = large(root)
    orc_readers.processes.close()
    batches = reading(pieces)
    first = next(batches)
    started[-1].kill()
    assert values(iter([first])) + values(batches) == list(range(ROWS))


def test_a_file_is_not_blamed_where_its_process_had_another_one_before(
    root: Path, started: list[subprocess.Popen[bytes]]
) -> None:
    batches = reading(large(root))
    first = next(batches)
    assert len(started) == 1
    if sys.platform == "linux":  # a process starts in half the time without pandas, which pyarrow would import
        assert "/pandas/" not in Path(f"/proc/{started[0].pid}/maps").read_text()
    started[0].kill()
    assert values(iter([first])) + values(batches) == list(range(ROWS))
    assert len(started) == 2


def test_a_process_that_died_idle_is_replaced(root: Path, started: list[subprocess.Popen[bytes]]) -> None:
    pieces = large(root)
    started[0].kill()
    assert values(reading(pieces)) == list(range(ROWS))


def test_files_that_are_read_in_turn_have_a_process_each(root: Path, started: list[subprocess.Popen[bytes]]) -> None:
    one, other = reading(large(root)), reading(large(root, ROWS))
    both = [(a["k"][0].as_py(), b["k"][0].as_py()) for a, b in zip(one, other, strict=True)]
    assert len(both) > 1
    assert all(b == a + ROWS for a, b in both)
    assert len(started) == 2


def test_one_process_reads_file_after_file(root: Path, started: list[subprocess.Popen[bytes]]) -> None:
    for first in range(3):
        assert values(reading(large(root, first))) == list(range(first, first + ROWS))
    assert len(started) == 1


def test_a_reader_that_stops_early_ends_its_process(root: Path, started: list[subprocess.Popen[bytes]]) -> None:
    with closing(reading(large(root))) as batches:  # type: ignore[type-var]
        next(batches)
        assert started[0].poll() is None
    assert started[0].poll() == -signal.SIGKILL


def test_a_cancellation_ends_a_process_that_does_not_answer(root: Path, started: list[subprocess.Popen[bytes]]) -> None:
    batches = reading(large(root))
    next(batches)
    started[0].send_signal(signal.SIGSTOP)

    def cancelled() -> None:
        raise ExecutionError("cancelled", reason="INTERRUPTED")

    with looking(Watch(cancelled)), pytest.raises(ExecutionError, match="cancelled"):
        list(batches)
    assert started[0].poll() == -signal.SIGKILL


def test_a_process_has_a_bound_on_its_memory(root: Path, started: list[subprocess.Popen[bytes]]) -> None:
    large(root)
    soft, _ = resource.prlimit(started[0].pid, resource.RLIMIT_AS)
    size = int(Path(f"/proc/{started[0].pid}/statm").read_text().split()[0]) * resource.getpagesize()
    assert size < soft < size + MEMORY


def test_a_process_that_cannot_be_started_is_not_the_files_error(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pieces = large(root)
    orc_readers.processes.close()
    monkeypatch.setattr(orc_readers.sys, "executable", "/bin/false")
    with pytest.raises(ExecutionError, match="the process that reads ORC files cannot be started") as failed:
        values(reading(pieces))
    assert failed.value.reason == "NO_READER_PROCESS"


LEFT = """
import os, sys
from pathlib import Path
from tests.operators import test_orc_processes as tests
root = Path(sys.argv[1])
batches = tests.reading(tests.large(root))
next(batches)
children = [Path(f"/proc/self/task/{task}/children").read_text() for task in os.listdir("/proc/self/task")]
print("".join(children), flush=True)
os.kill(os.getpid(), 9)
"""


def test_processes_end_with_the_one_that_started_them(root: Path) -> None:
    command = [sys.executable, "-c", LEFT, str(root)]
    ended = subprocess.run(command, capture_output=True, text=True, cwd=Path(__file__).parents[2], check=False)
    assert ended.returncode == -signal.SIGKILL, ended.stderr
    left = [int(word) for word in ended.stdout.split()]
    assert left
    assert _in_time(lambda: not any(_is_running(process) for process in left))


def _in_time(true: Callable[[], bool]) -> bool:
    end = time.monotonic() + 30
    while not true():
        if time.monotonic() > end:
            return False
        time.sleep(0.01)
    return True


def _is_running(process: int) -> bool:
    try:
        return " Z " not in Path(f"/proc/{process}/stat").read_text()
    except OSError:
        return False


def test_a_copy_of_this_process_starts_its_own(root: Path, started: list[subprocess.Popen[bytes]]) -> None:
    pieces = large(root)
    copy = os.fork()
    if not copy:
        try:
            rows = values(reading(pieces))
            os._exit(0 if rows == list(range(ROWS)) and len(started) == 2 else 1)
        finally:
            os._exit(2)
    assert os.waitpid(copy, 0)[1] == 0
    assert values(reading(pieces)) == list(range(ROWS))
    assert len(started) == 1
