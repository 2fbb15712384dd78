"""The journal's records as values, and as bytes with a checksum.

A checksum covers the bytes of a record and its place in the journal, so a record that was moved does not pass either.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Protocol, TypeVar

from google.protobuf.message import DecodeError, Message

from ...operators.core.piece import FilePiece, FileVersion
from ...proto.encoding import messages
from ...proto.errors import Refused
from ...proto.tidegate.v1 import journal_pb2 as pb
from ...proto.tidegate.v1 import tasks_pb2 as wire
from ...proto.values import FileSplit, PlanBytes, TaskInfo, TaskOptions
from ..api.checked_options import ADOPTED
from ..ledger.barrier_wishes import NO_WISHES, Wishes
from ..ledger.epoch import Start
from ..ledger.ledger_change import Change, EndedSources, FailedEpoch, LeftOut, Recovered, SealedEpoch
from ..ledger.split_book import AcceptedSplit, KeptSplit, origin_of
from ..ledger.transactions import MOST_APPLICATIONS, Record
from .journal_database import RESTORE

M = TypeVar("M", bound=Message)

_SUM_BYTES: Final = 8
_NO_FILE: Final = ("", None, None, None)


class KeptByDigest(Protocol):
    """Finds kept bytes by their digest."""

    def known(self, digest: bytes) -> KeptSplit: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredFile:
    """A file of a client, as it was when a record was made."""

    path: str
    format: str
    version: FileVersion
    partition: tuple[tuple[str, str | None], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredSplit:
    """A split of a static table. Its rows, or the file that the client has uploaded, are `kept` if it has any."""

    split: wire.Split
    kept: bytes | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Creation:
    """A task, as it was made. `info` is how the answer described it, `files` are those of its static tables.

    `versions` are those of all that has computed its rows since its last start, by name. Of the epochs up to
    `other_rows_through`, readers may have rows that were computed with other ones.
    """

    plan: PlanBytes
    options: TaskOptions
    tables: Mapping[str, Sequence[StoredSplit]]
    restore: str
    principal: str
    request: str
    request_digest: bytes
    info: TaskInfo
    versions: Mapping[str, str]
    other_rows_through: int = 0
    files: Sequence[StoredFile] = ()

    @property
    def digests(self) -> list[bytes]:
        """The kept bytes that the record names."""
        return [split.kept for splits in self.tables.values() for split in splits if split.kept is not None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Base:
    """The start of a task's records: they begin behind `position`, and a new ledger begins at `start`."""

    position: int = 0
    start: Start = field(default_factory=Start)
    left_out: Sequence[LeftOut] = ()
    read_by: frozenset[int] = frozenset()


# Bytes with a checksum


def with_checksum(kind: str, task: int, position: int, message: Message) -> bytes:
    data = message.SerializeToString()
    return _sum(kind, task, position, data) + data


def checked(kind: str, task: int, position: int, stored: bytes, message: type[M]) -> M:
    """The message in stored bytes. Raises `Refused` if they are not those that were stored there."""
    data = stored[_SUM_BYTES:]
    try:
        if stored[:_SUM_BYTES] == _sum(kind, task, position, data):
            return message.FromString(data)
    except DecodeError:
        pass
    raise damaged(f"{kind} {position} of its task {task} differs from what was written")


def _sum(kind: str, task: int, position: int, data: bytes) -> bytes:
    return hashlib.blake2b(f"{kind} {task} {position} ".encode() + data, digest_size=_SUM_BYTES).digest()


def damaged(how: str) -> Refused:
    return Refused(
        f"the journal is damaged: {how}: {RESTORE}",
        reason="DATA_DAMAGED",
    )


# Creations


def creation_message(creation: Creation) -> pb.Creation:
    return pb.Creation(
        plan=messages.plan_message(creation.plan),
        options=messages.options_message(creation.options),
        tables={name: pb.StoredTable(splits=map(_table_split, splits)) for name, splits in creation.tables.items()},
        restore=creation.restore,
        principal=creation.principal,
        request=creation.request,
        request_digest=creation.request_digest,
        task=messages.task_message(creation.info),
        versions=creation.versions,
        other_rows_through=creation.other_rows_through,
        files=map(_file_message, creation.files),
        spark="" if creation.options.spark.startswith(ADOPTED) else creation.options.spark,
    )


