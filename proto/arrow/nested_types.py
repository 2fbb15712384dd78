"""Changes the types inside of a type: of the fields of structs, the items of lists, the keys and values of maps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import pyarrow as pa
from pyarrow import types as kinds

_LISTS: Final[dict[int, Callable[[pa.Field], Any]]] = {
    pa.lib.Type_LIST: pa.list_,
    pa.lib.Type_LARGE_LIST: pa.large_list,
    pa.lib.Type_LIST_VIEW: pa.list_view,
    pa.lib.Type_LARGE_LIST_VIEW: pa.large_list_view,
}


def with_fields(type_: pa.DataType, change: Callable[[pa.Field], pa.Field]) -> pa.DataType:
    """The type with each field directly inside of it as `change` gives it, which is called in the order of the fields.
    A type that is no struct, list or map stays as it is.
    """
    if not type_.num_fields:
        return type_
    if kinds.is_struct(type_):
        return pa.struct([change(field) for field in type_])
    if kinds.is_map(type_):
        return pa.map_(change(type_.key_field), change(type_.item_field), type_.keys_sorted)
    if kinds.is_fixed_size_list(type_):
        return pa.list_(change(type_.value_field), type_.list_size)
    make = _LISTS.get(type_.id)
    return type_ if make is None else make(change(type_.value_field))


def with_types(type_: pa.DataType, change: Callable[[pa.DataType], pa.DataType]) -> pa.DataType:
    """`with_fields` that changes the types of fields alone."""
    return with_fields(type_, lambda field: field.with_type(change(field.type)))
