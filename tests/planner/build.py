"""Plans by hand: types, expressions and relations in a line each, with schemas derived and places counted."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa

from tidegate.planner import ir
from tidegate.planner.functions import binding
from tidegate.planner.functions.argument_types import expressions
from tidegate.planner.ir import types as t
from tidegate.planner.ir.tree import inputs

I32 = t.Integer(bits=32)
I64 = t.Integer(bits=64)
F64 = t.Float(bits=64)
TEXT = t.String()
BOOL = t.Boolean()

_numbers = itertools.count(1)


def new_plan_path() -> str:
    return f"relations[0].{next(_numbers)}"


# ------------------------------------------------------------------------------------------------ expressions


def lit(value: object, type_: t.Type | None = None) -> ir.Literal:
    guessed = {bool: BOOL, int: I64, float: F64, str: TEXT}
    literal_type = type_ or guessed[type(value)]
    return ir.Literal(value=value, type=literal_type if value is None else t.required(literal_type))


def col(index: int, type_: t.Type = I64, outer: int = 0) -> ir.Field:
    return ir.Field(index=index, type=type_, outer=outer)


_bound: dict[tuple[object, ...], tuple[ir.Function, t.Type]] = {}


def call(name: str, *arguments: ir.Expression | str) -> ir.Call:
    """Bound once for each combination of types whose arguments stay as they are: deep expressions have thousands."""
    key = (name, *(argument if isinstance(argument, str) else argument.type for argument in arguments))
    if key in _bound:
        function, type_ = _bound[key]
        return ir.Call(function=function, arguments=arguments, type=type_)
    bound = binding.bind(ir.FunctionKind.SCALAR, name, None, arguments)
    converted = expressions(bound.arguments)
    if all(one is other for one, other in zip(converted, arguments, strict=True)):
        _bound[key] = (bound.function, bound.type)
    return ir.Call(function=bound.function, arguments=converted, type=bound.type)


def measure(name: str, *arguments: ir.Expression, **how: object) -> ir.Measure:
    bound = binding.bind(ir.FunctionKind.AGGREGATE, name, None, arguments)
    return ir.Measure(
        function=bound.function, arguments=expressions(bound.arguments), type=t.nullable(bound.type), **how
    )


def window_call(name: str, *arguments: ir.Expression, **how: object) -> ir.WindowCall:
    bound = binding.bind(ir.FunctionKind.WINDOW, name, None, arguments)
    return ir.WindowCall(
        function=bound.function, arguments=expressions(bound.arguments), type=t.nullable(bound.type), **how
    )


def eq(left: ir.Expression, right: ir.Expression) -> ir.Call:
    return call("equal", left, right)


def asc(expression: ir.Expression) -> ir.SortKey:
    return ir.SortKey(expression=expression, direction=ir.Direction.ASC_NULLS_LAST)


def desc(expression: ir.Expression) -> ir.SortKey:
    return ir.SortKey(expression=expression, direction=ir.Direction.DESC_NULLS_FIRST)


def case(condition: ir.Expression, then: ir.Expression, otherwise: ir.Expression | None = None) -> ir.IfThen:
    return ir.IfThen(clauses=((condition, then),), otherwise=otherwise, type=t.nullable(then.type))


def subquery(kind: ir.SubqueryKind, relation: ir.Relation, *needles: ir.Expression, **how: object) -> ir.Subquery:
    type_ = t.nullable(relation.schema[0]) if kind is ir.SubqueryKind.SCALAR else BOOL
    return ir.Subquery(kind=kind, relation=relation, type=type_, needles=needles, plan_path=new_plan_path(), **how)


# -------------------------------------------------------------------------------------------------- relations


def read(source: str, **columns: t.Type) -> ir.Read:
    return ir.Read(source=source, names=tuple(columns), schema=tuple(columns.values()), plan_path=new_plan_path())


def values(schema: Sequence[t.Type], *rows: Sequence[object]) -> ir.Values:
    literals = tuple(tuple(lit(value, type_) for value, type_ in zip(row, schema, strict=True)) for row in rows)
    return ir.Values(rows=literals, schema=tuple(schema), plan_path=new_plan_path())


def filtered(input_: ir.Relation, condition: ir.Expression) -> ir.Filter:
    return ir.Filter(input=input_, condition=condition, schema=input_.schema, plan_path=new_plan_path())


def project(input_: ir.Relation, *expressions: ir.Expression) -> ir.Project:
    schema = tuple(expression.type for expression in expressions)
    return ir.Project(input=input_, expressions=expressions, schema=schema, plan_path=new_plan_path())


def fetch(input_: ir.Relation, count: int | None, offset: int = 0) -> ir.Fetch:
    limit = None if count is None else lit(count)
    skipped = lit(offset) if offset else None
    return ir.Fetch(input=input_, offset=skipped, count=limit, schema=input_.schema, plan_path=new_plan_path())


def sort(input_: ir.Relation, *keys: ir.SortKey) -> ir.Sort:
    return ir.Sort(input=input_, keys=keys, schema=input_.schema, plan_path=new_plan_path())


def topn(input_: ir.Relation, keys: Sequence[ir.SortKey], count: int, offset: int = 0, ties: bool = False) -> ir.TopN:
    return ir.TopN(
        input=input_,
        keys=tuple(keys),
        offset=lit(offset) if offset else None,
        count=lit(count),
        ties=ties,
        schema=input_.schema,
        plan_path=new_plan_path(),
    )


def aggregate(
    input_: ir.Relation,
    keys: Sequence[ir.Expression],
    *measures: ir.Measure,
    sets: Sequence[Sequence[int]] | None = None,
) -> ir.Aggregate:
    grouping_sets = (tuple(range(len(keys))),) if sets is None else tuple(map(tuple, sets))
    number = (t.required(I32),) if len(grouping_sets) > 1 else ()
    key_types = tuple(t.nullable(key.type) if len(grouping_sets) > 1 else key.type for key in keys)
    return ir.Aggregate(
        input=input_,
        keys=tuple(keys),
        grouping_sets=grouping_sets,
        measures=measures,
        schema=(*key_types, *(measure.type for measure in measures), *number),
        plan_path=new_plan_path(),
    )


def join(
    left: ir.Relation, right: ir.Relation, type_: ir.JoinType, condition: ir.Expression | None, lateral: bool = False
) -> ir.Join | ir.LateralJoin:
    kind = type_.value
    sides = {"semi": 1, "anti": 1, "mark": 1}.get(kind.rpartition("_")[2])
    mine = right if kind.startswith("right") else left
    schema = (*left.schema, *right.schema) if sides is None else mine.schema
    if kind.endswith("mark"):
        schema = (*mine.schema, BOOL)
    kind_of_join = ir.LateralJoin if lateral else ir.Join
    return kind_of_join(
        left=left, right=right, type=type_, condition=condition, schema=schema, plan_path=new_plan_path()
    )


def cross(left: ir.Relation, right: ir.Relation) -> ir.Cross:
    return ir.Cross(left=left, right=right, schema=(*left.schema, *right.schema), plan_path=new_plan_path())


def combine(operation: ir.SetOperation, *inputs_: ir.Relation) -> ir.Set:
    return ir.Set(inputs=inputs_, operation=operation, schema=inputs_[0].schema, plan_path=new_plan_path())


def window(input_: ir.Relation, *calls: ir.WindowCall) -> ir.Window:
    schema = (*input_.schema, *(call.type for call in calls))
    return ir.Window(input=input_, calls=calls, schema=schema, plan_path=new_plan_path())


def expand(input_: ir.Relation, *alternatives: Sequence[ir.Expression]) -> ir.Expand:
    schema = (*(t.nullable(alternative.type) for alternative in alternatives[0]), t.required(I32))
    return ir.Expand(
        input=input_, alternatives=tuple(map(tuple, alternatives)), schema=schema, plan_path=new_plan_path()
    )


def iterate(
    loop: int,
    body: ir.Relation,
    entering: ir.Relation | None = None,
    *,
    max_rounds: int | None = None,
    at_limit: ir.AtLimit = ir.AtLimit.ERROR,
) -> ir.Iterate:
    return ir.Iterate(
        loop=loop,
        name=f"loop{loop}",
        body=body,
        input=entering,
        max_rounds=max_rounds,
        at_limit=at_limit,
        schema=body.schema,
        plan_path=new_plan_path(),
    )


def reference(loop: int, *types: t.Type) -> ir.Reference:
    return ir.Reference(loop=loop, name=f"loop{loop}", schema=types, plan_path=new_plan_path())


def shared(ordinal: int, definition: ir.Relation) -> ir.Shared:
    return ir.Shared(ordinal=ordinal, schema=definition.schema, plan_path=new_plan_path())


def plan(root: ir.Relation, *common: ir.Relation) -> ir.Plan:
    return ir.Plan(root=root, names=tuple(f"x{at}" for at in range(len(root.schema))), shared=common)


def table(relation: ir.Read, rows: Sequence[Sequence[object]]) -> pa.Table:
    """Data for a read: rows of plain values."""
    kinds = {I32: pa.int32(), I64: pa.int64(), F64: pa.float64(), TEXT: pa.string(), BOOL: pa.bool_()}
    types = [kinds[replace(type_, nullable=True)] for type_ in relation.schema]
    columns = [pa.array([row[at] for row in rows], type_) for at, type_ in enumerate(types)]
    return pa.table(columns, names=list(relation.names))


def chain(relation: ir.Relation) -> int:
    """How many relations stand above the leaf of a chain, the leaf included."""
    height = 1
    while below := inputs(relation):
        relation, height = below[0], height + 1
    return height
