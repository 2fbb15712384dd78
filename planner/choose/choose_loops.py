"""Chooses how loops run: a loop that one recursive statement computes becomes an `ir.Recursion`.

SQL's recursion sees only the rows that the round before it added. So it means what a loop means only if the body is the
distinct rows of some parts, each linear in the reference: filters, projections and inner joins, nothing that
aggregates, negates or limits. The loop's columns are copied, never computed, so that the possible rows are limited and
the recursion ends by itself.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import Enum

from ...proto.errors import PlanError
from ...proto.values import Loops, TaskOptions
from .. import ir
from ..analysis.exact import is_one_value
from ..analysis.outer_references import OuterReferences, correlated
from ..ir import tree
from ..ir import types as t
from ..ir.visit import has, is_column, parts, rebuilt, relations, subqueries_of, transform_relations
from ..ir.walk import unroll


@dataclass(frozen=True, slots=True)
class Obstacle:
    """The reason why a loop cannot be one recursive statement, and its place."""

    plan_path: str
    why: str


def choose_loops(plan: ir.Plan, options: TaskOptions) -> ir.Plan:
    """The plan with each loop as a recursive statement if one means the same, else as a loop that runs round by round.
    A loop that reads an enclosing loop's reference stays a part of that loop's body.
    """
    if not has(plan, ir.Iterate):
        return plan
    references = OuterReferences()

    def change(relation: ir.Relation) -> ir.Relation:
        if not isinstance(relation, ir.Iterate):
            return relation
        if references.of(relation).rows:
            raise PlanError(correlated(relation.plan_path))
        if references.of(relation).loops:
            return relation
        outcome = recursion(relation, options.loop_rows, references)
        if options.loops is Loops.GENERAL:
            outcome = Obstacle(relation.plan_path, 'the option loops="general" asks for it')
        if isinstance(outcome, Obstacle):
            return _round_by_round(relation, outcome, options, references)
        return outcome

    root, *shared = (transform_relations(relation, change) for relation in (plan.root, *plan.shared))
    return replace(plan, root=root, shared=tuple(shared))


def _round_by_round(
    loop: ir.Iterate, obstacle: Obstacle, options: TaskOptions, references: OuterReferences
) -> ir.Rounds:
    """The loop as `ir.Rounds`. Relations that read no reference become inputs; the rest is the loop's own."""
    inputs: dict[ir.Relation, ir.LoopInput] = {}

    def step(relation: ir.Relation) -> Generator[ir.Relation, ir.Relation, ir.Relation]:
        if not references.of(relation).closed:
            return (yield from rebuilt(relation))
        if relation not in inputs:
            port = ir.LoopInput(port=len(inputs), schema=relation.schema, plan_path=relation.plan_path)
            inputs[relation] = port
        return inputs[relation]

    body = unroll(step, loop.body)
    entering = None if loop.input is None else unroll(step, loop.input)
    where = "" if obstacle.plan_path == loop.plan_path else f" (at {obstacle.plan_path})"
    return ir.Rounds(
        inputs=tuple(inputs),
        iterate=replace(loop, body=body, input=entering),
        why=obstacle.why + where,
        max_rows=options.loop_rows,
        max_seconds=options.loop_seconds,
        schema=loop.schema,
        plan_path=loop.plan_path,
    )


def recursion(loop: ir.Iterate, max_rows: int, references: OuterReferences) -> ir.Recursion | Obstacle:
    """The loop as one recursive statement, or the first obstacle to that."""
    obstacle = _of_the_loop(loop, references)
    if obstacle is not None:
        return obstacle
    parts = _parts(loop.body)
    if isinstance(parts, Obstacle):
        return parts
    for part in parts:
        obstacle = _of_a_part(part, loop, references)
        if obstacle is not None:
            return obstacle
    return ir.Recursion(
        loop=loop.loop,
        name=loop.name,
        base=tuple(part for part in parts if loop.loop not in references.of(part).loops),
        steps=tuple(part for part in parts if loop.loop in references.of(part).loops),
        input=loop.input,
        max_rows=max_rows,
        schema=loop.schema,
        plan_path=loop.plan_path,
    )


# ---------------------------------------------------------------------------------------------------------- obstacles


def _of_the_loop(loop: ir.Iterate, references: OuterReferences) -> Obstacle | None:
    if loop.max_rounds is not None:
        return Obstacle(
            loop.plan_path, "the loop has a limit on rounds, and a recursive statement does not count rounds"
        )
    if not loop.schema:
        return Obstacle(loop.plan_path, "the loop's rows have no columns")
    for index, type_ in enumerate(loop.schema):
        if not is_one_value(type_) and not isinstance(type_, t.Float):
            return Obstacle(loop.plan_path, f"column {index} is {type_}, whose equal values may differ")
    around = references.of(loop).loops
    if around:
        return Obstacle(loop.plan_path, "the loop reads the rows of an enclosing loop")
    return None


