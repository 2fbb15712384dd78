from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Mode(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    MODE_UNSPECIFIED: _ClassVar[Mode]
    MODE_PER_EPOCH: _ClassVar[Mode]
    MODE_CONTINUOUS: _ClassVar[Mode]

class Determinism(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    DETERMINISM_UNSPECIFIED: _ClassVar[Determinism]
    DETERMINISM_STRICT: _ClassVar[Determinism]
    DETERMINISM_RELAXED: _ClassVar[Determinism]

class OnError(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ON_ERROR_UNSPECIFIED: _ClassVar[OnError]
    ON_ERROR_FAIL: _ClassVar[OnError]
    ON_ERROR_SKIP_EPOCH: _ClassVar[OnError]

class Spill(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    SPILL_UNSPECIFIED: _ClassVar[Spill]
    SPILL_AUTO: _ClassVar[Spill]
    SPILL_ORDERED: _ClassVar[Spill]
    SPILL_ERROR: _ClassVar[Spill]

class Loops(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    LOOPS_UNSPECIFIED: _ClassVar[Loops]
    LOOPS_AUTO: _ClassVar[Loops]
    LOOPS_GENERAL: _ClassVar[Loops]

class MissingColumns(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    MISSING_COLUMNS_UNSPECIFIED: _ClassVar[MissingColumns]
    MISSING_COLUMNS_ERROR: _ClassVar[MissingColumns]
    MISSING_COLUMNS_NULL: _ClassVar[MissingColumns]

class Durability(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    DURABILITY_UNSPECIFIED: _ClassVar[Durability]
    DURABILITY_AUTO: _ClassVar[Durability]
    DURABILITY_NONE: _ClassVar[Durability]

class ExecutorKind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    EXECUTOR_KIND_UNSPECIFIED: _ClassVar[ExecutorKind]
    EXECUTOR_KIND_LOCAL: _ClassVar[ExecutorKind]
    EXECUTOR_KIND_SPARK: _ClassVar[ExecutorKind]

class TaskState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    TASK_STATE_UNSPECIFIED: _ClassVar[TaskState]
    TASK_STATE_RUNNING: _ClassVar[TaskState]
    TASK_STATE_FINISHED: _ClassVar[TaskState]
    TASK_STATE_FAILED: _ClassVar[TaskState]
    TASK_STATE_CANCELLED: _ClassVar[TaskState]
    TASK_STATE_RECOVERING: _ClassVar[TaskState]
MODE_UNSPECIFIED: Mode
MODE_PER_EPOCH: Mode
MODE_CONTINUOUS: Mode
DETERMINISM_UNSPECIFIED: Determinism
DETERMINISM_STRICT: Determinism
DETERMINISM_RELAXED: Determinism
ON_ERROR_UNSPECIFIED: OnError
ON_ERROR_FAIL: OnError
ON_ERROR_SKIP_EPOCH: OnError
SPILL_UNSPECIFIED: Spill
SPILL_AUTO: Spill
SPILL_ORDERED: Spill
SPILL_ERROR: Spill
LOOPS_UNSPECIFIED: Loops
LOOPS_AUTO: Loops
LOOPS_GENERAL: Loops
MISSING_COLUMNS_UNSPECIFIED: MissingColumns
MISSING_COLUMNS_ERROR: MissingColumns
MISSING_COLUMNS_NULL: MissingColumns
DURABILITY_UNSPECIFIED: Durability
DURABILITY_AUTO: Durability
DURABILITY_NONE: Durability
EXECUTOR_KIND_UNSPECIFIED: ExecutorKind
EXECUTOR_KIND_LOCAL: ExecutorKind
EXECUTOR_KIND_SPARK: ExecutorKind
TASK_STATE_UNSPECIFIED: TaskState
TASK_STATE_RUNNING: TaskState
TASK_STATE_FINISHED: TaskState
TASK_STATE_FAILED: TaskState
TASK_STATE_CANCELLED: TaskState
TASK_STATE_RECOVERING: TaskState

class PlanBytes(_message.Message):
    __slots__ = ("binary", "json", "parameters")
    BINARY_FIELD_NUMBER: _ClassVar[int]
    JSON_FIELD_NUMBER: _ClassVar[int]
    PARAMETERS_FIELD_NUMBER: _ClassVar[int]
    binary: bytes
    json: str
    parameters: bytes
    def __init__(self, binary: _Optional[bytes] = ..., json: _Optional[str] = ..., parameters: _Optional[bytes] = ...) -> None: ...

class TaskOptions(_message.Message):
    __slots__ = ("mode", "determinism", "on_error", "channels", "max_pending_epochs", "memory_limit", "queue_bytes", "output_bytes", "spill_quota", "idle_seconds", "time_zone", "spill", "broadcast", "write_format", "write_quota", "loops", "loop_rows", "loop_seconds", "executor", "missing_columns", "epoch_seconds", "parallel_threshold_seconds", "durability", "checkpoint_epochs", "checkpoint_seconds", "retries", "auto_cores", "slot_memory", "result_files", "spark_threshold_bytes")
    MODE_FIELD_NUMBER: _ClassVar[int]
    DETERMINISM_FIELD_NUMBER: _ClassVar[int]
    ON_ERROR_FIELD_NUMBER: _ClassVar[int]
    CHANNELS_FIELD_NUMBER: _ClassVar[int]
    MAX_PENDING_EPOCHS_FIELD_NUMBER: _ClassVar[int]
    MEMORY_LIMIT_FIELD_NUMBER: _ClassVar[int]
    QUEUE_BYTES_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_BYTES_FIELD_NUMBER: _ClassVar[int]
    SPILL_QUOTA_FIELD_NUMBER: _ClassVar[int]
    IDLE_SECONDS_FIELD_NUMBER: _ClassVar[int]
    TIME_ZONE_FIELD_NUMBER: _ClassVar[int]
    SPILL_FIELD_NUMBER: _ClassVar[int]
    BROADCAST_FIELD_NUMBER: _ClassVar[int]
    WRITE_FORMAT_FIELD_NUMBER: _ClassVar[int]
    WRITE_QUOTA_FIELD_NUMBER: _ClassVar[int]
    LOOPS_FIELD_NUMBER: _ClassVar[int]
    LOOP_ROWS_FIELD_NUMBER: _ClassVar[int]
    LOOP_SECONDS_FIELD_NUMBER: _ClassVar[int]
    EXECUTOR_FIELD_NUMBER: _ClassVar[int]
    MISSING_COLUMNS_FIELD_NUMBER: _ClassVar[int]
    EPOCH_SECONDS_FIELD_NUMBER: _ClassVar[int]
    PARALLEL_THRESHOLD_SECONDS_FIELD_NUMBER: _ClassVar[int]
    DURABILITY_FIELD_NUMBER: _ClassVar[int]
    CHECKPOINT_EPOCHS_FIELD_NUMBER: _ClassVar[int]
    CHECKPOINT_SECONDS_FIELD_NUMBER: _ClassVar[int]
    RETRIES_FIELD_NUMBER: _ClassVar[int]
    AUTO_CORES_FIELD_NUMBER: _ClassVar[int]
    SLOT_MEMORY_FIELD_NUMBER: _ClassVar[int]
    RESULT_FILES_FIELD_NUMBER: _ClassVar[int]
    SPARK_THRESHOLD_BYTES_FIELD_NUMBER: _ClassVar[int]
    mode: Mode
    determinism: Determinism
    on_error: OnError
    channels: int
    max_pending_epochs: int
    memory_limit: int
    queue_bytes: int
    output_bytes: int
    spill_quota: int
    idle_seconds: float
    time_zone: str
    spill: Spill
    broadcast: _containers.RepeatedScalarFieldContainer[str]
    write_format: str
    write_quota: int
    loops: Loops
    loop_rows: int
    loop_seconds: float
    executor: ExecutorKind
    missing_columns: MissingColumns
    epoch_seconds: float
    parallel_threshold_seconds: float
    durability: Durability
    checkpoint_epochs: int
    checkpoint_seconds: float
    retries: int
    auto_cores: int
    slot_memory: int
    result_files: bool
    spark_threshold_bytes: int
    def __init__(self, mode: _Optional[_Union[Mode, str]] = ..., determinism: _Optional[_Union[Determinism, str]] = ..., on_error: _Optional[_Union[OnError, str]] = ..., channels: _Optional[int] = ..., max_pending_epochs: _Optional[int] = ..., memory_limit: _Optional[int] = ..., queue_bytes: _Optional[int] = ..., output_bytes: _Optional[int] = ..., spill_quota: _Optional[int] = ..., idle_seconds: _Optional[float] = ..., time_zone: _Optional[str] = ..., spill: _Optional[_Union[Spill, str]] = ..., broadcast: _Optional[_Iterable[str]] = ..., write_format: _Optional[str] = ..., write_quota: _Optional[int] = ..., loops: _Optional[_Union[Loops, str]] = ..., loop_rows: _Optional[int] = ..., loop_seconds: _Optional[float] = ..., executor: _Optional[_Union[ExecutorKind, str]] = ..., missing_columns: _Optional[_Union[MissingColumns, str]] = ..., epoch_seconds: _Optional[float] = ..., parallel_threshold_seconds: _Optional[float] = ..., durability: _Optional[_Union[Durability, str]] = ..., checkpoint_epochs: _Optional[int] = ..., checkpoint_seconds: _Optional[float] = ..., retries: _Optional[int] = ..., auto_cores: _Optional[int] = ..., slot_memory: _Optional[int] = ..., result_files: _Optional[bool] = ..., spark_threshold_bytes: _Optional[int] = ...) -> None: ...

class CreateTaskRequest(_message.Message):
    __slots__ = ("plan", "options", "tables", "request", "restore")
    class TablesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: Table
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[Table, _Mapping]] = ...) -> None: ...
    PLAN_FIELD_NUMBER: _ClassVar[int]
    OPTIONS_FIELD_NUMBER: _ClassVar[int]
    TABLES_FIELD_NUMBER: _ClassVar[int]
    REQUEST_FIELD_NUMBER: _ClassVar[int]
    RESTORE_FIELD_NUMBER: _ClassVar[int]
    plan: PlanBytes
    options: TaskOptions
    tables: _containers.MessageMap[str, Table]
    request: str
    restore: str
    def __init__(self, plan: _Optional[_Union[PlanBytes, _Mapping]] = ..., options: _Optional[_Union[TaskOptions, _Mapping]] = ..., tables: _Optional[_Mapping[str, Table]] = ..., request: _Optional[str] = ..., restore: _Optional[str] = ...) -> None: ...

class Table(_message.Message):
    __slots__ = ("splits",)
    SPLITS_FIELD_NUMBER: _ClassVar[int]
    splits: _containers.RepeatedCompositeFieldContainer[Split]
    def __init__(self, splits: _Optional[_Iterable[_Union[Split, _Mapping]]] = ...) -> None: ...

class CreateTaskResponse(_message.Message):
    __slots__ = ("task",)
    TASK_FIELD_NUMBER: _ClassVar[int]
    task: Task
    def __init__(self, task: _Optional[_Union[Task, _Mapping]] = ...) -> None: ...

class Source(_message.Message):
    __slots__ = ("name", "schema", "static", "split_kinds", "last_added", "last_sealed", "ended")
    NAME_FIELD_NUMBER: _ClassVar[int]
    SCHEMA_FIELD_NUMBER: _ClassVar[int]
    STATIC_FIELD_NUMBER: _ClassVar[int]
    SPLIT_KINDS_FIELD_NUMBER: _ClassVar[int]
    LAST_ADDED_FIELD_NUMBER: _ClassVar[int]
    LAST_SEALED_FIELD_NUMBER: _ClassVar[int]
    ENDED_FIELD_NUMBER: _ClassVar[int]
    name: str
    schema: bytes
    static: bool
    split_kinds: _containers.RepeatedScalarFieldContainer[str]
    last_added: int
    last_sealed: int
    ended: bool
    def __init__(self, name: _Optional[str] = ..., schema: _Optional[bytes] = ..., static: _Optional[bool] = ..., split_kinds: _Optional[_Iterable[str]] = ..., last_added: _Optional[int] = ..., last_sealed: _Optional[int] = ..., ended: _Optional[bool] = ...) -> None: ...

class Task(_message.Message):
    __slots__ = ("id", "state", "schema", "sources", "options", "statistics", "error", "sealed_epoch", "completed_epoch", "acknowledged", "warnings", "recovery")
    ID_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    SCHEMA_FIELD_NUMBER: _ClassVar[int]
    SOURCES_FIELD_NUMBER: _ClassVar[int]
    OPTIONS_FIELD_NUMBER: _ClassVar[int]
    STATISTICS_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    SEALED_EPOCH_FIELD_NUMBER: _ClassVar[int]
    COMPLETED_EPOCH_FIELD_NUMBER: _ClassVar[int]
    ACKNOWLEDGED_FIELD_NUMBER: _ClassVar[int]
    WARNINGS_FIELD_NUMBER: _ClassVar[int]
    RECOVERY_FIELD_NUMBER: _ClassVar[int]
    id: str
    state: TaskState
    schema: bytes
    sources: _containers.RepeatedCompositeFieldContainer[Source]
    options: TaskOptions
    statistics: Statistics
    error: Error
    sealed_epoch: int
    completed_epoch: int
    acknowledged: Cursor
    warnings: _containers.RepeatedScalarFieldContainer[str]
    recovery: Recovery
    def __init__(self, id: _Optional[str] = ..., state: _Optional[_Union[TaskState, str]] = ..., schema: _Optional[bytes] = ..., sources: _Optional[_Iterable[_Union[Source, _Mapping]]] = ..., options: _Optional[_Union[TaskOptions, _Mapping]] = ..., statistics: _Optional[_Union[Statistics, _Mapping]] = ..., error: _Optional[_Union[Error, _Mapping]] = ..., sealed_epoch: _Optional[int] = ..., completed_epoch: _Optional[int] = ..., acknowledged: _Optional[_Union[Cursor, _Mapping]] = ..., warnings: _Optional[_Iterable[str]] = ..., recovery: _Optional[_Union[Recovery, _Mapping]] = ...) -> None: ...

class Recovery(_message.Message):
    __slots__ = ("epochs", "done")
    EPOCHS_FIELD_NUMBER: _ClassVar[int]
    DONE_FIELD_NUMBER: _ClassVar[int]
    epochs: int
    done: int
    def __init__(self, epochs: _Optional[int] = ..., done: _Optional[int] = ...) -> None: ...

class Error(_message.Message):
    __slots__ = ("reason", "message")
    REASON_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    reason: str
    message: str
    def __init__(self, reason: _Optional[str] = ..., message: _Optional[str] = ...) -> None: ...

class Cursor(_message.Message):
    __slots__ = ("epoch", "row", "run")
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    ROW_FIELD_NUMBER: _ClassVar[int]
    RUN_FIELD_NUMBER: _ClassVar[int]
    epoch: int
    row: int
    run: int
    def __init__(self, epoch: _Optional[int] = ..., row: _Optional[int] = ..., run: _Optional[int] = ...) -> None: ...

class Split(_message.Message):
    __slots__ = ("file", "inline", "watermark", "change_column", "missing_columns")
    FILE_FIELD_NUMBER: _ClassVar[int]
    INLINE_FIELD_NUMBER: _ClassVar[int]
    WATERMARK_FIELD_NUMBER: _ClassVar[int]
    CHANGE_COLUMN_FIELD_NUMBER: _ClassVar[int]
    MISSING_COLUMNS_FIELD_NUMBER: _ClassVar[int]
    file: FileSplit
    inline: InlineSplit
    watermark: int
    change_column: str
    missing_columns: MissingColumns
    def __init__(self, file: _Optional[_Union[FileSplit, _Mapping]] = ..., inline: _Optional[_Union[InlineSplit, _Mapping]] = ..., watermark: _Optional[int] = ..., change_column: _Optional[str] = ..., missing_columns: _Optional[_Union[MissingColumns, str]] = ...) -> None: ...

class FileSplit(_message.Message):
    __slots__ = ("path", "format", "first_row", "end_row", "row_groups", "number", "version")
    PATH_FIELD_NUMBER: _ClassVar[int]
    FORMAT_FIELD_NUMBER: _ClassVar[int]
    FIRST_ROW_FIELD_NUMBER: _ClassVar[int]
    END_ROW_FIELD_NUMBER: _ClassVar[int]
    ROW_GROUPS_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    path: str
    format: str
    first_row: int
    end_row: int
    row_groups: _containers.RepeatedScalarFieldContainer[int]
    number: int
    version: str
    def __init__(self, path: _Optional[str] = ..., format: _Optional[str] = ..., first_row: _Optional[int] = ..., end_row: _Optional[int] = ..., row_groups: _Optional[_Iterable[int]] = ..., number: _Optional[int] = ..., version: _Optional[str] = ...) -> None: ...

class InlineSplit(_message.Message):
    __slots__ = ("arrow",)
    ARROW_FIELD_NUMBER: _ClassVar[int]
    arrow: bytes
    def __init__(self, arrow: _Optional[bytes] = ...) -> None: ...

class AddSplitRequest(_message.Message):
    __slots__ = ("task", "source", "split", "sequence", "epoch")
    TASK_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    SPLIT_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    task: str
    source: str
    split: Split
    sequence: int
    epoch: int
    def __init__(self, task: _Optional[str] = ..., source: _Optional[str] = ..., split: _Optional[_Union[Split, _Mapping]] = ..., sequence: _Optional[int] = ..., epoch: _Optional[int] = ...) -> None: ...

class AddSplitResponse(_message.Message):
    __slots__ = ("sequence", "duplicate", "epoch")
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    DUPLICATE_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    sequence: int
    duplicate: bool
    epoch: int
    def __init__(self, sequence: _Optional[int] = ..., duplicate: _Optional[bool] = ..., epoch: _Optional[int] = ...) -> None: ...

class AddSplitsRequest(_message.Message):
    __slots__ = ("task", "splits", "epoch", "barrier", "read", "transaction")
    TASK_FIELD_NUMBER: _ClassVar[int]
    SPLITS_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    BARRIER_FIELD_NUMBER: _ClassVar[int]
    READ_FIELD_NUMBER: _ClassVar[int]
    TRANSACTION_FIELD_NUMBER: _ClassVar[int]
    task: str
    splits: _containers.RepeatedCompositeFieldContainer[SplitOfSource]
    epoch: int
    barrier: Seal
    read: Read
    transaction: Transaction
    def __init__(self, task: _Optional[str] = ..., splits: _Optional[_Iterable[_Union[SplitOfSource, _Mapping]]] = ..., epoch: _Optional[int] = ..., barrier: _Optional[_Union[Seal, _Mapping]] = ..., read: _Optional[_Union[Read, _Mapping]] = ..., transaction: _Optional[_Union[Transaction, _Mapping]] = ...) -> None: ...

class Transaction(_message.Message):
    __slots__ = ("application", "version", "follows")
    APPLICATION_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    FOLLOWS_FIELD_NUMBER: _ClassVar[int]
    application: str
    version: int
    follows: int
    def __init__(self, application: _Optional[str] = ..., version: _Optional[int] = ..., follows: _Optional[int] = ...) -> None: ...

class SplitOfSource(_message.Message):
    __slots__ = ("source", "split", "sequence")
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    SPLIT_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    source: str
    split: Split
    sequence: int
    def __init__(self, source: _Optional[str] = ..., split: _Optional[_Union[Split, _Mapping]] = ..., sequence: _Optional[int] = ...) -> None: ...

class Seal(_message.Message):
    __slots__ = ("through", "checkpoint", "watermarks", "idle")
    class ThroughEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    class WatermarksEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    THROUGH_FIELD_NUMBER: _ClassVar[int]
    CHECKPOINT_FIELD_NUMBER: _ClassVar[int]
    WATERMARKS_FIELD_NUMBER: _ClassVar[int]
    IDLE_FIELD_NUMBER: _ClassVar[int]
    through: _containers.ScalarMap[str, int]
    checkpoint: str
    watermarks: _containers.ScalarMap[str, int]
    idle: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, through: _Optional[_Mapping[str, int]] = ..., checkpoint: _Optional[str] = ..., watermarks: _Optional[_Mapping[str, int]] = ..., idle: _Optional[_Iterable[str]] = ...) -> None: ...

class Read(_message.Message):
    __slots__ = ("acknowledge", "max_bytes")
    FROM_FIELD_NUMBER: _ClassVar[int]
    ACKNOWLEDGE_FIELD_NUMBER: _ClassVar[int]
    MAX_BYTES_FIELD_NUMBER: _ClassVar[int]
    acknowledge: Cursor
    max_bytes: int
    def __init__(self, acknowledge: _Optional[_Union[Cursor, _Mapping]] = ..., max_bytes: _Optional[int] = ..., **kwargs) -> None: ...

class AddSplitsResponse(_message.Message):
    __slots__ = ("splits", "epoch", "read", "transaction")
    SPLITS_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    READ_FIELD_NUMBER: _ClassVar[int]
    TRANSACTION_FIELD_NUMBER: _ClassVar[int]
    splits: _containers.RepeatedCompositeFieldContainer[AddSplitResponse]
    epoch: int
    read: NextResponse
    transaction: Transacted
    def __init__(self, splits: _Optional[_Iterable[_Union[AddSplitResponse, _Mapping]]] = ..., epoch: _Optional[int] = ..., read: _Optional[_Union[NextResponse, _Mapping]] = ..., transaction: _Optional[_Union[Transacted, _Mapping]] = ...) -> None: ...

class Transacted(_message.Message):
    __slots__ = ("replayed", "epoch", "same")
    REPLAYED_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    SAME_FIELD_NUMBER: _ClassVar[int]
    replayed: bool
    epoch: int
    same: bool
    def __init__(self, replayed: _Optional[bool] = ..., epoch: _Optional[int] = ..., same: _Optional[bool] = ...) -> None: ...

class FindFilesRequest(_message.Message):
    __slots__ = ("task", "source", "file", "pieces")
    TASK_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    FILE_FIELD_NUMBER: _ClassVar[int]
    PIECES_FIELD_NUMBER: _ClassVar[int]
    task: str
    source: str
    file: FileSplit
    pieces: bool
    def __init__(self, task: _Optional[str] = ..., source: _Optional[str] = ..., file: _Optional[_Union[FileSplit, _Mapping]] = ..., pieces: _Optional[bool] = ...) -> None: ...

class FindFilesResponse(_message.Message):
    __slots__ = ("files",)
    FILES_FIELD_NUMBER: _ClassVar[int]
    files: _containers.RepeatedCompositeFieldContainer[FoundFile]
    def __init__(self, files: _Optional[_Iterable[_Union[FoundFile, _Mapping]]] = ...) -> None: ...

class FoundFile(_message.Message):
    __slots__ = ("path", "format", "size", "folders", "pieces", "version", "ending")
    PATH_FIELD_NUMBER: _ClassVar[int]
    FORMAT_FIELD_NUMBER: _ClassVar[int]
    SIZE_FIELD_NUMBER: _ClassVar[int]
    FOLDERS_FIELD_NUMBER: _ClassVar[int]
    PIECES_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    ENDING_FIELD_NUMBER: _ClassVar[int]
    path: str
    format: str
    size: int
    folders: _containers.RepeatedCompositeFieldContainer[FolderValue]
    pieces: _containers.RepeatedCompositeFieldContainer[RowRange]
    version: str
    ending: str
    def __init__(self, path: _Optional[str] = ..., format: _Optional[str] = ..., size: _Optional[int] = ..., folders: _Optional[_Iterable[_Union[FolderValue, _Mapping]]] = ..., pieces: _Optional[_Iterable[_Union[RowRange, _Mapping]]] = ..., version: _Optional[str] = ..., ending: _Optional[str] = ...) -> None: ...

class RowRange(_message.Message):
    __slots__ = ("first_row", "end_row")
    FIRST_ROW_FIELD_NUMBER: _ClassVar[int]
    END_ROW_FIELD_NUMBER: _ClassVar[int]
    first_row: int
    end_row: int
    def __init__(self, first_row: _Optional[int] = ..., end_row: _Optional[int] = ...) -> None: ...

class FolderValue(_message.Message):
    __slots__ = ("column", "value")
    COLUMN_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    column: str
    value: str
    def __init__(self, column: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...

class GetTransactionRequest(_message.Message):
    __slots__ = ("task", "application")
    TASK_FIELD_NUMBER: _ClassVar[int]
    APPLICATION_FIELD_NUMBER: _ClassVar[int]
    task: str
    application: str
    def __init__(self, task: _Optional[str] = ..., application: _Optional[str] = ...) -> None: ...

class GetTransactionResponse(_message.Message):
    __slots__ = ("version", "epoch")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    version: int
    epoch: int
    def __init__(self, version: _Optional[int] = ..., epoch: _Optional[int] = ...) -> None: ...

class UploadRequest(_message.Message):
    __slots__ = ("task", "name", "data", "group")
    TASK_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    GROUP_FIELD_NUMBER: _ClassVar[int]
    task: str
    name: str
    data: bytes
    group: str
    def __init__(self, task: _Optional[str] = ..., name: _Optional[str] = ..., data: _Optional[bytes] = ..., group: _Optional[str] = ...) -> None: ...

class UploadResponse(_message.Message):
    __slots__ = ("path",)
    PATH_FIELD_NUMBER: _ClassVar[int]
    path: str
    def __init__(self, path: _Optional[str] = ...) -> None: ...

class DropUploadsRequest(_message.Message):
    __slots__ = ("task", "group")
    TASK_FIELD_NUMBER: _ClassVar[int]
    GROUP_FIELD_NUMBER: _ClassVar[int]
    task: str
    group: str
    def __init__(self, task: _Optional[str] = ..., group: _Optional[str] = ...) -> None: ...

class DropUploadsResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class NoMoreSplitsRequest(_message.Message):
    __slots__ = ("task", "source", "through")
    class ThroughEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    TASK_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    THROUGH_FIELD_NUMBER: _ClassVar[int]
    task: str
    source: str
    through: _containers.ScalarMap[str, int]
    def __init__(self, task: _Optional[str] = ..., source: _Optional[str] = ..., through: _Optional[_Mapping[str, int]] = ...) -> None: ...

class NoMoreSplitsResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class RequestBarrierRequest(_message.Message):
    __slots__ = ("task", "epoch", "through", "checkpoint", "watermarks", "idle", "after")
    class ThroughEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    class WatermarksEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    TASK_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    THROUGH_FIELD_NUMBER: _ClassVar[int]
    CHECKPOINT_FIELD_NUMBER: _ClassVar[int]
    WATERMARKS_FIELD_NUMBER: _ClassVar[int]
    IDLE_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    task: str
    epoch: int
    through: _containers.ScalarMap[str, int]
    checkpoint: str
    watermarks: _containers.ScalarMap[str, int]
    idle: _containers.RepeatedScalarFieldContainer[str]
    after: int
    def __init__(self, task: _Optional[str] = ..., epoch: _Optional[int] = ..., through: _Optional[_Mapping[str, int]] = ..., checkpoint: _Optional[str] = ..., watermarks: _Optional[_Mapping[str, int]] = ..., idle: _Optional[_Iterable[str]] = ..., after: _Optional[int] = ...) -> None: ...

class RequestBarrierResponse(_message.Message):
    __slots__ = ("epoch",)
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    epoch: int
    def __init__(self, epoch: _Optional[int] = ...) -> None: ...

class NextRequest(_message.Message):
    __slots__ = ("task", "acknowledge", "max_bytes", "wait_ms")
    TASK_FIELD_NUMBER: _ClassVar[int]
    FROM_FIELD_NUMBER: _ClassVar[int]
    ACKNOWLEDGE_FIELD_NUMBER: _ClassVar[int]
    MAX_BYTES_FIELD_NUMBER: _ClassVar[int]
    WAIT_MS_FIELD_NUMBER: _ClassVar[int]
    task: str
    acknowledge: Cursor
    max_bytes: int
    wait_ms: int
    def __init__(self, task: _Optional[str] = ..., acknowledge: _Optional[_Union[Cursor, _Mapping]] = ..., max_bytes: _Optional[int] = ..., wait_ms: _Optional[int] = ..., **kwargs) -> None: ...

class NextResponse(_message.Message):
    __slots__ = ("frames",)
    FRAMES_FIELD_NUMBER: _ClassVar[int]
    frames: _containers.RepeatedCompositeFieldContainer[Frame]
    def __init__(self, frames: _Optional[_Iterable[_Union[Frame, _Mapping]]] = ...) -> None: ...

class Frame(_message.Message):
    __slots__ = ("data", "blocked", "barrier", "finished")
    DATA_FIELD_NUMBER: _ClassVar[int]
    BLOCKED_FIELD_NUMBER: _ClassVar[int]
    BARRIER_FIELD_NUMBER: _ClassVar[int]
    FINISHED_FIELD_NUMBER: _ClassVar[int]
    data: Data
    blocked: Blocked
    barrier: Barrier
    finished: Finished
    def __init__(self, data: _Optional[_Union[Data, _Mapping]] = ..., blocked: _Optional[_Union[Blocked, _Mapping]] = ..., barrier: _Optional[_Union[Barrier, _Mapping]] = ..., finished: _Optional[_Union[Finished, _Mapping]] = ...) -> None: ...

class Data(_message.Message):
    __slots__ = ("epoch", "row", "rows", "batches", "run")
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    ROW_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    BATCHES_FIELD_NUMBER: _ClassVar[int]
    RUN_FIELD_NUMBER: _ClassVar[int]
    epoch: int
    row: int
    rows: int
    batches: _containers.RepeatedScalarFieldContainer[bytes]
    run: int
    def __init__(self, epoch: _Optional[int] = ..., row: _Optional[int] = ..., rows: _Optional[int] = ..., batches: _Optional[_Iterable[bytes]] = ..., run: _Optional[int] = ...) -> None: ...

class Blocked(_message.Message):
    __slots__ = ("state", "missing")
    class State(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        STATE_UNSPECIFIED: _ClassVar[Blocked.State]
        STATE_WORKING: _ClassVar[Blocked.State]
        STATE_UNSEALED: _ClassVar[Blocked.State]
    STATE_UNSPECIFIED: Blocked.State
    STATE_WORKING: Blocked.State
    STATE_UNSEALED: Blocked.State
    class MissingEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: Sequences
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[Sequences, _Mapping]] = ...) -> None: ...
    STATE_FIELD_NUMBER: _ClassVar[int]
    MISSING_FIELD_NUMBER: _ClassVar[int]
    state: Blocked.State
    missing: _containers.MessageMap[str, Sequences]
    def __init__(self, state: _Optional[_Union[Blocked.State, str]] = ..., missing: _Optional[_Mapping[str, Sequences]] = ...) -> None: ...

class Sequences(_message.Message):
    __slots__ = ("numbers",)
    NUMBERS_FIELD_NUMBER: _ClassVar[int]
    numbers: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, numbers: _Optional[_Iterable[int]] = ...) -> None: ...

class Barrier(_message.Message):
    __slots__ = ("epoch", "rows", "watermark", "statistics", "error", "checkpoint", "checkpoint_error", "files")
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    WATERMARK_FIELD_NUMBER: _ClassVar[int]
    STATISTICS_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    CHECKPOINT_FIELD_NUMBER: _ClassVar[int]
    CHECKPOINT_ERROR_FIELD_NUMBER: _ClassVar[int]
    FILES_FIELD_NUMBER: _ClassVar[int]
    epoch: int
    rows: int
    watermark: int
    statistics: EpochStatistics
    error: Error
    checkpoint: str
    checkpoint_error: Error
    files: _containers.RepeatedCompositeFieldContainer[ResultFile]
    def __init__(self, epoch: _Optional[int] = ..., rows: _Optional[int] = ..., watermark: _Optional[int] = ..., statistics: _Optional[_Union[EpochStatistics, _Mapping]] = ..., error: _Optional[_Union[Error, _Mapping]] = ..., checkpoint: _Optional[str] = ..., checkpoint_error: _Optional[_Union[Error, _Mapping]] = ..., files: _Optional[_Iterable[_Union[ResultFile, _Mapping]]] = ...) -> None: ...

class ResultFile(_message.Message):
    __slots__ = ("path", "rows")
    PATH_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    path: str
    rows: int
    def __init__(self, path: _Optional[str] = ..., rows: _Optional[int] = ...) -> None: ...

class Finished(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ResultsRequest(_message.Message):
    __slots__ = ("task", "max_bytes", "ready")
    TASK_FIELD_NUMBER: _ClassVar[int]
    FROM_FIELD_NUMBER: _ClassVar[int]
    MAX_BYTES_FIELD_NUMBER: _ClassVar[int]
    READY_FIELD_NUMBER: _ClassVar[int]
    task: str
    max_bytes: int
    ready: bool
    def __init__(self, task: _Optional[str] = ..., max_bytes: _Optional[int] = ..., ready: _Optional[bool] = ..., **kwargs) -> None: ...

class FlightTicket(_message.Message):
    __slots__ = ("task", "epoch", "results")
    TASK_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    task: str
    epoch: int
    results: ResultsRequest
    def __init__(self, task: _Optional[str] = ..., epoch: _Optional[int] = ..., results: _Optional[_Union[ResultsRequest, _Mapping]] = ...) -> None: ...

class AcknowledgeRequest(_message.Message):
    __slots__ = ("task", "cursor")
    TASK_FIELD_NUMBER: _ClassVar[int]
    CURSOR_FIELD_NUMBER: _ClassVar[int]
    task: str
    cursor: Cursor
    def __init__(self, task: _Optional[str] = ..., cursor: _Optional[_Union[Cursor, _Mapping]] = ...) -> None: ...

class AcknowledgeResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListCheckpointsRequest(_message.Message):
    __slots__ = ("task",)
    TASK_FIELD_NUMBER: _ClassVar[int]
    task: str
    def __init__(self, task: _Optional[str] = ...) -> None: ...

class ListCheckpointsResponse(_message.Message):
    __slots__ = ("checkpoints",)
    CHECKPOINTS_FIELD_NUMBER: _ClassVar[int]
    checkpoints: _containers.RepeatedCompositeFieldContainer[Checkpoint]
    def __init__(self, checkpoints: _Optional[_Iterable[_Union[Checkpoint, _Mapping]]] = ...) -> None: ...

class Checkpoint(_message.Message):
    __slots__ = ("id", "epoch", "watermark", "size", "taken_us")
    ID_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    WATERMARK_FIELD_NUMBER: _ClassVar[int]
    SIZE_FIELD_NUMBER: _ClassVar[int]
    TAKEN_US_FIELD_NUMBER: _ClassVar[int]
    id: str
    epoch: int
    watermark: int
    size: int
    taken_us: int
    def __init__(self, id: _Optional[str] = ..., epoch: _Optional[int] = ..., watermark: _Optional[int] = ..., size: _Optional[int] = ..., taken_us: _Optional[int] = ...) -> None: ...

class GetTaskRequest(_message.Message):
    __slots__ = ("task",)
    TASK_FIELD_NUMBER: _ClassVar[int]
    task: str
    def __init__(self, task: _Optional[str] = ...) -> None: ...

class ListTasksRequest(_message.Message):
    __slots__ = ("after",)
    AFTER_FIELD_NUMBER: _ClassVar[int]
    after: str
    def __init__(self, after: _Optional[str] = ...) -> None: ...

class ListTasksResponse(_message.Message):
    __slots__ = ("tasks", "more")
    TASKS_FIELD_NUMBER: _ClassVar[int]
    MORE_FIELD_NUMBER: _ClassVar[int]
    tasks: _containers.RepeatedCompositeFieldContainer[Task]
    more: bool
    def __init__(self, tasks: _Optional[_Iterable[_Union[Task, _Mapping]]] = ..., more: _Optional[bool] = ...) -> None: ...

class WatchTaskRequest(_message.Message):
    __slots__ = ("task", "interval_ms")
    TASK_FIELD_NUMBER: _ClassVar[int]
    INTERVAL_MS_FIELD_NUMBER: _ClassVar[int]
    task: str
    interval_ms: int
    def __init__(self, task: _Optional[str] = ..., interval_ms: _Optional[int] = ...) -> None: ...

class CancelTaskRequest(_message.Message):
    __slots__ = ("task",)
    TASK_FIELD_NUMBER: _ClassVar[int]
    task: str
    def __init__(self, task: _Optional[str] = ...) -> None: ...

class CancelTaskResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class RecoverTaskRequest(_message.Message):
    __slots__ = ("task", "skip", "request")
    TASK_FIELD_NUMBER: _ClassVar[int]
    SKIP_FIELD_NUMBER: _ClassVar[int]
    REQUEST_FIELD_NUMBER: _ClassVar[int]
    task: str
    skip: _containers.RepeatedCompositeFieldContainer[SplitNumber]
    request: str
    def __init__(self, task: _Optional[str] = ..., skip: _Optional[_Iterable[_Union[SplitNumber, _Mapping]]] = ..., request: _Optional[str] = ...) -> None: ...

class SplitNumber(_message.Message):
    __slots__ = ("source", "sequence")
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    source: str
    sequence: int
    def __init__(self, source: _Optional[str] = ..., sequence: _Optional[int] = ...) -> None: ...

class RecoverTaskResponse(_message.Message):
    __slots__ = ("task",)
    TASK_FIELD_NUMBER: _ClassVar[int]
    task: Task
    def __init__(self, task: _Optional[_Union[Task, _Mapping]] = ...) -> None: ...

class DeleteTaskRequest(_message.Message):
    __slots__ = ("task", "reader", "readers")
    TASK_FIELD_NUMBER: _ClassVar[int]
    READER_FIELD_NUMBER: _ClassVar[int]
    READERS_FIELD_NUMBER: _ClassVar[int]
    task: str
    reader: int
    readers: int
    def __init__(self, task: _Optional[str] = ..., reader: _Optional[int] = ..., readers: _Optional[int] = ...) -> None: ...

class DeleteTaskResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class Statistics(_message.Message):
    __slots__ = ("barriers_requested", "barriers_completed", "barrier_us", "splits", "operators", "plans", "output_rows", "output_bytes", "output_bytes_held", "spilled_bytes", "loops", "stages", "progress")
    class SplitsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: SplitStatistics
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[SplitStatistics, _Mapping]] = ...) -> None: ...
    class ProgressEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: SourceProgress
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[SourceProgress, _Mapping]] = ...) -> None: ...
    BARRIERS_REQUESTED_FIELD_NUMBER: _ClassVar[int]
    BARRIERS_COMPLETED_FIELD_NUMBER: _ClassVar[int]
    BARRIER_US_FIELD_NUMBER: _ClassVar[int]
    SPLITS_FIELD_NUMBER: _ClassVar[int]
    OPERATORS_FIELD_NUMBER: _ClassVar[int]
    PLANS_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_ROWS_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_BYTES_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_BYTES_HELD_FIELD_NUMBER: _ClassVar[int]
    SPILLED_BYTES_FIELD_NUMBER: _ClassVar[int]
    LOOPS_FIELD_NUMBER: _ClassVar[int]
    STAGES_FIELD_NUMBER: _ClassVar[int]
    PROGRESS_FIELD_NUMBER: _ClassVar[int]
    barriers_requested: int
    barriers_completed: int
    barrier_us: int
    splits: _containers.MessageMap[str, SplitStatistics]
    operators: _containers.RepeatedCompositeFieldContainer[OperatorStatistics]
    plans: int
    output_rows: int
    output_bytes: int
    output_bytes_held: int
    spilled_bytes: int
    loops: _containers.RepeatedCompositeFieldContainer[LoopStatistics]
    stages: _containers.RepeatedCompositeFieldContainer[StageStatistics]
    progress: _containers.MessageMap[str, SourceProgress]
    def __init__(self, barriers_requested: _Optional[int] = ..., barriers_completed: _Optional[int] = ..., barrier_us: _Optional[int] = ..., splits: _Optional[_Mapping[str, SplitStatistics]] = ..., operators: _Optional[_Iterable[_Union[OperatorStatistics, _Mapping]]] = ..., plans: _Optional[int] = ..., output_rows: _Optional[int] = ..., output_bytes: _Optional[int] = ..., output_bytes_held: _Optional[int] = ..., spilled_bytes: _Optional[int] = ..., loops: _Optional[_Iterable[_Union[LoopStatistics, _Mapping]]] = ..., stages: _Optional[_Iterable[_Union[StageStatistics, _Mapping]]] = ..., progress: _Optional[_Mapping[str, SourceProgress]] = ...) -> None: ...

