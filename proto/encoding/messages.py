"""Values to wire messages and back, in one place. Messages from a client are checked here for their form.

Two things do not pass through here: `proto.encoding.frames` encodes batches of results, and `proto.arrow.arrow_ipc`
reads Arrow itself.
"""

from __future__ import annotations

import enum
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any, Final, TypeVar

from .. import values as v
from ..arrow.arrow_ipc import read_schema, read_untrusted_stream, schema_bytes, stream_bytes
from ..errors import InternalError, InvalidRequest
from ..tidegate.v1 import tasks_pb2 as pb
from .statistics_messages import epoch_statistics_message, epoch_statistics_value, fill_statistics, statistics_value

E = TypeVar("E", bound=enum.Enum)
N = TypeVar("N", bound=int)

LISTED_BYTES: Final = 16 << 20
"""The bytes after which an answer lists no further task. A client asks for the next ones."""


def _by_number(numbers: Iterable[tuple[str, int]], prefix: str, values: type[E]) -> Mapping[Any, E]:
    """The values of an enumeration by their numbers on the wire, where their names have a prefix."""
    return {number: values[name.removeprefix(prefix)] for name, number in numbers if number}


_STATES: Final = _by_number(pb.TaskState.items(), "TASK_STATE_", v.TaskPhase)
_BLOCKED: Final = _by_number(pb.Blocked.State.items(), "STATE_", v.BlockedState)
_MISSING_COLUMNS: Final = _by_number(pb.MissingColumns.items(), "MISSING_COLUMNS_", v.MissingColumns)
_CHOICES: Final[Mapping[str, Mapping[Any, Any]]] = {
    "mode": _by_number(pb.Mode.items(), "MODE_", v.Mode),
    "determinism": _by_number(pb.Determinism.items(), "DETERMINISM_", v.Determinism),
    "on_error": _by_number(pb.OnError.items(), "ON_ERROR_", v.OnError),
    "spill": _by_number(pb.Spill.items(), "SPILL_", v.Spill),
    "loops": _by_number(pb.Loops.items(), "LOOPS_", v.Loops),
    "executor": _by_number(pb.ExecutorKind.items(), "EXECUTOR_KIND_", v.ExecutorKind),
    "missing_columns": _MISSING_COLUMNS,
    "durability": _by_number(pb.Durability.items(), "DURABILITY_", v.Durability),
}
"""The fields of TaskOptions that are one of a few values."""
_PLAIN_OPTIONS: Final = tuple(
    field.name for field in pb.TaskOptions.DESCRIPTOR.fields if field.name not in {*_CHOICES, "broadcast"}
)
"""The other fields of TaskOptions. They are optional on the wire."""


def _enum_value(table: Mapping[N, E], number: N, default: E, what: str) -> E:
    if number == 0:
        return default
    if number not in table:
        known = ", ".join(f"{key} ({value.value})" for key, value in table.items())
        raise InvalidRequest(f"there is no {what} {number}; there are: {known}", reason="UNKNOWN_OPTION")
    return table[number]


def _enum_number(table: Mapping[N, E], value: E) -> N:
    return next(number for number, known in table.items() if known is value)


# Plans and options


def plan_message(plan: v.PlanBytes) -> pb.PlanBytes:
    if plan.binary is None:
        return pb.PlanBytes(json=plan.json, parameters=plan.parameters)
    return pb.PlanBytes(binary=plan.binary, parameters=plan.parameters)


def plan_value(message: pb.PlanBytes) -> v.PlanBytes:
    match message.WhichOneof("encoding"):
        case "binary":
            return v.PlanBytes(binary=message.binary, parameters=message.parameters)
        case "json":
            return v.PlanBytes(json=message.json, parameters=message.parameters)
        case _:
            raise InvalidRequest("the request has no plan: set plan.binary or plan.json", reason="PLAN_MISSING")


OPTIONS: Final = frozenset((*_CHOICES, "broadcast", *_PLAIN_OPTIONS))


def options_message(options: v.TaskOptions, names: Collection[str] = OPTIONS) -> pb.TaskOptions:
    """The options, or only the `names` ones."""
    chosen = {name: _enum_number(table, getattr(options, name)) for name, table in _CHOICES.items() if name in names}
    plain = {name: getattr(options, name) for name in _PLAIN_OPTIONS if name in names}
    return pb.TaskOptions(broadcast=options.broadcast if "broadcast" in names else (), **chosen, **plain)


