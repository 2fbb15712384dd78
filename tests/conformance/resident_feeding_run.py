"""One task fed in one way and read, run by `resident_feeding`: reads what to run, prints what it took."""

from __future__ import annotations

import base64
import contextlib
import json
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

import pyarrow as pa

import tidegate
from tidegate.proto.arrow.pandas_import import leave_pandas_out

from .resident_epoch import peak

Feed = Callable[[tidegate.Task, Sequence[str]], None]


def _files(task: tidegate.Task, paths: Sequence[str]) -> None:
    for path in paths:
        task.add_split("l", path)


def _uploads(task: tidegate.Task, paths: Sequence[str]) -> None:
    for path in paths:
        task.add_split("l", tidegate.upload(path))


def _streams(task: tidegate.Task, paths: Sequence[str]) -> None:
    for path in paths:
        task.add_split("l", _stream([path]))


def _inline(task: tidegate.Task, paths: Sequence[str]) -> None:
    for batch in _rows(paths):
        task.add_split("l", batch)


FEEDS: Final[Mapping[str, Feed]] = {"files": _files, "uploads": _uploads, "streams": _streams, "inline": _inline}
"""Other ways bind tables: the task has no other input."""


def _rows(paths: Sequence[str]) -> Iterator[pa.RecordBatch]:
    for path in paths:
        with pa.OSFile(path) as file:
            reader = pa.ipc.open_file(file)
            yield from map(reader.get_batch, range(reader.num_record_batches))


def _stream(paths: Sequence[str]) -> pa.RecordBatchReader:
    with pa.OSFile(paths[0]) as file:
        schema = pa.ipc.open_file(file).schema
    return pa.RecordBatchReader.from_batches(schema, _rows(paths))


def ran(asked: Mapping[str, Any]) -> list[object]:
    """Feeds and reads as asked: the peak of this process, and the rest of `Taken`."""
    rows, spilled, first = 0, 0, -1.0
    errors: list[str] = []
    away, between = asked["reader"]
    begun = time.monotonic()
    with (
        _client(asked["address"]) as client,
        client.create_task(base64.b64decode(asked["plan"]), tables=_tables(asked), **asked["options"]) as task,
    ):
        feeder = threading.Thread(target=_fed, args=(task, asked, errors))
        feeder.start()
        try:
            for batch in task.batches():
                if not rows:
                    first = time.monotonic() - begun
                    time.sleep(away)
                rows += batch.num_rows
                spilled = max(spilled, task.statistics().spilled_bytes)
                time.sleep(between)
        except tidegate.TidegateError as failure:
            errors.insert(0, _named(failure))
        feeder.join()
        return [peak(), first, time.monotonic() - begun, rows, spilled, errors[0] if errors else ""]


def _client(address: str) -> tidegate.Client:
    return tidegate.connect(address) if address else tidegate.local()


def _tables(asked: Mapping[str, Any]) -> Mapping[str, Any]:
    match asked["feed"]:
        case "tables":
            return {"l": asked["paths"]}
        case "uploaded tables":
            return {"l": [tidegate.upload(path) for path in asked["paths"]]}
        case "table of a stream":
            return {"l": _stream(asked["paths"])}
    return {}


def _fed(task: tidegate.Task, asked: Mapping[str, Any], errors: list[str]) -> None:
    try:
        if feed := FEEDS.get(asked["feed"]):
            feed(task, asked["paths"])
    except tidegate.TidegateError as failure:
        errors.append(_named(failure))
    with contextlib.suppress(tidegate.TidegateError):  # the task has failed, as the reader is told
        task.request_barrier()
        task.no_more_splits()


def _named(failure: tidegate.TidegateError) -> str:
    return f"{failure.reason or type(failure).__name__}: {failure}"


if __name__ == "__main__":
    leave_pandas_out()
    print(json.dumps(ran(json.load(sys.stdin))))
