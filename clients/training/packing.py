"""Packs lists of tokens into rows of one length: first fit within a window, so the packing repeats with the order.

A loader packs the rows of its windows; `pack_lists` is a relation of a plan.
"""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral
from typing import TYPE_CHECKING, Any, ClassVar, Final

import numpy as np
import pyarrow as pa
from google.protobuf.any_pb2 import Any as AnyMessage

from ..proto.arrow.first_fit import FilledRows, FirstFit
from ..proto.errors import ExecutionError, InvalidRequest
from ..proto.tidegate.v1.relations_pb2 import PackLists
from ..windows.named_columns import position
from ..windows.window_builders import Resolve, extended, of_kind, scoped

if TYPE_CHECKING:
    from substrait.extension_registry import ExtensionRegistry
    from substrait.plan_pb2 import Plan
    from substrait.type_pb2 import NamedStruct, Type

SEGMENT: Final = "_segment"
POSITION: Final = "_position"
WINDOW_ROWS: Final = 4_096


@dataclass(frozen=True, slots=True)
class Pack:
    """Rows of `length` tokens, each filled with lists of the column `column`.

    A list goes to the first row of its window that has room. A longer list is cut into lists of `length` tokens, and
    the rest. Batches have three arrays of shape (rows, length): the tokens, with `padding` after the last list;
    `_segment`, the number of each token's list in its row, from 1, and 0 for padding; `_position`, the token's position
    in its list.

    >>> tidegate.training.Pack("tokens", 2048)
    Pack(column='tokens', length=2048, padding=0)
    """

    column: str
    length: int
    padding: int = 0

    def __post_init__(self) -> None:
        if not isinstance(self.length, int) or isinstance(self.length, bool) or self.length < 1:
            raise InvalidRequest(f"length={self.length!r} of a packing must be a whole number from 1 on")
        if not isinstance(self.padding, Integral) or isinstance(self.padding, bool):
            raise InvalidRequest(f"padding={self.padding!r} of a packing must be a whole number")
        object.__setattr__(self, "padding", int(self.padding))  # as states have it


def packed(lists: pa.Array, pack: Pack) -> FilledRows:
    """Tokens, segments and positions of the rows that the lists fill, in the order in which rows were begun."""
    if lists.null_count or lists.values.null_count:
        raise ExecutionError(
            f"column {pack.column!r} has nulls, which cannot be packed: filter them out in the plan",
            reason="NULLS_IN_BATCH",
        )
    offsets = lists.offsets.to_numpy().astype(np.int64)
    items = lists.values.to_numpy(zero_copy_only=False)
    if not _is_of(items.dtype, pack.padding):
        raise InvalidRequest(
            f"the lists of column {pack.column!r} have {items.dtype} items, and none of them is {pack.padding}: choose "
            "another padding",
            reason="BAD_PACKING",
        )
    fit = FirstFit(items, offsets[:-1], np.diff(offsets), pack.length, pack.padding)
    return fit.filled(0, fit.rows)


def _is_of(dtype: np.dtype[Any], number: int) -> bool:
    """Tests whether values of this type can be the number."""
    try:
        with np.errstate(over="ignore"):
            return bool(dtype.type(number).item() == number)  # NumPy would compare in the narrow type
    except OverflowError:
        return False


def pack_lists(rows: Any, column: str, length: int, *, padding: int = 0, window_rows: int = WINDOW_ROWS) -> Any:
    """Rows of `length` tokens, filled with the lists of a column: first fit within windows of so many rows, in any
    per-epoch task. The result has three columns of lists, with the names and the meaning that `Pack` gives batches.

    `rows` is a plan of substrait's builders, or a data frame; the result is of the same kind. A list goes to the first
    row of its window that has room; a longer one is cut into lists of `length` tokens and the rest.

    >>> import substrait.dataframe as sub
    >>> texts = sub.read_named_table("texts", {"tokens": sub.list_(sub.i32())})
    >>> from tidegate.training import pack_lists
    >>> packed = pack_lists(texts, "tokens", 4).to_plan()
    >>> table = pa.table({"tokens": pa.array([[1, 2, 3], [4, 5], [6]], pa.list_(pa.int32()))})
    >>> client.query(packed, {"texts": table}).to_pydict()["tokens"]
    [[1, 2, 3, 6], [4, 5, 0, 0]]
    """
    for name, number in {"length": length, "padding": padding, "window_rows": window_rows}.items():
        if not isinstance(number, int) or isinstance(number, bool) or (number < 1 and name != "padding"):
            raise InvalidRequest(f"{name}={number!r} of a packing must be a whole number from 1 on")
    message = PackLists(length=length, padding=padding, window_rows=window_rows)
    return of_kind(rows, lambda unbound: _unbound(unbound, column, message))


def _unbound(rows: Any, column: str, message: PackLists) -> Resolve:
    def resolve(registry: ExtensionRegistry) -> Plan:
        from substrait.type_inference import infer_plan_schema

        registry.register_extension_relation(_Packed)
        bound = rows(registry) if callable(rows) else rows
        detail = PackLists()
        detail.CopyFrom(message)
        detail.column = position(infer_plan_schema(bound, registry=registry), column)
        changed = extended(bound, detail)
        root = changed.relations[-1].root
        del root.names[:]
        root.names.extend((column, SEGMENT, POSITION))
        return changed

    return scoped(resolve)


@dataclass(frozen=True)
class _Packed:
    """An `ExtensionSingleDetail` of substrait's builders."""

    message: PackLists
    type_url: ClassVar[str] = f"type.googleapis.com/{PackLists.DESCRIPTOR.full_name}"

    def derive_schema(self, input_struct: Type.Struct) -> NamedStruct:
        from substrait.type_pb2 import NamedStruct, Type

        required = Type.NULLABILITY_REQUIRED
        tokens, number = Type(), Type(i32=Type.I32(nullability=required))
        tokens.CopyFrom(input_struct.types[self.message.column])
        tokens.list.nullability = required
        item = tokens.list.type
        getattr(item, str(item.WhichOneof("kind"))).nullability = required
        numbers = Type(list=Type.List(type=number, nullability=required))
        struct = Type.Struct(types=[tokens, numbers, numbers], nullability=required)
        return NamedStruct(names=["c0", "c1", "c2"], struct=struct)

    @classmethod
    def from_any(cls, detail: AnyMessage) -> _Packed:
        return cls(PackLists.FromString(detail.value))
