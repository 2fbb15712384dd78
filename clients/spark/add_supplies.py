"""Adds supplied rows to a task: split by split, or as transactions of the task if the feed has a name."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from pyspark.sql import DataFrame

from ..proto.errors import Forbidden, NotFound, TidegateError
from ..task import Task
from .epoch_units import EpochBy, Part, Unit, check_room, parts
from .frame_columns import Column
from .report import Fed, Order, Way
from .supplies.staged import Staged
from .wait_for_readers import once_read


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """The arguments of `feed`, checked."""

    frame: DataFrame
    task: Task
    source: str
    columns: tuple[Column, ...]
    absent: tuple[str, ...]
    order_by: tuple[str, ...]
    epoch_by: EpochBy
    staging: str | None
    transaction: str | None
    change_column: str | None
    wait: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Supply:
    """The splits that one way of supply has made of the request, before any is added."""

    way: Way
    why: str
    order: Order
    order_why: str
    units: Sequence[Unit]
    groups: dict[str, int]
    transaction: str | None = None
    staged: Staged | None = None


class Unreadable(Exception):
    """The service has refused the first file, so that nothing has been added."""

    def __init__(self, error: TidegateError) -> None:
        super().__init__(str(error))
        self.error = error


def added(request: Request, supply: Supply) -> Fed:
    """Add the splits, seal the epochs that were asked for, and report.

    Raises `Unreadable` if the service refuses the first of the DataFrame's own files.
    """
    epoch_parts = parts(supply.units, request.epoch_by, supply.groups, request.change_column)
    sealing = request.epoch_by is not None
    before = _before(request)
    there = min(before.version, len(epoch_parts))
    if sealing and not request.wait:
        check_room(request.task.info(), request.task.cursor, len(epoch_parts) - there)
    named = request.transaction is not None
    epochs = list(_in_transactions(request, epoch_parts, there) if named else _plainly(request, epoch_parts))
    last = next((epoch for epoch in reversed(epochs) if epoch is not None), before.epoch)
    if supply.staged is not None:
        supply.staged.used(request.task, last)
    if supply.way is Way.PUSHED and supply.transaction is not None:
        request.task.service.drop_uploads(request.task.id, supply.transaction)
    return Fed(
        way=supply.way,
        why=supply.why,
        order=supply.order,
        order_why=supply.order_why,
        splits=sum(len(part.splits) for part in epoch_parts),
        rows=sum(unit.rows for unit in supply.units),
        epochs=tuple(epoch for epoch in epochs if epoch is not None) if sealing else (),
        epoch=last,
        transaction=supply.transaction,
        replayed=there,
    )


def _plainly(request: Request, epoch_parts: Sequence[Part]) -> Iterator[int | None]:
    """Add the splits of each part; yields each part's epoch, or that of its last split."""
    sealing = request.epoch_by is not None
    first = True
    for part in epoch_parts:
        last: int | None = None
        for split in part.splits:
            add = partial(request.task.add_split, request.source, split)
            try:
                last = once_read(add, request.wait).epoch
            except (NotFound, Forbidden) as error:
                if not first:
                    raise
                raise Unreadable(error) from error
            first = False
        yield once_read(request.task.request_barrier, request.wait) if sealing else last


# In a feed with a name, each part is a transaction of the task, all or nothing and once. The feed is an application of
# its own, and its parts are versions 1, 2, 3 of it. A feed that was stopped in the middle goes on with the first part
# that the task does not have.


@dataclass(frozen=True, slots=True)
class _Before:
    """The number of parts of a feed that the task has, and the epoch of the last of them."""

    version: int
    epoch: int | None


def _application(request: Request) -> str:
    return f"feed:{request.source}:{request.transaction}"


def _before(request: Request) -> _Before:
    last = None if request.transaction is None else request.task.last_transaction(_application(request))
    return _Before(0, None) if last is None else _Before(last.version, last.epoch)


def _in_transactions(request: Request, epoch_parts: Sequence[Part], there: int) -> Iterator[int | None]:
    """Add each part that the task does not have; yields the part's epoch."""
    for version, part in enumerate(epoch_parts[there:], there + 1):
        transact = partial(
            request.task.transact,
            _application(request),
            version,
            {request.source: part.splits},
            seal=request.epoch_by is not None,
            follows=version - 1 if version > 1 else None,
        )
        yield once_read(transact, request.wait).epoch
