"""The task service's nouns as plain values: one definition for client, executor and server.

The server turns wire messages into these values and back (`proto.encoding.messages`); the embedded client hands them to
the executor as they are.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import Final, Literal, TypeAlias, TypeVar, cast

import pyarrow as pa

from .statistics import EpochStatistics, Statistics

MIB = 1 << 20
GIB = 1 << 30


class Mode(enum.Enum):
    """The mode of a task. Per epoch: the result of epoch n is the plan over the splits of epoch n. Continuous: the
    result of epoch n is the change since epoch n-1 of the plan over all splits so far.
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
    """The way a strict task runs joins that may not fit in its memory. A join that spills gives its rows in no
    repeatable order. The task tries the join as it is, and runs it again with an explicit order if it spilled; or runs
    it with an explicit order at once; or fails.
    """

    AUTO = "auto"
    ORDERED = "ordered"
    ERROR = "error"


class MissingColumns(enum.Enum):
    """The meaning of a column that the plan reads and a split lacks: an error, or null in all rows of the split.

    >>> task = client.create_task(plan, missing_columns="null")
    >>> task.options.missing_columns
    <MissingColumns.NULL: 'null'>
    """

    ERROR = "error"
    NULL = "null"


class Loops(enum.Enum):
    """The way a task runs loops: by one recursive statement wherever that computes the same rows, or never so."""

    AUTO = "auto"
    GENERAL = "general"


class Durability(enum.Enum):
    """The life of a task: beyond its service, wherever the service has a data folder, or never beyond it.

    >>> client = tidegate.local(data="data")
    >>> client.create_task(plan, durability="none").options.durability
    <Durability.NONE: 'none'>
    """

    AUTO = "auto"
    NONE = "none"


class ExecutorKind(enum.Enum):
    """The executor of a task's channels: the threads of its service, or Spark."""

    LOCAL = "local"
    SPARK = "spark"


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskOptions:
    """Options of a task. Limits are bytes and seconds; `idle_seconds=0` never deletes an idle task. `broadcast` names
    sources that every channel reads whole where they are joined. `write_format` is the format of a table's files, where
    the plan writes a table; `write_quota` bounds their bytes. `loop_rows` bounds the rows of a loop; every copy of a
    row counts. A statement with loops must give its first row within `loop_seconds`, unless that is 0. An epoch fails
    once the task has worked on it for `epoch_seconds`, unless that is 0. A plan that is not row-wise runs on several
    channels only if they are estimated to save `parallel_threshold_seconds`. With `channels=0` the service chooses
    channels for each epoch, by `auto_cores` and the bytes of the epoch's input; a task's options then have the most
    that it may choose as `channels`. Each channel of each pipeline has `slot_memory`, or with 0 a share of
    `memory_limit`. A durable task with state takes a checkpoint by itself after `checkpoint_epochs` epochs or
    `checkpoint_seconds` of work, whichever comes first; 0 is never. With `result_files` the rows of an epoch stay in
    the files that Spark's tasks have written, which the epoch's BARRIER names. An epoch of a task on Spark whose inputs
    have fewer bytes than `spark_threshold_bytes` runs in the service's process, unless the plan has user code, writes
    rows, or looks rows up in a table of the service's owner. A channel that fails of something transient is made anew
    up to `retries` times in an epoch. `spark` is the address of a Spark master, or the name that
    the service in this process has for a session of the caller; clients never send it.
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
    parallel_threshold_seconds: float = 0.075
    executor: ExecutorKind = ExecutorKind.LOCAL
    spark: str = ""
    missing_columns: MissingColumns = MissingColumns.ERROR
    durability: Durability = Durability.AUTO
    checkpoint_epochs: int = 1_000
    checkpoint_seconds: float = 30.0
    retries: int = 0
    auto_cores: int = 0
    slot_memory: int = 0
    result_files: bool = False
    spark_threshold_bytes: int = MIB


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanBytes:
    """An encoded plan, `binary` or in `json`: exactly one of the two is set.

    `parameters` has values for its dynamic parameters, as `with_parameters` writes them: an Arrow stream of one row,
    with a column for each, called by the parameter's number.
    """

    binary: bytes | None = None
    json: str | None = None
    parameters: bytes = b""


FileFormat: TypeAlias = Literal["", "arrow", "csv", "inline", "json", "orc", "parquet"]
"""The format of a file; without one, the file's ending tells it. Tidegate's own files of rows are "inline"."""


def as_format(name: str) -> FileFormat:
    """A format's name that somebody else gives. The source that opens the file refuses a name that it does not know."""
    return cast("FileFormat", name)


