"""The loader: batches for training, in an order that depends only on the seed and the data."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import cache, partial
from itertools import count
from typing import Any, Final, Literal, Unpack

from ..client import Client
from ..closing import Closing
from ..plans import Plan, plan_bytes
from ..progress import line_shown
from ..proto.errors import InvalidRequest, Refused, TidegateError
from ..proto.values import PlanBytes
from ..splits import SplitLike
from ..task import Task
from ..task_options import SharedOptions
from .batch import Batch, Position
from .batch_columns import Arrays
from .batch_runs import BatchRuns, Tail, check_has_given
from .building.batch_layout import Layout, layout_of
from .building.window_prefetch import Build, one_by_one
from .loader_arguments import (
    ahead_batches,
    check_ahead,
    check_choices,
    check_columns,
    check_numbers,
    check_options,
    check_packed,
    check_shards,
    check_shares,
    check_shuffle,
    window_batches,
)
from .loader_reading import Reading
from .loader_state import (
    CheckedState,
    State,
    as_now,
    check_fits,
    going_on_from,
    ordering,
    state_of,
    with_turns,
)
from .loader_statistics import LoaderStatistics, Meter
from .order.rank_shares import Wanted
from .order.rows_of_plan import PlanRows, rows_of_plan
from .order.shards import EpochShards, Grid
from .order.shuffle import Shuffle
from .packing import Pack
from .shard_runs import ShardRuns
from .sources.loader_tasks import LoaderTasks
from .sources.uninterrupted import at_its_end, uninterrupted
from .split_reader import SplitReaders
from .training_source import Data, TrainingSource

PREFETCH_BYTES: Final = 256 << 20


class Loader(Closing):
    """Batches of a plan's result, shuffled, in an order that depends only on the seed and the data.

    Iterating goes on from the loader's position to the end of the last of `epochs`; `one_epoch` stops at the end of an
    epoch. The plan runs over each split on its own: it may filter, compute, unnest and look rows up in `tables`.

    >>> shuffle = tidegate.training.Shuffle(7)
    >>> loader = tidegate.training.Loader(client, samples_plan, {"samples": samples}, batch_size=4, shuffle=shuffle)
    >>> for batch in loader:
    ...     print(batch.number, batch["n"])
    0 [0 8 2 3]
    1 [1 9 5 7]
    2 [4 6]

    | Argument | |
    |---|---|
    | `batch_size` | rows of a global batch, which all ranks share |
    | `epochs` | passes over the data; None has no end |
    | `shuffle` | a `Shuffle`; None keeps the order of the data |
    | `rank`, `ranks` | which share of each batch this loader has |
    | `shards` | parts of an epoch that ranks read on their own: a rank reads those that it has rows of |
    | `turns` | parts of an epoch that workers read on their own: batch b is only of part b % turns |
    | `worker`, `workers` | which batches this loader has: every `workers`-th from number `worker` on |
    | `drop_last`, `pad` | leave the epoch's last, short batch out, or fill it by repeating its rows |
    | `columns`, `shapes` | the result's columns that batches have; the shape of a row for columns of lists |
    | `as_` | `"numpy"`, `"torch"`, `"jax"` or `"arrow"` |
    | `pin_memory` | True, with `as_="torch"`: tensors in pinned memory, from which copies to a GPU need not wait |
    | `weight` | a column: rows come so often, on average |
    | `pack` | a `Pack`: rows of one length from lists of tokens |
    | `provenance` | batches have `_split` and `_row`, the origin of each row |
    | `prefetch`, `prefetch_bytes` | batches and bytes to have ahead; the default is `readers` + 1 windows, 256 MiB |
    | `readers` | windows that are built at the same time, each by a thread with a task |
    | `tables` | static sources of the plan |
    | `on_error` | `"skip"`: a split that cannot be read has no rows, and `statistics().skipped` names it |
    | `progress` | True: a line on standard error says how far the loader is |
    | `options` | other options of the loader's task, as `channels` |
    """

    def __init__(
        self,
        client: Client,
        plan: Plan,
        data: Mapping[str, Data | Callable[[int], Data]],
        *,
        batch_size: int,
        epochs: int | None = 1,
        shuffle: Shuffle | None = None,
        rank: int = 0,
        ranks: int = 1,
        shards: int = 1,
        turns: int = 1,
        worker: int = 0,
        workers: int = 1,
        drop_last: bool = False,
        pad: bool = False,
        columns: Sequence[str] | None = None,
        shapes: Mapping[str, Sequence[int]] | None = None,
        as_: Arrays = "numpy",
        pin_memory: bool = False,
        weight: str | None = None,
        pack: Pack | None = None,
        provenance: bool = False,
        prefetch: int | None = None,
        prefetch_bytes: int = PREFETCH_BYTES,
        readers: int = 2,
        tables: Mapping[str, SplitLike | Sequence[SplitLike]] | None = None,
        on_error: Literal["fail", "skip"] = "fail",
        progress: bool = False,
        **options: Unpack[SharedOptions],
    ) -> None:
        check_shares(batch_size, rank=rank, ranks=ranks, shards=shards, turns=turns, worker=worker, workers=workers)
        check_columns(columns)
        check_shuffle(shuffle)
        check_ahead(epochs=epochs, readers=readers, prefetch=prefetch, prefetch_bytes=prefetch_bytes)
        check_packed(pack, columns, shapes, provenance=provenance)
        check_choices(as_=as_, pin_memory=pin_memory, drop_last=drop_last, pad=pad, on_error=on_error)
        self._grid = Grid(shards, turns)
        if self._grid.count > 1:
            check_shards(
                batch_size, self._grid, weight=weight is not None, pack=pack is not None, skips=on_error == "skip"
            )
        check_options(options)
        self._client = client
        self._plan = plan_bytes(plan)
        self._plan_rows = cache(partial(_plan_rows, client, self._plan))
        self._source = TrainingSource(data, shuffle, self._plan_rows, skips=on_error == "skip")
        self._wanted = Wanted(size=batch_size, rank=rank, ranks=ranks, stride=workers, offset=worker)
        self._epochs = epochs
        self._shuffle = shuffle
        self._tail = Tail.DROP if drop_last else Tail.PAD if pad else Tail.SHORT
        self._weight, self._pack = weight, pack
        self._layout = partial(
            layout_of,
            columns=columns,
            shapes=dict(shapes or {}),
            arrays=as_,
            pin=pin_memory,
            provenance=provenance,
            weight=weight,
            seed=0 if shuffle is None else shuffle.seed,
            pack=pack,
        )
        self._prefetch = ahead_batches(shuffle, batch_size, readers) if prefetch is None else prefetch
        self._prefetch_bytes = prefetch_bytes
        # Objects of their own: the threads that read ahead have them, and must not keep this loader alive.
        self._tasks = LoaderTasks(client, self._plan, self._source.name, tables, options, skips=on_error == "skip")
        self._readers = partial(SplitReaders, self._tasks.create, readers)
        self._options = options
        self._progress = progress
        self._position = Position()
        self._meter = Meter()
        self._constants: dict[str, Any] | None = None
        self._turn, self._closing = 0, threading.Lock()
        self._open: list[Reading] = []
        at_its_end(self, partial(_close, self._open))

    @property
    def position(self) -> Position:
        """The position after the batch in hand."""
        return self._position

    @property
    def ended(self) -> bool:
        """True if all epochs have been read."""
        return self._epochs is not None and self._position.epoch >= self._epochs

    # Batches

    def __iter__(self) -> Generator[Batch]:
        """The batches from the position on, to the end of the last epoch."""
        return self._batches(one_epoch=False)

    def one_epoch(self) -> Generator[Batch]:
        """The batches from the position on, to the end of their epoch. The next call goes on with the next epoch.

        >>> loader = tidegate.training.Loader(client, samples_plan, {"samples": samples}, batch_size=4, epochs=None)
        >>> for epoch in range(2):
        ...     print([len(batch["n"]) for batch in loader.one_epoch()])
        [4, 4, 2]
        [4, 4, 2]
        >>> loader.close()
        """
        return self._batches(one_epoch=True)

    def batch(self, epoch: int, number: int) -> Batch:
        """A batch of any epoch again: this loader's share of it. The loader's position stays.

        >>> loader = tidegate.training.Loader(client, samples_plan, {"samples": samples}, batch_size=4)
        >>> loader.batch(0, 2)["n"].tolist()
        [8, 9]
        """
        check_numbers(0, epoch=epoch, number=number)
        start = self._position_of(epoch, number)
        if start is not None:
            wanted = Wanted(size=self._wanted.size, rank=self._wanted.rank, ranks=self._wanted.ranks)
            with self._readers() as readers:
                builds = self._builds(readers, start, epoch + 1, Meter(), wanted)
                for run in one_by_one(builds, readers.first):
                    for batch, _ in run:
                        if batch is not None and batch.number == number:
                            return batch
        raise InvalidRequest(f"epoch {epoch} has no batch {number}", reason="NO_SUCH_BATCH")

    def _position_of(self, epoch: int, number: int) -> Position | None:
        if self._weight is not None or self._pack is not None:  # only the rows say how many they become
            return Position(epoch)
        with self._readers() as readers:
            if self._grid.count > 1:
                shards = self._shards_of(readers.first.task)(epoch)
                return Position(epoch, number) if number < self._tail.batches(shards.full, shards.tail) else None
            return self._source.position_of(readers.first, epoch, number, self._wanted.size)

    # State

    def state_dict(self) -> State:
        """The state after the batch in hand, as small JSON. Batches that are only prefetched are not part of it.

        It is the same on all ranks, and fits a loader with any number of them.

        >>> loader = tidegate.training.Loader(client, samples_plan, {"samples": samples}, batch_size=4)
        >>> batches = iter(loader)
        >>> next(batches)["n"].tolist(), next(batches)["n"].tolist()
        ([0, 1, 2, 3], [4, 5, 6, 7])
        >>> state = loader.state_dict()
        >>> other = tidegate.training.Loader(client, samples_plan, {"samples": samples}, batch_size=4, rank=1, ranks=2)
        >>> other.load_state_dict(state)
        >>> [batch["n"].tolist() for batch in other]
        [[9]]
        """
        return self._state_at(self._position)

    def state_after(self, batch: Batch) -> State:
        """The state after a batch that this loader, or another one with the same arguments, gave.

        >>> loader = tidegate.training.Loader(client, samples_plan, {"samples": samples}, batch_size=4)
        >>> first, second, third = loader
        >>> other = tidegate.training.Loader(client, samples_plan, {"samples": samples}, batch_size=4)
        >>> other.load_state_dict(loader.state_after(second))
        >>> [batch["n"].tolist() for batch in other]
        [[8, 9]]
        """
        return self._state_at(batch.after)

    def _state_at(self, position: Position) -> State:
        state = state_of(position, self._source.skipped(position), self._identity(position))
        return with_turns(state, self._wanted.begun) if self._wanted.stride > 1 else state

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from a state. Refused, with the differences named, if the state is of another plan, data or order."""
        self.check_state(state).load()

    def check_state(self, state: Mapping[str, Any]) -> CheckedState:
        """Raise what `load_state_dict` would raise. The loader's position stays until the result's `load()`.

        >>> loader = tidegate.training.Loader(client, samples_plan, {"samples": samples}, batch_size=4)
        >>> other = tidegate.training.Loader(client, samples_plan, {"samples": samples}, batch_size=5)
        >>> try:
        ...     other.check_state(loader.state_dict())
        ... except tidegate.Refused as error:
        ...     print(error.reason)
        STATE_MISMATCH
        """
        position, skipped, turns = going_on_from(state)
        check_fits(as_now(state, row_wise=self._plan_rows().row_wise), self._identity(position))
        return CheckedState(partial(self._go_on, position, skipped, turns))

    def _go_on(self, position: Position, skipped: Sequence[int], turns: tuple[int, int]) -> None:
        self.close()
        self._source.skip(position, skipped)
        self._position = position
        self._wanted = replace(self._wanted, begun=turns)

    def set_epoch(self, epoch: int) -> None:
        """Go on with the beginning of an epoch, whatever the position was."""
        check_numbers(0, epoch=epoch)
        self.close()
        self._position = Position(epoch)
        self._wanted = replace(self._wanted, begun=(0, 0))

    def statistics(self) -> LoaderStatistics:
        """The loader's counters: rows, time, time that its user waited, splits that were skipped."""
        return self._meter.statistics(self._position)

    def close(self) -> None:
        """Delete the loader's tasks, and end its threads. A new loop over the loader goes on, with other tasks."""
        with self._closing:
            self._turn += 1
        uninterrupted(partial(_close, self._open))

    # How batches are read

    def _batches(self, *, one_epoch: bool) -> Generator[Batch]:
        if self.ended:
            raise Refused(
                f"the loader has given all of its {self._epochs} epochs: make it with more, or with epochs=None, and "
                "iterate over loader.one_epoch() in each epoch",
                reason="NO_MORE_EPOCHS",
            )
        turn = self._turn = self._turn + 1
        stays_open, batches = False, self._meter.batches - (self._position.batch > 0)
        line = line_shown(lambda: str(self.statistics())) if self._progress else nullcontext()
        try:
            with line:
                for batch, after in self._reading(turn):
                    self._check_turn(turn)
                    self._position = after
                    if batch is not None:
                        yield batch
                        self._check_turn(turn)
                    elif one_epoch:
                        stays_open = True
                        return
                    elif self._epochs is None:
                        batches = check_has_given(batches, self._meter.batches, self._wanted, after.epoch - 1)
            self._check_turn(turn)  # another thread that closes the loader ends the reading, too
        except TidegateError:
            self._check_turn(turn)  # a newer turn deletes the tasks of the reading, at any point of a call
            raise
        finally:
            if self._turn == turn and not stays_open:
                self.close()

    def _check_turn(self, turn: int) -> None:
        if self._turn != turn:
            raise Refused(
                "these batches cannot be read any further, because the loader was closed, or a newer loop over it, "
                "set_epoch or load_state_dict has begun since: iterate over the loader again",
                reason="CONSUMED",
            )

    def _reading(self, turn: int) -> Reading:
        """The reading from the position on. One that is open has come to this position."""
        if not self._open:
            readers = self._readers()
            closes = readers.close
            try:
                reading = Reading(
                    readers,
                    self._builds(readers, self._position, self._epochs, self._meter, self._wanted),
                    self._meter,
                    batches=self._prefetch,
                    size=self._prefetch_bytes,
                    expected=window_batches(self._shuffle, self._wanted.size),
                )
                closes = reading.close
                reading.start()
                with self._closing:  # another thread that closes the loader has done so, or finds the reading
                    self._check_turn(turn)
                    self._open.append(reading)
            except BaseException:
                uninterrupted(closes)
                raise
        return self._open[0]

    def _builds(
        self, readers: SplitReaders, start: Position, epochs: int | None, meter: Meter, wanted: Wanted
    ) -> Iterator[Build]:
        task = readers.first.task
        layout = self._layout(task.schema)
        self._source.windows(task, start.epoch)  # refuses data that cannot be listed before a thread reads
        if self._grid.count > 1:
            return self._builds_of_shards(task, start, epochs, layout, wanted)
        windows = self._source.read(task, start, epochs, meter, by_split=layout.tells_rows_apart)
        return BatchRuns(layout, wanted, self._tail, start).builds(windows)

    def _builds_of_shards(
        self, task: Task, start: Position, epochs: int | None, layout: Layout, wanted: Wanted
    ) -> Iterator[Build]:
        shards_of, source = self._shards_of(task), self._source
        shards_of(start.epoch)  # counts rows before a thread reads
        numbers = count(start.epoch) if epochs is None else range(start.epoch, epochs)
        epochs_of_shards = ((epoch, shards_of(epoch), source.splits(task, epoch).splits) for epoch in numbers)
        runs = ShardRuns(layout, wanted, self._grid, self._tail, start, source=source.name)
        return runs.builds(epochs_of_shards)

    def _shards_of(self, task: Task) -> Callable[[int], EpochShards]:
        size, keeps = self._wanted.size, self._plan_rows().keeps_rows
        shards_of = partial(self._source.epoch_shards, self._readers, task)
        return partial(shards_of, batch_size=size, grid=self._grid, keeps=keeps)

    def _identity(self, at: Position) -> dict[str, Any]:
        """Everything that the order depends on besides the position, as values of JSON."""
        if self._constants is None:
            self._constants = self._constant_identity()
        return {"data": self._source.digest(self._readers, at), **self._constants}

    def _constant_identity(self) -> dict[str, Any]:
        plan = self._plan.binary if self._plan.json is None else self._plan.json.encode()
        return {
            "plan": _digest(plan or b""),
            "source": self._source.name,
            "tables": self._tasks.table_digests(),
            "options": ordering(self._options, row_wise=self._plan_rows().row_wise),
            "engines": dict(self._client.capabilities().engines),
            "shuffle": None
            if self._shuffle is None
            else [self._shuffle.seed, self._shuffle.rows, self._shuffle.splits],
            "batch_size": self._wanted.size,
            "shards": self._grid.shards,
            "turns": self._grid.turns,
            "tail": self._tail.value,
            "weight": self._weight,
            "pack": None if self._pack is None else [self._pack.column, self._pack.length, self._pack.padding],
        }


def _plan_rows(client: Client, plan: PlanBytes) -> PlanRows:
    return rows_of_plan(client.explain(plan))


def _close(readings: list[Reading]) -> None:
    while readings:
        readings.pop().close()


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:32]
