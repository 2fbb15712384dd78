"""Strict joins are refused where their order could not be repeated, and not before."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from tidegate.operators.file_relations import FileSource
from tidegate.operators.fragment import Fragment
from tidegate.operators.inputs import StreamSource
from tidegate.operators.instances import Instance, InstancePool, InstanceSettings
from tidegate.proto.errors import ExecutionError

from .data import column, pieces_of, run, stream, write

MEMORY = 64 << 20
JOIN = "SELECT in0.c0 FROM in0 JOIN in1 ON in0.c0 = in1.c0"
X = pa.schema([("x", pa.int64())])


@pytest.fixture
def small(pool: InstancePool) -> Instance:
    return pool.take(InstanceSettings(memory_limit=MEMORY))


def numbers(rows: int) -> pa.Table:
    return pa.table({"x": np.arange(rows)})


def join(instance: Instance, sizes: tuple[int, int], *, sql: str = JOIN, strict: bool = True) -> Fragment:
    sources = [StreamSource(relation=f"in{i}", schema=X, size_class=size) for i, size in enumerate(sizes)]
    return Fragment(sql, schema=X, instance=instance, streams=sources, strict=strict, place="relations[0].join")


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
