"""Columns of a plan by their names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..proto.errors import InvalidRequest

if TYPE_CHECKING:
    from substrait.type_pb2 import NamedStruct, Type


def position(columns: NamedStruct, name: str) -> int:
    """The position of the column of this name. Names are flattened, depth first."""
    wanted = sum(1 + _names_inside(type_) for type_ in columns.struct.types)
    if len(columns.names) < wanted:
        raise InvalidRequest(
            f"the rows have {len(columns.names)} names ({', '.join(columns.names)}), and their types need {wanted}: "
            "behind the name of a column with structs come the names of the structs' fields",
        )
    names = iter(columns.names)
    own = []
    for type_ in columns.struct.types:
        own.append(next(names))
        for _ in range(_names_inside(type_)):
            next(names)
    if own.count(name) != 1:
        problem = "several columns are" if name in own else "no column is"
        raise InvalidRequest(f"{problem} called {name!r}; the columns are {', '.join(own)}")
    return own.index(name)


def _names_inside(type_: Type) -> int:
    match type_.WhichOneof("kind"):
        case "struct":
            return sum(1 + _names_inside(field) for field in type_.struct.types)
        case "list":
            return _names_inside(type_.list.type)
        case "map":
            return _names_inside(type_.map.key) + _names_inside(type_.map.value)
        case _:
            return 0
