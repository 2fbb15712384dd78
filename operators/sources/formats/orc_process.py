"""The process that decodes ORC files: `python -m tidegate.operators.sources.formats.orc_process`.

The library follows lengths in a damaged file that it has not checked, and the process that it is in may end. The server
starts such processes (`orc_readers`), sends an open file at a time over a socket, which is standard input, and takes
its rows as Arrow IPC messages. A process ends when the other end of its socket is closed, whatever it is doing.

The memory that a file may take is bounded on Linux alone. While several rows are decoded at a time, the system refuses
memory beyond the bound. The library then ends the process, as it does on damage. While one row is decoded at a time,
the process watches what it takes and ends itself with the status `OUT_OF_MEMORY` beyond the bound: so a row that is too
large is told from damage.
"""

from __future__ import annotations

import json
import os
import queue
import resource
import signal
import socket
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

import pyarrow as pa
from pyarrow import orc

from ....proto.arrow.pandas_import import leave_pandas_out
from .format import numbered
from .orc_frames import DESCRIPTION, FOOTER, MEMORY, OUT_OF_MEMORY, Kind, receive_with_file, send

_WRONG: Final = (pa.ArrowException, OSError, ValueError, KeyError, EOFError)
_NO_MEMORY: Final = "std::bad_alloc"
#: Compressed rows count so many times their bytes.
_COMPRESSED: Final = 4
_STATM: Final = Path("/proc/self/statm")
_WATCH_SECONDS: Final = 0.001
_IGNORED: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

Request = tuple[Kind, pa.Buffer, int | None]


class _OpenFile:
    def __init__(self, descriptor: int) -> None:
        # Opened anew where the system can: the server's own descriptor has a position of its own then.
        try:
            self._file = pa.OSFile(f"/dev/fd/{descriptor}")
        finally:
            os.close(descriptor)
        self._orc = orc.ORCFile(self._file)

    def describe(self) -> bytes:
        schema: bytes = self._orc.schema.serialize().to_pybytes()
        times = 1 if self._orc.compression == "UNCOMPRESSED" else _COMPRESSED
        return DESCRIPTION.pack(self._orc.nrows, self._orc.content_length * times) + schema

    def send_rows(self, to: socket.socket, indices: Sequence[int], rows: int) -> None:
        schema = self._orc.schema
        names = [schema.field(index).name for index in indices]
        # pyarrow's own reader of ORC files decodes whole stripes.
        fragment = pa.dataset.OrcFileFormat().make_fragment(self._file)
        scanner = fragment.scanner(
            columns=names or schema.names[:1],
            batch_size=rows,
            batch_readahead=0,
            fragment_readahead=0,
            use_threads=False,
        )
        for batch in scanner.to_batches():
            for _, part in numbered(0, batch.select(names)):
                send(to, Kind.ROWS, part.serialize())

    def close(self) -> None:
        self._file.close()


def _serve(to: socket.socket, requests: queue.SimpleQueue[Request]) -> None:
    file: _OpenFile | None = None
    while True:
        kind, body, descriptor = requests.get()
        try:
            if kind is Kind.OPEN and descriptor is not None:
                with _refused_beyond(FOOTER):
                    file = _OpenFile(descriptor)
                    send(to, Kind.FOUND, file.describe())
            elif kind is Kind.READ and file is not None:
                indices, rows, memory = json.loads(body.to_pybytes())
                with _watched(memory) if rows == 1 else _refused_beyond(memory):
                    file.send_rows(to, indices, rows)
                send(to, Kind.END)
            elif file is not None:
                file.close()
                file = None
                pa.default_memory_pool().release_unused()
        except (MemoryError, *_WRONG) as error:
            if isinstance(error, MemoryError) or _NO_MEMORY in str(error):
                os._exit(OUT_OF_MEMORY)
            send(to, Kind.WRONG, str(error).encode(errors="replace"))


def _listen(source: socket.socket, requests: queue.SimpleQueue[Request]) -> None:
    """Ends the process with its socket: a decoder that goes round in circles would never look."""
    try:
        while True:
            requests.put(receive_with_file(source))
    finally:
        os._exit(0)


def _limit_process() -> None:
    """A length that is not one must not take the machine's memory. No file is worth a dump of it."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if _STATM.exists():
        _set(resource.RLIMIT_AS, _sizes()[0] + MEMORY)


@contextmanager
def _refused_beyond(size: int) -> Iterator[None]:
    """The system refuses more than `size` bytes beside what the process has."""
    if not _STATM.exists():
        yield
        return
    _set(resource.RLIMIT_DATA, _sizes()[5] + size)
    try:
        yield
    finally:
        _set(resource.RLIMIT_DATA, resource.RLIM_INFINITY)


@contextmanager
def _watched(size: int) -> Iterator[None]:
    """The process ends itself when more than `size` bytes are resident beside those that are now."""
    if not _STATM.exists():
        yield
        return
    most, ended = _resident() + size, threading.Event()

    def watch() -> None:
        while not ended.wait(_WATCH_SECONDS):
            if _resident() > most:
                os._exit(OUT_OF_MEMORY)

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        ended.set()
        watcher.join()


def _sizes() -> list[int]:
    """The process in bytes: all, resident, of files, code, 0, data."""
    return [int(pages) * resource.getpagesize() for pages in _STATM.read_text().split()]


def _resident() -> int:
    """Resident bytes that are not of files."""
    _, resident, of_files, *_ = _sizes()
    return resident - of_files


def _set(limit: int, size: int) -> None:
    _, hard = resource.getrlimit(limit)
    unlimited = hard == resource.RLIM_INFINITY
    resource.setrlimit(limit, (size if unlimited or 0 <= size < hard else hard, hard))


def main() -> None:
    for number in _IGNORED:  # they are for the server, which closes the socket when it has ended
        signal.signal(number, signal.SIG_IGN)
    leave_pandas_out()
    import pyarrow.dataset  # noqa: F401  # it brings pandas where it comes first

    _limit_process()
    connection = socket.socket(fileno=os.dup(sys.stdin.fileno()))
    requests: queue.SimpleQueue[Request] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(connection, requests), daemon=True).start()
    with suppress(ConnectionError):  # the server has ended
        send(connection, Kind.READY)
        _serve(connection, requests)


if __name__ == "__main__":
    main()
