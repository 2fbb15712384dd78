"""Subqueries on changes say what DuckDB says of them, which runs them as they are written."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import closing
from typing import Final

import pyarrow as pa
import pytest

from tidegate.planner import ir
from tidegate.proto.errors import ExecutionError

from ...searching import SEARCHES
from ..build import (
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
    join,
    lit,
    measure,
    plan,
    project,
    read,
    sort,
    subquery,
    topn,
    window,
    window_call,
)
from ..running import rows
from .epochs import Epoch, Row, Running, recomputed, totals

Kind = ir.SubqueryKind
Type = ir.JoinType


def outer() -> ir.Read:
    return read("o", k=I64, v=I64)


def inner() -> ir.Read:
    return read("t", k=I64, x=I64)


def third() -> ir.Read:
    return read("s", k=I64, y=I64)


def same_key(relation: ir.Relation, level: int = 1) -> ir.Relation:
    return filtered(relation, eq(col(0), col(0, outer=level)))


def values(relation: ir.Relation) -> ir.Relation:
    return project(relation, col(1))


def total(relation: ir.Relation, *names: str) -> ir.Relation:
    measures = (measure(name, col(1)) for name in names)
    return aggregate(relation, [], *measures)


def count(relation: ir.Relation) -> ir.Relation:
    return aggregate(relation, [], measure("count"))


def scalar(relation: ir.Relation) -> ir.Subquery:
    return subquery(Kind.SCALAR, relation)


def exists(relation: ir.Relation) -> ir.Subquery:
    return subquery(Kind.EXISTS, relation)


def within(needle: ir.Expression, relation: ir.Relation) -> ir.Subquery:
    return _nullable(subquery(Kind.IN, relation, needle))


def compared(kind: Kind, comparison: ir.Comparison, needle: ir.Expression, relation: ir.Relation) -> ir.Subquery:
    return _nullable(subquery(kind, relation, needle, comparison=comparison))


def _nullable(subquery_: ir.Subquery) -> ir.Subquery:
    assert subquery_.type.nullable
    return subquery_


def no(expression: ir.Expression) -> ir.Expression:
    return call("not", expression)


def where(condition: ir.Expression) -> ir.Relation:
    return filtered(outer(), condition)


def shown(value: ir.Expression) -> ir.Relation:
    return project(outer(), col(0), col(1), value)


def twice(value: ir.Expression) -> ir.Relation:
    return project(outer(), col(1), value, value)


def lateral(type_: Type, right: ir.Relation, condition: ir.Expression | None = None) -> ir.Relation:
    return join(outer(), right, type_, condition, lateral=True)


LESS: Final = ir.Comparison.LT
EVEN: Final = eq(call("modulus", col(1), lit(2)), lit(0))

FILTERS: Final[dict[str, Callable[[], ir.Relation]]] = {
    "exists anything": lambda: where(exists(inner())),
    "exists nothing": lambda: where(no(exists(inner()))),
    "exists with the key": lambda: where(exists(same_key(inner()))),
    "exists none with the key": lambda: where(no(exists(same_key(inner())))),
    "exists with a limit": lambda: where(exists(fetch(same_key(inner()), 1))),
    "exists with a greater value": lambda: where(
        exists(filtered(same_key(inner()), call("gt", col(1), col(1, outer=1))))
    ),
    "exists none with another value": lambda: where(
        no(
            exists(
                filtered(inner(), call("and", eq(col(0), col(0, outer=1)), call("not_equal", col(1), col(1, outer=1))))
            )
        )
    ),
    "exists in a join": lambda: where(
        exists(filtered(join(inner(), third(), Type.INNER, eq(col(0), col(2))), eq(col(1), col(1, outer=1))))
    ),
    "exists a group": lambda: where(
        exists(filtered(aggregate(same_key(inner()), [col(1)], measure("count")), call("gt", col(1), lit(1))))
    ),
    "exists an aggregate": lambda: where(exists(total(same_key(inner()), "sum"))),
    "in": lambda: where(within(col(1), values(inner()))),
    "not in": lambda: where(no(within(col(1), values(inner())))),
    "in those of the key": lambda: where(within(col(1), values(same_key(inner())))),
    "not in those of the key": lambda: where(no(within(col(1), values(same_key(inner()))))),
    "not in those of the key or more": lambda: where(
        no(within(col(1), values(filtered(inner(), call("gte", col(0), col(0, outer=1))))))
    ),
    "not in an expression": lambda: where(no(within(call("add", col(1), lit(1)), values(inner())))),
    "in an aggregate": lambda: where(within(col(1), total(same_key(inner()), "max"))),
    "not in an aggregate": lambda: where(no(within(col(1), count(same_key(inner()))))),
    "two needles in": lambda: where(_nullable(subquery(Kind.IN, inner(), col(0), col(1)))),
    "two needles not in": lambda: where(no(_nullable(subquery(Kind.IN, inner(), col(0), col(1))))),
    "less than any": lambda: where(compared(Kind.ANY, LESS, col(1), values(inner()))),
    "not less than any": lambda: where(no(compared(Kind.ANY, LESS, col(1), values(inner())))),
    "less than all": lambda: where(compared(Kind.ALL, LESS, col(1), values(inner()))),
    "not less than all": lambda: where(no(compared(Kind.ALL, LESS, col(1), values(inner())))),
    "less than all of the key": lambda: where(compared(Kind.ALL, LESS, col(1), values(same_key(inner())))),
    "unequal to all": lambda: where(compared(Kind.ALL, ir.Comparison.NE, col(1), values(inner()))),
    "one or another": lambda: where(call("or", exists(same_key(inner())), within(col(1), values(third())))),
    "not both": lambda: where(no(call("and", within(col(1), values(inner())), exists(same_key(third()))))),
    "more than the average": lambda: where(call("gt", col(1), scalar(total(inner(), "avg")))),
    "equal to the greatest": lambda: where(eq(col(1), scalar(total(inner(), "max")))),
    "more than the key's least": lambda: where(call("gt", col(1), scalar(total(same_key(inner()), "min")))),
    "as many as the key's": lambda: where(eq(call("modulus", col(1), lit(3)), scalar(count(same_key(inner()))))),
    "no key's": lambda: where(call("is_null", scalar(total(same_key(inner()), "sum")))),
    "between two": lambda: where(
        call("lt", scalar(total(inner(), "min")), call("subtract", scalar(total(third(), "max")), col(1)))
    ),
    "unique": lambda: where(subquery(Kind.UNIQUE, inner())),
    "unique of the key": lambda: where(subquery(Kind.UNIQUE, same_key(inner()))),
    "a subquery in one": lambda: where(
        within(col(1), values(filtered(same_key(inner()), call("gt", col(1), scalar(total(same_key(third()), "min"))))))
    ),
    "a subquery that looks two rows out": lambda: where(
        exists(filtered(inner(), call("gt", col(1), scalar(total(same_key(third(), 2), "min")))))
    ),
    "needles that are subqueries": lambda: where(within(scalar(total(same_key(third()), "max")), values(inner()))),
}

VALUES: Final[dict[str, Callable[[], ir.Relation]]] = {
    "scalar": lambda: shown(scalar(total(inner(), "sum"))),
    "scalar of the key": lambda: shown(scalar(total(same_key(inner()), "sum"))),
    "count of the key": lambda: shown(scalar(count(same_key(inner())))),
    "made of two aggregates": lambda: shown(
        scalar(
            project(
                aggregate(same_key(inner()), [], measure("count", col(1)), measure("sum", col(1))),
                call("add", col(0), call("coalesce", col(1), lit(100))),
            )
        )
    ),
    "a constant beside an aggregate": lambda: shown(scalar(project(total(same_key(inner()), "sum"), lit(5)))),
    "from the outer row": lambda: shown(
        scalar(project(total(same_key(inner()), "sum"), call("add", col(0), col(1, outer=1))))
    ),
    "distinct count of nulls matched": lambda: shown(
        scalar(
            aggregate(
                filtered(inner(), call("is_not_distinct_from", col(0), col(0, outer=1))),
                [],
                measure("count", col(1), distinct=True),
            )
        )
    ),
    "the only one": lambda: shown(scalar(values(aggregate(same_key(inner()), [col(0)], measure("max", col(1)))))),
    "the first": lambda: shown(scalar(values(topn(same_key(inner()), [desc(col(1))], 1)))),
    "the second": lambda: shown(scalar(values(fetch(sort(same_key(inner()), asc(col(1))), 1, 1)))),
    "a constant for the only one": lambda: shown(
        scalar(project(aggregate(same_key(inner()), [col(0)], measure("count")), lit(7)))
    ),
    "the outer row's own for the only one": lambda: shown(
        scalar(project(aggregate(same_key(inner()), [col(0)], measure("count")), col(1, outer=1)))
    ),
    "ranked": lambda: shown(
        scalar(
            aggregate(
                window(same_key(inner()), window_call("rank", sorts=(asc(col(1)),))),
                [],
                measure("sum", col(2)),
            )
        )
    ),
    "in": lambda: shown(within(col(1), values(inner()))),
    "in those of the key": lambda: shown(within(col(1), values(same_key(inner())))),
    "exists": lambda: shown(exists(same_key(inner()))),
    "two needles": lambda: shown(_nullable(subquery(Kind.IN, inner(), col(0), col(1)))),
    "any": lambda: shown(compared(Kind.ANY, LESS, col(1), values(same_key(inner())))),
    "all": lambda: shown(compared(Kind.ALL, LESS, col(1), values(inner()))),
    "unique": lambda: shown(subquery(Kind.UNIQUE, same_key(inner()))),
    "in a case": lambda: shown(case(within(col(1), values(inner())), scalar(total(third(), "max")), col(0))),
    "as a group's key": lambda: aggregate(outer(), [scalar(count(same_key(inner())))], measure("sum", col(1))),
    "as a measure's argument": lambda: aggregate(outer(), [col(0)], measure("sum", scalar(count(same_key(inner()))))),
    "as a sort's key": lambda: topn(outer(), [desc(scalar(count(same_key(inner())))), asc(col(0)), asc(col(1))], 2),
    "in a window": lambda: window(
        outer(), window_call("rank", partitions=(scalar(count(same_key(inner()))),), sorts=(asc(col(1)),))
    ),
    "twice": lambda: twice(scalar(count(same_key(inner())))),
}

JOINS: Final[dict[str, Callable[[], ir.Relation]]] = {
    **{
        f"{type_.value} on what the left row's subquery says": lambda type_=type_: join(
            outer(), third(), type_, call("and", eq(col(0), col(2)), exists(same_key(inner())))
        )
        for type_ in (Type.INNER, Type.LEFT, Type.OUTER, Type.LEFT_SEMI, Type.RIGHT_ANTI)
    },
    **{
        f"{type_.value} on what the right row's subquery says": lambda type_=type_: join(
            outer(),
            third(),
            type_,
            call(
                "and",
                eq(col(0), col(2)),
                call("gte", col(3), scalar(count(filtered(inner(), eq(col(0), col(2, outer=1)))))),
            ),
        )
        for type_ in (Type.INNER, Type.LEFT, Type.RIGHT, Type.LEFT_ANTI, Type.RIGHT_SEMI)
    },
    "inner on what both rows' subquery says": lambda: join(
        outer(), third(), Type.INNER, exists(filtered(same_key(inner()), eq(col(1), col(3, outer=1))))
    ),
    **{
        f"lateral {type_.value}": lambda type_=type_: lateral(type_, same_key(inner()), call("lt", col(1), col(3)))
        for type_ in (Type.INNER, Type.LEFT, Type.LEFT_SEMI, Type.LEFT_ANTI, Type.LEFT_MARK)
    },
    **{
        f"lateral {type_.value} of an aggregate": lambda type_=type_: lateral(
            type_, total(same_key(inner()), "count", "max"), call("lt", col(1), col(2))
        )
        for type_ in (Type.INNER, Type.LEFT, Type.LEFT_SEMI, Type.LEFT_ANTI, Type.LEFT_MARK, Type.LEFT_SINGLE)
    },
    "lateral with a constant": lambda: lateral(
        Type.LEFT, project(same_key(inner()), col(1), case(lit(True), lit(3)), call("add", col(1), col(1, outer=1)))
    ),
    "lateral with the left row's own": lambda: lateral(Type.LEFT, project(same_key(inner()), col(1, outer=1))),
    "lateral first rows": lambda: lateral(Type.LEFT, topn(same_key(inner()), [asc(col(1))], 2)),
    "lateral in a lateral": lambda: lateral(
        Type.INNER, join(same_key(inner()), count(same_key(third())), Type.LEFT, None, lateral=True)
    ),
    "lateral that looks nowhere": lambda: lateral(Type.INNER, inner(), eq(col(0), col(2))),
}

SOURCES: Final = {"o": ("k", "v"), "t": ("k", "x"), "s": ("k", "y")}


def history(seed: int) -> list[Epoch]:
    """Epochs that add rows, and take away some of those that are there; the last one all of one source's."""
    chance = random.Random(seed)
    there: dict[str, list[Row]] = {name: [] for name in SOURCES}
    epochs: list[Epoch] = []
    for _ in range(5 if SEARCHES else 3):
        epoch: dict[str, list[tuple[Row, int]]] = {}
        for name, present in there.items():
            chance.shuffle(present)
            gone = [present.pop() for _ in range(chance.randint(0, len(present)))]
            added = [
                (chance.choice([None, 1, 2, 3]), chance.choice([None, 0, 1, 2, 3, 4]))
                for _ in range(chance.choice([0, 1, 4, 8]))
            ]
            present.extend(added)
            epoch[name] = [*((row, 1) for row in added), *((row, -1) for row in gone)]
        epochs.append(epoch)
    emptied = chance.choice(list(SOURCES))
    epochs.append({emptied: [(row, -1) for row in there[emptied]]})
    return epochs


