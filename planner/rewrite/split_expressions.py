"""Chains deep expressions through projections, because DuckDB's parser limits the levels of an expression.

`f(f(f(... x)))` becomes a projection that computes an inner part, below a projection that computes the rest from it. A
part moves out only if it is evaluated for every row anyway: never from behind a CASE, a COALESCE, or the second operand
of `and` or `or`, which may keep the part from failing. Chains of one `and` or `or` count as the balanced trees as which
they are rendered. A CASE in another CASE's ELSE becomes one CASE with it, and a COALESCE that is another's last operand
becomes one COALESCE with it, so none of these needs the pass.

A clock value that a relation reads often is computed once, too: DuckDB joins the rows with the value at each reading.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple, TypeGuard

from ...proto.errors import PlanError, Problem
from .. import ir
from ..ir import tree
from ..ir.boolean import conjuncts, is_connective, with_conjuncts
from ..ir.building import columns, project
from ..ir.types import Type, nullable
from ..ir.visit import transform, transform_relations
from ..ir.walk import unroll

LEVELS: Final = 40
"""The levels left in one expression. DuckDB's planning time grows with the square of the levels: 100 in place of 40
levels take two to three times as long where values have names.
"""

READINGS: Final = 4
"""The readings of a clock value that stay in the expressions of a relation. All others read one column."""

_UNMOVED: Final = tree.LEAVES - {ir.ContextVariable}
"""The kinds of operands that never move out of an expression."""
LIMIT: Final = 250
"""The most levels of an expression out of which nothing can be moved. A level is up to three of the parser's levels, of
which the parser takes 1,000.
"""


def split_expressions(plan: ir.Plan) -> ir.Plan:
    """The plan with deep expressions split. Raises `PlanError` for an expression that is too deep and cannot be
    split.
    """
    root, *shared = (transform_relations(relation, _split) for relation in (plan.root, *plan.shared))
    return replace(plan, root=root, shared=tuple(shared))


def _split(relation: ir.Relation) -> ir.Relation:
    width = sum(len(child.schema) for child in tree.inputs(relation))
    movable = _movable(relation)
    splitting = _Splitting(width, has_room_below=movable is not None)
    new = [
        splitting.split(expression, movable is not None and movable(expression))
        for expression in tree.expressions(relation)
    ]
    deepest = max((split.depth for split in (*new, *splitting.moved)), default=0)
    if deepest > LIMIT:
        return _above_the_join(relation)
    changed = tree.with_expressions(relation, splitting.placed(split.expression for split in new))
    return splitting.under(changed) if splitting.moved else changed


def _movable(relation: ir.Relation) -> Callable[[ir.Expression], bool] | None:
    """A test for the expressions whose parts can be computed below the relation, for each row of its input; None if
    nothing can be computed there.
    """
    match relation:
        case ir.Filter() | ir.Project() | ir.Sort() | ir.Window() | ir.Expand():
            return lambda _: True
        case ir.TopN():
            keys = {key.expression for key in relation.keys}
            return lambda expression: expression in keys
        case ir.Aggregate():
            guarded = {
                part for measure in relation.measures if measure.condition is not None for part in measure.arguments
            }
            return lambda expression: expression not in guarded
        case _:
            return None


def _above_the_join(relation: ir.Relation) -> ir.Relation:
    """An inner join with the deep terms of its condition in a filter above it, because they cannot be computed below
    it.
    """
    if not isinstance(relation, ir.Join) or relation.type is not ir.JoinType.INNER or relation.condition is None:
        raise PlanError(
            Problem(
                place=relation.plan_path,
                reason="TOO_DEEP",
                message=(
                    f"an expression has more than {LIMIT} levels in a place where Tidegate cannot compute the "
                    "expression in steps"
                ),
            )
        )
    condition = relation.condition
    deep: list[ir.Expression] = []
    left: list[ir.Expression] = []
    for term in conjuncts(condition):
        (deep if _Splitting(0).split(term, move=False).depth > LEVELS else left).append(term)
    above: ir.Relation = replace(relation, condition=with_conjuncts(condition, left) if left else None)
    for term in deep:
        above = _split(ir.Filter(input=above, condition=term, schema=relation.schema, plan_path=relation.plan_path))
    return above


@dataclass(frozen=True, slots=True)
class _Part:
    expression: ir.Expression
    move: bool


class _Split(NamedTuple):
    """An expression in which columns of projection number `layer` or below replace the parts moved out.

    `depth` is the depth of the SQL; for a connective `terms` counts the operands of the balanced tree and `below` is
    the depth of the deepest operand.
    """

    expression: ir.Expression
    depth: int
    layer: int
    terms: int = 1
    below: int = 0


class _Splitting:
    """Moves parts out of the expressions of one relation, whose input has `width` columns."""

    def __init__(self, width: int, *, has_room_below: bool = False) -> None:
        self._width = width
        self._has_room_below = has_room_below
        self._readings: Counter[ir.Clock] = Counter()
        self._clocks: dict[ir.Clock, _Split] = {}
        self.moved: list[_Split] = []

    def split(self, expression: ir.Expression, move: bool) -> _Split:
        return unroll(self._step, _Part(expression, move))

    def _step(self, part: _Part) -> Generator[_Part, _Split, _Split]:
        if isinstance(part.expression, ir.ContextVariable):
            return self._reading(part.expression)
        expression = _flat_coalesce(_one_case(part.expression))
        own = tree.operands(expression)
        if _UNMOVED.issuperset(map(type, own)) and not is_connective(expression):
            return _Split(expression, 2 if own else 1, 0)
        operands: list[_Split] = []
        for at, operand in enumerate(own):
            if isinstance(operand, ir.ContextVariable):
                operands.append(self._reading(operand))
            elif type(operand) in tree.LEAVES:
                operands.append(_Split(operand, 1, 0))
            else:
                operands.append((yield _Part(operand, part.move and _always(expression, at))))
        rebuilt = tree.with_operands(expression, (part.expression for part in operands))
        layer = max((part.layer for part in operands), default=0)
        if is_connective(rebuilt):
            return _connective(rebuilt, operands, layer)
        depth = 1 + max((part.depth for part in operands), default=0)
        split = _Split(rebuilt, depth, layer)
        if not part.move or depth < LEVELS or isinstance(rebuilt, ir.Lambda):
            return split
        return self._moved(split)

    def _moved(self, split: _Split) -> _Split:
        """The column that has the expression's values once it is moved out."""
        self.moved.append(split._replace(layer=split.layer + 1))
        column = ir.Field(index=self._width + len(self.moved) - 1, type=split.expression.type)
        return _Split(column, 1, split.layer + 1)

    def _reading(self, clock: ir.ContextVariable) -> _Split:
        """A clock value, or the column that has it. It never fails, so it may move out from anywhere."""
        self._readings[clock.variable] += 1
        if not self._has_room_below or self._readings[clock.variable] <= READINGS:
            return _Split(clock, 1, 0)
        if clock.variable not in self._clocks:
            self._clocks[clock.variable] = self._moved(_Split(clock, 1, 0))
        return self._clocks[clock.variable]

    def placed(self, expressions: Iterable[ir.Expression]) -> list[ir.Expression]:
        """The expressions with the moved parts' columns at the positions that `under` gives them."""
        positions = {self._width + at: self._width + position for position, at in enumerate(self._order())}

        def change(expression: ir.Expression) -> ir.Expression:
            match expression:
                case ir.Field(outer=0, index=index) if index >= self._width:
                    return replace(expression, index=positions[index])
                case _:
                    return expression

        return [transform(expression, change) for expression in expressions] if self.moved else list(expressions)

    def _order(self) -> list[int]:
        return sorted(range(len(self.moved)), key=lambda at: (self.moved[at].layer, at))

    def under(self, relation: ir.Relation) -> ir.Relation:
        """The relation over projections that compute the moved parts, and without the columns that the
        projections add.
        """
        (below,) = tree.inputs(relation)
        own = len(below.schema)
        expressions = self.placed(self.moved[at].expression for at in self._order())
        layers = [self.moved[at].layer for at in self._order()]
        for layer in range(1, max(layers) + 1):
            added = [expression for expression, own in zip(expressions, layers, strict=True) if own == layer]
            below = project(below, (*columns(below.schema), *added), relation.plan_path)
        extra = below.schema[own:]
        match relation:
            case ir.Filter() | ir.Sort() | ir.TopN():
                wide: ir.Relation = replace(relation, input=below, schema=below.schema)
                return _columns(wide, range(own))
            case ir.Window():
                wide = replace(relation, input=below, schema=(*below.schema, *relation.schema[own:]))
                calls = range(own + len(extra), own + len(extra) + len(relation.calls))
                return _columns(wide, (*range(own), *calls))
            case _:
                return tree.with_inputs(relation, (below,))


