from . import tasks_pb2 as _tasks_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Creation(_message.Message):
    __slots__ = ("plan", "options", "tables", "restore", "principal", "request", "request_digest", "task", "versions", "files", "spark", "other_rows_through")
    class TablesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: StoredTable
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[StoredTable, _Mapping]] = ...) -> None: ...
    class VersionsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    PLAN_FIELD_NUMBER: _ClassVar[int]
    OPTIONS_FIELD_NUMBER: _ClassVar[int]
    TABLES_FIELD_NUMBER: _ClassVar[int]
    RESTORE_FIELD_NUMBER: _ClassVar[int]
    PRINCIPAL_FIELD_NUMBER: _ClassVar[int]
    REQUEST_FIELD_NUMBER: _ClassVar[int]
    REQUEST_DIGEST_FIELD_NUMBER: _ClassVar[int]
    TASK_FIELD_NUMBER: _ClassVar[int]
    VERSIONS_FIELD_NUMBER: _ClassVar[int]
    FILES_FIELD_NUMBER: _ClassVar[int]
    SPARK_FIELD_NUMBER: _ClassVar[int]
    OTHER_ROWS_THROUGH_FIELD_NUMBER: _ClassVar[int]
    plan: _tasks_pb2.PlanBytes
    options: _tasks_pb2.TaskOptions
    tables: _containers.MessageMap[str, StoredTable]
    restore: str
    principal: str
    request: str
    request_digest: bytes
    task: _tasks_pb2.Task
    versions: _containers.ScalarMap[str, str]
    files: _containers.RepeatedCompositeFieldContainer[StoredFile]
    spark: str
    other_rows_through: int
    def __init__(self, plan: _Optional[_Union[_tasks_pb2.PlanBytes, _Mapping]] = ..., options: _Optional[_Union[_tasks_pb2.TaskOptions, _Mapping]] = ..., tables: _Optional[_Mapping[str, StoredTable]] = ..., restore: _Optional[str] = ..., principal: _Optional[str] = ..., request: _Optional[str] = ..., request_digest: _Optional[bytes] = ..., task: _Optional[_Union[_tasks_pb2.Task, _Mapping]] = ..., versions: _Optional[_Mapping[str, str]] = ..., files: _Optional[_Iterable[_Union[StoredFile, _Mapping]]] = ..., spark: _Optional[str] = ..., other_rows_through: _Optional[int] = ...) -> None: ...

class StoredTable(_message.Message):
    __slots__ = ("splits",)
    SPLITS_FIELD_NUMBER: _ClassVar[int]
    splits: _containers.RepeatedCompositeFieldContainer[StoredSplit]
    def __init__(self, splits: _Optional[_Iterable[_Union[StoredSplit, _Mapping]]] = ...) -> None: ...

class StoredSplit(_message.Message):
    __slots__ = ("split", "kept", "files", "digest")
    SPLIT_FIELD_NUMBER: _ClassVar[int]
    KEPT_FIELD_NUMBER: _ClassVar[int]
    FILES_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    split: _tasks_pb2.Split
    kept: bytes
    files: _containers.RepeatedCompositeFieldContainer[StoredFile]
    digest: bytes
    def __init__(self, split: _Optional[_Union[_tasks_pb2.Split, _Mapping]] = ..., kept: _Optional[bytes] = ..., files: _Optional[_Iterable[_Union[StoredFile, _Mapping]]] = ..., digest: _Optional[bytes] = ...) -> None: ...

class StoredFile(_message.Message):
    __slots__ = ("path", "format", "size", "modified_ns", "folders")
    PATH_FIELD_NUMBER: _ClassVar[int]
    FORMAT_FIELD_NUMBER: _ClassVar[int]
    SIZE_FIELD_NUMBER: _ClassVar[int]
    MODIFIED_NS_FIELD_NUMBER: _ClassVar[int]
    FOLDERS_FIELD_NUMBER: _ClassVar[int]
    path: str
    format: str
    size: int
    modified_ns: int
    folders: _containers.RepeatedCompositeFieldContainer[_tasks_pb2.FolderValue]
    def __init__(self, path: _Optional[str] = ..., format: _Optional[str] = ..., size: _Optional[int] = ..., modified_ns: _Optional[int] = ..., folders: _Optional[_Iterable[_Union[_tasks_pb2.FolderValue, _Mapping]]] = ...) -> None: ...

class Base(_message.Message):
    __slots__ = ("position", "epoch", "sources", "ends", "all_ended", "transactions", "left_out", "checkpoint", "said", "read_by")
    class SourcesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    class EndsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    class SaidEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    POSITION_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    SOURCES_FIELD_NUMBER: _ClassVar[int]
    ENDS_FIELD_NUMBER: _ClassVar[int]
    ALL_ENDED_FIELD_NUMBER: _ClassVar[int]
    TRANSACTIONS_FIELD_NUMBER: _ClassVar[int]
    LEFT_OUT_FIELD_NUMBER: _ClassVar[int]
    CHECKPOINT_FIELD_NUMBER: _ClassVar[int]
    SAID_FIELD_NUMBER: _ClassVar[int]
    READ_BY_FIELD_NUMBER: _ClassVar[int]
    position: int
    epoch: int
    sources: _containers.ScalarMap[str, int]
    ends: _containers.ScalarMap[str, int]
    all_ended: bool
    transactions: _containers.RepeatedCompositeFieldContainer[StoredTransaction]
    left_out: _containers.RepeatedCompositeFieldContainer[LeftOut]
    checkpoint: str
    said: _containers.ScalarMap[str, int]
    read_by: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, position: _Optional[int] = ..., epoch: _Optional[int] = ..., sources: _Optional[_Mapping[str, int]] = ..., ends: _Optional[_Mapping[str, int]] = ..., all_ended: _Optional[bool] = ..., transactions: _Optional[_Iterable[_Union[StoredTransaction, _Mapping]]] = ..., left_out: _Optional[_Iterable[_Union[LeftOut, _Mapping]]] = ..., checkpoint: _Optional[str] = ..., said: _Optional[_Mapping[str, int]] = ..., read_by: _Optional[_Iterable[int]] = ...) -> None: ...

