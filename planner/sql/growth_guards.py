"""Guards against values that expressions make larger than memory allows.

DuckDB computes 2,048 rows of an expression at once, and neither counts nor interrupts what it makes of them. A guard
looks at the lengths that an expression starts from, before any value is made. It asks `wide_rows` where a row may have
more than `wide_from()` bytes: the fragment that runs the statement counts these bytes there, and stops the statement
where there are too many.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from ...operators.core import quoting
from ...operators.python_functions import WIDE_FROM, WIDE_OUTPUT, WIDE_ROWS
from ...proto.errors import LONGEST_PLACE, PlanError, Problem
from .. import ir
from ..functions import result_types
from ..functions.growth import ITEM, Grown, Size, Sum, is_variable, rule_of, total
from ..functions.templates.named_values import in_lambda
from ..ir import tree
from ..ir import types as t
from ..ir.types import Type
from ..ir.walk import unroll

NARROW: Final = 256
"""Bytes of a row, known from the plan, that need no guard."""
_CONSTANT: Final = 1 << 20
"""The most bytes that an expression of constants may make: DuckDB computes it when it plans."""
_LONGEST: Final = 1 << 16
"""The most characters of a guard."""

Rendered: TypeAlias = Callable[[ir.Expression, int], str]
"""The guarded SQL of an expression at some depth of lambdas."""


@dataclass(slots=True)
class Made:
    """The bytes of a value, and those that are made on the way to it: `steps` values that are not larger, and `before`
    others.
    """

    size: Size
    steps: int = 0
    before: Size = field(default_factory=Size)

    def all(self) -> Size:
        """The bytes of all values together."""
        size = self.size.times(float(self.steps)) if self.steps else Size()
        return size.plus(self.before)

    def ended(self) -> Made:
        """The bytes on the way to a value of fixed width."""
        return Made(Size(), before=self.all())


@dataclass(frozen=True, slots=True, eq=False)
class _Part:
    expression: ir.Expression
    lambdas: int


_Step: TypeAlias = Generator[_Part, Made, Made]


@dataclass(slots=True)
class Passing:
    """The bytes that a statement may make without a guard, where each row is made of one row that comes in: for each
    byte of that row, and for the row itself. Rows come in with 16 MiB at once, and 2,048 of them are computed at once.
    """

    left: float = 4.0
    constant: float = 4096.0

    def pass_by(self, size: Size) -> bool:
        """Count these bytes, if they need no guard."""
        if size.products or size.factor > self.left or size.constant > self.constant:
            return False
        self.left -= size.factor
        self.constant -= size.constant
        return True


@dataclass(frozen=True, slots=True)
class Guards:
    """The guards of a relation at `plan_path`, over rows with these columns, or in an enclosing row with them where its
    own rows have none. `passing` counts what the statement makes without a guard; None where everything needs guards.
    `hands_out` says that the statement may hand the relation's rows out as it makes them.
    """

    plan_path: str
    row: Sequence[str]
    passing: Passing | None
    hands_out: bool = False

    def of(self, expressions: Sequence[ir.Expression], rendered: Rendered) -> str | None:
        """A condition that is never true: it stops the statement where rows have too many bytes. None if no guard is
        needed.
        """
        size = self.size(expressions, rendered)
        return (
            None
            if size is None
            else _test(size, self.plan_path, self.row, WIDE_OUTPUT if self.hands_out else WIDE_ROWS)
        )

    def size(self, expressions: Sequence[ir.Expression], rendered: Rendered) -> Size | None:
        """The bytes that the expressions of a row make together; None where they need no guard."""
        makers = [one for one in expressions if not isinstance(one, _PASSED_ON) and _has_variable(one)]
        if not makers:
            return None
        size = total([_all(one, rendered) for one in makers])
        if size.is_constant:
            return size if size.constant > NARROW else None
        return None if self.passing is not None and self.passing.pass_by(size) else size


def makes_long_values(relation: ir.Project | ir.Filter) -> bool:
    """Tests whether the relation's expressions need a guard in a statement whose rows are made of one row each."""
    expressions = relation.expressions if isinstance(relation, ir.Project) else (relation.condition,)
    return Guards(relation.plan_path, (), Passing()).size(expressions, lambda *_: "NULL") is not None