def creation_value(message: pb.Creation) -> Creation:
    tables = {
        name: tuple(StoredSplit(split=stored.split, kept=stored.kept or None) for stored in table.splits)
        for name, table in message.tables.items()
    }
    return Creation(
        plan=messages.plan_value(message.plan),
        options=replace(messages.options_value(message.options, TaskOptions()), spark=message.spark),
        tables=tables,
        restore=message.restore,
        principal=message.principal,
        request=message.request,
        request_digest=message.request_digest,
        info=messages.task_value(message.task),
        versions=dict(message.versions),
        other_rows_through=message.other_rows_through,
        files=tuple(map(_file_value, message.files)),
    )


def _table_split(stored: StoredSplit) -> pb.StoredSplit:
    return pb.StoredSplit(split=stored.split, kept=stored.kept or b"")


def _file_message(file: StoredFile) -> pb.StoredFile:
    return pb.StoredFile(
        path=file.path,
        format=file.format,
        size=file.version.size,
        modified_ns=file.version.modified_ns,
        folders=[wire.FolderValue(column=column, value=value) for column, value in file.partition],
    )


def _file_value(message: pb.StoredFile) -> StoredFile:
    return StoredFile(
        path=message.path,
        format=message.format,
        version=FileVersion(size=message.size, modified_ns=message.modified_ns),
        partition=tuple(
            (folder.column, folder.value if folder.HasField("value") else None) for folder in message.folders
        ),
    )


# Changes


def change_message(change: Change) -> pb.Change:
    seal, ended = change.seal, change.ended
    return pb.Change(
        at_us=change.at_us,
        splits=[_added_message(split, epoch) for split, epoch in change.splits],
        seal=None
        if seal is None
        else pb.SealedEpoch(epoch=seal.epoch, last=dict(seal.last), checkpoint=seal.checkpoint, said=dict(seal.said)),
        end=None if ended is None else pb.EndedSources(ends=dict(ended.ends), all=ended.all),
        transaction=None if change.transaction is None else _transaction_message(change.transaction),
        cancelled=change.cancelled,
        failure=None
        if change.failure is None
        else pb.FailedEpoch(epoch=change.failure.epoch, reason=change.failure.reason, message=change.failure.message),
        recovered=None
        if change.recovered is None
        else pb.RecoveredTask(
            epoch=change.recovered.epoch,
            left_out=map(_left_out_message, change.recovered.left_out),
            request=change.recovered.request,
        ),
        read_by=change.read_by,
    )


def change_value(message: pb.Change, kept: KeptByDigest) -> Change:
    seal, end = message.seal, message.end
    checkpoint = seal.checkpoint if seal.HasField("checkpoint") else None
    return Change(
        at_us=message.at_us,
        splits=tuple((_added_value(added, kept), added.epoch) for added in message.splits),
        seal=SealedEpoch(epoch=seal.epoch, last=dict(seal.last), checkpoint=checkpoint, said=dict(seal.said))
        if message.HasField("seal")
        else None,
        ended=EndedSources(ends=dict(end.ends), all=end.all) if message.HasField("end") else None,
        transaction=_transaction_value(message.transaction) if message.HasField("transaction") else None,
        cancelled=message.cancelled,
        failure=FailedEpoch(epoch=message.failure.epoch, reason=message.failure.reason, message=message.failure.message)
        if message.HasField("failure")
        else None,
        recovered=Recovered(
            epoch=message.recovered.epoch,
            left_out=tuple(map(_left_out_value, message.recovered.left_out)),
            request=message.recovered.request,
        )
        if message.HasField("recovered")
        else None,
        read_by=message.read_by,
    )


def _left_out_message(split: LeftOut) -> pb.LeftOut:
    return pb.LeftOut(source=split.source, sequence=split.sequence, epoch=split.epoch)


def _left_out_value(message: pb.LeftOut) -> LeftOut:
    return LeftOut(source=message.source, sequence=message.sequence, epoch=message.epoch)


def _added_message(split: AcceptedSplit, epoch: int) -> pb.AddedSplit:
    kept = split.kept.digest if split.kept is not None else b""
    files = [
        _file_message(
            StoredFile(path=piece.path, format=piece.format, version=piece.version, partition=piece.partition)
        )
        for piece in split.files
    ]
    return pb.AddedSplit(
        source=split.source,
        sequence=split.sequence,
        epoch=epoch,
        split=pb.StoredSplit(
            split=_said(split),
            kept=kept,
            files=files,
            digest=split.digest,
        ),
    )


