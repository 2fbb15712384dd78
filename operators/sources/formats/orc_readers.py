"""Processes that decode ORC, kept by this one: started when the first file comes, a file at a time in each.

A process whose file is not read to its end is ended with it.

Where a process ends by itself, another one reads the file again from its beginning, fewer rows at a time: all of them
may have taken more than the memory for them, or another file may have damaged the process before. The file is blamed
where it is the only file that the process had, and one row at a time was read.
"""

from __future__ import annotations

import atexit
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Final

import pyarrow as pa

from ....proto.arrow.validation import validated, validated_schema
from ....proto.errors import ExecutionError
from ...core.interrupts import look
from ...core.machine import usable_cpus
from ...core.sizes import BATCH_BYTES, fixed_row_bytes, rows_within
from .format import BATCH_ROWS
from .orc_frames import DESCRIPTION, OUT_OF_MEMORY, Kind, receive, send
from .row_ranges import within

_MODULE: Final = "tidegate.operators.sources.formats.orc_process"
#: NumPy comes with Arrow, and is not called. Only the system's allocator gives memory back at once.
_SETTINGS: Final = {"OPENBLAS_NUM_THREADS": "1", "ARROW_DEFAULT_MEMORY_POOL": "system", "ARROW_IO_THREADS": "1"}
_LOOK_MILLISECONDS: Final = 50
_KEPT: Final = max(usable_cpus(), 2)
_ALL: Final = 1 << 62
_FEWER: Final = 64
#: About the bytes of rows that are decoded at once: the library takes ten times as much.
_DECODED_BYTES: Final = BATCH_BYTES // 2


class Ended(pa.ArrowInvalid):  # type: ignore[misc]
    """The process ended, or sent what it never should, while it had the file."""


class OutOfMemory(Ended):
    """The process ended because the file takes more than the memory for it."""


class ReaderProcess:
    """A process and the socket to it. It `is_ready` while it does nothing, and `is_new` up to its second file."""

    def __init__(self) -> None:
        self.is_ready = False
        self.is_new = True
        own, theirs = socket.socketpair()
        self._socket = own
        try:
            with theirs:
                self._process = subprocess.Popen(  # noqa: S603 (nothing of it is from outside)
                    [sys.executable, "-P", "-m", _MODULE],
                    stdin=theirs.fileno(),
                    stdout=subprocess.DEVNULL,
                    env={**os.environ, **_SETTINGS, "PYTHONPATH": os.pathsep.join(map(os.path.abspath, sys.path))},
                    start_new_session=True,
                )
        except OSError as error:
            own.close()
            raise _not_started(str(error)) from error
        self._poll = select.poll()
        self._poll.register(own, select.POLLIN)
        self._await_start()

    def _await_start(self) -> None:
        try:
            self._receive(Kind.READY)
        except Ended as error:
            raise _not_started("the process ended at once; its messages are in the server's standard error") from error
        except BaseException:
            self.end()
            raise

    @property
    def is_alive(self) -> bool:
        return self._process.poll() is None

    def open(self, descriptor: int) -> tuple[pa.Schema, int, int]:
        """The file's columns, how many rows its footer says that it has, and about the bytes of these."""
        self._send(Kind.OPEN, files=(descriptor,))
        _, payload = self._receive(Kind.FOUND)
        rows, size = DESCRIPTION.unpack(memoryview(payload)[: DESCRIPTION.size])
        return validated_schema(pa.ipc.read_schema(payload.slice(DESCRIPTION.size))), rows, size

    def read(self, schema: pa.Schema, indices: Sequence[int], rows: int, memory: int) -> Iterator[pa.RecordBatch]:
        """These columns of the open file, decoded `rows` rows at a time within `memory` bytes."""
        wanted = pa.schema([schema.field(index) for index in indices])
        self._send(Kind.READ, json.dumps([list(indices), rows, memory]).encode())
        while True:
            kind, data = self._receive(Kind.ROWS, Kind.END)
            if kind is Kind.END:
                return
            yield validated(pa.ipc.read_record_batch(data, wanted))

    def close_file(self) -> None:
        """It can be given another one then."""
        self._send(Kind.CLOSE)
        self.is_ready, self.is_new = True, False

    def end(self) -> None:
        """At once, whatever it is doing. More than once is harmless."""
        self.is_ready = False
        self._process.kill()
        self._process.wait()
        self._socket.close()

    def forget(self) -> None:
        """It is the process's that this one is a copy of."""
        self._socket.close()
        self._process.returncode = 0

    def _send(self, kind: Kind, data: bytes = b"", files: Sequence[int] = ()) -> None:
        self.is_ready = False
        try:
            send(self._socket, kind, data, files)
        except OSError as error:
            raise self._ended() from error

    def _receive(self, *kinds: Kind) -> tuple[Kind, pa.Buffer]:
        try:
            kind, data = receive(self._socket, self._wait)
        except (EOFError, ConnectionError, ValueError) as error:
            raise self._ended() from error
        self.is_ready = kind is not Kind.ROWS
        if kind is Kind.WRONG:
            raise pa.ArrowInvalid(data.to_pybytes().decode(errors="replace"))
        if kind not in kinds:
            raise self._ended()
        return kind, data

    def _wait(self) -> None:
        while not self._poll.poll(_LOOK_MILLISECONDS):
            look()

    def _ended(self) -> Ended:
        self.end()
        status = self._process.returncode
        if status == OUT_OF_MEMORY:
            return OutOfMemory("the file takes more memory to decode than there is for it")
        how = f"by {signal.Signals(-status).name}" if status < 0 else f"with status {status}"
        return Ended(f"the process that decoded the file ended {how}: the file is damaged, or takes too much memory")


