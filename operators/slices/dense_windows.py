"""DenseWindows: sliding windows of rows that are grouped by the number of their slice and by keys, in arrays.

It gives the windows that `SlidingWindows` gives of the groups of `DenseSlices`, in the same order, which depends on
the memory, too. Where all rows are in arrays, and all states are counts and sums, windows are made of the arrays, and
no group becomes a row.

Empty input: no rows. Barrier: all input is read before the first row comes out. Memory: that of both operators, or the
arrays of `DenseSlices` with words for the windows of one combination of keys, of which there are at most as many as
places in such an array, or for about 65,536 slices and windows of several ones.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import closing

import pyarrow as pa

from ..core.operator import Stream
from ..core.streams import BatchStream
from ..duckdb.instances import Instance
from .dense_slices import DenseSlices, GroupsOfSlices
from .sliding_windows import SlidingWindows, WindowsOfSlices


class DenseWindows(DenseSlices):
    """The operator. `states` has the keys of groups, then a column for each state; `schema` the window's number, the
    keys, then a column for each measure. Groups are in parts.
    """

    def __init__(
        self,
        input_schema: pa.Schema,
        *,
        groups: GroupsOfSlices,
        states: pa.Schema,
        windows: WindowsOfSlices,
        schema: pa.Schema,
        size_class: int,
        instance: Instance,
        plan_path: str = "",
    ) -> None:
        assert groups.whole is None, "windows are made of parts of groups"
        super().__init__(
            input_schema, groups=groups, schema=states, size_class=size_class, instance=instance, plan_path=plan_path
        )
        self.schema = schema
        self._lengths = windows.length, windows.step
        try:
            self._sliding = SlidingWindows(
                states, windows=windows, schema=schema, size_class=size_class, instance=instance, plan_path=plan_path
            )
        except BaseException:
            super().close()
            raise

    @property
    def plans(self) -> int:
        return super().plans + self._sliding.plans

    def interrupt(self) -> None:
        super().interrupt()
        self._sliding.interrupt()

    def close(self) -> None:
        super().close()
        self._sliding.close()

    def _run(self, rows: Stream) -> Generator[pa.RecordBatch]:
        keys = self._states.types[: len(self._groups.keys)]
        with closing(rows):
            counted = self._counted(rows)
            windows = counted.arrays.windows(keys, *self._lengths) if counted.next is None else None
            if windows is None:
                yield from self._sliding.run([BatchStream(self._states, self._parts(counted))])
                return
            for batch in self._sliding.of_groups(windows, self._states):
                self._stop_if_interrupted()
                yield batch
