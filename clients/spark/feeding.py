"""`feed`: the rows of a DataFrame become splits of a task, by the cheapest way that keeps them exactly."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final, TypeVar

from pyspark.sql import DataFrame

from ..proto.errors import Exhausted, Forbidden, InvalidRequest, NotFound, Refused, TidegateError
from ..proto.sources import fed_source
from ..proto.values import MIB
from ..task import Task
from .catalyst import NotPlain
from .columns import Column, wanted_columns
from .epochs import EpochBy, Part, Unit, check_epoch_by, check_room, parts
from .frames import as_frame, case_sensitive, estimated_bytes, is_classic, order_of, setting
from .pushed import obstacle, pushed
from .reference import referenced
from .report import Fed, Order, Way
from .staged import Staged, check_key, staged
from .staging import own_folder, staging_folder, sweep, transaction_name

SMALL_BYTES: Final = 32 * MIB
"""What Spark takes to be no larger than this is pushed where it can be: writing and naming files takes longer."""

STAGING_SETTING: Final = "spark.tidegate.staging"
_PAUSE: Final = 0.05
_UNREAD: Final = ("TOO_MANY_PENDING_EPOCHS", "BARRIER_IN_PROGRESS", "OUTPUT_UNREAD")

A = TypeVar("A")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Request:
    """What `feed` was asked for, checked."""

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
class _Supply:
    """What one way has made of the request, before anything of it is added."""

    way: Way
    why: str
    order: Order
    order_why: str
    units: Sequence[Unit]
    groups: dict[str, int]
    transaction: str | None = None
    staged: Staged | None = None


def feed(
    data: DataFrame | str | os.PathLike[str],
    task: Task,
    source: str,
    *,
    how: Way | str | None = None,
    order_by: str | Sequence[str] = (),
    epoch_by: EpochBy = None,
    staging: str | os.PathLike[str] | None = None,
    transaction: str | None = None,
    change_column: str | None = None,
    wait: float = 0.0,
) -> Fed:
    """Feed a source of a task with the rows of a DataFrame (or of a path that the active session loads).

    `how` is "reference", "staged" or "pushed"; without it the cheapest one is taken, and `Fed.why` says why.
    `order_by` names columns by which all rows are sorted; the others decide where those are equal. With `epoch_by`, a
    column's name, a number of splits or `Bytes(n)`, barriers are requested: one epoch for each value of the column, in
    their order, or whenever so much has been added. Without it the splits are in the open epoch: the caller seals.

    `staging` is a folder that driver, executors and the service see under one path (or the session's setting
    spark.tidegate.staging). With a name of one's own for the `transaction`, what was staged under it is fed again as it
    is. `wait` is for how many seconds each barrier may wait until somebody has read. `change_column` is for continuous
    tasks. Types are exact, or refused with the column named, before anything is run.
    """
    asked = _way(how)
    request = _checked(as_frame(data), task, source, order_by, epoch_by, staging, transaction, change_column, wait)
    supply = _supply(request, asked, _not_by_reference(request, asked))
    try:
        return _fed(request, supply)
    except _Unreadable as unreadable:
        if asked is not None or supply.way is not Way.REFERENCE:
            raise unreadable.error from None
        return _fed(request, _supply(request, None, f"the service cannot read the files: {unreadable.error}"))


class _Unreadable(Exception):
    """The service has refused the first file, so that nothing has been added."""

    def __init__(self, error: TidegateError) -> None:
        super().__init__(str(error))
        self.error = error


def _way(how: Way | str | None) -> Way | None:
    if how is None or isinstance(how, Way):
        return how
    known = [way.value for way in Way]
    if how not in known:
        raise InvalidRequest(f"how is one of {', '.join(known)}, not {how!r}", reason="UNKNOWN_WAY")
    return Way(how)


def _checked(
    frame: DataFrame,
    task: Task,
    source: str,
    order_by: str | Sequence[str],
    epoch_by: EpochBy,
    staging: str | os.PathLike[str] | None,
    transaction: str | None,
    change_column: str | None,
    wait: float,
) -> _Request:
    check_epoch_by(epoch_by)
    info = task.info()
    static = {each.name for each in info.sources if each.static}
    source = fed_source(source, {each.name for each in info.sources} - static, static)
    wanted = next(each.schema for each in info.sources if each.name == source)
    order = (order_by,) if isinstance(order_by, str) else tuple(order_by)
    key = (epoch_by,) if isinstance(epoch_by, str) else ()
    more = [*key, *order, *([change_column] if change_column is not None else [])]
    sensitive = case_sensitive(frame.sparkSession)
    columns = wanted_columns(frame.schema, source, wanted, more, case_sensitive=sensitive)
    have = {column.name.casefold() for column in columns}
    if isinstance(epoch_by, str):
        check_key(next(column for column in columns if column.name.casefold() == epoch_by.casefold()))
    return _Request(
        frame=frame,
        task=task,
        source=source,
        columns=columns,
        absent=tuple(name for name in wanted.names if name.casefold() not in have),
        order_by=order,
        epoch_by=epoch_by,
        staging=os.fspath(staging) if staging is not None else setting(frame.sparkSession, STAGING_SETTING),
        transaction=transaction,
        change_column=change_column,
        wait=wait,
    )


# Which way


def _not_by_reference(request: _Request, asked: Way | None) -> str | None:
    """What speaks against it before the plan has been looked at; "" where another way was asked for."""
    if asked not in (None, Way.REFERENCE):
        return ""
    if not is_classic(request.frame):
        return "over Spark Connect nobody can see which files the DataFrame reads"
    if request.order_by:
        return "order_by sorts the rows, which files read as they are are not"
    if request.transaction is not None:
        return "a transaction with a name keeps what it has written"
    return None


def _supply(request: _Request, asked: Way | None, why_not: str | None) -> _Supply:
    """By the way that was asked for, or the cheapest. Over Connect, by reference becomes staged whoever asks for it."""
    if why_not is None:
        try:
            return _by_reference(request)
        except NotPlain as computed:
            why_not = str(computed)
    if asked is Way.REFERENCE and is_classic(request.frame):
        raise Refused(f"the DataFrame cannot be fed by reference: {why_not}", reason="NOT_BY_REFERENCE")
    if asked is Way.PUSHED:
        return _pushed(request, "it was asked for")
    if asked is None and (small := _worth_pushing(request)) is not None:
        return _pushed(request, f"{why_not}; {small}")
    return _staged(request, why_not or "it was asked for")


def _worth_pushing(request: _Request) -> str | None:
    if obstacle(request.task) or isinstance(request.epoch_by, str) or request.transaction is not None:
        return None
    if request.staging is None:
        return "no staging folder was given"
    size = estimated_bytes(request.frame)
    return f"Spark takes it to be {size:,} bytes at most" if size is not None and size <= SMALL_BYTES else None


def _by_reference(request: _Request) -> _Supply:
    found = referenced(request.frame, request.columns, request.absent, request.epoch_by)
    return _Supply(
        way=Way.REFERENCE,
        why=f"the DataFrame is {len(found.groups)} files as they are, of which Tidegate reads what is wanted",
        order=Order.FILES,
        order_why="by the files' paths, and within them by row",
        units=found.units,
        groups=found.groups,
    )


def _pushed(request: _Request, why: str) -> _Supply:
    if isinstance(request.epoch_by, str):
        raise InvalidRequest(
            f"epoch_by={request.epoch_by!r} needs rows apart by their values, which only files are: leave how out, or "
            "take how='staged'",
            reason="EPOCH_BY",
        )
    sent = pushed(request.frame, request.columns, request.task, request.order_by)
    order, order_why = order_of(request.frame, request.order_by, ())
    return _Supply(
        way=Way.PUSHED, why=why, order=order, order_why=order_why, units=sent.units, groups={}, transaction=sent.job
    )


def _staged(request: _Request, why: str) -> _Supply:
    root = _root(request)
    sweep(root, request.task)
    key = request.epoch_by if isinstance(request.epoch_by, str) else None
    written = staged(
        request.frame,
        request.columns,
        request.task,
        root=root,
        transaction=transaction_name(request.transaction),
        order_by=request.order_by,
        epoch_by=key,
    )
    again = "" if written.written else f"; transaction {request.transaction!r} was staged before and is fed as it is"
    order, order_why = written.order
    return _Supply(
        way=Way.STAGED,
        why=why + again,
        order=order,
        order_why=order_why,
        units=written.units,
        groups=written.groups,
        transaction=written.manifest.transaction,
        staged=written,
    )


def _root(request: _Request) -> Path:
    if request.staging is not None:
        return staging_folder(request.staging)
    if request.task.address is None:
        return own_folder()
    raise InvalidRequest(
        "rows are staged in a folder that the service, the driver and the executors see under one path: name it with "
        f"staging=, or in the session's setting {STAGING_SETTING}",
        reason="STAGING_FOLDER",
    )


# Adding


def _fed(request: _Request, supply: _Supply) -> Fed:
    made = parts(supply.units, request.epoch_by, supply.groups, request.change_column)
    sealing = request.epoch_by is not None
    if sealing and not request.wait:
        check_room(request.task.info(), request.task.cursor, len(made))
    epochs: list[int] = []
    last: int | None = None
    for part in made:
        last = _added(request, part, last)
        if sealing:
            epochs.append(_patiently(request.task.request_barrier, request.wait))
    if supply.staged is not None:
        supply.staged.used(request.task, last)
    if supply.way is Way.PUSHED and supply.transaction is not None:
        request.task.service.drop_uploads(request.task.id, supply.transaction)
    return Fed(
        way=supply.way,
        why=supply.why,
        order=supply.order,
        order_why=supply.order_why,
        splits=sum(len(part.splits) for part in made),
        rows=sum(unit.rows for unit in supply.units),
        epochs=tuple(epochs),
        epoch=last,
        transaction=supply.transaction,
    )


def _added(request: _Request, part: Part, last: int | None) -> int | None:
    """Adds the splits; the epoch of the last one."""
    for split in part.splits:
        add = partial(request.task.add_split, request.source, split)
        try:
            last = _patiently(add, request.wait).epoch
        except (NotFound, Forbidden) as error:
            if last is not None:
                raise
            raise _Unreadable(error) from error
    return last


def _patiently(call: Callable[[], A], wait: float) -> A:
    """The call's answer, tried again for so many seconds while epochs are unread."""
    deadline = time.monotonic() + wait
    while True:
        try:
            return call()
        except (Exhausted, Refused) as full:
            if full.reason not in _UNREAD or time.monotonic() + _PAUSE > deadline:
                raise
        time.sleep(_PAUSE)
