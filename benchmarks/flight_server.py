"""The peer of the throughput case: `python -m benchmarks.flight_server FILE` serves an Arrow file from memory."""

from __future__ import annotations

import sys

import pyarrow as pa
import pyarrow.flight as flight


class TableServer(flight.FlightServerBase):  # type: ignore[misc]  # pyarrow has no types
    """One table under any ticket."""

    def __init__(self, table: pa.Table) -> None:
        super().__init__("grpc://127.0.0.1:0")
        self._table = table

    def do_get(self, _context: flight.ServerCallContext, _ticket: flight.Ticket) -> flight.RecordBatchStream:
        return flight.RecordBatchStream(self._table)


def main(path: str) -> None:
    with pa.OSFile(path) as file:
        table = pa.ipc.open_file(file).read_all()
    server = TableServer(table)
    print(f"grpc://127.0.0.1:{server.port}", flush=True)
    server.serve()


if __name__ == "__main__":
    main(sys.argv[1])
