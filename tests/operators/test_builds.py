"""Strict joins whose order could not be repeated are run again in order, or refused; others are left alone."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tidegate.operators.duckdb.fragment import Fragment
from tidegate.operators.duckdb.instances import Instance, InstancePool, InstanceSettings
from tidegate.operators.duckdb.statement_inputs import StreamSource
from tidegate.operators.sources.file_relations import FileSource
from tidegate.proto.errors import ExecutionError
from tidegate.proto.values import Spill

from .data import column, pieces_of, run, stream, write

MEMORY = 64 << 20
JOIN = "SELECT in0.c0 FROM in0 JOIN in1 ON in0.c0 = in1.c0"
X = pa.schema([("x", pa.int64())])


@pytest.fixture
def small(pool: InstancePool) -> Instance:
    return pool.take(InstanceSettings(memory_limit=MEMORY))


def numbers(rows: int) -> pa.Table:
    return pa.table({"x": np.arange(rows)})


def join(instance: Instance, sizes: tuple[int, int], *, sql: str = JOIN, **how: Any) -> Fragment:
    sources = [StreamSource(relation=f"in{i}", schema=X, size_class=size) for i, size in enumerate(sizes)]
    return Fragment(sql, schema=X, instance=instance, streams=sources, plan_path="relations[0].join", **how)


@dataclass(frozen=True)
class Backwards:
    """An ordered form whose order no join has by itself."""

    sql: str = f"{JOIN} ORDER BY 1 DESC"
    joins: tuple[str, ...] = ("relations[0].join",)
    builds: bool | None = True


def values(fragment: Fragment, *tables: pa.Table) -> list[int]:
    return [value for batch in fragment.run([stream(table) for table in tables]) for value in batch["x"].to_pylist()]


def test_a_small_build_beside_a_large_probe_is_run(small: Instance) -> None:
    fragment = join(small, (10_000_000, 100))
    assert [row["x"] for row in run(fragment, numbers(1_000_000), numbers(3))] == [0, 1, 2]


def test_a_build_beyond_a_quarter_of_the_memory_is_refused_by_name(small: Instance) -> None:
    fragment = join(small, (1_000_000, 1_000_000))
    with pytest.raises(
        ExecutionError, match=r"^relations\[0\]\.join: the join on c0 = c0 keeps about .*16 MiB"
    ) as caught:
        run(fragment, numbers(900_000), numbers(900_000))
    assert caught.value.reason == "JOIN_BUILD_TOO_LARGE"


def test_relaxed_it_runs(small: Instance) -> None:
    fragment = join(small, (1_000_000, 1_000_000), strict=False)
    assert sum(len(batch) for batch in fragment.run([stream(numbers(900_000)), stream(numbers(900_000))])) == 900_000


def test_sums_and_sorts_may_be_larger(small: Instance) -> None:
    sql = "SELECT c0 FROM in0 GROUP BY c0 UNION ALL (SELECT c0 FROM in1 ORDER BY c0)"
    fragment = join(small, (1_000_000, 1_000_000), sql=sql)
    rows = sum(len(batch) for batch in fragment.run([stream(numbers(900_000)), stream(numbers(900_000))]))
    assert rows == 1_800_000


def test_groups_over_files_may_be_larger(pool: InstancePool, root: Path) -> None:
    small = pool.take(InstanceSettings(memory_limit=MEMORY, roots=(str(root),)))
    path = write(root / "f.parquet", numbers(1_500_000), row_group_size=100_000)
    columns = (column("x", pa.int64()),)
    files = [FileSource(source="t", relation="t", columns=columns)]
    fragment = Fragment("SELECT c0 FROM t GROUP BY c0", schema=X, instance=small, files=files)
    fragment.assign("t", pieces_of(path, root))
    assert sum(len(batch) for batch in fragment.run(())) == 1_500_000
    small.close()


def test_inputs_that_are_larger_than_they_said_are_refused_too(small: Instance) -> None:
    fragment = join(small, (100, 100))
    with pytest.raises(ExecutionError, match="relaxed") as caught:
        run(fragment, numbers(900_000), numbers(900_000))
    assert caught.value.reason == "JOIN_BUILD_TOO_LARGE"


def test_long_texts_below_a_sum_are_refused_too(small: Instance) -> None:
    """The join's hash table is gone when the sum has its row."""
    texts = pa.table({"x": ["a" * 5_000 + str(i) for i in range(5_000)]})
    for size_class, sql in ((1_000, "count(*)"), (4_000, "min(length(in0.c0))")):
        sources = [StreamSource(relation=f"in{i}", schema=texts.schema, size_class=size_class) for i in range(2)]
        sql = f"SELECT {sql} FROM in0 JOIN in1 ON in0.c0 = in1.c0"
        fragment = Fragment(sql, schema=X, instance=small, streams=sources)
        with pytest.raises(ExecutionError, match="relaxed"):
            run(fragment, texts, texts)