_PASSED_ON: Final = (ir.Field, ir.Parameter, ir.Subquery, ir.ContextVariable)


def _has_variable(expression: ir.Expression) -> bool:
    """Tests whether a value of any length is in an expression. Without one, nothing in it makes bytes."""
    pending = [expression]
    while pending:
        part = pending.pop()
        if is_variable(part.type):
            return True
        pending.extend(tree.operands(part))
    return False


def _all(expression: ir.Expression, rendered: Rendered) -> Size:
    if isinstance(expression, ir.Literal):
        return Size(_literal(expression.value))
    size = unroll(lambda part: _checked(part, rendered), _Part(expression, 0)).all()
    _refuse_large_constant(expression, size)
    return size


def _checked(part: _Part, rendered: Rendered) -> _Step:
    """The bytes that an expression makes. DuckDB also computes a constant inside of other expressions when it plans."""
    bytes_made = yield from _made(part, rendered)
    if not isinstance(part.expression, ir.Literal):
        _refuse_large_constant(part.expression, bytes_made.size)
    return bytes_made


def _refuse_large_constant(expression: ir.Expression, size: Size) -> None:
    if size.is_constant and size.constant > _CONSTANT:
        message = f"makes a constant of up to {size.constant:,.0f} bytes; at most {_CONSTANT:,} are allowed"
        plan_path = expression.plan_path if isinstance(expression, ir.Call) else ""
        raise PlanError(Problem(place=plan_path, reason="PLAN_TOO_LARGE", message=f"{message}: put it in a table"))


def _test(size: Size, plan_path: str, row: Sequence[str], function: str) -> str:
    """The condition. It must not be a constant, because DuckDB computes constants once for all rows."""
    sql = size.sql()
    if len(sql) > _LONGEST:
        message = f"{len(sql):,} characters are needed to bound the bytes that expressions make; at most {_LONGEST:,}"
        raise PlanError(
            Problem(
                place=plan_path, reason="PLAN_TOO_LARGE", message=f"{message} are allowed: compute in several steps"
            )
        )
    quoted_path = quoting.text(plan_path[-LONGEST_PLACE:])
    varying = f"{row[0]} IS NULL" if row else "random() < 0"
    return f"CASE WHEN {sql} > {WIDE_FROM} THEN {function}({sql}, {quoted_path}, {varying}) ELSE false END"


def _made(part: _Part, rendered: Rendered) -> _Step:
    match part.expression:
        case ir.Literal(value=value):
            return Made(Size(_literal(value)))
        case ir.Field() | ir.Parameter() | ir.Subquery() | ir.ContextVariable():
            return Made(_leaf(part, rendered))
        case ir.NestedField(operand=operand, type=type_):
            bytes_made = yield _Part(operand, part.lambdas)
            return bytes_made if is_variable(type_) else bytes_made.ended()
        case ir.Cast(operand=operand, type=type_):
            return _cast((yield _Part(operand, part.lambdas)), operand.type, type_)
        case ir.IfThen() | ir.Switch():
            return (yield from _chosen(part.expression, part, rendered))
        case ir.OneOf(value=value):
            return (yield from _together(value, part)).ended()
        case ir.Nested(items=items):
            bytes_made = yield from _together(items, part)
            return Made(bytes_made.size.times(1.0, float(ITEM * len(items))), bytes_made.steps + 1, bytes_made.before)
        case ir.Lambda(body=body):
            return (yield _Part(body, part.lambdas + 1))
        case ir.Call() as call:
            return (yield from _call(call, part, rendered))


def _literal(value: object) -> float:
    match value:
        case str():
            return float(len(value.encode()))
        case bytes():
            return float(len(value))
        case tuple():
            return sum(map(_literal, value), float(ITEM))
        case _:
            return 0.0


