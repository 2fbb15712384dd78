"""A plan that DuckDB refuses is refused when it is validated, and gets no task."""

from __future__ import annotations

import json
from pathlib import Path

import datafusion
import pyarrow as pa
import pytest
import substrait.dataframe as sub
from datafusion.substrait import Serde

import tidegate
from tidegate.operators.duckdb.instances import Instance, InstanceSettings
from tidegate.operators.duckdb.statement import refusal
from tidegate.planner.analysis.vocabulary import vocabulary
from tidegate.planner.decode import decode_plan
from tidegate.proto.errors import PlanError
from tidegate.proto.values import Mode, PlanBytes

TEXT, NUMBER = {"string": {"nullability": "NULLABILITY_NULLABLE"}}, {"i64": {"nullability": "NULLABILITY_NULLABLE"}}


def joined_texts(*, distinct: bool, by: int = 0, separator: str = ",") -> PlanBytes:
    """The texts of column b joined, in the order of column `by`."""
    struct = {"types": [NUMBER, TEXT], "nullability": "NULLABILITY_REQUIRED"}
    source = {"baseSchema": {"names": ["a", "b"], "struct": struct}, "namedTable": {"names": ["t"]}}
    a, b = (
        {"selection": {"directReference": {"structField": {"field": index}}, "rootReference": {}}} for index in (0, 1)
    )
    measure = {
        "functionReference": 1,
        "arguments": [{"value": b}, {"value": {"literal": {"string": separator}}}],
        "outputType": TEXT,
        "invocation": f"AGGREGATION_INVOCATION_{'DISTINCT' if distinct else 'ALL'}",
        "sorts": [{"expr": (a, b)[by], "direction": "SORT_DIRECTION_ASC_NULLS_LAST"}],
        "phase": "AGGREGATION_PHASE_INITIAL_TO_RESULT",
    }
    aggregate = {"input": {"read": source}, "measures": [{"measure": measure}]}
    document = {
        "extensions": [{"extensionFunction": {"functionAnchor": 1, "name": "string_agg"}}],
        "relations": [{"root": {"names": ["x"], "input": {"aggregate": aggregate}}}],
    }
    return PlanBytes(json=json.dumps(document))


def words(plan: PlanBytes) -> frozenset[int]:
    return vocabulary(decode_plan(plan).plan)


def test_a_concat_of_more_texts_than_duckdb_nests_expressions_runs() -> None:
    texts = sub.read_named_table("s", {"x": sub.string})
    plan = texts.select(sub.f.concat(*(sub.col("x") for _ in range(1_200))).alias("y")).to_plan()
    with tidegate.local() as client:
        answer = client.query(plan, {"s": pa.table({"x": ["a", None]})}, determinism="strict")
        assert answer.to_pydict() == {"y": ["a" * 1_200, None]}


@pytest.mark.parametrize("mode", list(Mode))
def test_a_format_from_a_column_gets_no_task(mode: Mode) -> None:
    table = sub.read_named_table("t", {"s": sub.string, "form": sub.string})
    plan = table.select(sub.f.strptime_date(sub.col("s"), sub.col("form")).alias("d")).to_plan()
    with tidegate.local() as client, pytest.raises(PlanError, match="the format must be a constant") as refused:
        client.create_task(plan, mode=mode)
    [problem] = refused.value.problems
    assert problem.place == "relations[0].root.input.project.expressions[0].scalar_function"


@pytest.mark.parametrize("by", [" GROUP BY k", ""])
def test_hundreds_of_distinct_counts_run(by: str) -> None:
    """The service would not get beyond their planning if DuckDB made a join for each."""
    counts = range(1, 220)
    sql = f"SELECT {', '.join(f'count(DISTINCT x % {at}) AS c{at}' for at in counts)} FROM n{by}"
    rows = pa.table({"k": [at % 2 for at in range(20)], "x": [*range(20)]})
    context = datafusion.SessionContext()
    context.register_record_batches("n", [rows.to_batches()])
    groups = ([*range(0, 20, 2)], [*range(1, 20, 2)]) if by else ([*range(20)],)
    with tidegate.local() as client:
        answer = client.query(Serde.serialize_bytes(sql, context), {"n": rows}, determinism="strict").to_pylist()
    expected = [{f"c{at}": len({x % at for x in group}) for at in counts} for group in groups]
    assert sorted(answer, key=repr) == sorted(expected, key=repr)


@pytest.mark.parametrize("mode", list(Mode))
def test_distinct_texts_in_the_order_of_another_column_get_no_task(mode: Mode) -> None:
    plan = joined_texts(distinct=True)
    with tidegate.local() as client:
        (problem,) = client.validate(plan, mode=mode)
        assert (problem.reason, problem.place) == ("REFUSED_BY_DUCKDB", "relations[0].root.input.aggregate")
        assert "ORDER BY" in problem.message
        with pytest.raises(PlanError, match="DuckDB refuses"):
            client.create_task(plan, mode=mode)
        assert not client.tasks()
        assert not client.validate(joined_texts(distinct=True, by=1), mode=mode)


@pytest.mark.parametrize(
    ("sql", "reason"),
    [
        ("SELECT no_such_function(1)", "no_such_function"),
        ("SELECT c9 FROM (SELECT 1) AS r(c0)", "c9"),
        ("SELECT 1 FROM", "syntax"),
        ("SELECT 'a' + [1]", "No function matches"),
    ],
)
def test_a_refusal_gives_the_reason_of_duckdb_in_one_line(sql: str, reason: str, tmp_path: Path) -> None:
    instance = Instance(InstanceSettings(memory_limit=64 << 20), str(tmp_path))
    try:
        assert refusal(instance, "SELECT 1", (), None) is None
        refused = refusal(instance, sql, (), None)
        assert refused is not None
        assert reason.casefold() in refused.casefold()
        assert "\n" not in refused
        assert instance.idle
    finally:
        instance.close()


def test_the_vocabulary_tells_uses_of_a_function_apart_and_knows_them_again() -> None:
    assert words(joined_texts(distinct=True)) == words(joined_texts(distinct=True))
    assert not words(joined_texts(distinct=True)) <= words(joined_texts(distinct=False))
    assert not words(joined_texts(distinct=True)) <= words(joined_texts(distinct=True, by=1))
    assert not words(joined_texts(distinct=False, separator=";")) <= words(joined_texts(distinct=False))
