"""DenseSlices: rows grouped by the number of their slice and by keys that are whole numbers.

The input's first columns are the slice's number and the keys. A group may come out in several rows, each with the
states of a part of its rows: `SlidingWindows` joins them. Where numbers lie close together, groups are in arrays with a
place for each possible group. From the block on that the arrays have no room for, or where a group has few rows, DuckDB
groups the rows.

Order: the groups of the arrays in order of their keys, then those of DuckDB: a function of the rows in their order.
Empty input: no rows. Memory: a sixteenth of the instance's, and DuckDB's. Barrier: nothing is kept.
"""

from __future__ import annotations

import itertools
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from ..core.blocks import BLOCK_ROWS, blocks
from ..core.operator import Operator, Stream
from ..core.streams import BatchStream
from ..duckdb.fragment import Fragment
from ..duckdb.instances import Instance
from ..duckdb.statement_inputs import StreamSource
from .dense_groups import DenseGroups, GroupKey, GroupState

_SHARE: Final = 16
_MOST_PLACES: Final = 1 << 23
_REDUCED: Final = 4
"""The arrays are worth it where a group has so many rows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupsOfSlices:
    """Groups by keys, of rows that have a value of the first one if it is sliced. `groups` is a statement that makes
    them of the relation `in0`, in which all rows have one.
    """

    keys: tuple[GroupKey, ...]
    states: tuple[GroupState, ...]
    groups: str


class DenseSlices(Operator):
    """The operator. `schema` has the keys, then a column for each state."""

    def __init__(
        self,
        input_schema: pa.Schema,
        *,
        groups: GroupsOfSlices,
        schema: pa.Schema,
        size_class: int,
        instance: Instance,
        plan_path: str = "",
    ) -> None:
        self.schema = schema
        self._groups = groups
        self._places = min(instance.settings.memory_limit // _SHARE // (16 * (len(groups.states) + 1)), _MOST_PLACES)
        self._plan_path = plan_path
        rows = StreamSource(relation="in0", schema=input_schema, size_class=size_class)
        self._in_duckdb = Fragment(groups.groups, schema=schema, instance=instance, streams=[rows], plan_path=plan_path)

    @property
    def plans(self) -> int:
        return self._in_duckdb.plans

    def run(self, inputs: Sequence[Stream]) -> Iterator[pa.RecordBatch]:
        [rows] = inputs
        self._interrupted = False
        return self._run(rows)

    def interrupt(self) -> None:
        super().interrupt()
        self._in_duckdb.interrupt()

    def close(self) -> None:
        self._in_duckdb.close()

    def _run(self, rows: Stream) -> Generator[pa.RecordBatch]:
        """The groups. Whenever the arrays are full, their groups come out, and they begin anew."""
        with closing(rows):
            arrays = DenseGroups(self._groups.keys, self._groups.states, self.schema, self._places)
            counted, row_blocks = 0, self._timed(blocks(rows, BLOCK_ROWS))
            for block in row_blocks:
                self._stop_if_interrupted()
                while not arrays.add(block):
                    handed_out = 0
                    for groups in arrays.take():
                        handed_out += groups.num_rows
                        yield groups
                    if handed_out * _REDUCED >= counted:  # also where nothing was counted
                        rest = BatchStream(rows.schema, itertools.chain((block,), row_blocks))
                        yield from self._in_duckdb.run([rest])
                        return
                    counted = 0
                counted += block.num_rows
            yield from arrays.take()

    def _timed(self, row_blocks: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The rows that are in a slice, in the same blocks. None is empty."""
        key = self._groups.keys[0]
        for block in row_blocks:
            times = block.column(key.column)
            timed = block.filter(times.is_valid()) if key.size is not None and times.null_count else block
            if timed.num_rows:
                yield timed
