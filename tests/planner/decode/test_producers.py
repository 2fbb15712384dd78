"""Real plans: TPC-H as four producers write it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tidegate.planner import ir
from tidegate.planner.decode import Decoded, decode_plan
from tidegate.planner.ir.tree import inputs
from tidegate.proto.values import PlanBytes

PLANS = Path(__file__).parents[2] / "conformance" / "plans"
TABLES = {"customer", "lineitem", "nation", "orders", "part", "partsupp", "region", "supplier"}


def decode(path: str) -> Decoded:
    return decode_plan(PlanBytes(binary=(PLANS / path).read_bytes()))


def sources(relation: ir.Relation) -> set[str]:
    own = {relation.source} if isinstance(relation, ir.Read) else set()
    return own.union(*(sources(child) for child in inputs(relation)))


@pytest.mark.parametrize("path", sorted(str(p.relative_to(PLANS)) for p in PLANS.glob("*/*.bin")))
def test_every_plan_decodes_with_a_name_for_every_column(path: str) -> None:
    plan = decode(path).plan
    assert len(plan.names) == len(plan.root.schema)
    assert {name.lower() for name in sources(plan.root)} <= TABLES
    assert sources(plan.root)


def test_all_plans_are_there() -> None:
    assert len(list(PLANS.glob("*/*.bin"))) == 79


def test_the_producer_is_kept() -> None:
    assert decode("duckdb/q01.bin").plan.producer == "DuckDB"


def test_duckdb_projections_replace_their_input() -> None:
    assert len(decode("duckdb/q01.bin").plan.root.schema) == 10


def test_a_reference_that_ibis_lost_is_read_as_the_row_around_and_said_so() -> None:
    (warning,) = decode("ibis/q17.bin").warnings
    assert "no column 16 in the subquery; Tidegate reads the column of the enclosing row" in warning


def test_a_not_like_that_duckdb_wrote_as_not_equal_is_read_as_such_and_said_so() -> None:
    (warning,) = decode("duckdb/q13.bin").warnings
    assert "writes NOT LIKE as not_equal" in warning


def test_a_not_equal_of_duckdb_is_itself_where_its_text_is_no_pattern() -> None:
    assert not decode("duckdb/q12.bin").warnings
