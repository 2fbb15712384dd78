"""The physical nodes of relations that have an operator of their own, and the indexes in which some look rows up."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias, TypeVar, assert_never

import pyarrow as pa

from ...operators.core.column import Column
from ...operators.index_lookup_join import LookupJoinType
from ...operators.indexes.kind import WantedIndex
from ...proto.errors import InternalError, PlanError, Problem
from .. import ir
from ..analysis.facts import FactTable
from ..changes.lower_changes import lower_loop
from ..ir.arrow_types import arrow_schema, arrow_type
from ..ir.visit import relations
from ..physical.pipelines import (
    LookupNode,
    OpenedIndex,
    OperatorNode,
    PackNode,
    PhysicalNode,
    RoundsNode,
    SelectNode,
    UnnestNode,
)
from ..physical.user_nodes import UserNode
from .sliding_nodes import node_of_slices
from .sorted_nodes import node_over_sorted

IndexKey: TypeAlias = tuple[ir.Relation, tuple[int, ...]]
"""A relation, and the columns by which its rows are found."""

N = TypeVar("N", bound=PhysicalNode)

_JOINS: Final[Mapping[ir.JoinType, LookupJoinType]] = {ir.JoinType.INNER: "inner", ir.JoinType.LEFT: "left"}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Indexed:
    """An index to be kept: over the rows of `relation`, found by their columns `keys`."""

    name: str
    relation: ir.Relation
    keys: tuple[int, ...]


def key_columns(relation: ir.IndexLookup) -> tuple[int, ...]:
    """The columns of the right side by which rows are found."""
    width = len(relation.left.schema)
    return tuple(right.index - width for _, right in relation.keys)


def indexed(roots: Iterable[ir.Relation], facts: FactTable) -> dict[IndexKey, Indexed]:
    """The kept indexes below these relations, each after the indexes in which its rows are looked up. Raises
    `PlanError` if an index would have to be made anew in every epoch.
    """
    indexes: dict[IndexKey, Indexed] = {}
    for relation in reversed([visited for root in roots for visited in relations(root)]):
        if isinstance(relation, ir.IndexLookup) and relation.index.kind == ir.KEPT_KIND:
            facts_of_table = facts.of(relation.right)
            if facts_of_table.fed or not facts_of_table.closed:
                raise PlanError(_changing(relation.right.plan_path))
            keys = key_columns(relation)
            name = f"index{len(indexes)}"
            indexes.setdefault((relation.right, keys), Indexed(name=name, relation=relation.right, keys=keys))
    return indexes


def check_loops(plan: ir.Plan) -> None:
    """Raises `PlanError` with every obstacle that keeps the plan's loops from running round by round."""
    problems: list[Problem] = []
    for root in (plan.root, *plan.shared):
        for relation in relations(root):
            if isinstance(relation, ir.Rounds):
                try:
                    lower_loop(relation)
                except PlanError as error:
                    problems.extend(error.at(relation.plan_path).problems)
    if problems:
        raise PlanError(*problems)


def operator_node(
    relation: ir.Operated, inputs: Sequence[PhysicalNode], indexes: Mapping[IndexKey, Indexed]
) -> OperatorNode:
    """The node of an operator over the nodes that it reads."""
    match relation:
        case ir.Unnest():
            return UnnestNode(
                input=inputs[0],
                keep=tuple(column.index for column in relation.kept),
                lists=tuple(column.index for column in relation.lists),
                ordinality=relation.ordinality,
                outer=relation.outer,
                schema=arrow_schema(relation.schema),
                size_class=inputs[0].size_class,
                plan_path=relation.plan_path,
            )
        case ir.PackLists():
            return PackNode(
                input=inputs[0],
                length=relation.length,
                padding=relation.padding,
                window_rows=relation.window_rows,
                schema=arrow_schema(relation.schema),
                size_class=inputs[0].size_class,
                plan_path=relation.plan_path,
            )
        case ir.IndexLookup():
            return LookupNode(
                input=inputs[0],
                keys=tuple(left.index for left, _ in relation.keys),
                index=_index(relation, indexes),
                join=_JOINS[relation.type],
                schema=arrow_schema(relation.schema),
                size_class=inputs[0].size_class,
                plan_path=relation.plan_path,
            )
        case ir.MergeJoin() | ir.AsOfMergeJoin() | ir.StreamingAggregate():
            return node_over_sorted(relation, inputs)
        case ir.SlidingWindows() | ir.DenseSlices() | ir.FinalDenseSlices():
            return node_of_slices(relation, inputs[0])
        case ir.User():
            return _user_node(relation, inputs)
        case ir.Rounds():
            return RoundsNode(
                inputs=tuple(inputs),
                root=lower_loop(relation),
                schema=arrow_schema(relation.schema),
                size_class=max((child.size_class for child in inputs), default=0),
                plan_path=relation.plan_path,
            )
        case _:
            assert_never(relation)


def _user_node(relation: ir.User, inputs: Sequence[PhysicalNode]) -> OperatorNode:
    """The node of a user operator. Its code sees columns by their names inside of plans, and names its own
    columns.
    """
    user = UserNode(
        name=relation.name,
        inputs=tuple(
            _named(node, arrow_schema(child.schema), child.plan_path)
            for node, child in zip(inputs, relation.inputs, strict=True)
        ),
        streams=relation.streams,
        make=relation.make,
        schema=relation.declared,
        size_class=max((child.size_class for child in inputs), default=0),
        plan_path=relation.plan_path,
    )
    return _named(user, arrow_schema(relation.schema), relation.plan_path)


def _named(node: N, schema: pa.Schema, plan_path: str) -> N | SelectNode:
    """The node's rows with the names of a schema."""
    if node.schema.names == schema.names:
        return node
    columns = tuple(range(len(schema)))
    return SelectNode(input=node, columns=columns, schema=schema, size_class=node.size_class, plan_path=plan_path)


def _index(relation: ir.IndexLookup, indexes: Mapping[IndexKey, Indexed]) -> str | OpenedIndex:
    use, keys = relation.index, key_columns(relation)
    if use.kind == ir.KEPT_KIND:
        return indexes[relation.right, keys].name
    columns = tuple(_columns(relation.right))
    return OpenedIndex(
        kind=use.kind,
        wanted=WantedIndex(
            name=relation.right.plan_path,
            keys=tuple(columns[key] for key in keys),
            columns=columns,
            options=use.options,
        ),
        prefetch=use.prefetch,
        retries=use.retries,
    )


def _columns(table: ir.Relation) -> Iterator[Column]:
    if not isinstance(table, ir.Read | ir.LocalFiles | ir.IndexTable):
        raise InternalError(
            f"{table.plan_path}: an index of a kind that reads its table itself, over something computed"
        )
    for name, type_ in zip(table.names, table.schema, strict=True):
        yield Column(name=name, type=arrow_type(type_), nullable=type_.nullable)


def _changing(plan_path: str) -> Problem:
    return Problem(
        place=plan_path,
        reason="INDEX_NOT_STATIC",
        message="an index is made once for the task, so its table must be static (files that the plan names, or tables "
        "bound when the task is created) and must not read a row of an enclosing query",
    )
