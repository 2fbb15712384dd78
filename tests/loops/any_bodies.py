"""Random loops of every kind of relation, whose references may stand on all sides of everything.

Rows have two columns of whole numbers. A relation is made of sources and references, up to a few operations deep; a
loop gives what it has after a few rounds, so that it ends.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final, TypeAlias

from hypothesis import strategies as st

from tidegate.planner import ir

from ..planner.build import (
    BOOL,
    I64,
    aggregate,
    asc,
    call,
    case,
    col,
    combine,
    cross,
    desc,
    eq,
    fetch,
    filtered,
    iterate,
    join,
    lit,
    measure,
    project,
    read,
    reference,
    sort,
    subquery,
    topn,
    window,
    window_call,
)
from ..planner.relations.naive import Row

Draw: TypeAlias = st.DrawFn
Make: TypeAlias = Callable[[Draw, int, Sequence[int]], ir.Relation]

SOURCES: Final = ("edges", "seeds")
ROUNDS: Final = 4
_MOST: Final = (1 << 63) - 1
_PAIR: Final = (I64, I64)
_JOINED_TO_BOTH: Final = (ir.JoinType.INNER, ir.JoinType.LEFT, ir.JoinType.RIGHT, ir.JoinType.OUTER)
_JOINED_TO_ONE: Final = (
    ir.JoinType.LEFT_SEMI,
    ir.JoinType.LEFT_ANTI,
    ir.JoinType.RIGHT_SEMI,
    ir.JoinType.RIGHT_ANTI,
)
_ASKED: Final = (ir.JoinType.LEFT_MARK, ir.JoinType.RIGHT_MARK)


def tables() -> st.SearchStrategy[dict[str, list[Row]]]:
    number = st.none() | st.integers(0, 3)
    rows = st.lists(st.tuples(number, number), max_size=5)
    return st.fixed_dictionaries(dict.fromkeys(SOURCES, rows))


@st.composite
def loops(draw: Draw, number: int = 1, around: Sequence[int] = (), depth: int = 3) -> ir.Iterate:
    body = relation(draw, depth, (*around, number))
    if draw(st.integers(0, 3)):
        body = combine(ir.SetOperation.UNION_DISTINCT, body, relation(draw, 0, around))
    entering = relation(draw, 1, around) if draw(st.booleans()) else None
    loop = iterate(number, _pair(body), entering, max_rounds=ROUNDS, at_limit=ir.AtLimit.RETURN)
    return replace(loop, schema=_PAIR)


def relation(draw: Draw, depth: int, around: Sequence[int]) -> ir.Relation:
    """Something over sources and what came back to the loops `around`."""
    if not depth:
        sources = [read(name, a=I64, b=I64) for name in SOURCES]
        references = [reference(loop, *_PAIR) for loop in around]
        return draw(st.sampled_from([*references, *references, *sources]))
    kinds = list(_KINDS) if len(around) < 2 and depth > 1 else [kind for kind in _KINDS if kind != "loop"]
    return _pair(_KINDS[draw(st.sampled_from(kinds))](draw, depth, around))


def _pair(pair_relation: ir.Relation) -> ir.Relation:
    """Any column may be null, whatever the operation makes of it."""
    return replace(pair_relation, schema=_PAIR)


def _below(draw: Draw, depth: int, around: Sequence[int]) -> ir.Relation:
    return relation(draw, draw(st.integers(0, depth - 1)), around)


def _condition(draw: Draw, *, keyed: bool | None = None) -> ir.Expression:
    """Over pairs of rows; with an equality, or without one, where it is asked for."""
    equality = call(
        draw(st.sampled_from(["equal", "is_not_distinct_from"])),
        col(draw(st.integers(0, 1))),
        col(draw(st.integers(2, 3))),
    )
    other = call(
        draw(st.sampled_from(["lt", "gte", "not_equal"])), col(draw(st.integers(0, 1))), col(draw(st.integers(2, 3)))
    )
    if keyed is None:
        keyed = draw(st.booleans())
    if not keyed:
        return call("or", equality, other) if draw(st.integers(0, 3)) == 0 else other
    return call("and", equality, other) if draw(st.booleans()) else equality


def _filter(draw: Draw, depth: int, around: Sequence[int]) -> ir.Relation:
    name = draw(st.sampled_from(["equal", "lt", "not_equal", "is_not_distinct_from"]))
    return filtered(_below(draw, depth, around), call(name, col(0), col(1)))


def _columns(draw: Draw, depth: int, around: Sequence[int]) -> ir.Relation:
    """Turned, copied, made of each other: numbers stay among the few there are."""
    expressions: list[ir.Expression] = [
        col(1),
        col(0),
        call("coalesce", col(0), col(1)),
        lit(draw(st.integers(0, 3)), I64),
    ]
    return project(
        _below(draw, depth, around), draw(st.sampled_from(expressions)), draw(st.sampled_from(expressions[:3]))
    )


def _join(draw: Draw, depth: int, around: Sequence[int]) -> ir.Relation:
    type_ = draw(st.sampled_from((*_JOINED_TO_BOTH, *_JOINED_TO_ONE, *_ASKED)))
    left, right = _below(draw, depth, around), _below(draw, depth, around)
    joined = join(left, right, type_, _condition(draw))
    if type_ in _JOINED_TO_ONE:
        return joined
    if type_ in _ASKED:
        mark = col(2, BOOL)
        unknown = case(call("is_null", mark), lit(2), lit(3))  # true, false and null are told apart
        return project(joined, col(0), case(call("coalesce", mark, lit(False)), col(1), unknown))
    return project(joined, col(draw(st.integers(0, 1))), col(draw(st.integers(2, 3))))


def _cross(draw: Draw, depth: int, around: Sequence[int]) -> ir.Relation:
    crossed = cross(_below(draw, depth, around), _below(draw, depth, around))
    return aggregate(project(crossed, col(0), col(3)), (col(0), col(1)))


def _single(draw: Draw, depth: int, around: Sequence[int]) -> ir.Relation:
    """The other side has a row for a key at most."""
    one = aggregate(_below(draw, depth, around), (col(0),), measure("max", col(1)))
    if draw(st.booleans()):
        joined = join(_below(draw, depth, around), one, ir.JoinType.LEFT_SINGLE, eq(col(1), col(2)))
    else:
        joined = join(one, _below(draw, depth, around), ir.JoinType.RIGHT_SINGLE, eq(col(0), col(3)))
    return project(joined, col(0), col(3))


def _distinct(draw: Draw, depth: int, around: Sequence[int]) -> ir.Relation:
    return aggregate(_below(draw, depth, around), (col(0), col(1)))


def _group(draw: Draw, depth: int, around: Sequence[int]) -> ir.Relation:
    name = draw(st.sampled_from(["min", "max", "count"]))
    return aggregate(_below(draw, depth, around), (col(draw(st.integers(0, 1))),), measure(name, col(1)))


def _total(draw: Draw, depth: int, around: Sequence[int]) -> ir.Relation:
    """A row, whatever there is."""
    return aggregate(_below(draw, depth, around), (), measure("count", col(0)), measure("max", col(1)))


def _set(draw: Draw, depth: int, around: Sequence[int]) -> ir.Relation:
    inputs = [_below(draw, depth, around) for _ in range(draw(st.integers(2, 3)))]
    return combine(draw(st.sampled_from(ir.SetOperation)), *inputs)


def _top(draw: Draw, depth: int, around: Sequence[int]) -> ir.Relation:
    """Keys are all columns, so that a fragment that computes it has no choice either."""
    direction = draw(st.sampled_from([asc, desc]))
    keys = [direction(col(at)) for at in draw(st.sampled_from([(0, 1), (1, 0)]))]
    below, offset = _below(draw, depth, around), draw(st.sampled_from([0, 0, 1, 2, _MOST]))
    count = draw(st.sampled_from([None, 0, 1, 2, 4, _MOST - 1, _MOST]))
    if count is None or draw(st.booleans()):
        return fetch(sort(below, *keys), count, offset)
    return topn(below, keys, count, offset, ties=draw(st.booleans()) and not offset)


def _window(draw: Draw, depth: int, around: Sequence[int]) -> ir.Relation:
    partitions = (col(draw(st.integers(0, 1))),)
    sorts = (asc(col(1)), desc(col(0)))
    drawn_call = draw(
        st.sampled_from(
            [
                window_call("row_number", partitions=partitions, sorts=sorts),
                window_call("rank", partitions=partitions, sorts=sorts[:1]),
                window_call("max", col(1), partitions=partitions),
            ]
        )
    )
    return project(window(_below(draw, depth, around), drawn_call), col(draw(st.integers(0, 1))), col(2))


def _subquery(draw: Draw, depth: int, around: Sequence[int]) -> ir.Relation:
    below, inner = _below(draw, depth, around), _below(draw, depth, around)
    name = draw(st.sampled_from(["equal", "lt"]))
    looked = filtered(inner, call(name, col(0), col(draw(st.integers(0, 1)), outer=1)))
    match draw(st.sampled_from(["exists", "not exists", "exists in one of two", "in", "not in", "scalar", "value"])):
        case "exists in one of two":
            other = filtered(_below(draw, depth, around), call("lt", col(1), col(0, outer=1)))
            return filtered(below, subquery(ir.SubqueryKind.EXISTS, combine(ir.SetOperation.UNION_ALL, looked, other)))
        case "exists":
            return filtered(below, subquery(ir.SubqueryKind.EXISTS, looked))
        case "not exists":
            return filtered(below, call("not", subquery(ir.SubqueryKind.EXISTS, looked)))
        case "in":
            return filtered(below, subquery(ir.SubqueryKind.IN, project(inner, col(1)), col(0)))
        case "not in":
            return filtered(below, call("not", subquery(ir.SubqueryKind.IN, project(inner, col(1)), col(0))))
        case "scalar":
            least = aggregate(inner, (), measure("min", col(1)))
            return filtered(below, call("gte", col(0), subquery(ir.SubqueryKind.SCALAR, least)))
        case _:
            most = aggregate(looked, (), measure("max", col(1)))
            return project(below, col(0), subquery(ir.SubqueryKind.SCALAR, most))


def _loop(draw: Draw, depth: int, around: Sequence[int]) -> ir.Relation:
    return draw(loops(len(around) + 1, around, depth - 1))


_KINDS: Final[Mapping[str, Make]] = {
    "filter": _filter,
    "columns": _columns,
    "join": _join,
    "another join": _join,
    "cross": _cross,
    "single": _single,
    "distinct": _distinct,
    "group": _group,
    "total": _total,
    "set": _set,
    "top": _top,
    "window": _window,
    "subquery": _subquery,
    "loop": _loop,
}