class SourceProgress(_message.Message):
    __slots__ = ("rows", "total", "text_bytes", "total_text_bytes")
    ROWS_FIELD_NUMBER: _ClassVar[int]
    TOTAL_FIELD_NUMBER: _ClassVar[int]
    TEXT_BYTES_FIELD_NUMBER: _ClassVar[int]
    TOTAL_TEXT_BYTES_FIELD_NUMBER: _ClassVar[int]
    rows: int
    total: int
    text_bytes: int
    total_text_bytes: int
    def __init__(self, rows: _Optional[int] = ..., total: _Optional[int] = ..., text_bytes: _Optional[int] = ..., total_text_bytes: _Optional[int] = ...) -> None: ...

class StageStatistics(_message.Message):
    __slots__ = ("stage", "pipelines", "tasks", "running", "done", "failed", "rows_in", "rows_out", "bytes_in", "bytes_out", "spilled_bytes")
    STAGE_FIELD_NUMBER: _ClassVar[int]
    PIPELINES_FIELD_NUMBER: _ClassVar[int]
    TASKS_FIELD_NUMBER: _ClassVar[int]
    RUNNING_FIELD_NUMBER: _ClassVar[int]
    DONE_FIELD_NUMBER: _ClassVar[int]
    FAILED_FIELD_NUMBER: _ClassVar[int]
    ROWS_IN_FIELD_NUMBER: _ClassVar[int]
    ROWS_OUT_FIELD_NUMBER: _ClassVar[int]
    BYTES_IN_FIELD_NUMBER: _ClassVar[int]
    BYTES_OUT_FIELD_NUMBER: _ClassVar[int]
    SPILLED_BYTES_FIELD_NUMBER: _ClassVar[int]
    stage: int
    pipelines: _containers.RepeatedScalarFieldContainer[str]
    tasks: int
    running: int
    done: int
    failed: int
    rows_in: int
    rows_out: int
    bytes_in: int
    bytes_out: int
    spilled_bytes: int
    def __init__(self, stage: _Optional[int] = ..., pipelines: _Optional[_Iterable[str]] = ..., tasks: _Optional[int] = ..., running: _Optional[int] = ..., done: _Optional[int] = ..., failed: _Optional[int] = ..., rows_in: _Optional[int] = ..., rows_out: _Optional[int] = ..., bytes_in: _Optional[int] = ..., bytes_out: _Optional[int] = ..., spilled_bytes: _Optional[int] = ...) -> None: ...

