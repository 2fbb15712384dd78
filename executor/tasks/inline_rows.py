"""The rows of inline splits, until their epoch needs them no more: in memory, then on disk, then refused.

A refusal says what would help: reading (OUTPUT_UNREAD), or nothing but a seal (WAITS_FOR_SEAL). No source can take all
the room: each source keeps a share that other sources leave alone, so a source that waits for its seal never blocks
another source.

The content of a split that has run can be compared until its epoch is acknowledged. A digest costs more than the rest
of the bookkeeping of most small epochs, so rows stay while there is room, and a digest replaces them when there is
none.

A caller in this process may *lend* rows: they are in its memory anyway until the epoch has used them. Lent rows have
room on the disk, but are not written to it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import TypeAlias

import pyarrow as pa

from ...proto.errors import Exhausted
from ..ledger.split_book import AcceptedSplit
from ..runtime.batch_store import FILE_MARGIN, Holding, Quota, SpillFiles, SpillRun, Store

_RESERVED_FRACTION = 4

Waiting: TypeAlias = Callable[[], Iterable[AcceptedSplit]]
"""A call that a refusal alone makes, because it goes over all splits."""


class SplitQueue:
    """The rows of a task's inline splits.

    One thread at a time calls `admit`, without `lock` (the task's lock); all other methods are called with it.
    """

    def __init__(
        self, memory_limit: int, quota: Quota, files: SpillFiles, sources: Iterable[str], lock: threading.Lock
    ) -> None:
        self._store = Store(memory_limit, quota)
        self._quota = quota
        self._files = files
        self._used = dict.fromkeys(sources, 0)
        self._lock = lock
        self._splits: dict[Holding, AcceptedSplit] = {}
        self._consumed: dict[AcceptedSplit, None] = {}
        self._lent: dict[AcceptedSplit, int] = {}
        """The splits whose rows are lent, and the room on the disk that each has."""

    @property
    def disk(self) -> int:
        return self._store.disk

    @property
    def lent(self) -> int:
        """The room on the disk that lent rows have, and do not use."""
        return sum(self._lent.values())

    def hold(self, size: int) -> None:
        """Reserve `size` bytes of the memory for other rows, for good."""
        self._store.memory_limit -= size

    def put(self, split: AcceptedSplit, holding: Holding, *, lends: bool) -> bool:
        """Take the rows if there is room for them in memory, or if their caller `lends` them; True if it took them."""
        if not self._store.fits(holding) or not self._leaves_others_room(split, holding):
            return lends and self._lend(split, holding)
        self._store.put(holding)
        self._took(split, holding)
        return True

    def _took(self, split: AcceptedSplit, holding: Holding) -> None:
        split.inline = holding
        self._splits[holding] = split
        self._used[split.source] += holding.size

    def admit(self, split: AcceptedSplit, holding: Holding, waiting: Waiting, *, lends: bool = False) -> None:
        """Take the rows, on disk if necessary. Under the lock, `waiting` gives the splits that only a seal will get
        read. `lends` as in `Adding.add`.
        """
        while True:
            with self._lock:
                if self.put(split, holding, lends=lends):
                    return
                run_before = next(iter(self._consumed), None)
                batches = run_before.batches() if run_before is not None else ()
                spill = self._spill_run(split, holding, waiting) if run_before is None else None
            if run_before is not None:
                self._replace_by_digest(run_before, batches)
            elif spill is not None:
                self._spill(split, holding, spill)
                return

    def _lend(self, split: AcceptedSplit, holding: Holding) -> bool:
        """Take rows that their caller has in memory until their epoch has used them. False if there is no room for them
        on the disk.
        """
        room = holding.size + FILE_MARGIN
        if not self._leaves_others_room(split, holding) or not self._quota.take(room):
            return False
        self._lent[split] = room
        self._took(split, holding)
        return True

    def take_back(self) -> None:
        """Write lent rows that have not been used to the disk, because their epoch does not run now. Called as `admit`
        is.
        """
        with self._lock:
            lent = [(split, split.inline) for split in self._lent if split not in self._consumed]
        for split, holding in lent:
            if holding is not None:
                self._write_lent(split, holding)

    def _write_lent(self, split: AcceptedSplit, holding: Holding) -> None:
        run = SpillRun((holding,), (holding.batches(),), holding.size + FILE_MARGIN)
        file, digest = self._files.write(run), split.fingerprint(run.parts[0])
        with self._lock:
            if self._lent.pop(split, None) is None:  # used meanwhile
                file.path.unlink(missing_ok=True)
                return
            self._store.spilled(run, file)
            split.digest = digest

    def settle(self) -> None:
        """Replace lent rows that have been used, and are not acknowledged, by their digests. The thread that runs the
        epochs calls this, without the lock.
        """
        while True:
            with self._lock:
                split = next((lent for lent in self._lent if lent in self._consumed), None)
                batches = () if split is None else split.batches()
            if split is None:
                return
            self._replace_by_digest(split, batches)

    def _spill_run(self, split: AcceptedSplit, holding: Holding, waiting: Waiting) -> SpillRun:
        run = self._store.take_run(holding) if self._leaves_others_room(split, holding) else None
        if run is None:
            raise self._refusal(split, holding, waiting())
        return run

    def _spill(self, split: AcceptedSplit, holding: Holding, run: SpillRun) -> None:
        with self._lock:
            splits = [self._splits.get(known, split) for known in run.holdings]
        try:
            file = self._files.write(run)
            digests = [known.digest or known.fingerprint(part) for known, part in zip(splits, run.parts, strict=True)]
        except BaseException:
            with self._lock:
                self._store.give_back(run)
            raise
        with self._lock:
            self._took(split, holding)
            self._store.spilled(run, file)
            for known, digest in zip(splits, digests, strict=True):
                known.digest = digest

    def _replace_by_digest(self, split: AcceptedSplit, batches: tuple[pa.RecordBatch, ...]) -> None:
        digest = split.fingerprint(batches)
        with self._lock:
            split.digest = digest
            self._consumed.pop(split, None)
            self._free(split)

    # ------------------------------------------------------------------------------------------------- limits

    @property
    def _capacity(self) -> int:
        """The bytes that splits may use in all."""
        return self._store.memory_limit + self._quota.limit - self._quota.kept

    def _reserved(self, source: str) -> int:
        """The unused bytes of the other sources' shares."""
        if len(self._used) == 1:
            return 0
        share = self._capacity // (_RESERVED_FRACTION * len(self._used))
        return sum(max(0, share - used) for other, used in self._used.items() if other != source)

    def _leaves_others_room(self, split: AcceptedSplit, holding: Holding) -> bool:
        used = sum(self._used.values())
        return not holding.size or used + holding.size <= self._capacity - self._reserved(split.source)

    def _refusal(self, split: AcceptedSplit, holding: Holding, waiting: Iterable[AcceptedSplit]) -> Exhausted:
        held = dict.fromkeys(self._used, 0)
        in_memory = 0
        for other in waiting:
            size = other.inline.size if other.inline is not None else 0
            held[other.source] += size
            in_memory += size if other.inline is not None and other.inline.in_memory else 0
        room = self._capacity - self._reserved(split.source)
        if not self._would_fit(holding, 0, 0, room):
            return Exhausted(
                f"{split.origin} has {holding.size} bytes, more than queue_bytes ({self._store.memory_limit} of it "
                f"for splits) and spill_quota ({self._quota.limit}) leave for the split",
                reason="SPLIT_TOO_LARGE",
            )
        waits = sum(held.values())
        counted = self._store.disk + self.lent
        unread = sum(self._used.values()) - waits + self._quota.used - self._quota.kept - counted
        if not unread or not self._would_fit(holding, in_memory, waits - in_memory, room):
            most = max(held, key=lambda name: held[name])
            return Exhausted(
                f"{split.origin} does not fit: the splits of source {most!r} have {held[most]} bytes, which are read "
                f"only after a seal; request a barrier, or raise spill_quota ({self._quota.limit})",
                reason="WAITS_FOR_SEAL",
            )
        return Exhausted(
            f"{split.origin} does not fit while results are unread: read and acknowledge, then add the split again",
            reason="OUTPUT_UNREAD",
        )

    def _would_fit(self, holding: Holding, in_memory: int, on_disk: int, room: int) -> bool:
        """True if the rows would fit, with only these bytes held beside them."""
        if in_memory + on_disk + holding.size > room:
            return False
        disk = self._quota.limit - self._quota.kept
        return in_memory + holding.size <= self._store.memory_limit or on_disk + holding.size + FILE_MARGIN <= disk

    # -------------------------------------------------------------------------------------------------- leaving

    def consumed(self, split: AcceptedSplit) -> None:
        """Record that the split's rows will not be read again. Its content may still be compared."""
        if split.inline is None:
            return
        if split.digest is not None:
            self._free(split)
        else:
            self._consumed[split] = None

    def forget(self, split: AcceptedSplit) -> None:
        """Drop the split, whose epoch is acknowledged."""
        self._consumed.pop(split, None)
        self._free(split)

    def clear(self) -> None:
        """Drop everything: the task is over."""
        self._consumed.clear()
        for split in tuple(self._splits.values()):
            self._free(split)

    def _free(self, split: AcceptedSplit) -> None:
        if split.inline is None:
            return
        self._quota.give(self._lent.pop(split, 0))
        self._used[split.source] -= split.inline.size
        del self._splits[split.inline]
        self._store.free(split.inline)
        split.inline = None
