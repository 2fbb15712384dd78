"""The feeding half of a task's client: numbers the splits, and remembers the sealed epochs."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

import pyarrow as pa

from ..numbers import from_one, last_numbers
from ..proto.errors import InvalidRequest, Refused
from ..proto.service import Service
from ..proto.source_names import fed_source
from ..proto.values import (
    MIB,
    Added,
    AddRequest,
    Cursor,
    Frame,
    InlineSplit,
    MissingColumns,
    Seal,
    Split,
    TaskInfo,
    Transacted,
    Transaction,
)
from ..splits import SplitLike, Uploader, by_source, split
from .sending import Sending

STEP_BYTES: Final = 8 * MIB  # of inline data in one call
STEP_SPLITS: Final = 1000

Numbered = tuple[str, Split, int | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """Splits that go into one call. A step with `through` is the last one, and seals."""

    splits: Sequence[Numbered]
    through: Mapping[str, int] | None


def checkpoint_name(checkpoint: bool | str) -> str | None:
    """The checkpoint as the service takes it: none, one that the service names, or one of this name."""
    if isinstance(checkpoint, bool):
        return "" if checkpoint else None
    if not isinstance(checkpoint, str) or not checkpoint:
        raise InvalidRequest(f"checkpoint must be True or a name, not {checkpoint!r}", reason="CHECKPOINT_NAME")
    return checkpoint


class Feed:
    """The numbers of a task's splits. `sealed` is the last sealed epoch that this client knows of."""

    def __init__(self, service: Service, info: TaskInfo) -> None:
        self._service = service
        self._task = info.id
        self._lock = threading.RLock()
        self._take(info)

    def _take(self, info: TaskInfo) -> None:
        self.sealed = info.sealed_epoch
        fed = [source for source in info.sources if not source.static]
        self._static = {source.name for source in info.sources if source.static}
        self._last = {source.name: source.last_added for source in fed}
        self._unsealed = {source.name for source in fed if source.last_added > source.last_sealed}

    def refresh(self) -> bool:
        """Learn which splits and seals of other clients there are; True if the task still runs."""
        with self._lock:
            info = self._service.get_task(self._task)
            self._take(info)
            return info.runs

    def add(
        self,
        source: str,
        data: SplitLike,
        *,
        sequence: int | None,
        epoch: int | None,
        watermark: int | None,
        change_column: str | None,
        missing_columns: MissingColumns | Literal["error", "null"] | None,
    ) -> Added:
        from_one("sequence", sequence)
        from_one("epoch", epoch)
        with self._lock:
            source = fed_source(source, self._last, self._static)
            number = self._last[source] + 1 if sequence is None else sequence
            with self.sending() as send:
                built = split(
                    data, send, watermark=watermark, change_column=change_column, missing_columns=missing_columns
                )
                request = AddRequest(splits=[(source, built, number)], epoch=epoch)
                added, _ = self._service.add_splits(self._task, request)
                if added[0].duplicate:
                    send.drop()
            self._last[source] = max(number, self._last[source])
            if added[0].epoch > self.sealed:
                self._unsealed.add(source)
            return added[0]

    def seal(self, epoch: int | None, through: Mapping[str, int] | None, checkpoint: str | None) -> int:
        from_one("epoch", epoch)
        last_numbers(through)
        with self._lock:
            number = self._service.request_barrier(self._task, epoch, Seal(through=through, checkpoint=checkpoint))
            if number > self.sealed:
                self.sealed = number
                self._unsealed.clear()
            return number

    def transact(
        self,
        transaction: Transaction,
        splits: Mapping[str, SplitLike | Sequence[SplitLike]],
        *,
        seals: bool,
        checkpoint: str | None,
    ) -> Transacted:
        with self._lock:
            fed = [(fed_source(name, self._last, self._static), several) for name, several in by_source(splits).items()]
            with self.sending() as send:
                built = [(source, split(data, send)) for source, several in fed for data in several]
                request = AddRequest(
                    splits=[(source, fed_split, None) for source, fed_split in built],
                    seal=Seal(checkpoint=checkpoint) if seals else None,
                )
                transacted = self._service.transact(self._task, transaction, request)
                if transacted.replayed:
                    send.drop()
                else:
                    self._take_transacted(built, transacted, seals=seals)
            return transacted

    def _take_transacted(self, splits: Sequence[tuple[str, Split]], transacted: Transacted, *, seals: bool) -> None:
        for (source, _), added in zip(splits, transacted.added, strict=True):
            self._last[source] = max(added.sequence, self._last[source])
            self._unsealed.add(source)
        if seals:
            self.sealed = max(self.sealed, transacted.epoch or 0)
            self._unsealed.clear()

    def sending(self, before: Callable[[], None] | None = None) -> Sending:
        return Sending(self._service, self._task, before)

    def steps(self, splits: Mapping[str, SplitLike | Sequence[SplitLike]], send: Uploader) -> Iterator[Step]:
        """The splits in calls of a moderate size. The last call seals them. Each call may be repeated."""
        if self._unsealed:
            names = ", ".join(sorted(self._unsealed))
            raise Refused(
                f"splits of {names} are not sealed yet: call request_barrier() and read_epoch() first",
                reason="UNSEALED_SPLITS",
            )
        fed = [(fed_source(name, self._last, self._static), several) for name, several in by_source(splits).items()]
        last = dict(self._last)
        held: list[Numbered] = []
        size = 0
        for source, several in fed:
            for data in several:
                if held:
                    size += _inline_bytes(held[-1][1])
                if size >= STEP_BYTES or len(held) >= STEP_SPLITS:
                    yield Step(splits=held, through=None)
                    held, size = [], 0
                built = split(data, send)
                last[source] += 1
                held.append((source, built, last[source]))
        # Naming the last number of every source refuses to seal splits that another client has added meanwhile.
        yield Step(splits=held, through=last)

    def take(
        self, step: Step, number: int, cursor: Cursor, acknowledge: Cursor | None, checkpoint: str | None
    ) -> Sequence[Frame]:
        """Add a step's splits to epoch `number`.

        The last step acknowledges, asks for the checkpoint, and returns the frames at `cursor`.
        """
        with self._lock:
            if step.through is None:
                self._service.add_splits(self._task, AddRequest(splits=step.splits, epoch=number))
                frames: Sequence[Frame] = ()
            else:
                seal = Seal(through=step.through, checkpoint=checkpoint)
                request = AddRequest(splits=step.splits, epoch=number, seal=seal)
                frames = self._service.run_epoch(self._task, request, cursor, acknowledge=acknowledge)
            for source, _, sequence in step.splits:
                self._last[source] = sequence or self._last[source]
                self._unsealed.add(source)
            if step.through is not None:
                self.sealed = number
                self._unsealed.clear()
            return frames


def _inline_bytes(built: Split) -> int:
    return sum(map(pa.ipc.get_record_batch_size, built.batches)) if isinstance(built, InlineSplit) else 0