class SplitStatistics(_message.Message):
    __slots__ = ("added", "queued", "finished")
    ADDED_FIELD_NUMBER: _ClassVar[int]
    QUEUED_FIELD_NUMBER: _ClassVar[int]
    FINISHED_FIELD_NUMBER: _ClassVar[int]
    added: int
    queued: int
    finished: int
    def __init__(self, added: _Optional[int] = ..., queued: _Optional[int] = ..., finished: _Optional[int] = ...) -> None: ...

class OperatorStatistics(_message.Message):
    __slots__ = ("operator", "place", "rows_in", "rows_out", "bytes_in", "bytes_out", "runs", "run_us", "at_least", "spilled_bytes", "rows_touched", "state_bytes", "busy", "backpressure", "health", "keeps", "bound")
    OPERATOR_FIELD_NUMBER: _ClassVar[int]
    PLACE_FIELD_NUMBER: _ClassVar[int]
    ROWS_IN_FIELD_NUMBER: _ClassVar[int]
    ROWS_OUT_FIELD_NUMBER: _ClassVar[int]
    BYTES_IN_FIELD_NUMBER: _ClassVar[int]
    BYTES_OUT_FIELD_NUMBER: _ClassVar[int]
    RUNS_FIELD_NUMBER: _ClassVar[int]
    RUN_US_FIELD_NUMBER: _ClassVar[int]
    AT_LEAST_FIELD_NUMBER: _ClassVar[int]
    SPILLED_BYTES_FIELD_NUMBER: _ClassVar[int]
    ROWS_TOUCHED_FIELD_NUMBER: _ClassVar[int]
    STATE_BYTES_FIELD_NUMBER: _ClassVar[int]
    BUSY_FIELD_NUMBER: _ClassVar[int]
    BACKPRESSURE_FIELD_NUMBER: _ClassVar[int]
    HEALTH_FIELD_NUMBER: _ClassVar[int]
    KEEPS_FIELD_NUMBER: _ClassVar[int]
    BOUND_FIELD_NUMBER: _ClassVar[int]
    operator: str
    place: str
    rows_in: int
    rows_out: int
    bytes_in: int
    bytes_out: int
    runs: int
    run_us: int
    at_least: bool
    spilled_bytes: int
    rows_touched: int
    state_bytes: int
    busy: float
    backpressure: float
    health: float
    keeps: str
    bound: str
    def __init__(self, operator: _Optional[str] = ..., place: _Optional[str] = ..., rows_in: _Optional[int] = ..., rows_out: _Optional[int] = ..., bytes_in: _Optional[int] = ..., bytes_out: _Optional[int] = ..., runs: _Optional[int] = ..., run_us: _Optional[int] = ..., at_least: _Optional[bool] = ..., spilled_bytes: _Optional[int] = ..., rows_touched: _Optional[int] = ..., state_bytes: _Optional[int] = ..., busy: _Optional[float] = ..., backpressure: _Optional[float] = ..., health: _Optional[float] = ..., keeps: _Optional[str] = ..., bound: _Optional[str] = ...) -> None: ...

