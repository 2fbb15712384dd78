"""Filters, projections, expansions and unnesting: computations on each row alone, a chain of them in one statement."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias, TypeGuard

from .. import ir
from ..analysis.rising import Rising, rising
from ..ir.arrow_types import arrow_schema
from ..ir.building import columns, project
from ..ir.visit import is_column, subqueries_of
from .change_nodes import ChangeNode, ComputeNode, JoinNode, SelectNode
from .event_time.slices_of_rows import slice_starts, sliced_rows
from .rendering import NUMBER, leaf, numbered, render

Chained: TypeAlias = ir.Filter | ir.Project | ir.Expand


def chain_below(relation: ir.Relation) -> ir.Relation:
    """The input of the chain of row-wise relations that starts here."""
    while _is_chained(relation):
        relation = relation.input
    return relation


def _is_chained(relation: ir.Relation) -> TypeGuard[Chained]:
    return isinstance(relation, Chained) and not subqueries_of(relation)


@dataclass(frozen=True, slots=True, eq=False)
class Chain:
    """The rows of a chain of row-wise relations over `base`, whose rows `node` gives."""

    rows: ir.Relation
    base: ir.Relation
    node: ChangeNode


def lower_chain(relation: Chained, base: ir.Relation, node: ChangeNode, *, alone: bool = False) -> ChangeNode:
    """The chain from `relation` down to `base`, whose rows `node` gives. `alone` says that nothing else reads the node,
    so that a join gives the wanted columns itself.
    """
    selected = _selected(relation, base)
    if selected is not None:
        if alone and isinstance(node, JoinNode):
            schema = arrow_schema(relation.schema)
            return replace(node, output=tuple(node.output[at] for at in selected), schema=schema)
        return select(node, selected, relation.schema, relation.plan_path)
    top = numbered(base.schema, base.plan_path)
    steps: list[Chained] = []
    current: ir.Relation = relation
    while current is not base:
        assert isinstance(current, Chained)
        steps.append(current)
        current = current.input
    carried = top
    for step in reversed(steps):
        carried = _carrying(step, carried)
    return ComputeNode(
        input=node,
        sql=render(carried, [top]),
        schema=arrow_schema(relation.schema),
        plan_path=relation.plan_path,
        rising=_rising(steps, base.schema),
        in_arrays=sliced_rows(steps) or slice_starts(steps),
    )


def _rising(steps: Sequence[Chained], schema: ir.Schema) -> Mapping[int, Rising]:
    """The columns of a chain that rise with a column of its input. The chain's last step comes first."""
    known = rising_columns(schema)
    for step in reversed(steps):
        if isinstance(step, ir.Project):
            own = ((at, rising(expression)) for at, expression in enumerate(step.expressions))
            over = {at: value.over(known[value.column]) for at, value in own if value and value.column in known}
            known = {at: value for at, value in over.items() if value is not None}
        elif isinstance(step, ir.Expand):
            return {}
    return known


def rising_columns(schema: ir.Schema) -> Mapping[int, Rising]:
    """Columns as they are."""
    own = ((at, rising(column)) for at, column in enumerate(columns(schema)))
    return {at: value for at, value in own if value is not None}


def compute(node: ChangeNode, schema: ir.Schema, expressions: tuple[ir.Expression, ...], plan_path: str) -> ChangeNode:
    """These expressions over a node whose columns are `schema`."""
    base = leaf(schema, plan_path)
    return lower_chain(project(base, expressions), base, node)


def select(node: ChangeNode, wanted: tuple[int, ...], schema: ir.Schema, plan_path: str) -> ChangeNode:
    if wanted == tuple(range(len(node.schema))):
        return node
    return SelectNode(inputs=(node,), columns=wanted, schema=arrow_schema(schema), plan_path=plan_path)


def _selected(relation: ir.Relation, base: ir.Relation) -> tuple[int, ...] | None:
    """The columns of `base` that the chain gives, if it only selects columns; else None."""
    wanted = tuple(range(len(relation.schema)))
    while relation is not base:
        if not isinstance(relation, ir.Project):
            return None
        positions = []
        for at in wanted:
            expression = relation.expressions[at]
            if not is_column(expression):
                return None
            positions.append(expression.index)
        wanted, relation = tuple(positions), relation.input
    return wanted


def _carrying(step: Chained, below: ir.Relation) -> ir.Relation:
    """The step over rows with a number behind their columns. The step hands the number on."""
    number = columns(below.schema)[-1]
    match step:
        case ir.Filter():
            return replace(step, input=below, schema=below.schema)
        case ir.Project():
            return replace(step, input=below, expressions=(*step.expressions, number), schema=(*step.schema, NUMBER))
        case ir.Expand():
            return _expanded(step, below, number)


def _expanded(step: ir.Expand, below: ir.Relation, number: ir.Field) -> ir.Relation:
    """An expansion that hands the row's number on. Its last column is the alternative's number, behind ours; a
    projection puts ours last again.
    """
    alternatives = tuple((*alternative, number) for alternative in step.alternatives)
    *own, which = step.schema
    expanded = ir.Expand(input=below, alternatives=alternatives, schema=(*own, NUMBER, which), plan_path=step.plan_path)
    fields = columns(expanded.schema)
    return project(expanded, (*fields[: len(own)], fields[-1], fields[len(own)]))


def lower_unnest(relation: ir.Unnest, node: ChangeNode) -> ChangeNode:
    """The unnesting. Lists are zipped: a row gives as many rows as its longest list has items."""
    schema = relation.input.schema
    plain = compute(node, schema, (*relation.kept, *relation.lists), relation.plan_path)
    kept = [f"c{at}" for at in range(len(relation.kept))]
    lists = [f"c{len(kept) + at}" for at in range(len(relation.lists))]
    longest = f"greatest({', '.join(f'coalesce(len({list_}), 0)' for list_ in lists)})"
    numbers = f"range(1, {longest} + 1)"
    items = [*lists, numbers] if relation.ordinality else lists
    if relation.outer:
        items = [f"CASE WHEN {longest} = 0 THEN [NULL] ELSE {text} END" for text in items]
    number = f"c{len(kept) + len(lists)}"
    selected = ", ".join((*kept, *(f"unnest({text})" for text in items), number))
    return ComputeNode(
        input=plain,
        sql=f"SELECT {selected} FROM in0",
        schema=arrow_schema(relation.schema),
        plan_path=relation.plan_path,
    )