def test_a_refusal_leaves_nothing_behind(small: Instance) -> None:
    fragment = join(small, (1_000_000, 1_000_000))
    with pytest.raises(ExecutionError):
        run(fragment, numbers(900_000), numbers(900_000))
    assert run(fragment, numbers(2), numbers(2)) == [{"x": 0}, {"x": 1}]
    assert small.hash_table_bytes() == 0


def test_a_join_that_was_too_large_is_run_again_in_order(small: Instance) -> None:
    fragment = join(small, (1_000_000, 1_000_000), ordered=Backwards())
    for rows in (900_000, 800_001):
        assert values(fragment, numbers(rows), numbers(rows)) == list(range(rows))[::-1]
        assert os.listdir(small.temp_folder) == []


def test_a_join_that_fits_is_not_run_again_however_large_its_inputs_are(small: Instance) -> None:
    fragment = join(small, (10_000_000, 100), ordered=Backwards())
    assert values(fragment, numbers(1_000_000), numbers(3)) == [0, 1, 2]
    assert fragment.plans == 1


def test_in_order_at_once_it_is_run_once(small: Instance) -> None:
    fragment = join(small, (10_000_000, 100), ordered=Backwards(), spill=Spill.ORDERED)
    assert values(fragment, numbers(1_000_000), numbers(3)) == [2, 1, 0]
    assert fragment.plans == 1


def test_small_inputs_are_joined_as_they_come_in_any_case(small: Instance) -> None:
    for spill in Spill:
        fragment = join(small, (100, 100), ordered=Backwards(), spill=spill)
        assert values(fragment, numbers(3), numbers(3)) == [0, 1, 2]


def test_inputs_that_are_larger_than_they_said_are_joined_in_order_too(small: Instance) -> None:
    fragment = join(small, (100, 100), ordered=Backwards())
    assert values(fragment, numbers(900_000), numbers(900_000)) == list(range(900_000))[::-1]


def test_an_error_that_is_asked_for_names_the_join(small: Instance) -> None:
    ordered = Backwards(joins=("relations[0].root.join",))
    fragment = join(small, (1_000_000, 1_000_000), ordered=ordered, spill=Spill.ERROR)
    with pytest.raises(ExecutionError, match=r"^relations\[0\]\.root\.join: the join on c0 = c0 keeps") as caught:
        run(fragment, numbers(900_000), numbers(900_000))
    assert caught.value.reason == "JOIN_BUILD_TOO_LARGE"


def test_a_run_in_order_that_is_closed_early_leaves_nothing_behind(small: Instance) -> None:
    fragment = join(small, (1_000_000, 1_000_000), ordered=Backwards())
    inputs = [stream(numbers(900_000)), stream(numbers(900_000))]
    output = fragment.run(inputs)
    assert next(output)["x"][0].as_py() == 899_999
    output.close()
    assert os.listdir(small.temp_folder) == []
    assert [next(stream, None) for stream in inputs] == [None, None]
    assert run(fragment, numbers(2), numbers(2)) == [{"x": 0}, {"x": 1}]


def test_what_is_held_on_disk_is_bounded(pool: InstancePool) -> None:
    instance = pool.take(InstanceSettings(memory_limit=MEMORY, spill_limit=6 << 20))
    fragment = join(instance, (1_000_000, 1_000_000), ordered=Backwards())
    with pytest.raises(ExecutionError, match="its spill space") as caught:
        run(fragment, numbers(900_000), numbers(900_000))
    assert caught.value.reason == "MEMORY_LIMIT"
    assert os.listdir(instance.temp_folder) == []
    fragment.close()
