"""Calls a user function on each batch of a stream."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import Any

import pyarrow as pa

from ...proto.arrow.without_rows import no_rows
from ...proto.graph import STRIDE, BatchFunction, MapNode
from ..core.blocks import blocks
from ..core.operator import Operator, Stream
from .user_code import UserCode, arrow_batches


def mapped_schema(node: MapNode, source: pa.Schema) -> pa.Schema:
    """The schema of the rows that a node's function makes of rows of this schema, found with an empty batch. Raises
    `NodeError`.
    """
    empty = no_rows(source)
    code = UserCode(node.name, source)
    result: Any = code.call("its function", node.function, empty)
    code.check_rows(result, "its function")
    return code.call("its function", lambda: next(iter(arrow_batches(result))).schema)


class BatchFunctionOperator(Operator):
    """The operator that calls a user function for each batch and yields its rows.

    Order: the input's. Nulls: the function decides. Empty input: the function is not called. Memory: a batch. Barrier:
    nothing is kept. With `recut` batches have exactly `stride` rows, the last one short; otherwise they stay as they
    come.
    """

    def __init__(
        self,
        name: str,
        function: BatchFunction,
        *,
        schema: pa.Schema,
        channel: int = 0,
        stride: int = STRIDE,
        recut: bool = True,
    ) -> None:
        self.schema = schema
        self._function = function
        self._stride = stride
        self._recut = recut
        self._code = UserCode(name, schema, channel)
        self._plan_path = f"node {name!r}"

    def run(self, inputs: Sequence[Stream]) -> Iterator[pa.RecordBatch]:
        [rows] = inputs
        self._interrupted = False
        return self._run(rows)

    def _run(self, rows: Stream) -> Iterator[pa.RecordBatch]:
        with closing(rows):
            for batch in blocks(rows, self._stride) if self._recut else rows:
                self._stop_if_interrupted()
                if batch.num_rows:
                    yield from self._code.batches("its function", self._function, batch)
