from google.protobuf import struct_pb2 as _struct_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Unnest(_message.Message):
    __slots__ = ("columns", "ordinality", "outer")
    COLUMNS_FIELD_NUMBER: _ClassVar[int]
    ORDINALITY_FIELD_NUMBER: _ClassVar[int]
    OUTER_FIELD_NUMBER: _ClassVar[int]
    columns: _containers.RepeatedScalarFieldContainer[int]
    ordinality: bool
    outer: bool
    def __init__(self, columns: _Optional[_Iterable[int]] = ..., ordinality: _Optional[bool] = ..., outer: _Optional[bool] = ...) -> None: ...

class PackLists(_message.Message):
    __slots__ = ("column", "length", "padding", "window_rows")
    COLUMN_FIELD_NUMBER: _ClassVar[int]
    LENGTH_FIELD_NUMBER: _ClassVar[int]
    PADDING_FIELD_NUMBER: _ClassVar[int]
    WINDOW_ROWS_FIELD_NUMBER: _ClassVar[int]
    column: int
    length: int
    padding: int
    window_rows: int
    def __init__(self, column: _Optional[int] = ..., length: _Optional[int] = ..., padding: _Optional[int] = ..., window_rows: _Optional[int] = ...) -> None: ...

class IndexLookupJoin(_message.Message):
    __slots__ = ("keys", "type", "index", "options", "prefetch", "retries")
    class Type(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        TYPE_UNSPECIFIED: _ClassVar[IndexLookupJoin.Type]
        TYPE_INNER: _ClassVar[IndexLookupJoin.Type]
        TYPE_LEFT: _ClassVar[IndexLookupJoin.Type]
    TYPE_UNSPECIFIED: IndexLookupJoin.Type
    TYPE_INNER: IndexLookupJoin.Type
    TYPE_LEFT: IndexLookupJoin.Type
    class Key(_message.Message):
        __slots__ = ("left", "right")
        LEFT_FIELD_NUMBER: _ClassVar[int]
        RIGHT_FIELD_NUMBER: _ClassVar[int]
        left: int
        right: int
        def __init__(self, left: _Optional[int] = ..., right: _Optional[int] = ...) -> None: ...
    class OptionsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    KEYS_FIELD_NUMBER: _ClassVar[int]
    TYPE_FIELD_NUMBER: _ClassVar[int]
    INDEX_FIELD_NUMBER: _ClassVar[int]
    OPTIONS_FIELD_NUMBER: _ClassVar[int]
    PREFETCH_FIELD_NUMBER: _ClassVar[int]
    RETRIES_FIELD_NUMBER: _ClassVar[int]
    keys: _containers.RepeatedCompositeFieldContainer[IndexLookupJoin.Key]
    type: IndexLookupJoin.Type
    index: str
    options: _containers.ScalarMap[str, str]
    prefetch: int
    retries: int
    def __init__(self, keys: _Optional[_Iterable[_Union[IndexLookupJoin.Key, _Mapping]]] = ..., type: _Optional[_Union[IndexLookupJoin.Type, str]] = ..., index: _Optional[str] = ..., options: _Optional[_Mapping[str, str]] = ..., prefetch: _Optional[int] = ..., retries: _Optional[int] = ...) -> None: ...

class DeclaredOrder(_message.Message):
    __slots__ = ("keys",)
    class Direction(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        DIRECTION_UNSPECIFIED: _ClassVar[DeclaredOrder.Direction]
        DIRECTION_ASC_NULLS_FIRST: _ClassVar[DeclaredOrder.Direction]
        DIRECTION_ASC_NULLS_LAST: _ClassVar[DeclaredOrder.Direction]
        DIRECTION_DESC_NULLS_FIRST: _ClassVar[DeclaredOrder.Direction]
        DIRECTION_DESC_NULLS_LAST: _ClassVar[DeclaredOrder.Direction]
    DIRECTION_UNSPECIFIED: DeclaredOrder.Direction
    DIRECTION_ASC_NULLS_FIRST: DeclaredOrder.Direction
    DIRECTION_ASC_NULLS_LAST: DeclaredOrder.Direction
    DIRECTION_DESC_NULLS_FIRST: DeclaredOrder.Direction
    DIRECTION_DESC_NULLS_LAST: DeclaredOrder.Direction
    class Key(_message.Message):
        __slots__ = ("column", "direction")
        COLUMN_FIELD_NUMBER: _ClassVar[int]
        DIRECTION_FIELD_NUMBER: _ClassVar[int]
        column: int
        direction: DeclaredOrder.Direction
        def __init__(self, column: _Optional[int] = ..., direction: _Optional[_Union[DeclaredOrder.Direction, str]] = ...) -> None: ...
    KEYS_FIELD_NUMBER: _ClassVar[int]
    keys: _containers.RepeatedCompositeFieldContainer[DeclaredOrder.Key]
    def __init__(self, keys: _Optional[_Iterable[_Union[DeclaredOrder.Key, _Mapping]]] = ...) -> None: ...

class Span(_message.Message):
    __slots__ = ("units", "nanoseconds", "months", "days")
    UNITS_FIELD_NUMBER: _ClassVar[int]
    NANOSECONDS_FIELD_NUMBER: _ClassVar[int]
    MONTHS_FIELD_NUMBER: _ClassVar[int]
    DAYS_FIELD_NUMBER: _ClassVar[int]
    units: int
    nanoseconds: int
    months: int
    days: int
    def __init__(self, units: _Optional[int] = ..., nanoseconds: _Optional[int] = ..., months: _Optional[int] = ..., days: _Optional[int] = ...) -> None: ...

class RowCount(_message.Message):
    __slots__ = ("size", "slide")
    SIZE_FIELD_NUMBER: _ClassVar[int]
    SLIDE_FIELD_NUMBER: _ClassVar[int]
    size: int
    slide: int
    def __init__(self, size: _Optional[int] = ..., slide: _Optional[int] = ...) -> None: ...

class WindowAggregate(_message.Message):
    __slots__ = ("time", "size", "slide", "offset", "aggregate", "gap", "final", "count", "zone")
    TIME_FIELD_NUMBER: _ClassVar[int]
    SIZE_FIELD_NUMBER: _ClassVar[int]
    SLIDE_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    AGGREGATE_FIELD_NUMBER: _ClassVar[int]
    GAP_FIELD_NUMBER: _ClassVar[int]
    FINAL_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    ZONE_FIELD_NUMBER: _ClassVar[int]
    time: int
    size: Span
    slide: Span
    offset: Span
    aggregate: bytes
    gap: Span
    final: Final
    count: RowCount
    zone: str
    def __init__(self, time: _Optional[int] = ..., size: _Optional[_Union[Span, _Mapping]] = ..., slide: _Optional[_Union[Span, _Mapping]] = ..., offset: _Optional[_Union[Span, _Mapping]] = ..., aggregate: _Optional[bytes] = ..., gap: _Optional[_Union[Span, _Mapping]] = ..., final: _Optional[_Union[Final, _Mapping]] = ..., count: _Optional[_Union[RowCount, _Mapping]] = ..., zone: _Optional[str] = ...) -> None: ...

class Final(_message.Message):
    __slots__ = ("lateness", "at_once")
    LATENESS_FIELD_NUMBER: _ClassVar[int]
    AT_ONCE_FIELD_NUMBER: _ClassVar[int]
    lateness: Span
    at_once: bool
    def __init__(self, lateness: _Optional[_Union[Span, _Mapping]] = ..., at_once: _Optional[bool] = ...) -> None: ...

class LateRows(_message.Message):
    __slots__ = ("time", "size", "slide", "offset", "gap", "lateness", "count", "zone", "on_time")
    TIME_FIELD_NUMBER: _ClassVar[int]
    SIZE_FIELD_NUMBER: _ClassVar[int]
    SLIDE_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    GAP_FIELD_NUMBER: _ClassVar[int]
    LATENESS_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    ZONE_FIELD_NUMBER: _ClassVar[int]
    ON_TIME_FIELD_NUMBER: _ClassVar[int]
    time: int
    size: Span
    slide: Span
    offset: Span
    gap: Span
    lateness: Span
    count: RowCount
    zone: str
    on_time: bool
    def __init__(self, time: _Optional[int] = ..., size: _Optional[_Union[Span, _Mapping]] = ..., slide: _Optional[_Union[Span, _Mapping]] = ..., offset: _Optional[_Union[Span, _Mapping]] = ..., gap: _Optional[_Union[Span, _Mapping]] = ..., lateness: _Optional[_Union[Span, _Mapping]] = ..., count: _Optional[_Union[RowCount, _Mapping]] = ..., zone: _Optional[str] = ..., on_time: _Optional[bool] = ...) -> None: ...

class IntervalJoin(_message.Message):
    __slots__ = ("type", "left_time", "right_time", "before", "after", "keys", "final")
    class Type(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        TYPE_UNSPECIFIED: _ClassVar[IntervalJoin.Type]
        TYPE_INNER: _ClassVar[IntervalJoin.Type]
        TYPE_LEFT: _ClassVar[IntervalJoin.Type]
        TYPE_RIGHT: _ClassVar[IntervalJoin.Type]
        TYPE_OUTER: _ClassVar[IntervalJoin.Type]
        TYPE_LEFT_SEMI: _ClassVar[IntervalJoin.Type]
        TYPE_LEFT_ANTI: _ClassVar[IntervalJoin.Type]
        TYPE_RIGHT_SEMI: _ClassVar[IntervalJoin.Type]
        TYPE_RIGHT_ANTI: _ClassVar[IntervalJoin.Type]
    TYPE_UNSPECIFIED: IntervalJoin.Type
    TYPE_INNER: IntervalJoin.Type
    TYPE_LEFT: IntervalJoin.Type
    TYPE_RIGHT: IntervalJoin.Type
    TYPE_OUTER: IntervalJoin.Type
    TYPE_LEFT_SEMI: IntervalJoin.Type
    TYPE_LEFT_ANTI: IntervalJoin.Type
    TYPE_RIGHT_SEMI: IntervalJoin.Type
    TYPE_RIGHT_ANTI: IntervalJoin.Type
    class Key(_message.Message):
        __slots__ = ("left", "right")
        LEFT_FIELD_NUMBER: _ClassVar[int]
        RIGHT_FIELD_NUMBER: _ClassVar[int]
        left: int
        right: int
        def __init__(self, left: _Optional[int] = ..., right: _Optional[int] = ...) -> None: ...
    TYPE_FIELD_NUMBER: _ClassVar[int]
    LEFT_TIME_FIELD_NUMBER: _ClassVar[int]
    RIGHT_TIME_FIELD_NUMBER: _ClassVar[int]
    BEFORE_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    KEYS_FIELD_NUMBER: _ClassVar[int]
    FINAL_FIELD_NUMBER: _ClassVar[int]
    type: IntervalJoin.Type
    left_time: int
    right_time: int
    before: Span
    after: Span
    keys: _containers.RepeatedCompositeFieldContainer[IntervalJoin.Key]
    final: Final
    def __init__(self, type: _Optional[_Union[IntervalJoin.Type, str]] = ..., left_time: _Optional[int] = ..., right_time: _Optional[int] = ..., before: _Optional[_Union[Span, _Mapping]] = ..., after: _Optional[_Union[Span, _Mapping]] = ..., keys: _Optional[_Iterable[_Union[IntervalJoin.Key, _Mapping]]] = ..., final: _Optional[_Union[Final, _Mapping]] = ...) -> None: ...

class AsOfJoin(_message.Message):
    __slots__ = ("type", "left_time", "right_time", "keys", "tolerance", "final")
    class Type(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        TYPE_UNSPECIFIED: _ClassVar[AsOfJoin.Type]
        TYPE_INNER: _ClassVar[AsOfJoin.Type]
        TYPE_LEFT: _ClassVar[AsOfJoin.Type]
    TYPE_UNSPECIFIED: AsOfJoin.Type
    TYPE_INNER: AsOfJoin.Type
    TYPE_LEFT: AsOfJoin.Type
    class Key(_message.Message):
        __slots__ = ("left", "right")
        LEFT_FIELD_NUMBER: _ClassVar[int]
        RIGHT_FIELD_NUMBER: _ClassVar[int]
        left: int
        right: int
        def __init__(self, left: _Optional[int] = ..., right: _Optional[int] = ...) -> None: ...
    TYPE_FIELD_NUMBER: _ClassVar[int]
    LEFT_TIME_FIELD_NUMBER: _ClassVar[int]
    RIGHT_TIME_FIELD_NUMBER: _ClassVar[int]
    KEYS_FIELD_NUMBER: _ClassVar[int]
    TOLERANCE_FIELD_NUMBER: _ClassVar[int]
    FINAL_FIELD_NUMBER: _ClassVar[int]
    type: AsOfJoin.Type
    left_time: int
    right_time: int
    keys: _containers.RepeatedCompositeFieldContainer[AsOfJoin.Key]
    tolerance: Span
    final: Final
    def __init__(self, type: _Optional[_Union[AsOfJoin.Type, str]] = ..., left_time: _Optional[int] = ..., right_time: _Optional[int] = ..., keys: _Optional[_Iterable[_Union[AsOfJoin.Key, _Mapping]]] = ..., tolerance: _Optional[_Union[Span, _Mapping]] = ..., final: _Optional[_Union[Final, _Mapping]] = ...) -> None: ...

class Watermark(_message.Message):
    __slots__ = ("time", "delay", "ahead", "idle_epochs")
    TIME_FIELD_NUMBER: _ClassVar[int]
    DELAY_FIELD_NUMBER: _ClassVar[int]
    AHEAD_FIELD_NUMBER: _ClassVar[int]
    IDLE_EPOCHS_FIELD_NUMBER: _ClassVar[int]
    time: int
    delay: Span
    ahead: Span
    idle_epochs: int
    def __init__(self, time: _Optional[int] = ..., delay: _Optional[_Union[Span, _Mapping]] = ..., ahead: _Optional[_Union[Span, _Mapping]] = ..., idle_epochs: _Optional[int] = ...) -> None: ...

class IterationRelation(_message.Message):
    __slots__ = ("iteration_name", "max_rounds", "at_limit", "schema")
    class AtLimit(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        AT_LIMIT_UNSPECIFIED: _ClassVar[IterationRelation.AtLimit]
        AT_LIMIT_ERROR: _ClassVar[IterationRelation.AtLimit]
        AT_LIMIT_RETURN: _ClassVar[IterationRelation.AtLimit]
    AT_LIMIT_UNSPECIFIED: IterationRelation.AtLimit
    AT_LIMIT_ERROR: IterationRelation.AtLimit
    AT_LIMIT_RETURN: IterationRelation.AtLimit
    ITERATION_NAME_FIELD_NUMBER: _ClassVar[int]
    MAX_ROUNDS_FIELD_NUMBER: _ClassVar[int]
    AT_LIMIT_FIELD_NUMBER: _ClassVar[int]
    SCHEMA_FIELD_NUMBER: _ClassVar[int]
    iteration_name: str
    max_rounds: int
    at_limit: IterationRelation.AtLimit
    schema: bytes
    def __init__(self, iteration_name: _Optional[str] = ..., max_rounds: _Optional[int] = ..., at_limit: _Optional[_Union[IterationRelation.AtLimit, str]] = ..., schema: _Optional[bytes] = ...) -> None: ...

class IterationReferenceReadRelation(_message.Message):
    __slots__ = ("iteration_name", "output_length", "schema")
    ITERATION_NAME_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_LENGTH_FIELD_NUMBER: _ClassVar[int]
    SCHEMA_FIELD_NUMBER: _ClassVar[int]
    iteration_name: str
    output_length: int
    schema: bytes
    def __init__(self, iteration_name: _Optional[str] = ..., output_length: _Optional[int] = ..., schema: _Optional[bytes] = ...) -> None: ...

class UserOperator(_message.Message):
    __slots__ = ("name", "options")
    NAME_FIELD_NUMBER: _ClassVar[int]
    OPTIONS_FIELD_NUMBER: _ClassVar[int]
    name: str
    options: _struct_pb2.Struct
    def __init__(self, name: _Optional[str] = ..., options: _Optional[_Union[_struct_pb2.Struct, _Mapping]] = ...) -> None: ...