def _leaf(part: _Part, rendered: Rendered) -> Size:
    type_ = part.expression.type
    return _bytes(rendered(part.expression, part.lambdas), type_, part.lambdas) if is_variable(type_) else Size()


def _bytes(sql: str, type_: Type, depth: int) -> Size:
    return Size(terms=dict.fromkeys(_terms(sql, type_, depth), 1.0))


def _terms(sql: str, type_: Type, depth: int) -> list[str]:
    """SQL for the bytes of a value, in parts."""
    match type_:
        case t.String() | t.VarChar() | t.FixedChar():
            return [f"coalesce(strlen({sql}),0)"]
        case t.Binary() | t.FixedBinary():
            return [f"coalesce(octet_length({sql}),0)"]
        case t.List(element=element):
            items = f"coalesce(len({sql}),0)*{ITEM}"
            if not is_variable(element):
                return [items]
            item = f"z{depth}"
            inside = "+".join(_terms(item, element, depth + 1))
            return [f"({items}+coalesce(list_sum(list_transform({sql}, lambda {item}: {inside})),0))"]
        case t.Map(key=key, value=value):
            sides = (("map_keys", key), ("map_values", value))
            return [term for name, of in sides for term in _terms(f"{name}({sql})", t.List(element=of), depth)]
        case t.Struct(fields=fields):
            return [
                term
                for at, of in enumerate(fields, 1)
                if is_variable(of)
                for term in _terms(f"struct_extract_at({sql}, {at})", of, depth)
            ]
        case _:
            return []


def _cast(bytes_made: Made, source: Type, target: Type) -> Made:
    match target:
        case t.FixedChar(length=length) | t.FixedBinary(length=length):
            return Made(Size(4.0 * length), bytes_made.steps + 1, bytes_made.before.plus(bytes_made.size.times(2.0)))
    if not is_variable(target):
        return bytes_made.ended()
    texts = (t.String, t.VarChar, t.FixedChar, t.Binary, t.FixedBinary)
    if isinstance(target, texts) and isinstance(source, texts):
        return Made(bytes_made.size, bytes_made.steps + 1, bytes_made.before)
    return Made(bytes_made.size.times(float(ITEM), 64.0), bytes_made.steps + 1, bytes_made.before)


def _together(expressions: Sequence[ir.Expression], part: _Part) -> Generator[_Part, Made, Made]:
    """All expressions side by side."""
    size, before, steps = Size(), Size(), 0
    for expression in expressions:
        if isinstance(expression, ir.Field | ir.Parameter | ir.Literal) and not is_variable(expression.type):
            continue
        bytes_made = yield _Part(expression, part.lambdas)
        size, before, steps = size.plus(bytes_made.size), before.plus(bytes_made.before), steps + bytes_made.steps
    return Made(size, steps, before)


def _chosen(choice: ir.IfThen | ir.Switch, part: _Part, rendered: Rendered) -> _Step:
    """A choice: the branches together, or the chosen branch alone where lengths are multiplied in a branch."""
    if isinstance(choice, ir.Switch):
        tested: list[ir.Expression] = [choice.match]
        conditions = [f"{{0}} IS NOT DISTINCT FROM {rendered(match, part.lambdas)}" for match, _ in choice.clauses]
    else:
        tested = [condition for condition, _ in choice.clauses]
        conditions = []
    before = (yield from _together(tested, part)).all()
    branches: list[Made] = []
    for result in (*(result for _, result in choice.clauses), choice.otherwise):
        if result is not None:
            branches.append((yield _Part(result, part.lambdas)))  # noqa: PERF401  # a comprehension cannot yield
    if any(branch.size.products or branch.before.products for branch in branches):
        if isinstance(choice, ir.Switch):
            value = rendered(choice.match, part.lambdas)
            conditions = [condition.replace("{0}", value, 1) for condition in conditions]
        else:
            conditions = [rendered(condition, part.lambdas) for condition in tested]
        sizes = _one_of(conditions, [branch.size.copy() for branch in branches])
        before = before.plus(_one_of(conditions, [branch.all() for branch in branches]))
        return Made(sizes, 1, before)
    size, steps = Size(), 1
    for branch in branches:
        size, before, steps = size.plus(branch.size), before.plus(branch.before), steps + branch.steps
    bytes_made = Made(size, steps, before)
    return bytes_made if is_variable(choice.type) else bytes_made.ended()