def options_value(message: pb.TaskOptions, defaults: v.TaskOptions) -> v.TaskOptions:
    """The options that the client asked for; the server's defaults for the others."""
    plain = {name: getattr(message if message.HasField(name) else defaults, name) for name in _PLAIN_OPTIONS}
    chosen = {
        name: _enum_value(table, getattr(message, name), getattr(defaults, name), name)
        for name, table in _CHOICES.items()
    }
    return v.TaskOptions(broadcast=tuple(message.broadcast) or defaults.broadcast, **chosen, **plain)


# Splits


def split_message(split: v.Split) -> pb.Split:
    match split:
        case v.FileSplit():
            first, end = split.rows if split.rows is not None else (None, None)
            file = pb.FileSplit(
                path=split.path,
                format=split.format,
                first_row=first,
                end_row=end,
                row_groups=split.row_groups or (),
                number=split.number,
                version=split.version,
            )
            return pb.Split(file=file, **_said(split))
        case v.InlineSplit():
            inline = pb.InlineSplit(arrow=stream_bytes(split.schema, split.batches))
            return pb.Split(inline=inline, **_said(split))


def _said(split: v.Split) -> dict[str, Any]:
    """The fields of a split that say something of its rows."""
    missing = None if split.missing_columns is None else _missing_number(split.missing_columns)
    return {"watermark": split.watermark, "change_column": split.change_column, "missing_columns": missing}


def _missing_number(columns: v.MissingColumns) -> pb.MissingColumns:
    number: pb.MissingColumns = _enum_number(_MISSING_COLUMNS, columns)
    return number


def _missing_value(number: pb.MissingColumns) -> v.MissingColumns | None:
    return None if number == 0 else _enum_value(_MISSING_COLUMNS, number, v.MissingColumns.ERROR, "missing_columns")


def said_of_rows(message: pb.Split) -> tuple[int | None, str | None, v.MissingColumns | None]:
    """The words of a split about its rows: the watermark, the change column, and the meaning of missing columns."""
    watermark = message.watermark if message.HasField("watermark") else None
    change_column = message.change_column if message.HasField("change_column") else None
    return watermark, change_column, _missing_value(message.missing_columns)


def split_value(message: pb.Split) -> v.Split:
    watermark, change_column, missing = said_of_rows(message)
    match message.WhichOneof("kind"):
        case "file":
            file = file_value(message.file)
            return replace(file, watermark=watermark, change_column=change_column, missing_columns=missing)
        case "inline":
            schema, batches = read_untrusted_stream(message.inline.arrow)
            return v.InlineSplit(
                schema=schema,
                batches=batches,
                watermark=watermark,
                change_column=change_column,
                missing_columns=missing,
            )
        case _:
            raise InvalidRequest("the split is empty: set split.file or split.inline", reason="SPLIT_MISSING")


def file_value(file: pb.FileSplit) -> v.FileSplit:
    if not file.path:
        raise InvalidRequest("the file split has no path: set split.file.path", reason="SPLIT_MISSING")
    if file.HasField("first_row") != file.HasField("end_row"):
        message = f"the row range of {file.path} needs both first_row and end_row"
        raise InvalidRequest(message, reason="INVALID_RANGE")
    rows = (file.first_row, file.end_row) if file.HasField("end_row") else None
    if rows is not None and rows[0] > rows[1]:
        raise InvalidRequest(
            f"the row range {rows[0]}..{rows[1]} of {file.path} ends before it starts: "
            "first_row must be at most end_row",
            reason="INVALID_RANGE",
        )
    groups = tuple(file.row_groups) or None
    return v.FileSplit(
        path=file.path,
        format=v.as_format(file.format),
        rows=rows,
        row_groups=groups,
        number=file.number if file.HasField("number") else None,
        version=file.version if file.HasField("version") else None,
    )


def sequence_value(number: int) -> int | None:
    """A sequence number on the wire; 0 leaves the choice to the server."""
    return number or None


def added_message(added: v.Added) -> pb.AddSplitResponse:
    return pb.AddSplitResponse(sequence=added.sequence, duplicate=added.duplicate, epoch=added.epoch)


def added_value(message: pb.AddSplitResponse) -> v.Added:
    return v.Added(sequence=message.sequence, duplicate=message.duplicate, epoch=message.epoch)


def transaction_message(transaction: v.Transaction) -> pb.Transaction:
    return pb.Transaction(application=transaction.application, version=transaction.version, follows=transaction.follows)


