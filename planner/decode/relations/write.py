"""Decodes `WriteRel`: the destination of the plan's rows, or of the rows of a relation beside the root.

A write stands at the plan's root, or at the top of a relation beside the root that nothing refers to. It is no relation
here: its input is the plan's relation, or a shared one, and the plan says that its rows are written.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from ....operators.writing.modes import WriteMode
from ... import ir
from ...ir.arrow_types import sql_type, unnamed
from .. import poison
from ..declarations.field_names import count_names
from ..decoder import Decoder, Steps
from ..encoding.message_nodes import Message
from ..plan_path import PlanPath
from ..poison import is_unknown
from ..scope import Scope
from .reads.read import base_schema

_INSERT: Final = 1
_CREATE: Final = 4
OPERATIONS: Final = (_INSERT, _CREATE)
REFUSED_OPERATIONS: Final[Mapping[int, str]] = {
    0: "a write must say whether it creates a table (WRITE_OP_CTAS) or inserts into one (WRITE_OP_INSERT)",
    2: "rows of tables cannot be deleted (WRITE_OP_DELETE); create a table of the rows that stay",
    3: "rows of tables cannot be changed (WRITE_OP_UPDATE); create a table of the changed rows",
}
_MODIFIED_RECORDS: Final = 2
_CREATE_MODES: Final[Mapping[int, WriteMode]] = {
    0: WriteMode.ERROR,
    1: WriteMode.APPEND,
    2: WriteMode.REPLACE,
    3: WriteMode.IGNORE,
    4: WriteMode.ERROR,
}


def convert_write(decoder: Decoder, message: Message, plan_path: PlanPath, outer: Scope | None) -> Steps[ir.Relation]:
    """The input's relation. The converter leaves the write itself in `decoder.write`, or in `decoder.side_writes`."""
    at_root = str(plan_path) == str(decoder.root_path / "write")
    side = None if at_root else decoder.subtree_of_write(plan_path)
    if not at_root and side is None:
        problem = "a write can stand only at the root of a plan, or at the top of a relation beside the root"
        decoder.problems.add(plan_path, "MISPLACED_WRITE", problem)
        return poison.RELATION
    problems_before = len(decoder.problems)
    decoder.check_extension(message, plan_path)
    decoder.check_extension(message.common, plan_path / "common")
    table = _table(decoder, message, plan_path)
    mode = _mode(decoder, message, plan_path)
    relation = yield from decoder.relation(message.input, plan_path / "input", outer)
    if relation is poison.RELATION:
        return relation
    names = _columns(decoder, message, relation, plan_path)
    columns = _emitted(decoder, message.common, len(relation.schema), plan_path)
    if len(decoder.problems) > problems_before:
        return poison.RELATION
    write = ir.Write(
        table=table,
        table_names=names,
        mode=mode,
        columns=columns,
        returned=message.output == _MODIFIED_RECORDS,
        plan_path=str(plan_path),
    )
    if side is None:
        decoder.write = write
    else:
        _check_side(decoder, write, plan_path)
        decoder.side_writes[side] = replace(write, columns=())
    return relation


def _check_side(decoder: Decoder, write: ir.Write, plan_path: PlanPath) -> None:
    """Refuses what only the write at the root can do."""
    if write.returned:
        problem = "only the write at the root can return the rows that it writes (OUTPUT_MODE_MODIFIED_RECORDS)"
        decoder.problems.add(plan_path / "output", "UNSUPPORTED_WRITE", problem)
    if write.mode is WriteMode.REPLACE:
        problem = "only the write at the root can replace a table's files: use another create mode"
        decoder.problems.add(plan_path / "create_mode", "UNSUPPORTED_WRITE", problem)


def _table(decoder: Decoder, message: Message, plan_path: PlanPath) -> tuple[str, ...]:
    kind = message.WhichOneof("write_type")
    if kind is None:
        decoder.problems.add(plan_path, "MISSING", "a write must name the table that it writes")
        return ()
    if kind in REFUSED_TABLES:
        decoder.problems.add(plan_path / kind, "UNSUPPORTED_WRITE", REFUSED_TABLES[kind])
        return ()
    decoder.check_extension(message.named_table, plan_path / kind)
    names = tuple(message.named_table.names)
    if not names or not all(names):
        decoder.problems.add(plan_path / kind / "names", "MISSING", "a written table must have a name")
    return names


def _mode(decoder: Decoder, message: Message, plan_path: PlanPath) -> WriteMode:
    """The mode of a write. A table that is not there is created, unless the plan says otherwise."""
    if message.op not in OPERATIONS:
        problem = REFUSED_OPERATIONS.get(message.op, f"there is no operation {message.op}")
        decoder.problems.add(plan_path / "op", "UNSUPPORTED_WRITE", problem)
        return WriteMode.ERROR
    if message.op == _INSERT:
        return WriteMode.INSERT
    if message.create_mode not in _CREATE_MODES:
        problem = f"there is no create mode {message.create_mode}"
        decoder.problems.add(plan_path / "create_mode", "UNSUPPORTED_WRITE", problem)
    return _CREATE_MODES.get(message.create_mode, WriteMode.ERROR)


def _columns(decoder: Decoder, message: Message, relation: ir.Relation, plan_path: PlanPath) -> tuple[str, ...]:
    """The table's names, nested names too, once the table's types are found equal to the input's."""
    where = plan_path / "table_schema"
    if not message.HasField("table_schema"):
        decoder.problems.add(where, "MISSING", "a write must give the columns of the table")
        return ()
    base = base_schema(decoder, message.table_schema, where)
    if base is None:
        return ()
    names = tuple(message.table_schema.names)
    if len(names) != count_names(base.schema):
        problem = f"{len(names)} names for the columns, which with their nested fields need {count_names(base.schema)}"
        decoder.problems.add(where / "names", "WRONG_WIDTH", problem)
    if len(base.schema) != len(relation.schema):
        problem = f"the table has {len(base.schema)} columns, and the written rows have {len(relation.schema)}"
        decoder.problems.add(where, "WRONG_WIDTH", problem)
        return names
    for index, (wanted, written) in enumerate(zip(base.schema, relation.schema, strict=True)):
        at = (where / "struct").at("types", index)
        if is_unknown(written) or is_unknown(decoder.types.carried(wanted, at)):
            continue
        if sql_type(unnamed(wanted)) != sql_type(unnamed(written)):
            problem = f"column {base.names[index]!r} of the table is {wanted}, and the rows have {written}: cast it"
            decoder.problems.add(at, "WRONG_TYPE", problem)
    return names


def _emitted(decoder: Decoder, common: Message, width: int, plan_path: PlanPath) -> tuple[int, ...]:
    """The columns that the write hands out."""
    if common.WhichOneof("emit_kind") != "emit":
        return tuple(range(width))
    mapping = tuple(common.emit.output_mapping)
    for position, index in enumerate(mapping):
        if not 0 <= index < width:
            at = (plan_path / "common" / "emit").at("output_mapping", position)
            problem = f"there is no column {index}; the table has {width} columns, counted from 0"
            decoder.problems.add(at, "OUT_OF_RANGE", problem)
    return mapping


TABLES: Final = frozenset(("named_table",))

REFUSED_TABLES: Final[Mapping[str, str]] = {
    "extension_table": "tables of extensions are not supported; write a named table",
}
