"""The process that decodes ORC files: `python -m tidegate.operators.sources.formats.orc_process`.

The library follows lengths in a damaged file that it has not checked, and the process that it is in may end. The server
starts such processes (`orc_readers`), sends an open file at a time over a socket, which is standard input, and takes
its rows as Arrow IPC messages. A process ends when the other end of its socket is closed, whatever it is doing.
"""

from __future__ import annotations

import json
import os
import queue
import signal
import socket
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

import pyarrow as pa
from pyarrow import orc

from ....proto.arrow.pandas_import import leave_pandas_out
from .format import numbered
from .orc_frames import DESCRIPTION, FOOTER, OUT_OF_MEMORY, Kind, receive_with_file, send
from .orc_memory import limit_process, refused_beyond, watched

_WRONG: Final = (pa.ArrowException, OSError, ValueError, KeyError, EOFError)
_NO_MEMORY: Final = "std::bad_alloc"
#: Compressed rows count so many times their bytes.
_COMPRESSED: Final = 4
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
                with refused_beyond(FOOTER):
                    file = _OpenFile(descriptor)
                    send(to, Kind.FOUND, file.describe())
            elif kind is Kind.READ and file is not None:
                indices, rows, memory = json.loads(body.to_pybytes())
                with watched(memory) if rows == 1 else refused_beyond(memory):
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


def main() -> None:
    for number in _IGNORED:  # they are for the server, which closes the socket when it has ended
        signal.signal(number, signal.SIG_IGN)
    leave_pandas_out()
    import pyarrow.dataset  # noqa: F401  # it brings pandas where it comes first

    limit_process()
    connection = socket.socket(fileno=os.dup(sys.stdin.fileno()))
    requests: queue.SimpleQueue[Request] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(connection, requests), daemon=True).start()
    with suppress(ConnectionError):  # the server has ended
        send(connection, Kind.READY)
        _serve(connection, requests)


if __name__ == "__main__":
    main()