class Change(_message.Message):
    __slots__ = ("at_us", "splits", "seal", "end", "transaction", "cancelled", "failure", "recovered", "read_by")
    AT_US_FIELD_NUMBER: _ClassVar[int]
    SPLITS_FIELD_NUMBER: _ClassVar[int]
    SEAL_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    TRANSACTION_FIELD_NUMBER: _ClassVar[int]
    CANCELLED_FIELD_NUMBER: _ClassVar[int]
    FAILURE_FIELD_NUMBER: _ClassVar[int]
    RECOVERED_FIELD_NUMBER: _ClassVar[int]
    READ_BY_FIELD_NUMBER: _ClassVar[int]
    at_us: int
    splits: _containers.RepeatedCompositeFieldContainer[AddedSplit]
    seal: SealedEpoch
    end: EndedSources
    transaction: StoredTransaction
    cancelled: bool
    failure: FailedEpoch
    recovered: RecoveredTask
    read_by: int
    def __init__(self, at_us: _Optional[int] = ..., splits: _Optional[_Iterable[_Union[AddedSplit, _Mapping]]] = ..., seal: _Optional[_Union[SealedEpoch, _Mapping]] = ..., end: _Optional[_Union[EndedSources, _Mapping]] = ..., transaction: _Optional[_Union[StoredTransaction, _Mapping]] = ..., cancelled: _Optional[bool] = ..., failure: _Optional[_Union[FailedEpoch, _Mapping]] = ..., recovered: _Optional[_Union[RecoveredTask, _Mapping]] = ..., read_by: _Optional[int] = ...) -> None: ...

class FailedEpoch(_message.Message):
    __slots__ = ("epoch", "reason", "message")
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    epoch: int
    reason: str
    message: str
    def __init__(self, epoch: _Optional[int] = ..., reason: _Optional[str] = ..., message: _Optional[str] = ...) -> None: ...

class RecoveredTask(_message.Message):
    __slots__ = ("epoch", "left_out", "request")
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    LEFT_OUT_FIELD_NUMBER: _ClassVar[int]
    REQUEST_FIELD_NUMBER: _ClassVar[int]
    epoch: int
    left_out: _containers.RepeatedCompositeFieldContainer[LeftOut]
    request: str
    def __init__(self, epoch: _Optional[int] = ..., left_out: _Optional[_Iterable[_Union[LeftOut, _Mapping]]] = ..., request: _Optional[str] = ...) -> None: ...

class LeftOut(_message.Message):
    __slots__ = ("source", "sequence", "epoch")
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    source: str
    sequence: int
    epoch: int
    def __init__(self, source: _Optional[str] = ..., sequence: _Optional[int] = ..., epoch: _Optional[int] = ...) -> None: ...

class AddedSplit(_message.Message):
    __slots__ = ("source", "sequence", "epoch", "split")
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    SPLIT_FIELD_NUMBER: _ClassVar[int]
    source: str
    sequence: int
    epoch: int
    split: StoredSplit
    def __init__(self, source: _Optional[str] = ..., sequence: _Optional[int] = ..., epoch: _Optional[int] = ..., split: _Optional[_Union[StoredSplit, _Mapping]] = ...) -> None: ...

class SealedEpoch(_message.Message):
    __slots__ = ("epoch", "last", "checkpoint", "said")
    class LastEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    class SaidEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    LAST_FIELD_NUMBER: _ClassVar[int]
    CHECKPOINT_FIELD_NUMBER: _ClassVar[int]
    SAID_FIELD_NUMBER: _ClassVar[int]
    epoch: int
    last: _containers.ScalarMap[str, int]
    checkpoint: str
    said: _containers.ScalarMap[str, int]
    def __init__(self, epoch: _Optional[int] = ..., last: _Optional[_Mapping[str, int]] = ..., checkpoint: _Optional[str] = ..., said: _Optional[_Mapping[str, int]] = ...) -> None: ...

class EndedSources(_message.Message):
    __slots__ = ("ends", "all")
    class EndsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    ENDS_FIELD_NUMBER: _ClassVar[int]
    ALL_FIELD_NUMBER: _ClassVar[int]
    ends: _containers.ScalarMap[str, int]
    all: bool
    def __init__(self, ends: _Optional[_Mapping[str, int]] = ..., all: _Optional[bool] = ...) -> None: ...

class StoredTransaction(_message.Message):
    __slots__ = ("application", "version", "epoch", "digest", "first")
    class FirstEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    APPLICATION_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    FIRST_FIELD_NUMBER: _ClassVar[int]
    application: str
    version: int
    epoch: int
    digest: str
    first: _containers.ScalarMap[str, int]
    def __init__(self, application: _Optional[str] = ..., version: _Optional[int] = ..., epoch: _Optional[int] = ..., digest: _Optional[str] = ..., first: _Optional[_Mapping[str, int]] = ...) -> None: ...