def _columns(relation: ir.Relation, positions: Iterable[int]) -> ir.Relation:
    fields = columns(relation.schema)
    return project(relation, [fields[at] for at in positions])


def _always(expression: ir.Expression, operand: int) -> bool:
    """Tests whether an operand is evaluated whenever the expression is."""
    match expression:
        case ir.IfThen() | ir.Switch():
            return operand == 0
        case ir.Call():
            guarding = is_connective(expression) or expression.function.name == "coalesce"
            return operand == 0 or not guarding
        case ir.Lambda():
            return False
        case _:
            return True


def _one_case(expression: ir.Expression) -> ir.Expression:
    """A CASE merged with the CASEs in its ELSE."""
    if not isinstance(expression, ir.IfThen) or not isinstance(expression.otherwise, ir.IfThen):
        return expression
    clauses = list(expression.clauses)
    otherwise = expression.otherwise
    while isinstance(otherwise, ir.IfThen) and nullable(otherwise.type) == nullable(expression.type):
        clauses.extend(otherwise.clauses)
        following = otherwise.otherwise
        if following is None:
            return replace(expression, clauses=tuple(clauses), otherwise=None)
        otherwise = following  # type: ignore[assignment]  # the loop's test narrows it again
    return replace(expression, clauses=tuple(clauses), otherwise=otherwise)


