"""Windows: the touched partitions computed again, over rows in canonical order."""

from __future__ import annotations

from dataclasses import replace

from .. import ir
from ..sql.types import arrow_schema
from ..structure import Structure
from .nodes import ChangeNode, RegroupNode
from .rendering import NUMBER, columns, numbered, render
from .rowwise import compute, select


def lower_window(relation: ir.Window, node: ChangeNode) -> ChangeNode:
    """Calls with the same partitions are one operator; the next ones see its columns behind the row's."""
    schema = relation.input.schema
    done: list[int] = []
    for partitions, calls in _by_partitions(relation.calls):
        node = _computed(relation, schema, node, partitions, [relation.calls[at] for at in calls])
        schema = (*schema, *(relation.calls[at].type for at in calls))
        done += calls
    width = len(relation.input.schema)
    wanted = (*range(width), *(width + done.index(at) for at in range(len(relation.calls))))
    return select(node, wanted, relation.schema, relation.place)


def _by_partitions(
    calls: tuple[ir.WindowCall, ...],
) -> list[tuple[tuple[ir.Expression, ...], list[int]]]:
    structure = Structure()
    found: dict[tuple[int, ...], tuple[tuple[ir.Expression, ...], list[int]]] = {}
    for at, call in enumerate(calls):
        key = tuple(structure.number(each) for each in call.partitions)
        found.setdefault(key, (call.partitions, []))[1].append(at)
    return list(found.values())


def _computed(
    relation: ir.Window,
    schema: ir.Schema,
    node: ChangeNode,
    partitions: tuple[ir.Expression, ...],
    calls: list[ir.WindowCall],
) -> ChangeNode:
    """The row's columns and the calls'. A partition is a key, told by its number."""
    wide = compute(node, schema, (*columns(schema), *partitions), relation.place)
    types = (*schema, *(each.type for each in partitions))
    base = numbered(types, relation.place)
    number = ir.Field(index=len(types), type=NUMBER)
    made = (*base.schema, *(call.type for call in calls))
    windowed = ir.Window(
        input=base,
        calls=tuple(replace(call, partitions=(number,)) for call in calls),
        schema=made,
        place=relation.place,
    )
    fields = columns(made)
    wanted = (*fields[: len(schema)], *fields[len(base.schema) :], number)
    rows = ir.Project(
        input=windowed, expressions=wanted, schema=tuple(each.type for each in wanted), place=relation.place
    )
    key = tuple(range(len(schema), len(types)))
    given = (*types[len(schema) :], *schema, *(call.type for call in calls))
    regrouped = RegroupNode(
        input=wide,
        key=key,
        sql=render(rows, [base]),
        nothing=None,
        schema=arrow_schema(given),
        place=relation.place,
    )
    return select(regrouped, tuple(range(len(key), len(given))), given[len(key) :], relation.place)