def answer(relation: ir.Relation, epochs: Sequence[Epoch]) -> Counter[Row]:
    """What DuckDB says of all rows that are there after these epochs."""
    counts: dict[str, Counter[Row]] = {name: Counter() for name in SOURCES}
    for epoch in epochs:
        for name, changed in epoch.items():
            for row, weight in changed:
                counts[name][row] += weight
    tables = {
        name: pa.table(
            [pa.array([row[at] for row in count.elements()], pa.int64()) for at in range(2)], names=SOURCES[name]
        )
        for name, count in counts.items()
    }
    return Counter(rows(plan(relation), tables))


CASES: Final = [
    *(pytest.param(make, id=f"filter: {name}") for name, make in FILTERS.items()),
    *(pytest.param(make, id=f"value: {name}") for name, make in VALUES.items()),
    *(pytest.param(make, id=f"join: {name}") for name, make in JOINS.items()),
]


@pytest.mark.parametrize("make", CASES)
def test_changes_add_up_to_the_answer(make: Callable[[], ir.Relation]) -> None:
    relation, epochs = make(), history(seed=1)
    for number, total_so_far in enumerate(totals(plan(relation), epochs), 1):
        assert total_so_far == answer(relation, epochs[:number])


@pytest.mark.parametrize("make", CASES)
def test_nothing_of_it_is_computed_again(make: Callable[[], ir.Relation]) -> None:
    assert recomputed(plan(make())) == []