def _flat_coalesce(expression: ir.Expression) -> ir.Expression:
    """A COALESCE merged with the COALESCEs that are its last operand, as long as they choose among values of its own
    type: the fields of structs may have names in one of them, and none in another.
    """
    if not _is_coalesce(expression) or not _is_coalesce(expression.arguments[-1]):
        return expression
    arguments: list[ir.Expression | str] = []
    last: ir.Expression | str = expression
    chosen = _chosen(expression)
    while _is_coalesce(last) and _chosen(last) == chosen and nullable(last.type) == nullable(expression.type):
        arguments.extend(last.arguments[:-1])
        last = last.arguments[-1]
    return replace(expression, arguments=(*arguments, last))


def _chosen(coalesce: ir.Call) -> Type | None:
    """The type of what a COALESCE chooses among."""
    first = coalesce.arguments[0]
    return None if isinstance(first, str) else nullable(first.type)


def _is_coalesce(expression: ir.Expression | str) -> TypeGuard[ir.Call]:
    return isinstance(expression, ir.Call) and expression.function.name == "coalesce" and bool(expression.arguments)


def _connective(call: ir.Call, operands: Sequence[_Split], layer: int) -> _Split:
    """A connective. Nested uses of one connective are one balanced tree of their terms."""
    count = deepest = 0
    for operand in operands:
        same = is_connective(operand.expression, call.function.name)
        count += operand.terms if same else 1
        deepest = max(deepest, operand.below if same else operand.depth)
    return _Split(call, deepest + max(count - 1, 1).bit_length(), layer, terms=count, below=deepest)