class LoopStatistics(_message.Message):
    __slots__ = ("name", "place", "rounds", "rows", "most_rows_a_round", "last_rows", "prepares_sent", "prepares_resent", "quiesce_us", "busy", "backpressure", "health")
    NAME_FIELD_NUMBER: _ClassVar[int]
    PLACE_FIELD_NUMBER: _ClassVar[int]
    ROUNDS_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    MOST_ROWS_A_ROUND_FIELD_NUMBER: _ClassVar[int]
    LAST_ROWS_FIELD_NUMBER: _ClassVar[int]
    PREPARES_SENT_FIELD_NUMBER: _ClassVar[int]
    PREPARES_RESENT_FIELD_NUMBER: _ClassVar[int]
    QUIESCE_US_FIELD_NUMBER: _ClassVar[int]
    BUSY_FIELD_NUMBER: _ClassVar[int]
    BACKPRESSURE_FIELD_NUMBER: _ClassVar[int]
    HEALTH_FIELD_NUMBER: _ClassVar[int]
    name: str
    place: str
    rounds: int
    rows: int
    most_rows_a_round: int
    last_rows: _containers.RepeatedScalarFieldContainer[int]
    prepares_sent: int
    prepares_resent: int
    quiesce_us: int
    busy: float
    backpressure: float
    health: float
    def __init__(self, name: _Optional[str] = ..., place: _Optional[str] = ..., rounds: _Optional[int] = ..., rows: _Optional[int] = ..., most_rows_a_round: _Optional[int] = ..., last_rows: _Optional[_Iterable[int]] = ..., prepares_sent: _Optional[int] = ..., prepares_resent: _Optional[int] = ..., quiesce_us: _Optional[int] = ..., busy: _Optional[float] = ..., backpressure: _Optional[float] = ..., health: _Optional[float] = ...) -> None: ...

