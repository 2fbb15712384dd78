"""A lateral join whose right side only compares its rows with the left row runs as a join, and says the same."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Final

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tidegate.planner.rewrite as rewriting
from tidegate.planner import ir
from tidegate.planner.analysis.structure import Structure
from tidegate.planner.ir.visit import has
from tidegate.planner.rewrite.join_laterals import join_laterals
from tidegate.proto.errors import ExecutionError

from ...searching import tries
from ..build import I64, asc, call, col, eq, filtered, join, lit, plan, project, read, sort, subquery, table, topn
from ..changes.epochs import Epoch, Row, totals
from ..running import rows

MANY: Final = "More than one row"
Type = ir.JoinType
KEYS = st.none() | st.integers(0, 2)
ROWS = st.lists(st.tuples(KEYS, KEYS), max_size=6)
JOINED: Final = (Type.INNER, Type.LEFT, Type.LEFT_SEMI, Type.LEFT_ANTI, Type.LEFT_SINGLE)


def left() -> ir.Read:
    return read("l", k=I64, v=I64)


def right() -> ir.Read:
    return read("r", k=I64, w=I64)


def same_key(relation: ir.Relation) -> ir.Relation:
    return filtered(relation, eq(col(0), col(0, outer=1)))


def third() -> ir.Read:
    return read("s", k=I64, x=I64)


def exists(relation: ir.Relation) -> ir.Subquery:
    return subquery(ir.SubqueryKind.EXISTS, relation)


READS: Final = (left(), right(), third())


def rights() -> dict[str, Callable[[], ir.Relation]]:
    """Right sides by name. Columns: the right row's key and value; `outer=1` is the left row."""
    own = call("gt", col(1), lit(0))
    nearer = call("lt", col(1), col(1, outer=1))
    return {
        "an equality": lambda: same_key(right()),
        "an equality and a term of its own": lambda: filtered(right(), call("and", own, eq(col(0), col(0, outer=1)))),
        "filters above each other": lambda: filtered(filtered(same_key(right()), own), nearer),
        "no equality": lambda: filtered(right(), nearer),
        "a term of the left row alone": lambda: filtered(right(), call("gt", col(1, outer=1), lit(0))),
        "no left row": right,
        "a projection below": lambda: same_key(project(right(), col(0), call("add", col(1), lit(1)))),
        "an order below": lambda: same_key(sort(right(), asc(col(1)))),
        "a correlated query below": lambda: same_key(filtered(right(), exists(same_key(third())))),
    }


MARKS: Final = {
    "no condition": None,
    "a condition": call("is_true", call("lte", col(1), col(3))),
    "a condition that may be null": call("lte", col(1), col(3)),
    "values that may be null and are equal": eq(col(1), col(3)),
    "values of the right side first": eq(call("add", col(3), lit(1)), col(1)),
    "two terms": call("and", eq(col(1), col(3)), call("gt", col(3), lit(0))),
    "a value that is never null": eq(col(1), call("coalesce", col(3), lit(1))),
    "values of one side": eq(col(1), col(0)),
}


def of(type_: Type, name: str) -> ir.Relation:
    return join(left(), rights()[name](), type_, call("lte", col(1), col(3)), lateral=True)


def mark(name: str, condition: ir.Expression | None) -> ir.Relation:
    return join(left(), rights()[name](), Type.LEFT_MARK, condition, lateral=True)


def within(relation: ir.Relation) -> ir.Relation:
    """The lateral join in a query whose row its right side compares with, too."""
    matching = filtered(right(), call("and", eq(col(0), col(0, outer=1)), eq(col(1), col(1, outer=2))))
    return filtered(relation, exists(join(third(), matching, Type.LEFT, eq(col(0), col(2)), lateral=True)))


def asked_of_the_left_row(relation: ir.Relation) -> ir.Relation:
    return filtered(relation, exists(filtered(third(), eq(col(0), col(0, outer=2)))))


