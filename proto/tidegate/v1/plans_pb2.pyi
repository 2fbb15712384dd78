from . import tasks_pb2 as _tasks_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class ValidateRequest(_message.Message):
    __slots__ = ("plan", "options")
    PLAN_FIELD_NUMBER: _ClassVar[int]
    OPTIONS_FIELD_NUMBER: _ClassVar[int]
    plan: _tasks_pb2.PlanBytes
    options: _tasks_pb2.TaskOptions
    def __init__(self, plan: _Optional[_Union[_tasks_pb2.PlanBytes, _Mapping]] = ..., options: _Optional[_Union[_tasks_pb2.TaskOptions, _Mapping]] = ...) -> None: ...

class Problem(_message.Message):
    __slots__ = ("place", "reason", "message")
    PLACE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    place: str
    reason: str
    message: str
    def __init__(self, place: _Optional[str] = ..., reason: _Optional[str] = ..., message: _Optional[str] = ...) -> None: ...

class ValidateResponse(_message.Message):
    __slots__ = ("problems", "warnings")
    PROBLEMS_FIELD_NUMBER: _ClassVar[int]
    WARNINGS_FIELD_NUMBER: _ClassVar[int]
    problems: _containers.RepeatedCompositeFieldContainer[Problem]
    warnings: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, problems: _Optional[_Iterable[_Union[Problem, _Mapping]]] = ..., warnings: _Optional[_Iterable[str]] = ...) -> None: ...

class ExplainRequest(_message.Message):
    __slots__ = ("plan", "options", "static_sources", "rows")
    class RowsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    PLAN_FIELD_NUMBER: _ClassVar[int]
    OPTIONS_FIELD_NUMBER: _ClassVar[int]
    STATIC_SOURCES_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    plan: _tasks_pb2.PlanBytes
    options: _tasks_pb2.TaskOptions
    static_sources: _containers.RepeatedScalarFieldContainer[str]
    rows: _containers.ScalarMap[str, int]
    def __init__(self, plan: _Optional[_Union[_tasks_pb2.PlanBytes, _Mapping]] = ..., options: _Optional[_Union[_tasks_pb2.TaskOptions, _Mapping]] = ..., static_sources: _Optional[_Iterable[str]] = ..., rows: _Optional[_Mapping[str, int]] = ...) -> None: ...

class ExplainResponse(_message.Message):
    __slots__ = ("text", "json")
    TEXT_FIELD_NUMBER: _ClassVar[int]
    JSON_FIELD_NUMBER: _ClassVar[int]
    text: str
    json: str
    def __init__(self, text: _Optional[str] = ..., json: _Optional[str] = ...) -> None: ...

class CapabilitiesRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class CapabilitiesResponse(_message.Message):
    __slots__ = ("version", "dialect", "engines", "principal", "flight")
    class EnginesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    VERSION_FIELD_NUMBER: _ClassVar[int]
    DIALECT_FIELD_NUMBER: _ClassVar[int]
    ENGINES_FIELD_NUMBER: _ClassVar[int]
    PRINCIPAL_FIELD_NUMBER: _ClassVar[int]
    FLIGHT_FIELD_NUMBER: _ClassVar[int]
    version: str
    dialect: str
    engines: _containers.ScalarMap[str, str]
    principal: str
    flight: str
    def __init__(self, version: _Optional[str] = ..., dialect: _Optional[str] = ..., engines: _Optional[_Mapping[str, str]] = ..., principal: _Optional[str] = ..., flight: _Optional[str] = ...) -> None: ...