def transaction_value(message: pb.Transaction) -> v.Transaction:
    follows = message.follows if message.HasField("follows") else None
    return v.Transaction(application=message.application, version=message.version, follows=follows)


def transacted_message(transacted: v.Transacted, *, sealed: bool) -> pb.AddSplitsResponse:
    """The answer to a call with a transaction."""
    return pb.AddSplitsResponse(
        splits=map(added_message, transacted.added),
        epoch=transacted.epoch if sealed and transacted.same else None,
        transaction=pb.Transacted(
            replayed=transacted.replayed,
            epoch=transacted.epoch,
            same=transacted.same if transacted.replayed else None,
        ),
    )


def transacted_value(message: pb.AddSplitsResponse) -> v.Transacted:
    transaction = message.transaction
    same = transaction.same if transaction.HasField("same") else None
    return v.Transacted(
        epoch=transaction.epoch if transaction.HasField("epoch") else None,
        replayed=transaction.replayed,
        same=same if transaction.replayed else True,
        added=tuple(map(added_value, message.splits)),
    )


# Frames


def cursor_message(cursor: v.Cursor) -> pb.Cursor:
    return pb.Cursor(epoch=cursor.epoch, row=cursor.row, run=cursor.run)


def cursor_value(message: pb.Cursor) -> v.Cursor:
    """A cursor. A cursor that is left out, or all zero, is the start."""
    if message.epoch == 0 and message.row == 0:
        return v.START
    return v.Cursor(message.epoch, message.row, message.run if message.HasField("run") else None)


def frame_message(frame: v.Frame) -> pb.Frame:
    match frame:
        case v.Data():
            batches = [batch.serialize().to_pybytes() for batch in frame.batches]
            cursor = frame.cursor
            data = pb.Data(epoch=cursor.epoch, row=cursor.row, rows=frame.rows, batches=batches, run=cursor.run)
            return pb.Frame(data=data)
        case v.Blocked():
            missing = {source: pb.Sequences(numbers=numbers) for source, numbers in frame.missing.items()}
            return pb.Frame(blocked=pb.Blocked(state=_enum_number(_BLOCKED, frame.state), missing=missing))
        case v.Barrier():
            return pb.Frame(barrier=_barrier_message(frame))
        case v.Finished():
            return pb.Frame(finished=pb.Finished())


def frame_value(message: pb.Frame) -> v.Blocked | v.Barrier | v.Finished:
    """A frame without rows; `proto.encoding.frames` reads frames with rows."""
    match message.WhichOneof("kind"):
        case "blocked":
            blocked = message.blocked
            state = _enum_value(_BLOCKED, blocked.state, v.BlockedState.WORKING, "blocked state")
            missing = {source: tuple(sequences.numbers) for source, sequences in blocked.missing.items()}
            return v.Blocked(state=state, missing=missing)
        case "barrier":
            return _barrier_value(message.barrier)
        case "finished":
            return v.Finished()
        case other:
            raise InternalError(
                f"the server sent a frame that this client does not know: {other}", reason="MALFORMED_ANSWER"
            )


def _barrier_message(barrier: v.Barrier) -> pb.Barrier:
    return pb.Barrier(
        epoch=barrier.epoch,
        rows=barrier.rows,
        watermark=barrier.watermark,
        statistics=epoch_statistics_message(barrier.statistics),
        error=_error_message(barrier.error),
        checkpoint=barrier.checkpoint,
        checkpoint_error=_error_message(barrier.checkpoint_error),
        files=[pb.ResultFile(path=file.path, rows=file.rows) for file in barrier.files],
    )


def _barrier_value(message: pb.Barrier) -> v.Barrier:
    return v.Barrier(
        epoch=message.epoch,
        rows=message.rows,
        watermark=message.watermark if message.HasField("watermark") else None,
        statistics=epoch_statistics_value(message.statistics),
        error=_error_value(message.error) if message.HasField("error") else None,
        checkpoint=message.checkpoint if message.HasField("checkpoint") else None,
        checkpoint_error=_error_value(message.checkpoint_error) if message.HasField("checkpoint_error") else None,
        files=tuple(v.ResultFile(path=file.path, rows=file.rows) for file in message.files),
    )


# Tasks