def _said(split: AcceptedSplit) -> wire.Split:
    """The split without its rows. All pieces of a file split have its range of rows, or its row groups."""
    path, rows, row_groups, number = _NO_FILE
    if split.files:
        piece = split.files[0]
        path, rows, row_groups, number = piece.path, piece.rows, piece.row_groups, piece.number
    return messages.split_message(
        FileSplit(
            path,
            rows=rows,
            row_groups=row_groups,
            watermark=split.watermark,
            change_column=split.change_column,
            missing_columns=split.missing_columns,
            number=number,
        )
    )


def _added_value(message: pb.AddedSplit, kept: KeptByDigest) -> AcceptedSplit:
    stored = message.split
    watermark, change_column, missing_columns = messages.said_of_rows(stored.split)
    split = AcceptedSplit(
        source=message.source,
        sequence=message.sequence,
        origin=origin_of(message.source, message.sequence),
        watermark=watermark,
        change_column=change_column,
        missing_columns=missing_columns,
        digest=stored.digest,
        kept=kept.known(stored.kept) if stored.kept else None,
    )
    split.files = tuple(_piece(_file_value(file), stored.split, split) for file in stored.files)
    return split


def _piece(file: StoredFile, said: wire.Split, split: AcceptedSplit) -> FilePiece:
    ranges = messages.file_value(said.file)
    return FilePiece(
        path=file.path,
        format=file.format,
        version=file.version,
        origin=split.origin,
        rows=ranges.rows,
        row_groups=ranges.row_groups,
        partition=file.partition,
        change_column=split.change_column,
        missing_columns=split.missing_columns,
        number=ranges.number,
    )


def _transaction_message(record: Record) -> pb.StoredTransaction:
    return pb.StoredTransaction(
        application=record.application,
        version=record.version,
        epoch=record.epoch,
        digest=record.digest,
        first=dict(record.first),
    )


def _transaction_value(message: pb.StoredTransaction) -> Record:
    return Record(
        application=message.application,
        version=message.version,
        epoch=message.epoch,
        digest=message.digest,
        first=dict(message.first),
    )


# Bases and cursors


def base_message(base: Base) -> pb.Base:
    start = base.start
    return pb.Base(
        position=base.position,
        epoch=start.epoch,
        sources=dict(start.sources),
        ends=dict(start.ends),
        all_ended=start.all_ended,
        transactions=map(_transaction_message, start.transactions),
        left_out=map(_left_out_message, base.left_out),
        checkpoint=start.wishes.checkpoint,
        said=dict(start.wishes.said),
        read_by=sorted(base.read_by),
    )


def base_value(message: pb.Base) -> Base:
    start = Start(
        epoch=message.epoch,
        sources=dict(message.sources),
        transactions=tuple(map(_transaction_value, message.transactions)),
        ends=dict(message.ends),
        all_ended=message.all_ended,
        wishes=Wishes(
            checkpoint=message.checkpoint if message.HasField("checkpoint") else None, said=dict(message.said)
        ),
    )
    return Base(
        position=message.position,
        start=start,
        left_out=tuple(map(_left_out_value, message.left_out)),
        read_by=frozenset(message.read_by),
    )


def folded(base: Base, position: int, change: Change) -> Base:
    """The base behind one more change, all of whose splits belong to epochs that are acknowledged."""
    start = base.start
    transactions = {record.application: record for record in start.transactions}
    if change.transaction is not None:
        transactions.pop(change.transaction.application, None)
        transactions[change.transaction.application] = change.transaction
    epoch, sources, wishes = start.epoch, start.sources, start.wishes
    if change.seal is not None:
        if change.seal.epoch > epoch:
            epoch, sources, wishes = change.seal.epoch, change.seal.last, NO_WISHES
        wishes = change.seal.wishes_behind(epoch, wishes)
    return Base(
        position=position,
        left_out=(*base.left_out, *(change.recovered.left_out if change.recovered is not None else ())),
        read_by=base.read_by | {change.read_by} if change.read_by else base.read_by,
        start=Start(
            epoch=epoch,
            sources=sources,
            transactions=tuple(transactions.values())[-MOST_APPLICATIONS:],
            ends={**start.ends, **change.ended.ends} if change.ended is not None else start.ends,
            all_ended=start.all_ended or (change.ended is not None and change.ended.all),
            wishes=wishes,
        ),
    )