class ReaderProcesses:
    """The reader processes that have no file now, at most `_KEPT`."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._idle: list[ReaderProcess] = []

    def take(self) -> ReaderProcess:
        """One that has no file, for one file."""
        while True:
            with self._lock:
                process = self._idle.pop() if self._idle else None
            if process is None:
                return ReaderProcess()
            if process.is_alive:
                return process
            process.end()

    def give(self, process: ReaderProcess) -> None:
        """Back, with its file closed."""
        with self._lock:
            if len(self._idle) < _KEPT:
                self._idle.append(process)
                return
        process.end()

    def close(self) -> None:
        """End those that are idle."""
        with self._lock:
            idle, self._idle = self._idle, []
        for process in idle:
            process.end()

    def forget(self) -> None:
        """In a copy of the process, which has none."""
        self._lock = threading.Lock()
        idle, self._idle = self._idle, []
        for process in idle:
            process.forget()


def _not_started(why: str) -> ExecutionError:
    return ExecutionError(f"the process that reads ORC files cannot be started: {why}", reason="NO_READER_PROCESS")


processes: Final = ReaderProcesses()
atexit.register(processes.close)
os.register_at_fork(after_in_child=processes.forget)


class DecodedFile:
    """An ORC file in a process of its own. Where its rows were not all read, the process ends with it."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._process: ReaderProcess | None = processes.take()
        try:
            self.schema, self.row_count, self._size = self._opened(self._process)
        except BaseException:
            self.close()
            raise

    def _opened(self, process: ReaderProcess) -> tuple[pa.Schema, int, int]:
        try:
            return process.open(self._descriptor)
        except Ended:
            if process.is_new:
                raise
        self._process = ReaderProcess()
        return self._process.open(self._descriptor)

    def batches(self, indices: Sequence[int], memory: int) -> Iterator[pa.RecordBatch]:
        """The rows of these columns, decoded within `memory` bytes. Once. Raises `OutOfMemory` where a row takes
        more.
        """
        process, count, rows = self._process, 0, self._rows_at_once(indices)
        assert process is not None
        while True:
            try:
                for _, batch in within(process.read(self.schema, indices, rows, memory), 0, (count, _ALL)):
                    yield batch
                    count += batch.num_rows
                return
            except Ended:
                if rows == 1 and process.is_new:
                    raise
            rows = max(1, min(rows, self.row_count) // _FEWER)
            self._process = process = ReaderProcess()
            process.open(self._descriptor)

    def _rows_at_once(self, indices: Sequence[int]) -> int:
        """As many rows as take `_DECODED_BYTES` by the bytes of the file, and by the columns of fixed width."""
        fixed = sum(fixed_row_bytes(pa.schema([self.schema.field(index)])) or 0 for index in indices)
        written = self._size // max(self.row_count, 1)
        return rows_within(_DECODED_BYTES, max(fixed, written), BATCH_ROWS)

    def close(self) -> None:
        """More than once is harmless."""
        process, self._process = self._process, None
        if process is None:
            return
        with suppress(Ended):
            if process.is_ready:
                process.close_file()
                processes.give(process)
                return
        process.end()