def seal_value(message: pb.RequestBarrierRequest | pb.Seal) -> v.Seal:
    after = message.after if isinstance(message, pb.RequestBarrierRequest) and message.HasField("after") else None
    checkpoint = message.checkpoint if message.HasField("checkpoint") else None
    return v.Seal(
        through=dict(message.through) or None,
        checkpoint=checkpoint,
        watermarks=dict(message.watermarks),
        idle=tuple(message.idle),
        after=after,
    )


def seal_message(seal: v.Seal | None) -> pb.Seal | None:
    if seal is None:
        return None
    return pb.Seal(through=seal.through, checkpoint=seal.checkpoint, watermarks=seal.watermarks, idle=seal.idle)


def checkpoint_message(checkpoint: v.Checkpoint) -> pb.Checkpoint:
    return pb.Checkpoint(
        id=checkpoint.id,
        epoch=checkpoint.epoch,
        watermark=checkpoint.watermark,
        size=checkpoint.size,
        taken_us=checkpoint.taken_us,
    )


def checkpoint_value(message: pb.Checkpoint) -> v.Checkpoint:
    return v.Checkpoint(
        id=message.id,
        epoch=message.epoch,
        watermark=message.watermark if message.HasField("watermark") else None,
        size=message.size,
        taken_us=message.taken_us,
    )


def _error_message(error: v.ErrorValue | None) -> pb.Error | None:
    return None if error is None else pb.Error(reason=error.reason, message=error.message)


def _error_value(message: pb.Error) -> v.ErrorValue:
    return v.ErrorValue(reason=message.reason, message=message.message)


def task_message(task: v.TaskInfo) -> pb.Task:
    return _filled(pb.Task(), task)


def tasks_message(tasks: Iterable[v.TaskInfo]) -> pb.ListTasksResponse:
    """As many of the tasks as one answer lists."""
    message, size = pb.ListTasksResponse(), 0
    for task in tasks:
        if size >= LISTED_BYTES:
            message.more = True
            break
        size += _filled(message.tasks.add(), task).ByteSize()
    return message


def _filled(message: pb.Task, task: v.TaskInfo) -> pb.Task:
    """The empty message, filled in its place: protobuf copies a message that is put into another one."""
    message.id = task.id
    message.state = _enum_number(_STATES, task.state)
    message.schema = schema_bytes(task.schema)
    message.options.CopyFrom(_all_options(task.options))
    if task.error is not None:
        message.error.reason, message.error.message = task.error.reason, task.error.message
    if task.recovery is not None:
        message.recovery.epochs, message.recovery.done = task.recovery.epochs, task.recovery.done
    message.sealed_epoch = task.sealed_epoch
    message.completed_epoch = task.completed_epoch
    message.acknowledged.CopyFrom(cursor_message(task.acknowledged))
    message.warnings.extend(task.warnings)
    for source in task.sources:
        _add_source(message, source)
    fill_statistics(message.statistics, task.statistics)
    return message


@lru_cache(maxsize=64)
def _all_options(options: v.TaskOptions) -> pb.TaskOptions:
    """The message of a task's options, which never change. Callers copy it."""
    return options_message(options)


def task_value(message: pb.Task) -> v.TaskInfo:
    return v.TaskInfo(
        id=message.id,
        state=_STATES[message.state],
        schema=read_schema(message.schema),
        sources=tuple(_source_value(source) for source in message.sources),
        options=options_value(message.options, v.TaskOptions()),
        statistics=statistics_value(message.statistics),
        error=_error_value(message.error) if message.HasField("error") else None,
        sealed_epoch=message.sealed_epoch,
        completed_epoch=message.completed_epoch,
        acknowledged=cursor_value(message.acknowledged),
        warnings=tuple(message.warnings),
        recovery=_recovery_value(message.recovery) if message.HasField("recovery") else None,
    )


def _recovery_value(message: pb.Recovery) -> v.Recovery:
    return v.Recovery(epochs=message.epochs, done=message.done)


def _add_source(message: pb.Task, source: v.SourceInfo) -> None:
    message.sources.add(
        name=source.name,
        schema=schema_bytes(source.schema),
        static=source.static,
        split_kinds=source.split_kinds,
        last_added=source.last_added,
        last_sealed=source.last_sealed,
        ended=source.ended,
    )


def _source_value(message: pb.Source) -> v.SourceInfo:
    return v.SourceInfo(
        name=message.name,
        schema=read_schema(message.schema),
        static=message.static,
        split_kinds=tuple(message.split_kinds),
        last_added=message.last_added,
        last_sealed=message.last_sealed,
        ended=message.ended,
    )
