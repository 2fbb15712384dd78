"""A condition that the filter below has asked already is not asked again."""

from __future__ import annotations

from tidegate.planner import ir
from tidegate.planner.ir.visit import relations
from tidegate.planner.rewrite.repeated_filters import drop_repeated_filters

from ..build import I64, call, col, eq, filtered, lit, plan, project, read, subquery


def positive(index: int) -> ir.Call:
    return call("gt", col(index), lit(0))


def small(index: int) -> ir.Call:
    return call("lt", col(index), lit(10))


def conditions(root: ir.Relation) -> list[ir.Filter]:
    dropped = drop_repeated_filters(plan(root)).root
    return [relation for relation in relations(dropped) if isinstance(relation, ir.Filter)]


def test_a_filter_directly_above_itself_goes() -> None:
    source = read("t", a=I64, b=I64)
    assert len(conditions(filtered(filtered(source, positive(1)), positive(1)))) == 1


def test_columns_are_followed_through_projections() -> None:
    picked = project(filtered(read("t", a=I64, b=I64), positive(1)), col(1), col(0))
    assert len(conditions(filtered(picked, positive(0)))) == 1
    assert len(conditions(filtered(picked, positive(1)))) == 2


def test_only_the_repeated_terms_of_a_conjunction_go() -> None:
    below = filtered(read("t", a=I64, b=I64), call("and", positive(0), small(1)))
    above, _ = conditions(filtered(below, call("and", small(1), small(0), positive(0))))
    assert isinstance(above.condition, ir.Call)
    assert above.condition.function.name == "lt"


def test_other_conditions_stay() -> None:
    below = filtered(read("t", a=I64, b=I64), positive(0))
    assert len(conditions(filtered(below, positive(1)))) == 2


def test_a_computed_projection_ends_the_search() -> None:
    computed = project(filtered(read("t", a=I64), positive(0)), call("add", col(0), lit(1)))
    assert len(conditions(filtered(computed, positive(0)))) == 2


def test_subqueries_are_asked_again() -> None:
    def among() -> ir.Subquery:
        matching = filtered(read("u", w=I64), eq(col(0), col(0, outer=1)))
        return subquery(ir.SubqueryKind.EXISTS, matching)

    repeated = filtered(filtered(read("t", a=I64), among()), among())
    dropped = drop_repeated_filters(plan(repeated)).root
    assert isinstance(dropped, ir.Filter)
    assert isinstance(dropped.input, ir.Filter)
