"""`feed`: the rows of a DataFrame become splits of a task, by the cheapest way that keeps them exactly."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final, Literal

from pyspark.sql import DataFrame

from ..proto.errors import Forbidden, InvalidRequest, NotFound, Refused
from ..proto.values import MIB, FileSplit, MissingColumns
from ..task import Task
from ..task_options import member
from .add_supplies import Request, Supply, Unreadable, added
from .data_frames import as_frame, case_sensitive, estimated_bytes, is_classic, order_of, setting
from .epoch_units import EpochBy, check_epoch_by, parts
from .frame_columns import fed_by_name, wanted_columns
from .report import Fed, Order, Way
from .supplies.by_reference import Referenced, folders_of, referenced
from .supplies.pushed import obstacle, pushed
from .supplies.shared_folder import check_shared
from .supplies.spark_listing import NotPlain
from .supplies.staged import check_key, staged
from .supplies.staged_transactions import (
    Manifest,
    User,
    own_folder,
    service_name,
    staging_folder,
    sweep,
    transaction_name,
)

SMALL_BYTES: Final = 32 * MIB
"""A DataFrame that Spark estimates to be no larger is pushed if possible: writing and naming files takes longer."""

STAGING_SETTING: Final = "spark.tidegate.staging"


def feed(
    data: DataFrame | str | os.PathLike[str],
    task: Task,
    source: str,
    *,
    how: Way | Literal["reference", "staged", "pushed"] | None = None,
    order_by: str | Sequence[str] = (),
    epoch_by: EpochBy = None,
    staging: str | os.PathLike[str] | None = None,
    transaction: str | None = None,
    change_column: str | None = None,
    missing_columns: MissingColumns | Literal["error", "null"] | None = None,
    wait: float = 0.0,
) -> Fed:
    """Feed a source of a task with the rows of a DataFrame, or of a path that the active session loads.

    >>> fed = tidegate.spark.feed(data_frame, task, "sales", epoch_by="item")
    >>> fed.way.value, fed.epochs
    ('staged', (1, 2))

    - `how`: "reference", "staged" or "pushed". Without it the cheapest way is taken, and `Fed.why` says why.
    - `order_by`: columns by which all rows are sorted; the other columns decide between rows that are equal in these.
    - `epoch_by`: a column's name (an epoch for each of its values, in their order), a number of splits, or `Bytes(n)`
      (a barrier whenever so much has been added). Without it the splits are in the open epoch, and the caller seals.
    - `staging`: a folder that driver, executors and the service see under one path. Without it, the session's setting
      spark.tidegate.staging.
    - `transaction`: a name of yours, under which the feed happens once: rows that were staged under the name are fed
      again as they are, and rows that the task has already are not added again.
    - `wait`: the seconds that each barrier may wait until a client has read.
    - `change_column`: the column that says what each row changes, for continuous tasks.
    - `missing_columns`: "null" for columns that the plan reads and the DataFrame does not have, here or as the task's
      option. Without it they are refused.

    Types are exact, or refused with the column named, before anything is run.
    """
    asked = _way(how)
    request = _checked(
        as_frame(data), task, source, order_by, epoch_by, staging, transaction, change_column, missing_columns, wait
    )
    supply = _supply(request, asked, _not_by_reference(request, asked))
    try:
        return added(request, supply)
    except Unreadable as unreadable:
        if unreadable.error.reason == "UPLOAD_GONE":  # the service has started again since the rows were pushed
            return added(request, _pushed(request, supply.why))
        if asked is not None or supply.way is not Way.REFERENCE:
            raise unreadable.error from None
        return added(request, _supply(request, None, f"the service cannot read the files: {unreadable.error}"))


def prepared(
    frame: DataFrame,
    task: Task,
    source: str,
    name: str,
    *,
    staging: str | os.PathLike[str] | None = None,
    change_column: str | None = None,
    missing_columns: MissingColumns | Literal["error", "null"] | None = None,
) -> Sequence[FileSplit]:
    """The rows of a DataFrame, staged or pushed, as splits that the caller adds. The caller then calls `settled`.

    The rows have a name: rows that were staged under it before are taken as they are, and uploads that were pushed
    under it before are dropped first. A caller that is killed in between prepares the same rows again and leaves
    nothing behind.
    """
    request = _checked(frame, task, source, (), None, staging, None, change_column, missing_columns, 0.0)
    small = _worth_pushing(request)
    supply = _staged(replace(request, transaction=name), "") if small is None else _pushed(request, small, name)
    return [split for part in parts(supply.units, None, supply.groups, change_column) for split in part.splits]


def settled(
    frame: DataFrame, task: Task, name: str, epoch: int | None, *, staging: str | os.PathLike[str] | None = None
) -> None:
    """Record that the rows `prepared` under a name are in this epoch, or in none yet if None. Drops unused uploads."""
    if obstacle(task) is None:
        task.service.drop_uploads(task.id, name)
    staging_path = _staging(frame, staging)
    if staging_path is None and task.address is not None:
        return
    folder = (own_folder() if staging_path is None else staging_folder(staging_path)) / transaction_name(name)
    if (manifest := Manifest.read(folder)) is not None:
        manifest.used(folder, User(service=service_name(task), task=task.id, epoch=epoch))


def _way(how: Way | Literal["reference", "staged", "pushed"] | None) -> Way | None:
    if how is None or isinstance(how, Way):
        return how
    known = [way.value for way in Way]
    if how not in known:
        raise InvalidRequest(f"how must be one of {', '.join(known)}, not {how!r}", reason="UNKNOWN_WAY")
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
    missing_columns: MissingColumns | Literal["error", "null"] | None,
    wait: float,
) -> Request:
    check_epoch_by(epoch_by)
    info = task.info()
    fed = fed_by_name(info, source)
    order = (order_by,) if isinstance(order_by, str) else tuple(order_by)
    key = (epoch_by,) if isinstance(epoch_by, str) else ()
    more = [*key, *order, *([change_column] if change_column is not None else [])]
    missing = info.options.missing_columns
    if missing_columns is not None:
        missing = member("missing_columns", MissingColumns, missing_columns)
    sensitive = case_sensitive(frame.sparkSession)
    columns = wanted_columns(frame.schema, fed.name, fed.schema, more, missing=missing, case_sensitive=sensitive)
    have = {column.name.casefold() for column in columns}
    if isinstance(epoch_by, str):
        check_key(next(column for column in columns if column.name.casefold() == epoch_by.casefold()))
    return Request(
        frame=frame,
        task=task,
        source=fed.name,
        columns=columns,
        absent=tuple(name for name in fed.schema.names if name.casefold() not in have),
        order_by=order,
        epoch_by=epoch_by,
        staging=_staging(frame, staging),
        transaction=transaction,
        change_column=change_column,
        wait=wait,
    )


# The way of supply


def _staging(frame: DataFrame, path: str | os.PathLike[str] | None) -> str | None:
    return os.fspath(path) if path is not None else setting(frame.sparkSession, STAGING_SETTING)


def _not_by_reference(request: Request, asked: Way | None) -> str | None:
    """The reason against supply by reference, known without looking at the plan; "" if another way was asked for."""
    if asked not in (None, Way.REFERENCE):
        return ""
    if not is_classic(request.frame.sparkSession):
        return "Spark Connect does not show which files the DataFrame reads"
    if request.order_by:
        return "order_by is given, and files that are read as they are cannot be sorted"
    if request.transaction is not None:
        return "a transaction with a name keeps the files that it has written"
    return None


def _supply(request: Request, asked: Way | None, why_not: str | None) -> Supply:
    """The supply by the way that was asked for, or the cheapest.

    Over Spark Connect, by reference always becomes staged.
    """
    if why_not is None:
        try:
            return _by_reference(request)
        except NotPlain as computed:
            why_not = str(computed)
    if asked is Way.REFERENCE and is_classic(request.frame.sparkSession):
        raise Refused(f"the DataFrame cannot be fed by reference ({why_not})", reason="NOT_BY_REFERENCE")
    if asked is Way.PUSHED:
        return _pushed(request, "it was asked for")
    if asked is None and (small := _worth_pushing(request)) is not None:
        return _pushed(request, f"{why_not}; {small}")
    return _staged(request, why_not or "it was asked for")


def _worth_pushing(request: Request) -> str | None:
    if obstacle(request.task) or isinstance(request.epoch_by, str) or request.transaction is not None:
        return None
    if request.staging is None:
        return "no staging folder is given"
    size = estimated_bytes(request.frame)
    return (
        f"Spark estimates the DataFrame at {size:,} bytes at most" if size is not None and size <= SMALL_BYTES else None
    )


def _by_reference(request: Request) -> Supply:
    reference = referenced(request.frame, request.columns, request.absent, request.epoch_by)
    _check_seen(request, reference)
    return Supply(
        way=Way.REFERENCE,
        why=f"the DataFrame has the rows of {len(reference.groups)} files as they are: Tidegate reads the files",
        order=Order.FILES,
        order_why="by the files' paths, and within them by row",
        units=reference.units,
        groups=reference.groups,
    )


def _check_seen(request: Request, reference: Referenced) -> None:
    """Check that the service sees all folders that tell columns: it looks at folders below its roots alone."""
    for path in reference.telling:
        try:
            [file] = request.task.find_files(request.source, path)
        except (Forbidden, NotFound) as error:
            raise NotPlain(f"the service cannot read the files: {error}") from error
        if unseen := reference.folder_names - {column.casefold() for column, _ in file.folders}:
            raise NotPlain(
                f"partition column {min(unseen)!r} comes from a folder above {path}, and the service does not look "
                "there"
            )


def _pushed(request: Request, why: str, job: str | None = None) -> Supply:
    if isinstance(request.epoch_by, str):
        raise InvalidRequest(
            f"epoch_by={request.epoch_by!r} needs the rows of different values in different files: leave `how` out, "
            "or take how='staged'",
            reason="EPOCH_BY",
        )
    if request.transaction is not None and request.epoch_by is not None:
        raise InvalidRequest(
            "each feed computes pushed rows anew, so a transaction of several epochs cannot continue with pushed "
            "rows: leave epoch_by out, or take how='staged'",
            reason="EPOCH_BY",
        )
    sent = pushed(request.frame, request.columns, request.task, request.order_by, job)
    order, order_why = order_of(request.frame, request.order_by, ())
    return Supply(
        way=Way.PUSHED, why=why, order=order, order_why=order_why, units=sent.units, groups={}, transaction=sent.job
    )


def _staged(request: Request, why: str) -> Supply:
    root = _root(request)
    check_shared(request.frame, request.task, request.source, root)
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
    return Supply(
        way=Way.STAGED,
        why=why + again,
        order=order,
        order_why=order_why,
        units=written.units,
        groups=written.groups,
        transaction=written.manifest.transaction,
        staged=written,
    )


def _root(request: Request) -> Path:
    if request.staging is not None:
        root = staging_folder(request.staging)
        folder_names = {name.casefold() for name, _ in folders_of(f"{root}{os.sep}")}
        if taken := [name for name in request.absent if name.casefold() in folder_names]:
            raise InvalidRequest(
                f"staging={root} lies in a folder named after column {taken[0]!r}, which the DataFrame does not "
                "have, and the service would read the column's values from the folder's name: take another folder",
                reason="STAGING_FOLDER",
            )
        return root
    if request.task.address is None:
        return own_folder()
    raise InvalidRequest(
        "no staging folder is given: name a folder that the service, the driver and the executors see under one "
        f"path, with staging= or in the session's setting {STAGING_SETTING}",
        reason="STAGING_FOLDER",
    )
