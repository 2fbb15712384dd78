"""Every public name of substrait.dataframe: its plans give what DuckDB answers to their SQL, or are refused by name."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator
from pathlib import Path
from types import CodeType
from typing import Final

import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.orc
import pyarrow.parquet
import pytest
import substrait.dataframe as sub

import tidegate

from ..duckdb_oracle import oracle
from .data_frame_cases import EXPRESSIONS, FRAMES, RIGHT, RIGHT_TYPES, TABLES, TYPES, Case, shown

CASES: Final = {**FRAMES, **EXPRESSIONS}
NO_PLANS: Final = {
    *("DataFrame", "DataType", "Expr", "ExtensionRegistry", "default_registry", "infer_literal_type", "named_struct"),
    *("ExtensionLeafDetail", "ExtensionSingleDetail", "ExtensionMultiDetail"),
    *("DataFrame.to_plan", "DataFrame.to_substrait"),
}
"""Names that add nothing to a plan of their own: classes, registries, and what writes every plan of these tests."""
APART: Final = {
    *("read_parquet", "read_csv", "read_orc", "read_arrow"),
    *("current_timestamp", "current_date", "current_timezone", "DataFrame.write_named_table"),
}
"""Names that have a test of their own below."""


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tidegate.Client]:
    with tidegate.local(roots=[str(tmp_path_factory.getbasetemp())]) as client:
        yield client


def rows(table: pa.Table) -> list[str]:
    return [repr(row) for row in zip(*(column.to_pylist() for column in table.columns), strict=True)]


def answer(client: tidegate.Client, case: Case) -> pa.Table:
    plan = case.frame().to_plan()
    with client.create_task(plan, parameters=case.parameters) as task:
        return task.run_epoch({name: [TABLES[name]] for name in task.sources}).table()


def names_in(code: CodeType) -> set[str]:
    inner = (names_in(constant) for constant in code.co_consts if isinstance(constant, CodeType))
    return {*code.co_names}.union(*inner)


@pytest.mark.parametrize("name", CASES)
def test_a_plan_of_the_name_has_the_rows_of_its_sql_or_is_refused(client: tidegate.Client, name: str) -> None:
    case = CASES[name]
    if case.refused:
        with pytest.raises(tidegate.PlanError) as refusal:
            answer(client, case)
        assert [problem.reason for problem in refusal.value.problems] == [case.refused]
        assert all(problem.place for problem in refusal.value.problems)
        return
    with oracle(TABLES) as connection:
        expected = [repr(row) for row in connection.sql(case.sql).fetchall()]
    got = rows(answer(client, case))
    assert (got == expected) if case.ordered else (sorted(got) == sorted(expected))


def test_every_public_name_has_a_case_that_uses_it() -> None:
    classes = {
        "DataFrame": sub.DataFrame,
        "Expr": sub.Expr,
        "GroupBy": type(sub.read_named_table("r", RIGHT_TYPES).group_by("j")),
    }
    methods = {f"{of}.{name}" for of, type_ in classes.items() for name in vars(type_) if not name.startswith("_")}
    assert {*sub.__all__, *methods} == {*CASES, *TYPES, *NO_PLANS, *APART} - {"When.when"}
    unused = {name for name, case in CASES.items() if name.rpartition(".")[2] not in names_in(case.frame.__code__)}
    assert not unused


@pytest.mark.parametrize("name", TYPES)
def test_a_column_of_the_type_passes_unchanged(client: tidegate.Client, name: str) -> None:
    type_, arrow, value = TYPES[name]
    table = pa.table({"c": pa.array([value, None], arrow)})
    names = ["c", "a", "b"] if name == "struct" else ["c"]
    type_ = type_() if callable(type_) else type_
    plan = sub.read_named_table("t", sub.named_struct(names, sub.struct([type_], nullable=False))).to_plan()
    assert rows(client.query(plan, {"t": table})) == rows(table)


@pytest.mark.parametrize(
    ("read", "write"),
    [
        (sub.read_parquet, pyarrow.parquet.write_table),
        (sub.read_csv, pyarrow.csv.write_csv),
        (sub.read_orc, pyarrow.orc.write_table),
        (sub.read_arrow, lambda table, path: pyarrow.feather.write_feather(table, path, "uncompressed")),
    ],
    ids=["parquet", "csv", "orc", "arrow"],
)
def test_a_file_that_the_plan_names_is_read(
    client: tidegate.Client, tmp_path: Path, read: Callable[..., sub.DataFrame], write: Callable[..., None]
) -> None:
    path = tmp_path / "rows"
    write(RIGHT, str(path))
    frame = read(str(path), RIGHT_TYPES).filter(sub.col("w") > 3)
    assert rows(client.query(frame.to_plan())) == rows(RIGHT.filter(pa.compute.greater(RIGHT["w"], 3)))


def test_a_written_table_has_the_rows_of_the_frame(client: tidegate.Client, tmp_path: Path) -> None:
    plan = sub.read_named_table("r", RIGHT_TYPES).write_named_table("copy").to_plan()
    with tidegate.local(roots=[str(tmp_path)], write_root=str(tmp_path)) as writer:
        assert writer.query(plan, {"r": RIGHT}).num_rows == 0
    [file] = tmp_path.rglob("*.parquet")
    assert rows(pyarrow.parquet.read_table(file)) == rows(RIGHT)


@pytest.mark.parametrize("current", [sub.current_timestamp, sub.current_date, sub.current_timezone])
def test_the_time_is_that_of_the_epoch(client: tidegate.Client, current: Callable[[], sub.Expr]) -> None:
    before = dt.datetime.now(dt.UTC)
    [value] = set(answer(client, Case(lambda: shown(current()))).column("e").to_pylist())
    after = dt.datetime.now(dt.UTC)
    if isinstance(value, dt.datetime):
        assert before <= value <= after
    elif isinstance(value, dt.date):
        assert before.date() <= value <= after.date()
    else:
        assert value == "UTC"