def run(relation: ir.Relation, *epochs: Epoch) -> Counter[Row]:
    """What all changes of these epochs come to."""
    *_, last = totals(plan(relation), epochs)
    return last


def test_a_count_is_zero_again_when_the_last_row_it_counts_goes() -> None:
    relation = shown(scalar(count(same_key(inner()))))
    there = {"o": [((1, 10), 1)], "t": [((1, 5), 1)]}
    assert run(relation, there) == {(1, 10, 1): 1}
    assert run(relation, there, {"t": [((1, 5), -1)]}) == {(1, 10, 0): 1}


def test_a_null_among_the_values_leaves_nothing_that_is_not_in_them_until_it_goes() -> None:
    relation = where(no(within(col(1), values(inner()))))
    there = {"o": [((1, 10), 1), ((2, None), 2)], "t": [((1, 5), 1)]}
    assert run(relation, there) == {(1, 10): 1}
    assert run(relation, there, {"t": [((1, None), 1)]}) == {}
    assert run(relation, there, {"t": [((1, None), 1)]}, {"t": [((1, None), -1)]}) == {(1, 10): 1}


def test_a_null_is_not_in_nothing() -> None:
    relation = where(no(within(col(1), values(inner()))))
    there = {"o": [((1, None), 1)], "t": [((1, 5), 1)]}
    assert run(relation, there) == {}
    assert run(relation, there, {"t": [((1, 5), -1)]}) == {(1, None): 1}


