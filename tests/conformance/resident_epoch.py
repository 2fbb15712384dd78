"""One epoch in a process of its own, run by `resident`: reads what to run, prints the most that was resident."""

from __future__ import annotations

import base64
import json
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

import tidegate
from tidegate.proto.arrow.pandas_import import leave_pandas_out
from tidegate.proto.operator_registration import Options


class PassedOn:
    """A user's operator that gives the rows that it gets."""

    def __init__(self, options: Options) -> None: ...

    def execute(self, batches: Sequence[pa.RecordBatch], stream: str, channel: int) -> Sequence[pa.RecordBatch]:
        return batches

    def done(self, channel: int) -> None: ...


def main(asked: dict[str, Any]) -> list[object]:
    """The peak, rows that came, bytes that spilled, and the error where it failed."""
    rows = spilled = 0
    error = ""
    away, between = asked["reader"]
    plan = planned(asked)
    tables = {name: asked["files"][name] for name in asked["bound"]} or None
    operators = {"passed on": tidegate.user_operator(PassedOn)}
    with (
        tempfile.TemporaryDirectory() as written,
        tidegate.local(write_root=written, operators=operators) as client,
        client.create_task(plan, tables=tables, **asked["options"]) as task,
    ):
        try:
            for name in () if asked["is_node"] else set(task.sources) - set(asked["bound"]):
                task.add_split(name, asked["files"][name])
            task.request_barrier()
            task.no_more_splits()
            for batch in task.batches():
                time.sleep(between if rows else away)
                rows += batch.num_rows
                spilled = max(spilled, task.statistics().spilled_bytes)
        except tidegate.TidegateError as failure:
            error = f"{failure.reason or type(failure).__name__}: {failure}"
    return [peak(), rows, spilled, error]


def planned(asked: dict[str, Any]) -> str | bytes | tidegate.TaskGraph:
    """What to run: a plan, or the SQL of a graph's node over the files of `l`."""
    if asked["is_node"]:
        graph = tidegate.TaskGraph()
        graph.collect(graph.sql("node", asked["plan"], {"l": graph.read_parquet(asked["files"]["l"])}))
        return graph
    return asked["plan"] if asked["is_text"] else base64.b64decode(asked["plan"])


def peak(process: object = "self") -> int:
    """The most that was resident in a process, and in those that it started without the files of their libraries."""
    children = [int(child) for listed in Path(f"/proc/{process}/task").glob("*/children") for child in _words(listed)]
    return _size(process, "VmHWM") + sum(_size(child, "VmHWM") - _size(child, "RssFile") for child in children)


def _size(process: object, name: str) -> int:
    words = _words(Path(f"/proc/{process}/status"))
    return int(words[words.index(f"{name}:") + 1]) * 1024


def _words(file: Path) -> list[str]:
    return file.read_text().split()


if __name__ == "__main__":
    leave_pandas_out()  # it would be here with pyarrow, as it is for any other use of pyarrow
    print(json.dumps(main(json.load(sys.stdin))))
