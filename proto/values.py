"""The task service's nouns as plain values, one definition for client, executor and server.

The server turns wire messages into these and back (`proto.messages`); the embedded client hands them to the
executor as they are.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import TypeAlias, TypeVar

import pyarrow as pa

from .statistics import EpochStatistics, Statistics

MIB = 1 << 20
GIB = 1 << 30


class Mode(enum.Enum):
    """Per epoch: the answer of epoch n is the plan over the splits of epoch n. Continuous: epoch n answers with what
    has changed since epoch n-1 in the plan over all splits so far.
    """

    PER_EPOCH = "per_epoch"
    CONTINUOUS = "continuous"


class Determinism(enum.Enum):
    STRICT = "strict"
    RELAXED = "relaxed"


class OnError(enum.Enum):
    FAIL = "fail"
    SKIP_EPOCH = "skip_epoch"


class Spill(enum.Enum):
    """What a strict task does about joins that may not fit in its memory, whose rows would not come in a repeatable
    order: try, and do it again in an order of its own if they did not; do that at once; or fail.
    """

    AUTO = "auto"
    ORDERED = "ordered"
    ERROR = "error"


class MissingColumns(enum.Enum):
    """What a column is that the plan reads and a split does not have: an error, or null in all of its rows."""

    ERROR = "error"
    NULL = "null"


class Loops(enum.Enum):
    """How a task runs loops: by one recursive statement wherever one computes the same rows, or never so."""

    AUTO = "auto"
    GENERAL = "general"


class ExecutorKind(enum.Enum):
    """What runs a task's channels: the threads of its service, or Spark."""

    LOCAL = "local"
    SPARK = "spark"


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskOptions:
    """How a task runs. Limits are bytes and seconds; `idle_seconds=0` never deletes an idle task. `broadcast` names
    sources that every channel reads whole where they are joined. `write_format` is that of a table's files, where the
    plan writes one, and `write_quota` bounds them. `loop_rows` is how many rows a loop may have, counted as often as
    they are there; a statement that has loops must give its first row within `loop_seconds`, if these are not 0. An
    epoch fails that is worked on for more than `epoch_seconds`, if these are not 0.
    `spark` is a master's address, or what the service in their process calls a caller's session; it is not sent.
    """

    mode: Mode = Mode.PER_EPOCH
    determinism: Determinism = Determinism.STRICT
    on_error: OnError = OnError.FAIL
    channels: int = 1
    max_pending_epochs: int = 8
    memory_limit: int = 4 * GIB
    queue_bytes: int = 64 * MIB
    output_bytes: int = 64 * MIB
    spill_quota: int = 4 * GIB
    idle_seconds: float = 0.0
    time_zone: str = "UTC"
    broadcast: tuple[str, ...] = ()
    spill: Spill = Spill.AUTO
    write_format: str = "parquet"
    write_quota: int = 64 * GIB
    loops: Loops = Loops.AUTO
    loop_rows: int = 100_000_000
    loop_seconds: float = 0.0
    epoch_seconds: float = 0.0
    executor: ExecutorKind = ExecutorKind.LOCAL
    spark: str = ""
    missing_columns: MissingColumns = MissingColumns.ERROR


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanBytes:
    """An encoded plan: exactly one of the two is set."""

    binary: bytes | None = None
    json: str | None = None


@dataclass(frozen=True, slots=True)
class FileSplit:
    """A file, folder or glob on the server. `rows` is half open; `row_groups` are record batches in Arrow files.

    `change_column`, for a continuous task, is the column that says what each row is: a weight, or one of insert,
    delete, update_preimage, update_postimage. `missing_columns` says what columns are that the plan reads and the file
    does not have; without it the task's option does.
    """

    path: str
    _: KW_ONLY
    format: str = ""
    rows: tuple[int, int] | None = None
    row_groups: tuple[int, ...] | None = None
    watermark: int | None = None
    change_column: str | None = None
    missing_columns: MissingColumns | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class InlineSplit:
    """Rows that travel with the call; `change_column` and `missing_columns` as of a `FileSplit`."""

    schema: pa.Schema
    batches: tuple[pa.RecordBatch, ...]
    watermark: int | None = None
    change_column: str | None = None
    missing_columns: MissingColumns | None = None


