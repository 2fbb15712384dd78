"""Class of bug: a plan that a producer writes today is shifted in silence, where the stored plans of that producer are
right.

`make producers-venv` makes the environment in which these producers run: they need other releases of DuckDB and of
substrait than Tidegate. Without it the tests are skipped.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

import tidegate

from .live_producers import TABLES, Written, needed, written
from .outcomes import Outcome, answer, held_against

pytestmark = needed

IBIS_LACKS: Final = {
    "coalesce": "refused: NO_MATCHING_FUNCTION",  # the call has no arguments
    "inner join": "refused: WRONG_WIDTH",  # the projection above a join is not there
    "left join": "refused: WRONG_WIDTH",
}
"""What these plans lack, nothing in them tells."""

DUCKDB_LACKS: Final = {"SELECT k FROM t UNION SELECT k FROM u": "wrong: "}
"""The plan is the same as that of UNION ALL. Tidegate runs that, and warns."""

MOST_UNWRITTEN: Final = 10
"""The queries that each producer does not write itself."""


def outcomes(plans: Written, expected: Mapping[str, pa.Table]) -> dict[str, str]:
    """What does not come out right, by query: the reason of the refusal, or both answers."""
    others: dict[str, str] = {}
    with tidegate.local() as client:
        for query, table in expected.items():
            got = answer(client, base64.b64decode(plans[query]["plan"]), TABLES)
            result = held_against(got, table) if isinstance(got, pa.Table) else got
            if result.outcome is not Outcome.RIGHT:
                others[query] = f"{result.outcome}: {result.note}"
    return others


def test_plans_of_ibis_substrait() -> None:
    plans = written("ibis_writer.py")
    oracle = duckdb.connect()
    for name, table in TABLES.items():
        oracle.register(name, table)
    expected = {name: oracle.sql(plan["sql"]).to_arrow_table() for name, plan in plans.items() if "plan" in plan}
    assert len(expected) >= len(plans) - MOST_UNWRITTEN
    assert _unlike(outcomes(plans, expected), IBIS_LACKS) == {}


def test_plans_of_duckdb_s_extension(tmp_path: Path) -> None:
    for name, table in TABLES.items():
        pq.write_table(table, tmp_path / f"{name}.parquet")
    plans = written("duckdb_writer.py", str(tmp_path))
    expected = {query: pq.read_table(plan["answer"]) for query, plan in plans.items() if "plan" in plan}
    assert len(expected) >= len(plans) - MOST_UNWRITTEN
    assert _unlike(outcomes(plans, expected), DUCKDB_LACKS) == {}


def _unlike(others: Mapping[str, str], known: Mapping[str, str]) -> dict[str, str]:
    """The queries whose outcome is not the known one."""
    return {
        query: others.get(query, "right")
        for query in {**others, **known}
        if query not in known or not others.get(query, "right").startswith(known[query])
    }


def test_a_union_of_duckdb_comes_with_a_warning(tmp_path: Path) -> None:
    for name, table in TABLES.items():
        pq.write_table(table, tmp_path / f"{name}.parquet")
    (query,) = DUCKDB_LACKS
    plan = base64.b64decode(written("duckdb_writer.py", str(tmp_path))[query]["plan"])
    with tidegate.local() as client:
        assert any("UNION ALL" in warning for warning in client.warnings(plan))