def answer(relation: ir.Relation, tables: dict[str, pa.Table]) -> Counter[Row] | str:
    try:
        return Counter(rows(plan(relation), tables))
    except duckdb.Error as error:
        return MANY if MANY in str(error) else str(error)


def as_written(relation: ir.Relation, tables: dict[str, pa.Table]) -> Counter[Row] | str:
    """The answer of the lateral join that DuckDB runs."""
    with pytest.MonkeyPatch.context() as patch:
        others = tuple(pass_ for pass_ in rewriting.REWRITES if pass_ is not join_laterals)
        patch.setattr(rewriting, "REWRITES", others)
        return answer(relation, tables)


def total_of(asked: ir.Plan, epochs: Sequence[Epoch]) -> Counter[Row] | str:
    """The answer of a continuous task."""
    try:
        *_, last = totals(asked, epochs)
    except ExecutionError as error:
        return MANY if "more than one match" in str(error) else str(error)
    return last


CASES: Final = [
    *(
        pytest.param(lambda type_=type_, name=name: of(type_, name), id=f"{type_.value}, {name}")
        for type_ in JOINED
        for name in rights()
    ),
    *(
        pytest.param(lambda name=name, on=on: mark(name, on), id=f"left_mark, {name}, {word}")
        for name in rights()
        for word, on in MARKS.items()
    ),
    pytest.param(lambda: within(left()), id="within a query"),
]


@pytest.mark.parametrize("make", CASES)
@settings(max_examples=tries(8))
@given(data=st.fixed_dictionaries({"l": ROWS, "r": ROWS, "s": ROWS}))
def test_the_join_says_what_the_lateral_join_says(make: Callable[[], ir.Relation], data: dict[str, list[Row]]) -> None:
    assert not has(join_laterals(plan(make())), ir.LateralJoin)
    tables = {read_.source: table(read_, data[read_.source]) for read_ in READS}
    assert answer(make(), tables) == as_written(make(), tables)


@pytest.mark.parametrize("make", CASES)
def test_changes_add_up_to_what_the_lateral_join_says(make: Callable[[], ir.Relation]) -> None:
    """A continuous task makes the join in a way of its own, and runs the join that is made of it here as well."""
    data: dict[str, list[Row]] = {
        "l": [(0, 1), (1, 2), (1, None), (None, 1), (2, 0)],
        "r": [(0, 2), (1, 2), (None, 1), (2, 0)],
        "s": [(1, 1), (0, 2)],
    }
    expected = as_written(make(), {read_.source: table(read_, data[read_.source]) for read_ in READS})
    epochs = [{name: [(row, 1) for row in added]} for name, added in data.items()]
    for asked in (plan(make()), join_laterals(plan(make()))):
        assert total_of(asked, epochs) == expected


@pytest.mark.parametrize(
    "make",
    [
        lambda: join(left(), project(same_key(right()), col(1)), Type.LEFT, None, lateral=True),
        lambda: join(left(), topn(same_key(right()), [asc(col(1))], 1), Type.LEFT, None, lateral=True),
        lambda: join(
            left(),
            filtered(right(), exists(filtered(third(), eq(col(0), col(0, outer=2))))),
            Type.INNER,
            None,
            lateral=True,
        ),
    ],
    ids=["a projection above", "first rows", "a query in the filter"],
)
def test_other_lateral_joins_stay(make: Callable[[], ir.Relation]) -> None:
    assert has(join_laterals(plan(make())), ir.LateralJoin)


def test_terms_of_the_right_row_alone_are_below_the_join() -> None:
    own = call("gt", col(1), lit(0))
    right_side = filtered(right(), call("and", eq(col(0), col(0, outer=1)), own))
    number = Structure().number
    joined = join_laterals(plan(join(left(), right_side, Type.LEFT, None, lateral=True))).root
    assert isinstance(joined, ir.Join)
    assert joined.condition is not None
    assert number(joined.condition) == number(eq(col(2), col(0)))
    assert isinstance(joined.right, ir.Filter)
    assert number(joined.right.condition) == number(own)