def test_copies_of_a_row_that_meets_copies_stay_as_many_as_they_were() -> None:
    total = run(where(exists(same_key(inner()))), {"o": [((1, 10), 3)], "t": [((1, 5), 2), ((1, 6), 1)]})
    assert total == {(1, 10): 3}


@pytest.mark.parametrize("asked", [values(inner()), values(same_key(inner()))])
def test_a_scalar_of_two_rows_fails_at_the_end_of_the_epoch(asked: ir.Relation) -> None:
    with pytest.raises(ExecutionError, match="more than one"):
        run(shown(scalar(asked)), {"o": [((1, 10), 1)], "t": [((1, 5), 1), ((1, 6), 1)]})


def test_a_scalar_of_two_rows_for_a_while_within_an_epoch_is_the_one_that_is_left() -> None:
    there = {"o": [((1, 10), 1)], "t": [((1, 5), 1)]}
    moved = {"t": [((1, 6), 1), ((1, 5), -1)]}
    assert run(shown(scalar(values(same_key(inner())))), there, moved) == {(1, 10, 6): 1}


@pytest.mark.parametrize(
    ("relation", "why"),
    [
        (
            shown(scalar(total(filtered(inner(), call("lt", col(0), col(0, outer=1))), "sum"))),
            "more than equalities with the outer row",
        ),
        (
            where(exists(combine(ir.SetOperation.UNION_ALL, same_key(inner()), same_key(third())))),
            "below a set operation",
        ),
        (
            where(exists(join(inner(), same_key(third()), Type.LEFT, eq(col(0), col(2))))),
            "the right side of a left join reads the outer row",
        ),
        (
            where(
                exists(
                    filtered(
                        cross(inner(), third()), call("and", eq(col(1), col(0, outer=1)), eq(col(3), col(1, outer=1)))
                    )
                )
            ),
            "tables meet only by way of the outer row",
        ),
    ],
)
def test_what_cannot_be_a_join_is_computed_again_and_says_why(relation: ir.Relation, why: str) -> None:
    [reason] = recomputed(plan(relation))
    assert why in reason
    *_, last = totals(plan(relation), history(seed=1))
    assert last == answer(relation, history(seed=1))


