"""A plan's result in files that the executors of a server's own Spark have written: each partition reads a file.

The rows do not pass the server. Its folder for staging must be visible, under the same path, where the file is read.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from functools import partial

import pyarrow as pa

from ...proto.arrow.validation import each_validated
from ...proto.errors import Refused
from ...proto.values import Reader, ResultFile
from .shared_results import SharedTask, as_planned, at_live_task, barrier_of, changed, reading


@dataclass(frozen=True, slots=True)
class FileRows:
    """The rows of one of the files of a result that `task` has computed first, from the files of a digest."""

    task: str
    at: int
    file: ResultFile
    reader: Reader
    computed_from: str


def files_of(task: str, files: Sequence[ResultFile], computed_from: str) -> list[FileRows]:
    """The partitions of a result: a file each, in order."""
    return [FileRows(task, at, file, Reader(at + 1, len(files)), computed_from) for at, file in enumerate(files)]


class SharedFiles(SharedTask):
    """The files of a shared task's result."""

    def read(self, wanted: FileRows) -> Generator[pa.RecordBatch]:
        """The rows of a partition. If the task was deleted, it is made anew: it has the same rows in as many files."""
        with as_planned():
            task, source = at_live_task(self._service, self._begin, partial(self._opened, wanted))
        with (
            source,
            reading(self._service, task, wanted.reader, self._kept_seconds),
            pa.ipc.open_stream(source) as reader,
        ):
            yield from each_validated(reader)

    def _opened(self, wanted: FileRows, task: str) -> tuple[str, pa.MemoryMappedFile]:
        file = wanted.file if task == wanted.task else self._again(task, wanted)
        try:
            return task, pa.memory_map(file.path)
        except OSError as unseen:
            self._service.get_task(task)  # another query's reader may have ended the task, and its files
            raise Refused(
                f"the server's executors have written {file.path}, which this executor cannot open ({unseen}): the "
                "server's folder for staging (tidegate serve --spark-staging) must be the same folder under the same "
                "path here, and this user must be able to read its files; or leave option('executor', 'spark') out",
                reason="RESULT_FILE_UNSEEN",
            ) from unseen

    def _again(self, task: str, wanted: FileRows) -> ResultFile:
        self.check_files(task, wanted.computed_from)
        files = barrier_of(self._service, task).files
        if wanted.at >= len(files) or files[wanted.at].rows != wanted.file.rows:
            self.give_up(task)
            raise changed(
                "the plan's result has other rows than when Spark planned its partitions: the files that it reads have "
                "changed"
            )
        return files[wanted.at]
