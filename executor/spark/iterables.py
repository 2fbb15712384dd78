"""Iterables of graphs on Spark: read in the service and staged in a file, or made by a function where they are read.

The service reads an object of its own process: all items that an epoch has of it, before the epoch's job begins. The
channel that reads an iterable made by a function calls that function, and stops when it has enough.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pyarrow as pa

from ...operators.core.sizes import batch_bytes
from ...operators.user.iterate import Iterate
from ...planner.physical.pipelines import PhysicalNode, walk
from ...planner.physical.user_nodes import IterateNode
from ...proto.errors import NodeError
from ...proto.graph import IterableSource
from ...proto.values import TaskOptions
from .staged_files import StagedRows


class StagedItems:
    """The rows that a file has in this epoch."""

    def __init__(self, path: str) -> None:
        self._path = path

    def __iter__(self) -> Generator[pa.RecordBatch]:
        return StagedRows(self._path).read()


class StagedIterable:
    """An iterable that the service reads into a file. `source` stands for it where its rows are read."""

    def __init__(self, iterable: IterableSource, path: Path, options: TaskOptions) -> None:
        self.source = replace(iterable, items=StagedItems(str(path)), epoch_rows=None)
        self._path = path
        self._quota = options.spill_quota
        self._given = iterable
        self._rows = Iterate(
            iterable.name,
            iterable.items,
            schema=iterable.schema,
            epoch_rows=iterable.epoch_rows,
            stride=iterable.stride,
            missing_columns=options.missing_columns,
        )

    def fill(self, check: Callable[[], None]) -> None:
        """Stage all items of the next epoch. `check` raises once nobody wants them any more."""
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        size = 0
        with (
            pa.OSFile(str(self._path), "wb") as sink,
            pa.ipc.new_stream(sink, self._given.schema) as writer,
            closing(self._read()) as rows,
        ):
            for batch in rows:
                check()
                size += batch_bytes(batch)
                if size > self._quota:
                    raise too_much(self._given.name, 0, self._quota)
                writer.write_batch(batch)

    def remove(self) -> None:
        self._path.unlink(missing_ok=True)

    def _read(self) -> Generator[pa.RecordBatch]:
        yield from self._rows.run(())


def bounded(rows: Generator[pa.RecordBatch], root: PhysicalNode, channel: int, quota: int) -> Generator[pa.RecordBatch]:
    """The rows of a pipeline, all of which are written before anyone reads them.

    If the pipeline reads an iterable made by a function, which may be endless, its rows may have at most `quota` bytes.
    """
    names = [node.source.name for node in walk(root) if isinstance(node, IterateNode) and node.source.is_function]
    size = 0
    with closing(rows):
        for batch in rows:
            if names:
                size += batch_bytes(batch)
                if size > quota:
                    raise too_much(names[0], channel, quota)
            yield batch


def too_much(node: str, channel: int, quota: int) -> NodeError:
    return NodeError(
        f"its iterable gave more than the task's spill_quota ({quota} bytes) in one epoch, and on Spark all its rows "
        "are written before other pipelines read them: give epoch_rows, let a node of the same pipeline end the "
        "reading early, or raise spill_quota",
        node=node,
        channel=channel,
        reason="SPILL_QUOTA",
    )