class EpochStatistics(_message.Message):
    __slots__ = ("splits", "rows_in", "rows_out", "bytes_in", "bytes_out", "barrier_us", "run_us", "at_least", "rows_written", "bytes_written", "files_written", "checkpoint_us", "on_spark")
    SPLITS_FIELD_NUMBER: _ClassVar[int]
    ROWS_IN_FIELD_NUMBER: _ClassVar[int]
    ROWS_OUT_FIELD_NUMBER: _ClassVar[int]
    BYTES_IN_FIELD_NUMBER: _ClassVar[int]
    BYTES_OUT_FIELD_NUMBER: _ClassVar[int]
    BARRIER_US_FIELD_NUMBER: _ClassVar[int]
    RUN_US_FIELD_NUMBER: _ClassVar[int]
    AT_LEAST_FIELD_NUMBER: _ClassVar[int]
    ROWS_WRITTEN_FIELD_NUMBER: _ClassVar[int]
    BYTES_WRITTEN_FIELD_NUMBER: _ClassVar[int]
    FILES_WRITTEN_FIELD_NUMBER: _ClassVar[int]
    CHECKPOINT_US_FIELD_NUMBER: _ClassVar[int]
    ON_SPARK_FIELD_NUMBER: _ClassVar[int]
    splits: int
    rows_in: int
    rows_out: int
    bytes_in: int
    bytes_out: int
    barrier_us: int
    run_us: int
    at_least: bool
    rows_written: int
    bytes_written: int
    files_written: int
    checkpoint_us: int
    on_spark: bool
    def __init__(self, splits: _Optional[int] = ..., rows_in: _Optional[int] = ..., rows_out: _Optional[int] = ..., bytes_in: _Optional[int] = ..., bytes_out: _Optional[int] = ..., barrier_us: _Optional[int] = ..., run_us: _Optional[int] = ..., at_least: _Optional[bool] = ..., rows_written: _Optional[int] = ..., bytes_written: _Optional[int] = ..., files_written: _Optional[int] = ..., checkpoint_us: _Optional[int] = ..., on_spark: _Optional[bool] = ...) -> None: ...
