"""The peer of the loader case over gRPC: `python -m benchmarks.loader_server FOLDER` streams the rows of Parquet files
as `pyarrow.dataset` reads them, a message for each batch, without a plan, an order, a cursor or a check of anything.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
import pyarrow as pa
import pyarrow.dataset as ds

METHOD = "/benchmarks.LoaderServer/Read"
ROWS = 1_800
"""As many rows as Tidegate sends in a message: about 4 MB."""
OPTIONS = [("grpc.max_receive_message_length", 64 << 20), ("grpc.max_send_message_length", 64 << 20)]


def read(address: str) -> Iterator[pa.RecordBatch]:
    with grpc.insecure_channel(address, OPTIONS) as channel:
        for message in channel.unary_stream(METHOD, None, None)(b""):
            yield from pa.ipc.open_stream(message)


def batches(folder: str) -> Iterator[bytes]:
    for batch in ds.dataset(folder).to_batches(batch_size=ROWS):
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, batch.schema) as writer:
            writer.write_batch(batch)
        yield sink.getvalue().to_pybytes()


def main(folder: str) -> None:
    def answer(_request: bytes, _context: grpc.ServicerContext) -> Iterator[bytes]:
        return batches(folder)

    service, method = METHOD.strip("/").split("/")
    handlers: dict[str, Any] = {method: grpc.unary_stream_rpc_method_handler(answer)}
    server = grpc.server(ThreadPoolExecutor(2), options=OPTIONS)
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, handlers),))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    print(f"127.0.0.1:{port}", flush=True)
    server.wait_for_termination()


if __name__ == "__main__":
    main(sys.argv[1])