Split: TypeAlias = FileSplit | InlineSplit
AnySplit = TypeVar("AnySplit", bound=FileSplit | InlineSplit)


def with_missing(split: AnySplit, columns: MissingColumns) -> AnySplit:
    """The split, for which the task's option holds where it says nothing itself."""
    if split.missing_columns is not None or columns is MissingColumns.ERROR:
        return split
    return replace(split, missing_columns=columns)


@dataclass(frozen=True, slots=True, order=True)
class Cursor:
    """A place in the result: row `row` (from 0) of epoch `epoch` (from 1)."""

    epoch: int
    row: int = 0


START = Cursor(1, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Added:
    sequence: int
    duplicate: bool
    epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Transaction:
    """A name for splits, and the seal that may go with them, that makes them happen once: `application` is the caller's
    own name, its versions go up. With `follows`, refused unless that is the application's last version.
    """

    application: str
    version: int
    follows: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Transacted:
    """What became of a transaction, which is a part of `epoch`. A `replayed` one had been there before: nothing has
    changed, and the answer is that of then. `epoch` and `same`, whether it had the content that it has now, are None
    where only later versions of the application are remembered; `added` is empty unless the content is the same.
    """

    epoch: int | None
    replayed: bool = False
    same: bool | None = True
    added: tuple[Added, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Committed:
    """An application's last version, and the epoch that it became a part of."""

    version: int
    epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorValue:
    reason: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """A task's state at the barrier of an epoch, in files. `size` is all that it names, shared with others or not."""

    id: str
    epoch: int
    watermark: int | None = None
    size: int = 0
    taken_us: int = 0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Data:
    """Rows from `cursor` on."""

    cursor: Cursor
    rows: int
    batches: tuple[pa.RecordBatch, ...]


class BlockedState(enum.Enum):
    WORKING = "working"
    UNSEALED = "unsealed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Blocked:
    """Nothing yet. `missing` names the sequence numbers a requested seal waits for, per source."""

    state: BlockedState
    missing: Mapping[str, tuple[int, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Barrier:
    """Epoch `epoch` is complete: its `rows` rows are final, or void where `error` is set. Where a checkpoint was asked
    for, `checkpoint` is its id, or `checkpoint_error` says why there is none; the rows are final all the same.
    """

    epoch: int
    rows: int
    watermark: int | None = None
    statistics: EpochStatistics = field(default_factory=EpochStatistics)
    error: ErrorValue | None = None
    checkpoint: str | None = None
    checkpoint_error: ErrorValue | None = None


@dataclass(frozen=True, slots=True)
class Finished:
    """There will be no more."""


Frame: TypeAlias = Data | Blocked | Barrier | Finished


def after(frame: Frame, cursor: Cursor) -> Cursor:
    """The place after `frame`, which was read at `cursor`."""
    match frame:
        case Data():
            return Cursor(frame.cursor.epoch, frame.cursor.row + frame.rows)
        case Barrier():
            return Cursor(frame.epoch + 1, 0)
        case Blocked() | Finished():
            return cursor


class TaskPhase(enum.Enum):
    RUNNING = "running"
    FINISHED = "finished"
    FAILED = "failed"
    CANCELLED = "cancelled"


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceInfo:
    name: str
    schema: pa.Schema
    static: bool
    split_kinds: tuple[str, ...]
    last_added: int = 0
    last_sealed: int = 0
    ended: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundFile:
    """A file that a split would be of. `folders` are the columns that folders called `column=value` tell, and their
    values; None is null.
    """

    path: str
    format: str
    size: int
    folders: tuple[tuple[str, str | None], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskInfo:
    id: str
    state: TaskPhase
    schema: pa.Schema
    sources: tuple[SourceInfo, ...]
    options: TaskOptions
    statistics: Statistics
    error: ErrorValue | None = None
    sealed_epoch: int = 0
    completed_epoch: int = 0
    acknowledged: Cursor = START
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """For people, for programs, and of a graph as a picture."""

    text: str
    json: str
    svg: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Capabilities:
    version: str
    dialect: str
    engines: Mapping[str, str]
    principal: str = ""
    """Who the service takes the caller for; empty where it does not tell callers apart."""
    flight: str = ""
    """Where a server has Arrow Flight: `:PORT` of its host, or `unix:NAME` in the folder of its socket."""
