"""Real plans: TPC-H as four producers write it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tidegate.planner import ir
from tidegate.planner.decode import Decoded, decode_plan
from tidegate.planner.ir.tree import inputs
from tidegate.proto.errors import PlanError
from tidegate.proto.values import PlanBytes

from .plans import I64, plan, table

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


WHOLE = {"i64": {"nullability": "NULLABILITY_NULLABLE"}}
FLOAT = {"fp64": {"nullability": "NULLABILITY_NULLABLE"}}


def of_integers(producer: str, name: str, relation: str) -> ir.Relation:
    """A plan with a function of two columns of integers, or one, that the plan declares a float."""
    columns = [{"value": {"selection": {"directReference": {"structField": {"field": n}}}}} for n in (0, 1)]
    call = {"functionReference": 1, "outputType": FLOAT, "arguments": columns[: 1 + name.count("_")]}
    schema = {"names": ["a", "b"], "struct": {"types": [WHOLE, WHOLE], "nullability": "NULLABILITY_REQUIRED"}}
    read = {"read": {"baseSchema": schema, "namedTable": {"names": ["t"]}}}
    body = {
        "project": {"common": {"emit": {"outputMapping": [2]}}, "expressions": [{"scalarFunction": call}]},
        "aggregate": {"measures": [{"measure": {**call, "phase": "AGGREGATION_PHASE_INITIAL_TO_RESULT"}}]},
    }[relation]
    plan = {
        "version": {"minorNumber": 56, "producer": producer},
        "extensionUrns": [{"extensionUrnAnchor": 1, "urn": "extension:io.substrait:functions_arithmetic"}],
        "extensions": [{"extensionFunction": {"extensionUrnReference": 1, "functionAnchor": 1, "name": name}}],
        "relations": [{"root": {"input": {relation: {**body, "input": read}}, "names": ["x"]}}],
    }
    return decode_plan(PlanBytes(json=json.dumps(plan))).plan.root


def test_a_quotient_of_integers_is_a_float_where_ibis_wrote_it() -> None:
    root = of_integers("ibis-substrait", "divide:i64_i64", "project")
    assert isinstance(root, ir.Project)
    call = root.expressions[-1]
    assert isinstance(call, ir.Call)
    assert (call.function.signature, str(call.type)) == ("divide:fp64_fp64", "fp64?")


@pytest.mark.parametrize("producer", ["ibis-substrait", "DuckDB"])
def test_an_average_of_integers_is_a_float_where_the_producer_means_one(producer: str) -> None:
    root = of_integers(producer, "avg:i64", "aggregate")
    assert isinstance(root, ir.Aggregate)
    (measure,) = root.measures
    assert (measure.function.signature, str(measure.type)) == ("avg:fp64", "fp64?")


@pytest.mark.parametrize(("name", "relation"), [("divide:i64_i64", "project"), ("avg:i64", "aggregate")])
def test_a_function_of_integers_that_another_producer_declares_a_float_is_refused(name: str, relation: str) -> None:
    with pytest.raises(PlanError, match=r"gives i64\?, but the plan declares fp64"):
        of_integers("another", name, relation)


def constant_or_null(producer: str, *arguments: dict[str, object]) -> ir.Relation:
    call = {"functionReference": 1, "outputType": WHOLE, "arguments": [{"value": one} for one in arguments]}
    return decode_plan(
        PlanBytes(
            json=json.dumps(
                {
                    **plan({"project": {"input": table(I64), "expressions": [{"scalarFunction": call}]}}, ["x"]),
                    "version": {"minorNumber": 53, "producer": producer},
                    "extensions": [{"extensionFunction": {"functionAnchor": 1, "name": "constant_or_null"}}],
                }
            )
        )
    ).plan.root


COLUMN = {"selection": {"directReference": {"structField": {"field": 0}}, "rootReference": {}}}
ONE = {"literal": {"i64": 1}}


def test_constant_or_null_of_duckdb_is_null_where_another_argument_is() -> None:
    root = constant_or_null("DuckDB", ONE, COLUMN, COLUMN)
    assert isinstance(root, ir.Project)
    chosen = root.expressions[-1]
    assert isinstance(chosen, ir.IfThen)
    assert (len(chosen.clauses), str(chosen.type)) == (2, "i64?")


@pytest.mark.parametrize(
    ("producer", "arguments"), [("DuckDB", [ONE]), ("DuckDB", [COLUMN, ONE]), ("another", [ONE, ONE])]
)
def test_constant_or_null_is_refused_from_others_or_without_a_literal_first(
    producer: str, arguments: list[dict[str, object]]
) -> None:
    with pytest.raises(PlanError, match="constant_or_null"):
        constant_or_null(producer, *arguments)


def test_a_union_all_of_duckdb_may_be_a_union_and_is_said_to_be() -> None:
    inputs_ = [table(I64), table(I64, name="u")]
    plan_ = plan({"set": {"inputs": inputs_, "op": "SET_OP_UNION_ALL"}}, ["a"])
    assert not decode_plan(PlanBytes(json=json.dumps(plan_))).warnings
    (warning,) = decode_plan(PlanBytes(json=json.dumps({**plan_, "version": {"producer": "DuckDB"}}))).warnings
    assert "UNION as UNION ALL" in warning
