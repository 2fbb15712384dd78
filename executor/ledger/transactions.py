"""Transactions that applications have committed to a task, remembered so that each happens once.

A transaction is a set of splits, and perhaps a seal, under a version of an application. An application's versions go
up: a version that is not above the last one is a repetition and changes nothing. The book remembers the last version of
each application, and the last one in each epoch that has not reached its barrier, which a checkpoint at that barrier
needs. Beyond `MOST_APPLICATIONS` applications, the book forgets the least recently used one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from ...proto.errors import InvalidRequest, Refused, in_utf8
from ...proto.values import Split, Transaction
from .split_digest import split_digest

MOST_APPLICATIONS: Final = 1000
LONGEST_NAME: Final = 200
LARGEST_VERSION: Final = (1 << 63) - 1

Additions = Sequence[tuple[str, Split]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """A transaction that has happened, as a part of `epoch`. `first` is the number of its first split, per source."""

    application: str
    version: int
    epoch: int
    digest: str
    first: Mapping[str, int] = field(default_factory=dict)


class Transactions:
    """The records of the transactions that applications have committed."""

    def __init__(self, records: Iterable[Record] = ()) -> None:
        self._records: dict[str, tuple[Record, ...]] = {record.application: (record,) for record in records}

    def last(self, application: str) -> Record | None:
        records = self._records.get(application)
        return records[-1] if records else None

    def repeated(self, transaction: Transaction) -> Record | None:
        """The application's last record if it is of this version or a later one, else None.

        Raises `Refused` if the transaction follows a version that is not the application's last.
        """
        last = self.last(transaction.application)
        if last is not None and transaction.version <= last.version:
            return last
        follows = transaction.follows
        if follows is not None and (last is None or last.version != follows):
            known = (
                "the task has no version of this application"
                if last is None
                else f"the last version in this task is {last.version}"
            )
            raise Refused(
                f"version {transaction.version} of application {transaction.application!r} follows version "
                f"{follows}, but {known}: the versions between the two would be lost; let the application continue "
                f"from the task's last version, or restore the checkpoint of the task that has version {follows}",
                reason="TRANSACTION_GAP",
            )
        return None

    def record(self, record: Record, finished: int) -> None:
        """Remember a record.

        `finished` is the last epoch that has reached its barrier; its checkpoint is taken already.
        """
        before = [earlier for earlier in self._records.pop(record.application, ()) if earlier.epoch != record.epoch]
        needed = before[max(0, sum(earlier.epoch <= finished for earlier in before) - 1) :]
        self._records[record.application] = (*needed, record)
        if len(self._records) > MOST_APPLICATIONS:
            del self._records[next(iter(self._records))]

    def by(self, epoch: int) -> tuple[Record, ...]:
        """The last record of each application at the barrier of `epoch`, the next barrier to be reached."""
        lasts = (
            next((record for record in reversed(records) if record.epoch <= epoch), None)
            for records in self._records.values()
        )
        return tuple(last for last in lasts if last is not None)


def check_transaction(transaction: Transaction) -> None:
    """Raise `InvalidRequest` if the transaction is not valid for any task."""
    name, version, follows = transaction.application, transaction.version, transaction.follows
    if not 1 <= len(name) <= LONGEST_NAME:
        raise InvalidRequest(
            f"the application's name of a transaction must have 1 to {LONGEST_NAME} characters, not {len(name)}",
            reason="BAD_TRANSACTION",
        )
    if name != in_utf8(name):
        raise InvalidRequest(
            f"the application's name of a transaction must be text that UTF-8 has: {in_utf8(name)!r} has a surrogate",
            reason="BAD_TRANSACTION",
        )
    if not 0 <= version <= LARGEST_VERSION:
        raise InvalidRequest(
            f"version {version} of application {name!r} must be from 0 to {LARGEST_VERSION}", reason="BAD_TRANSACTION"
        )
    if follows is not None and not 0 <= follows < version:
        raise InvalidRequest(
            f"version {version} of application {name!r} cannot follow version {follows}: versions must increase",
            reason="BAD_TRANSACTION",
        )


def content_digest(splits: Additions, *, seals: bool) -> str:
    """The digest of a transaction's content, which tells it from another one under the same version."""
    digest = hashlib.blake2b(b"seals" if seals else b"adds", digest_size=16)
    for source, split in splits:
        name = source.casefold().encode()
        digest.update(len(name).to_bytes(8, "little") + name + split_digest(split))
    return digest.hexdigest()
