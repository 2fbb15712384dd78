"""Sends the rows of inline splits to a server: few rows in the message, many rows ahead of it as a file."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from ..proto.arrow.arrow_ipc import sendable
from ..proto.errors import Exhausted, TidegateError
from ..proto.service import Service
from ..proto.tidegate.v1 import tasks_pb2 as pb
from ..proto.values import MIB, AddRequest, FileSplit, InlineSplit, Split
from ..splits import CHUNK_BYTES, INLINE_BYTES
from .sending import are_lost

MESSAGE_BYTES: Final = 48 * MIB  # of a split that must go into a message: a server takes 64 MiB unless told otherwise


@dataclass(frozen=True, slots=True)
class _Sent:
    """An inline split that was sent ahead as a file, the only file of its group."""

    split: InlineSplit
    file: FileSplit
    group: str


@dataclass(frozen=True, slots=True)
class Fitted:
    """Splits as they go into one message. The paths `files` are of a group of uploads."""

    splits: Sequence[Split]
    files: Sequence[str]
    group: str


class InlineFiles:
    """Makes splits fit into messages. A split that is added again is not sent again."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._sent: dict[tuple[str, str, int | None], _Sent] = {}

    def fitted(self, task: str, source: str, split: Split, number: int | None) -> Split:
        """The split as it goes into a message.

        If the task has no room for a file, its memory may have: then the split goes as it is, and the server decides.
        """
        if not isinstance(split, InlineSplit):
            return split
        plain = sendable(split)
        size = _size(plain)
        if size <= INLINE_BYTES:
            return plain
        key = (task, source, number)
        if (sent := self._sent.get(key)) is not None and sent.split is not split:  # that one was refused
            self._service.drop_uploads(task, sent.group)
            sent = None
        if sent is None:
            group = secrets.token_hex(16)
            try:
                sent = self._sent[key] = _Sent(split, self._file(task, plain, group), group)
            except Exhausted as full:
                if full.reason == "UPLOAD_TOO_LARGE" and size <= MESSAGE_BYTES:
                    return plain
                raise
        return sent.file

    def added(self, request: pb.AddSplitsRequest) -> None:
        """Forget the splits of a request that was answered: the task has them."""
        if self._sent:
            for split in request.splits:
                self._sent.pop((request.task, split.source, split.sequence or None), None)

    def forget(self, task: str) -> None:
        """Forget the splits of a task that is gone."""
        self._sent = {key: sent for key, sent in self._sent.items() if key[0] != task}

    def forget_lost(self, task: str, request: AddRequest, error: TidegateError) -> bool:
        """Forget the files of a request that the server has lost. False if the error is about none of them."""
        keys = [(task, source, number) for source, _, number in request.splits]
        lost = [key for key in keys if key in self._sent and are_lost(error, [self._sent[key].file.path])]
        for key in lost:
            self._sent.pop(key, None)
        return bool(lost)

    def fitted_together(self, task: str, splits: Sequence[Split]) -> Fitted:
        """The splits of one message as they go into it."""
        fitted: list[Split] = []
        files: list[str] = []
        group, room = secrets.token_hex(16), INLINE_BYTES
        for split in splits:
            if isinstance(split, InlineSplit):
                split = sendable(split)  # noqa: PLW2901
                size = _size(split)
                if files or size > room:
                    split = self._file(task, split, group)  # noqa: PLW2901
                    files.append(split.path)
                room -= size
            fitted.append(split)
        return Fitted(fitted, files, group)

    def _file(self, task: str, split: InlineSplit, group: str) -> FileSplit:
        path = self._service.upload(task, "inline.arrow", ArrowFile(split), group=group)
        return FileSplit(
            path,
            format="inline",
            watermark=split.watermark,
            change_column=split.change_column,
            missing_columns=split.missing_columns,
        )


def _size(split: InlineSplit) -> int:
    return sum(batch.nbytes for batch in split.batches)


class ArrowFile:
    """Inline data as an Arrow IPC stream, in chunks, from its beginning each time."""

    def __init__(self, split: InlineSplit) -> None:
        self._split = split

    def __iter__(self) -> Iterator[bytes]:
        sink = _Chunks()
        with pa.ipc.new_stream(sink, self._split.schema) as writer:
            for batch in self._split.batches:
                writer.write_batch(batch)
                yield from sink.take(CHUNK_BYTES)
        yield from sink.take(1)


class _Chunks:
    """A file to write to, from which complete chunks are taken."""

    closed = False

    def __init__(self) -> None:
        self._held = bytearray()

    def write(self, data: bytes) -> int:
        self._held += memoryview(data)
        return len(data)

    def flush(self) -> None:
        """Do nothing: no bytes are buffered below."""

    def close(self) -> None:
        """Do nothing: the chunks can still be taken."""

    def take(self, least: int) -> Iterator[bytes]:
        if len(self._held) >= least:
            whole, self._held = bytes(self._held), bytearray()
            for start in range(0, len(whole), CHUNK_BYTES):
                yield whole[start : start + CHUNK_BYTES]