def _parts(body: ir.Relation) -> tuple[ir.Relation, ...] | Obstacle:
    """The parts whose distinct rows are the body."""
    root = _without_renaming(body)
    match root:
        case ir.Set(operation=ir.SetOperation.UNION_DISTINCT):
            inputs: Sequence[ir.Relation] = root.inputs
        case ir.Aggregate() if _is_distinct(root):
            inputs = (root.input,)
        case _:
            return Obstacle(root.plan_path, "the loop's body is not a UNION DISTINCT")
    return tuple(_flattened(inputs))


def _flattened(inputs: Sequence[ir.Relation]) -> Iterator[ir.Relation]:
    """The inputs of a union of distinct rows, with unions right below it replaced by their own inputs."""
    stack = list(reversed(inputs))
    while stack:
        relation = _without_renaming(stack.pop())
        match relation:
            case ir.Set(operation=ir.SetOperation.UNION_ALL | ir.SetOperation.UNION_DISTINCT):
                stack.extend(reversed(relation.inputs))
            case ir.Aggregate() if _is_distinct(relation):
                stack.append(relation.input)
            case _:
                yield relation


def _without_renaming(relation: ir.Relation) -> ir.Relation:
    """The relation below projections that hand on all columns unchanged."""
    while isinstance(relation, ir.Project) and _are_all(relation.expressions, relation.input):
        relation = relation.input
    return relation


def _is_distinct(relation: ir.Aggregate) -> bool:
    if relation.measures or len(relation.grouping_sets) != 1 or len(relation.grouping_sets[0]) != len(relation.keys):
        return False
    return _are_all(relation.keys, relation.input)


def _are_all(expressions: Sequence[ir.Expression], below: ir.Relation) -> bool:
    columns = [expression.index if is_column(expression) else None for expression in expressions]
    return columns == list(range(len(below.schema)))


class _Column(Enum):
    """The origin of a column in a step: copied from the loop's rows, computed from them, or independent of them."""

    COPIED = "copied"
    COMPUTED = "computed"
    OTHER = "other"


def _of_a_part(part: ir.Relation, loop: ir.Iterate, references: OuterReferences) -> Obstacle | None:
    uses = sum(isinstance(inner, ir.Reference) and inner.loop == loop.loop for inner in relations(part))
    if uses > 1:
        return Obstacle(part.plan_path, f"a part of the union refers to the loop {uses} times")
    if not uses:
        return None
    path = [part]
    while not isinstance(path[-1], ir.Reference):
        obstacle = _of_a_relation(path[-1])
        if obstacle is not None:
            return obstacle
        path.append(next(child for child in tree.inputs(path[-1]) if loop.loop in references.of(child).loops))
    columns = [_Column.COPIED] * len(path.pop().schema)
    for relation in reversed(path):
        columns = _columns(relation, columns, loop, references)
    if _Column.COMPUTED in columns:
        index = columns.index(_Column.COMPUTED)
        return Obstacle(part.plan_path, f"column {index} is computed from the loop's rows, so the loop may never end")
    return None


def _of_a_relation(relation: ir.Relation) -> Obstacle | None:
    if subqueries_of(relation):
        return Obstacle(relation.plan_path, "a subquery stands above a reference to the loop")
    match relation:
        case ir.Filter() | ir.Project() | ir.Cross() | ir.Join(type=ir.JoinType.INNER):
            return None
        case ir.Join():
            return Obstacle(
                relation.plan_path, f"a join of the kind {relation.type.value} stands above a reference to the loop"
            )
        case _:
            kind = type(relation).__name__.lower()
            return Obstacle(
                relation.plan_path,
                f"a relation of the kind {kind} stands above a reference to the loop, where only filters, projections "
                "and inner joins may stand",
            )


def _columns(
    relation: ir.Relation, below: list[_Column], loop: ir.Iterate, references: OuterReferences
) -> list[_Column]:
    """The origins of a relation's columns, from those of the input that has the reference."""
    match relation:
        case ir.Project():
            return [_column(expression, below) for expression in relation.expressions]
        case ir.Join() | ir.Cross():
            sides = [
                below if loop.loop in references.of(side).loops else [_Column.OTHER] * len(side.schema)
                for side in (relation.left, relation.right)
            ]
            return [*sides[0], *sides[1]]
        case _:
            return below


def _column(expression: ir.Expression, below: Sequence[_Column]) -> _Column:
    if is_column(expression):
        return below[expression.index]
    read = [below[part.index] for part in parts(expression) if isinstance(part, ir.Field) and not part.outer]
    return _Column.OTHER if all(column is _Column.OTHER for column in read) else _Column.COMPUTED