def _one_of(conditions: Sequence[str], sizes: Sequence[Size]) -> Size:
    clauses = " ".join(
        f"WHEN {condition} THEN {size.sql()}" for condition, size in zip(conditions, sizes, strict=False)
    )
    otherwise = f" ELSE {sizes[-1].sql()}" if len(sizes) > len(conditions) else " ELSE 0e0"
    return Size(products=[f"CASE {clauses}{otherwise} END"])


def _call(call: ir.Call, part: _Part, rendered: Rendered) -> _Step:
    sizes: list[Size] = []
    before, steps, functions = Size(), 0, []
    for argument in call.arguments:
        if isinstance(argument, str) or _is_fixed_leaf(argument):
            sizes.append(Size())
            continue
        bytes_made = yield _Part(argument, part.lambdas)
        if isinstance(argument, ir.Lambda):
            functions.append((argument, bytes_made))
            sizes.append(Size())
            continue
        steps += bytes_made.steps
        before = before.plus(bytes_made.before)
        sizes.append(bytes_made.size)
    for function, body in functions:
        return _of_list(call, sizes, function, body, Made(Size(), steps, before), part, rendered)
    implementation = result_types.implementation_of(call.function)
    rule = rule_of(implementation.file, call.function.name, call.type)
    if rule is None:
        return Made(total(sizes), steps, before).ended()
    arguments = call.arguments

    def number(index: int) -> str:
        argument = arguments[index]
        if isinstance(argument, str):
            raise TypeError(f"argument {index} of {call.function.name} is no number")
        return f"CAST(coalesce({rendered(argument, part.lambdas)},0) AS DOUBLE)"

    if steps and not isinstance(rule, Sum):  # the value may be smaller than its arguments
        before, steps = before.plus(total([size.copy() for size in sizes]).times(float(steps))), 0
    size = rule(Grown(sizes, [_value(argument) for argument in arguments], number))
    bytes_made = Made(size, steps + 1, before)
    return bytes_made if is_variable(call.type) else bytes_made.ended()


def _of_list(
    call: ir.Call,
    sizes: Sequence[Size],
    function: ir.Lambda,
    body: Made,
    around: Made,
    part: _Part,
    rendered: Rendered,
) -> Made:
    """A function of a list's items: what it makes of each, added up."""
    items = total(list(sizes))
    inside = body.size.times(float(body.steps + 1), float(ITEM)).plus(body.before)
    own = f"p{part.lambdas}_"
    if inside.products:
        names = ", ".join(f"{own}{at}" for at in range(len(function.parameters)))
        operand = call.arguments[0]
        if isinstance(operand, str):
            raise TypeError("a list that is no expression")
        of_items_sql = f"list_transform({rendered(operand, part.lambdas)}, lambda {names}: {in_lambda(inside.sql())})"
        size = Size(products=[f"coalesce(list_sum({of_items_sql}),0e0)"])
    else:
        of_items = max((times for term, times in inside.terms.items() if own in term), default=0.0) * inside.scale
        outside = {term: times * inside.scale for term, times in inside.terms.items() if own not in term}
        count = items.copy().times(1 / ITEM)
        size = Size(inside.constant, outside).by(count).plus(items.copy().times(1.0 + of_items))
    before = around.before.plus(items.times(float(around.steps))) if around.steps else around.before
    bytes_made = Made(size, 1, before)
    return bytes_made if is_variable(call.type) else bytes_made.ended()


def _is_fixed_leaf(expression: ir.Expression) -> bool:
    return isinstance(expression, ir.Literal | ir.Field | ir.Parameter) and not is_variable(expression.type)


def _value(argument: ir.Expression | str) -> object:
    if isinstance(argument, ir.Cast):
        argument = argument.operand
    return argument.value if isinstance(argument, ir.Literal) else None
