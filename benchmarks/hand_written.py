"""The least that a small epoch can cost: one prepared DuckDB statement, without a plan, a barrier or a cursor.

`PreparedQuery` is that in this process; `python -m benchmarks.hand_written` serves it as a single gRPC method, Arrow
IPC in and out. What Tidegate costs beyond them is what Tidegate does; what they cost is the machine's.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import duckdb
import grpc
import grpc.aio
import pyarrow as pa

METHOD = "/benchmarks.HandWritten/Run"


class PreparedQuery:
    """`sql` reads `rows`, whose schema stays the same."""

    def __init__(self, sql: str, rows: pa.Table) -> None:
        self._rows = rows
        self._connection = duckdb.connect(config={"threads": 1})
        self._connection.register("rows", self)
        self._connection.execute(f"PREPARE query AS {sql}")

    def __arrow_c_schema__(self) -> object:
        return self._rows.schema.__arrow_c_schema__()

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self._rows.__arrow_c_stream__(requested_schema)

    def run(self, rows: pa.Table) -> pa.Table:
        self._rows = rows
        return pa.table(dict(self._connection.execute("EXECUTE query").fetchnumpy()))

    def close(self) -> None:
        """The connection holds this object and is held by it, which no collector sees."""
        self._connection.close()


def to_bytes(rows: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_table(rows)
    return bytes(sink.getvalue())


def from_bytes(data: bytes) -> pa.Table:
    return pa.ipc.open_stream(data).read_all()


async def serve(sql: str, rows: pa.Table) -> None:
    query = PreparedQuery(sql, rows)
    pool = ThreadPoolExecutor(1)

    def run(request: bytes) -> bytes:
        return to_bytes(query.run(from_bytes(request)))

    async def answer(request: bytes, _context: grpc.aio.ServicerContext[Any, Any]) -> bytes:
        return await asyncio.get_running_loop().run_in_executor(pool, run, request)

    service, method = METHOD.strip("/").split("/")
    handlers = {method: grpc.unary_unary_rpc_method_handler(answer)}
    server = grpc.aio.server()
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, handlers),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    print(f"127.0.0.1:{port}", flush=True)
    await server.wait_for_termination()


def main() -> None:
    from .small_epochs import SQL, rows

    asyncio.run(serve(SQL, rows()))


if __name__ == "__main__":
    main()
