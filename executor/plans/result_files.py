"""Results that stay in the files that other processes have written: the service hands out the files' names."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa

from ...operators.core.operator import Stream
from ...operators.core.streams import none_of
from ...operators.writing.staged_write import Written
from ...proto.errors import Exhausted
from ...proto.values import ResultFile


class ResultFiles:
    """Implements `RowEffect`. All files of a task have at most `quota` bytes. They go with the task."""

    plan_path = "result"

    def __init__(self, schema: pa.Schema, quota: int) -> None:
        self.schema = self.table = schema
        self._quota = quota
        self._used = 0
        self._epoch: list[ResultFile] = []

    def begin(self, epoch: int) -> None:  # noqa: ARG002
        self.drop()

    def run(self, inputs: Sequence[Stream]) -> Iterator[pa.RecordBatch]:
        return none_of(inputs, "a result")

    def adopt(self, files: Sequence[ResultFile]) -> None:
        """Take the epoch's files over, in their order."""
        self._epoch = list(files)
        size = sum(Path(file.path).stat().st_size for file in files)
        if self._used + size > self._quota:
            raise Exhausted(
                f"the files with the task's results would take {self._used + size:,} bytes, and spill_quota is "
                f"{self._quota:,}: raise spill_quota, or delete the task once its results are read",
                reason="SPILL_QUOTA",
            )
        self._used += size

    def commit(self) -> Written:
        files, self._epoch = tuple(self._epoch), []
        return Written(results=files)

    def drop(self) -> None:
        for file in self._epoch:
            Path(file.path).unlink(missing_ok=True)
        self._epoch = []

    def close(self) -> None:
        self.drop()