@dataclass(frozen=True, slots=True)
class FileSplit:
    """A file, folder or glob on the server. `rows` is half open; `row_groups` are record batches in Arrow files.
    `format` is arrow, csv, json, orc or parquet; without it, the file's ending tells it.

    `change_column`, for a continuous task, names the column that says how each row counts: a weight, or one of insert,
    delete, update_preimage, update_postimage. `missing_columns` is the meaning of columns that the plan reads and the
    file lacks; without it the task's option holds.

    With a `number`, the plan may read two columns that the file does not have: `_split` is the number, and `_row` is
    the row's number in its file, from 0. With a `version` of `Task.find_files`, a file of any other version is refused.

    >>> first = tidegate.FileSplit("sales.parquet", rows=(0, 2))
    >>> task.run_epoch({"sales": first}).table().to_pylist()
    [{'item': 'cup', 'total': 8}, {'item': 'tea', 'total': 3}]
    """

    path: str
    _: KW_ONLY
    format: FileFormat = ""
    rows: tuple[int, int] | None = None
    row_groups: tuple[int, ...] | None = None
    watermark: int | None = None
    change_column: str | None = None
    missing_columns: MissingColumns | None = None
    number: int | None = None
    version: str | None = None


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
    """The split, with the task's option where the split has none itself."""
    if split.missing_columns is not None or columns is MissingColumns.ERROR:
        return split
    return replace(split, missing_columns=columns)


_COMMON_RUNS: Final = (None, 0, 1)
"""No run, and that of the epochs that have the same rows in every run."""


@dataclass(frozen=True, slots=True, order=True, repr=False)
class Cursor:
    """A position in the result: row `row` (from 0) of epoch `epoch` (from 1).

    A durable task may compute an epoch again with other rows, for example a relaxed task after a restart. `run` tells
    from which of these runs a reader has the rows before the position. So keep a cursor with its run: the service
    refuses a cursor of another run (`EPOCH_RESTARTED`). It is 0 where nothing is known of it, and None if the reader
    does not know of runs at all (an older client). Cursors compare by epoch and row alone.

    >>> epoch = task.run_epoch({"sales": monday})
    >>> epoch.cursor
    Cursor(epoch=1, row=0)
    >>> rows = epoch.table()
    >>> task.cursor
    Cursor(epoch=2, row=0)
    >>> tidegate.Cursor(1, 5) < tidegate.Cursor(2)
    True
    """

    epoch: int
    row: int = 0
    run: int | None = field(default=0, compare=False)

    def __repr__(self) -> str:
        run = f", run={self.run}" if self.run not in _COMMON_RUNS else ""
        return f"Cursor(epoch={self.epoch}, row={self.row}{run})"