FOLLOWING: Final[dict[str, Callable[[], ir.Relation]]] = {
    "exists with the key": lambda: where(exists(same_key(inner()))),
    "not in": lambda: where(no(within(col(1), values(inner())))),
    "in those of the key": lambda: shown(within(col(1), values(same_key(inner())))),
    "count of the key": lambda: shown(scalar(count(same_key(inner())))),
    "more than the key's least": lambda: where(call("gt", col(1), scalar(total(same_key(inner()), "min")))),
    "equal to the greatest": lambda: where(eq(col(1), scalar(total(inner(), "max")))),
    "lateral first rows": lambda: lateral(Type.LEFT, topn(same_key(inner()), [asc(col(1))], 2)),
}


@pytest.mark.parametrize("make", [pytest.param(make, id=name) for name, make in FOLLOWING.items()])
def test_a_change_touches_as_much_of_ten_times_the_state(make: Callable[[], ir.Relation]) -> None:
    assert touched(make(), 20_000) <= 1.3 * touched(make(), 2_000)


def touched(relation: ir.Relation, size: int) -> int:
    """Rows of state that are looked at where both sides have `size` rows, and a few of each move and a row comes."""
    every = [((number, number), 1) for number in range(size)]
    moved = [change for at in range(50) for change in (((at, at), -1), ((at + 1, at), 1))]
    with closing(Running(plan(relation))) as running:
        running.epoch({"o": every, "t": every})
        before = running.touched()
        running.epoch({"o": moved, "t": moved})
        running.epoch({"o": [((size, size + 1), 1)], "t": [((size, size + 1), 1)]})
        return running.touched() - before
