"""The feeding half of a task's client: numbers the splits, and remembers the sealed epochs."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, Literal, TypeVar

import pyarrow as pa

from ..numbers import check_sources, check_watermark, from_one, last_numbers, named_values
from ..proto.errors import InvalidRequest, Refused
from ..proto.service import Service
from ..proto.source_names import fed_source
from ..proto.values import (
    MIB,
    NO_WISHES,
    Added,
    AddRequest,
    InlineSplit,
    MissingColumns,
    Seal,
    Split,
    TaskInfo,
    Transacted,
    Transaction,
)
from ..splits import SplitLike, by_source, split
from .sending import Sending

STEP_BYTES: Final = 8 * MIB  # of inline data in one call
STEP_SPLITS: Final = 1000

A = TypeVar("A")

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


def seal_of(
    checkpoint: bool | str,
    watermarks: Mapping[str, int] | None,
    idle: Sequence[str],
    through: Mapping[str, int] | None = None,
) -> Seal:
    """The wish for a barrier, from what a caller says."""
    if checkpoint is False and watermarks is None and idle == () and through is None:
        return NO_WISHES
    said = dict(named_values("watermarks", watermarks))
    for watermark in said.values():
        check_watermark(watermark)
    if isinstance(idle, str | bytes) or not isinstance(idle, Collection):
        raise InvalidRequest(f"idle={idle!r:.80} must be a sequence of names of sources")
    check_sources(idle)
    return Seal(through=through, checkpoint=checkpoint_name(checkpoint), watermarks=said, idle=tuple(idle))


class Feed:
    """The numbers of a task's splits. `sealed` is the last sealed epoch that this client knows of.

    One call at a time feeds a source. No lock is held while the service works, so that a source whose folder is long to
    list holds up no other.
    """

    def __init__(self, service: Service, info: TaskInfo) -> None:
        self._service = service
        self._task = info.id
        self._changed = threading.Condition()
        self._fed_now: set[str] = set()
        self._feeding_epochs = threading.Lock()
        self._may_have_added = False
        """True if `feed` has failed: the service may have splits whose numbers are not known here."""
        self.sealed = 0
        self._last: dict[str, int] = {}
        self._unsealed: dict[str, int] = {}
        """The sources with splits that are not sealed, and the last epoch of such splits."""
        self._take(info)

    @contextmanager
    def _feeding(self, sources: Iterable[str]) -> Iterator[None]:
        """Wait until no other thread feeds any of the sources, and feed them alone."""
        wanted = set(sources)
        with self._changed:
            while not wanted.isdisjoint(self._fed_now):
                self._changed.wait()
            self._fed_now |= wanted
        try:
            yield
        finally:
            with self._changed:
                self._fed_now -= wanted
                self._changed.notify_all()

    def _take(self, info: TaskInfo) -> None:
        """Learn what the service knows. What this client has done since is newer and stays."""
        fed = [source for source in info.sources if not source.static]
        self._static = {source.name for source in info.sources if source.static}
        self._last = {source.name: max(source.last_added, self._last.get(source.name, 0)) for source in fed}
        for source in fed:
            if source.last_added > source.last_sealed:
                self._unsealed[source.name] = max(info.sealed_epoch + 1, self._unsealed.get(source.name, 0))
        self._sealed(info.sealed_epoch)

    def refresh(self) -> bool:
        """Learn which splits and seals of other clients there are; True if the task still runs."""
        info = self._service.get_task(self._task)
        with self._changed:
            self._take(info)
        return info.runs

    def _added(self, source: str, number: int, epoch: int) -> None:
        """Remember that the source's split has this number and belongs to this epoch."""
        with self._changed:
            self._last[source] = max(number, self._last[source])
            if epoch > self.sealed:
                self._unsealed[source] = max(epoch, self._unsealed.get(source, 0))

    def _sealed(self, epoch: int) -> None:
        with self._changed:
            self.sealed = max(self.sealed, epoch)
            self._unsealed = {source: last for source, last in self._unsealed.items() if last > self.sealed}

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
        source = fed_source(source, self._last, self._static)
        with self._feeding([source]):
            number = self._last[source] + 1 if sequence is None else sequence
            with self.sending() as send:
                built = split(
                    data, send, watermark=watermark, change_column=change_column, missing_columns=missing_columns
                )

                def call(now: Sequence[Split]) -> list[Added]:
                    splits = [(source, one, number) for one in now]
                    return self._service.add_splits(self._task, AddRequest(splits=splits, epoch=epoch))[0]

                added = send.call([built], call)
                if added[0].duplicate:
                    send.drop()
            self._added(source, number, added[0].epoch)
            return added[0]

    def seal(self, epoch: int | None, seal: Seal) -> int:
        from_one("epoch", epoch)
        last_numbers(seal.through)
        if epoch is None:
            seal = replace(seal, after=self.sealed)
        number = self._service.request_barrier(self._task, epoch, seal)
        self._sealed(number)
        if self._may_have_added:  # they are sealed now: later splits have other numbers
            self.refresh()
            self._may_have_added = False
        return number

    def transact(
        self,
        transaction: Transaction,
        splits: Mapping[str, SplitLike | Sequence[SplitLike]],
        *,
        seals: bool,
        checkpoint: str | None,
    ) -> Transacted:
        fed = [(fed_source(name, self._last, self._static), several) for name, several in by_source(splits).items()]
        with self._feeding(source for source, _ in fed), self.sending() as send:
            built = [(source, split(data, send)) for source, several in fed for data in several]
            seal = Seal(checkpoint=checkpoint) if seals else None

            def call(now: Sequence[Split]) -> Transacted:
                splits = [(source, fed_split, None) for (source, _), fed_split in zip(built, now, strict=True)]
                return self._service.transact(self._task, transaction, AddRequest(splits=splits, seal=seal))

            transacted = send.call([fed_split for _, fed_split in built], call)
            if transacted.replayed:
                send.drop()
            # A replayed one may be this very call, repeated because its answer was lost: its numbers are new here, too.
            for (source, _), added in zip(built, transacted.added, strict=False):
                self._added(source, added.sequence, added.epoch)
            if seals and transacted.same:
                self._sealed(transacted.epoch or 0)
            return transacted

    def sending(self, before: Callable[[], None] | None = None) -> Sending:
        return Sending(self._service, self._task, before)

    def check_sealed(self) -> None:
        """Raise `Refused` if there are splits that are not sealed."""
        if self._unsealed:
            names = ", ".join(sorted(self._unsealed))
            raise Refused(
                f"splits of {names} are not sealed yet: call request_barrier() and read_epoch() first",
                reason="UNSEALED_SPLITS",
            )

    def steps(self, splits: Mapping[str, SplitLike | Sequence[SplitLike]], send: Sending) -> Iterator[Step]:
        """The splits in calls of a moderate size. The last call seals them. Each call may be repeated."""
        self.check_sealed()
        fed = [(fed_source(name, self._last, self._static), several) for name, several in by_source(splits).items()]
        last = dict(self._last)
        held: list[Numbered] = []
        size = 0
        for source, several in fed:
            for data in several:
                if held:
                    size += _inline_bytes(held[-1][1]) + send.held_bytes(held[-1][1])
                if size >= STEP_BYTES or len(held) >= STEP_SPLITS:
                    yield Step(splits=held, through=None)
                    held, size = [], 0
                built = split(data, send)
                last[source] += 1
                held.append((source, built, last[source]))
        # Naming the last number of every source refuses to seal splits that another client has added meanwhile.
        yield Step(splits=held, through=last)

    def feed(self, splits: Mapping[str, SplitLike | Sequence[SplitLike]], seal: Seal) -> int:
        """Add the splits and seal them, the last ones and the seal in one call. Refused, it may be repeated."""
        with self._feeding_epochs, self.sending() as send:
            number = self.sealed + 1
            steps = []
            try:
                for step in self.steps(splits, send):
                    self.take(step, number, seal, send, partial(self._service.add_splits, self._task))
                    steps.append(step)
            except BaseException:
                self._may_have_added = True
                raise
            for step in steps:  # not before: a call that is repeated gives the splits the same numbers
                self.taken(step, number)
            self._may_have_added = False
            return number

    def take(self, step: Step, number: int, seal: Seal, send: Sending, call: Callable[[AddRequest], A]) -> A:
        """The answer of `call` to a step of epoch `number`, whose files `send` has sent."""

        def ask(now: Sequence[Split]) -> A:
            splits = [(source, one, sequence) for (source, _, sequence), one in zip(step.splits, now, strict=True)]
            last = None if step.through is None else replace(seal, through=step.through)
            return call(AddRequest(splits=splits, epoch=number, seal=last))

        with self._feeding({source for source, _, _ in step.splits}):
            return send.call([one for _, one, _ in step.splits], ask)

    def taken(self, step: Step, number: int) -> None:
        """Remember that the service has a step of epoch `number`."""
        for source, _, sequence in step.splits:
            self._added(source, sequence or 0, number)
        if step.through is not None:
            self._sealed(number)


def _inline_bytes(built: Split) -> int:
    return sum(map(pa.ipc.get_record_batch_size, built.batches)) if isinstance(built, InlineSplit) else 0
