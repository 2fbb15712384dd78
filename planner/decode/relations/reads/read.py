"""Decodes `ReadRel`: a source's columns, then its filter, then its projection."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple, TypeAlias

from .... import ir
from ... import poison
from ...declarations.field_names import count_names, name_fields
from ...decoder import Decoder, Steps
from ...encoding.message_nodes import Message
from ...plan_path import PlanPath
from ...poison import is_unknown
from ...scope import Scope
from .local_files import convert_local_files
from .mask import masked
from .untyped_schema import is_untyped, types_of_source
from .virtual_table import convert_virtual_table


class Base(NamedTuple):
    """The base schema of a read: its columns' names and types, nested names in the types."""

    names: tuple[str, ...]
    schema: ir.Schema


ReadConverter: TypeAlias = "Callable[[Decoder, Message, PlanPath, Base, Scope | None], Steps[ir.Relation]]"


def convert_read(decoder: Decoder, message: Message, plan_path: PlanPath, outer: Scope | None) -> Steps[ir.Relation]:
    kind = message.WhichOneof("read_type")
    base = _base(decoder, message, plan_path / "base_schema") if message.HasField("base_schema") else None
    if kind is None:
        decoder.problems.add(plan_path, "MISSING", "a read must say what it reads")
        return poison.RELATION
    if kind in REFUSED:
        decoder.problems.add(plan_path / kind, "UNSUPPORTED_READ", REFUSED[kind])
        return poison.RELATION
    if base is None:
        if not message.HasField("base_schema"):
            decoder.problems.add(plan_path / "base_schema", "MISSING", "a read must have a base schema")
        return poison.RELATION
    body = getattr(message, kind)
    relation = yield from CONVERTERS[kind](decoder, body, plan_path / kind, base, outer)
    if message.filter:
        scope = decoder.scope([relation], message, outer)
        condition = yield from decoder.condition(message.filter, plan_path / "filter", scope)
        relation = ir.Filter(
            input=relation, condition=condition, schema=relation.schema, plan_path=str(plan_path / "filter")
        )
    if message.best_effort_filter:
        decoder.problems.warn(plan_path / "best_effort_filter", "Tidegate leaves out best-effort filters")
    return masked(decoder, message, relation, plan_path)


def _base(decoder: Decoder, message: Message, plan_path: PlanPath) -> Base | None:
    if not is_untyped(message.base_schema):
        return base_schema(decoder, message.base_schema, plan_path)
    types = types_of_source(decoder, message, plan_path)
    return None if types is None else _columns(decoder, message.base_schema, types, plan_path)


def base_schema(decoder: Decoder, base: Message, plan_path: PlanPath) -> Base | None:
    """The columns of a table; None, once reported, if the schema is broken."""
    types = decoder.types.row(base.struct.types, plan_path / "struct")
    return None if any(map(is_unknown, types)) else _columns(decoder, base, types, plan_path)


def _columns(decoder: Decoder, base: Message, types: ir.Schema, plan_path: PlanPath) -> Base | None:
    names = tuple(base.names)
    expected = count_names(types)
    if len(names) == expected:
        base_names, types = name_fields(types, names)
    elif len(names) == len(types):
        base_names = names
        decoder.problems.warn(
            plan_path / "names", "the names are those of the columns, without the fields of structs in the columns"
        )
    else:
        problem = f"{len(names)} names for {len(types)} columns, which with their nested fields need {expected}"
        decoder.problems.add(plan_path / "names", "WRONG_WIDTH", problem)
        return None
    if any("\x00" in name for name in names):
        # Arrow's C interface ends a name there: the column would be another one, or none and so null.
        decoder.problems.add(plan_path / "names", "BAD_NAME", "a column's name cannot have a NUL character")
        return None
    double = next((name for name, times in Counter(base_names).items() if times > 1), None)
    if double is not None:
        problem = f"two columns are called {double!r}; columns are read by name, so names must be unique"
        decoder.problems.add(plan_path / "names", "DUPLICATE_NAME", problem)
        return None
    return Base(base_names, types)


def _named_table(
    decoder: Decoder, message: Message, plan_path: PlanPath, base: Base, _: Scope | None
) -> Steps[ir.Relation]:
    decoder.check_extension(message, plan_path)
    if not message.names or not all(message.names):
        decoder.problems.add(plan_path / "names", "MISSING", "a named table must have a name")
    return ir.Read(source=".".join(message.names), names=base.names, schema=base.schema, plan_path=str(plan_path))
    yield


CONVERTERS: Final[Mapping[str, ReadConverter]] = {
    "named_table": _named_table,
    "virtual_table": convert_virtual_table,
    "local_files": convert_local_files,
}

REFUSED: Final[Mapping[str, str]] = {
    "extension_table": "extension tables are not supported; read a named table, and feed or bind the table by its name",
    "iceberg_table": "Iceberg tables are not supported; list its files as local files, or feed the files as splits",
}