START = Cursor(1, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Added:
    sequence: int
    duplicate: bool
    epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Transaction:
    """A name for splits, and for a seal that may go with them, by which the task takes them once. `application` is a
    name that the caller chooses; its versions go up. With `follows`, the task refuses the transaction unless `follows`
    is the application's last version.
    """

    application: str
    version: int
    follows: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Transacted:
    """The answer to a transaction, which is a part of `epoch`. The task has taken a `replayed` transaction before:
    nothing changes, and the answer is the first one. `same` says whether the first one had the same content. `epoch`
    and `same` are None where the task remembers only later versions of the application; `added` is empty unless the
    content is the same.

    >>> answer = task.transact("loader", 7, {"sales": monday}, seal=True)
    >>> again = task.transact("loader", 7, {"sales": monday}, seal=True)
    >>> answer.replayed, again.replayed, again.epoch
    (False, True, 1)
    """

    epoch: int | None
    replayed: bool = False
    same: bool | None = True
    added: tuple[Added, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Committed:
    """The last version of an application, and the epoch that it became a part of.

    >>> answer = task.transact("loader", 7, {"sales": monday}, seal=True)
    >>> task.last_transaction("loader")
    Committed(version=7, epoch=1)
    """

    version: int
    epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorValue:
    reason: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """A task's state at the barrier of an epoch, in files. `size` is the bytes of all files that the checkpoint names,
    even if other checkpoints share them.

    >>> client = tidegate.local(checkpoint_root=".")
    >>> with client.create_task(plan) as task:
    ...     epoch = task.run_epoch({"sales": monday}, checkpoint="monday")
    ...     print([(each.id == epoch.checkpoint, each.epoch) for each in task.checkpoints()])
    [(True, 1)]
    """

    id: str
    epoch: int
    watermark: int | None = None
    size: int = 0
    taken_us: int = 0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Data:
    """Rows from `cursor` on.

    >>> _ = task.add_split("sales", monday), task.request_barrier()
    >>> data = task.next(wait=10)[0]
    >>> data.cursor, data.rows
    (Cursor(epoch=1, row=0), 2)
    """

    cursor: Cursor
    rows: int
    batches: tuple[pa.RecordBatch, ...]


class BlockedState(enum.Enum):
    """The reason why there are no rows yet: an epoch is at work, or splits and a seal are awaited.

    >>> [frame.state is tidegate.BlockedState.UNSEALED for frame in task.next()]
    [True]
    """

    WORKING = "working"
    UNSEALED = "unsealed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Blocked:
    """No rows yet. `missing` lists, by source, the sequence numbers that a sealed epoch waits for.

    >>> task.next()
    [Blocked(state=<BlockedState.UNSEALED: 'unsealed'>, missing={})]
    """

    state: BlockedState
    missing: Mapping[str, tuple[int, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Seal:
    """The wish for a barrier. It takes the splits of each source up to the numbers `through`, and waits for those that
    have not come. With the name of a `checkpoint` (the service names it where that is empty) one is taken there. It may
    say the `watermarks` of sources, and which ones are `idle` in this epoch. `after` is the last sealed epoch that the
    caller knows of: a call that names no epoch, and has nothing to seal, joins a later one.
    """

    through: Mapping[str, int] | None = None
    checkpoint: str | None = None
    watermarks: Mapping[str, int] = field(default_factory=dict)
    idle: tuple[str, ...] = ()
    after: int | None = None


NO_WISHES: Final = Seal()
"""A barrier behind whatever has come, without a checkpoint."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AddRequest:
    """Splits on their way into a task. `splits` are (source, split, sequence), in order, and are read once. They belong
    to `epoch` where that is given; with a `seal` a barrier follows them.
    """

    splits: Iterable[tuple[str, Split, int | None]]
    epoch: int | None = None
    seal: Seal | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Barrier:
    """Epoch `epoch` is complete: its `rows` rows are final, or void where `error` is set. Where a checkpoint was asked
    for, `checkpoint` is its id, or `checkpoint_error` says why there is none; the rows are final all the same. `files`
    have the rows of a task that keeps them in files.

    >>> _ = task.add_split("sales", monday), task.request_barrier()
    >>> while not isinstance(barrier := task.next(wait=10)[-1], tidegate.Barrier):
    ...     pass
    >>> barrier.epoch, barrier.rows, barrier.error
    (1, 2, None)
    """

    epoch: int
    rows: int
    watermark: int | None = None
    statistics: EpochStatistics = field(default_factory=EpochStatistics)
    error: ErrorValue | None = None
    checkpoint: str | None = None
    checkpoint_error: ErrorValue | None = None
    files: tuple[ResultFile, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultFile:
    """A file with rows of a result: an Arrow IPC stream in the folder that the service and Spark's executors share."""

    path: str
    rows: int


@dataclass(frozen=True, slots=True)
class Reader:
    """One of `count` readers that share a task's result: that of this number, from 1."""

    number: int
    count: int


@dataclass(frozen=True, slots=True)
class Finished:
    """The end of the result: no frame follows.

    >>> task.no_more_splits()
    >>> task.next(wait=10)
    [Finished()]
    """


Frame: TypeAlias = Data | Blocked | Barrier | Finished


def after(frame: Frame, cursor: Cursor) -> Cursor:
    """The cursor behind `frame`, which was read at `cursor`."""
    match frame:
        case Data():
            return Cursor(frame.cursor.epoch, frame.cursor.row + frame.rows, frame.cursor.run)
        case Barrier():
            return Cursor(frame.epoch + 1, 0)
        case Blocked() | Finished():
            return cursor


class TaskPhase(enum.Enum):
    """The phase of a task. A task that runs becomes finished, failed or cancelled, once and for good. After a restart
    of its service, a durable task is recovering until every epoch that was sealed before is computed again. All calls
    work meanwhile.

    >>> task.cancel()
    >>> task.info().state is tidegate.TaskPhase.CANCELLED
    True
    """

    RUNNING = "running"
    FINISHED = "finished"
    FAILED = "failed"
    CANCELLED = "cancelled"
    RECOVERING = "recovering"


@dataclass(frozen=True, slots=True, kw_only=True)
class Recovery:
    """The progress of a task that is recovering: `done` of `epochs` are computed again."""

    epochs: int
    done: int


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
    """A file that a split stands for. `folders` has the columns of folders named `column=value`, and their values; None
    is null.

    `pieces` has the rows, (first, end), of each part that is read as a whole: row groups, small ones joined. It is
    empty if nobody asked for pieces, if the format does not tell them, and if the file cannot be opened.

    `version` tells this file from what another program may put in its place: a `FileSplit` takes it. `ending` is a
    digest of the file's last 64 KiB, which all formats but text use for their metadata. It is empty if nobody asked for
    pieces, and if the file cannot be opened.

    >>> [file] = task.find_files("sales", "sales.parquet", pieces=True)
    >>> file.format, file.folders, file.pieces
    ('parquet', (), ((0, 3),))
    """

    path: str
    format: str
    size: int
    folders: tuple[tuple[str, str | None], ...] = ()
    pieces: tuple[tuple[int, int], ...] = ()
    version: str = ""
    ending: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskInfo:
    """A task as its service describes it: its phase, schema, sources, options, statistics and epochs so far.

    >>> info = task.info()
    >>> info.state, info.completed_epoch, [source.name for source in info.sources]
    (<TaskPhase.RUNNING: 'running'>, 0, ['sales'])
    """

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
    recovery: Recovery | None = None

    @property
    def runs(self) -> bool:
        """True if the task takes splits and computes epochs: it runs, or is recovering."""
        return self.state in (TaskPhase.RUNNING, TaskPhase.RECOVERING)


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """An explanation of a plan or graph: a text for people, JSON for programs, and a picture of a graph."""

    text: str
    json: str
    svg: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Capabilities:
    version: str
    dialect: str
    engines: Mapping[str, str]
    principal: str = ""
    """The name by which the service knows the caller; empty where it does not tell callers apart."""
    flight: str = ""
    """The address of a server's Arrow Flight: `:PORT` of its host, or `unix:NAME` in the folder of its socket."""
