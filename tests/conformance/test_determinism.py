"""Strict answers, bit for bit: the digests in a file come again in every process, whatever the surroundings."""

from __future__ import annotations

import functools
import json
import operator
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import duckdb
import numpy as np
import pyarrow as pa
import pytest

import tidegate
from tidegate.executor.api.checked_options import SMALLEST_MEMORY

from ..searching import SEARCHES
from . import loop_queries, operator_queries, strict_digests
from .pinned_digests import NotPinnedError, pinned
from .strict_digests import Query, Way

ALL: Final = [1, 2, 3]
#: The environment of the process, the way the service runs in it, and on how many channels. Each number of channels is
#: run in one way; a search runs all plans on all numbers of channels in all ways.
SURROUNDINGS: Final[dict[str, tuple[dict[str, str], dict[str, Any]]]] = {
    "one thread, no look-ups ahead": (
        {"TZ": "UTC", "LC_ALL": "C", "PYTHONHASHSEED": "0"},
        {"channels": ALL if SEARCHES else [2]},
    ),
    "two threads, odd batches, delays": (
        {"TZ": "America/New_York", "LC_ALL": "tr_TR.UTF-8", "PYTHONHASHSEED": "2", "OMP_NUM_THREADS": "3"},
        {"channels": ALL if SEARCHES else [1], "threads": 2, "shaken": True, "odd": True, "prefetch": 1},
    ),
    "eight threads, odd batches over gRPC, delays": (
        {"TZ": "Asia/Tokyo", "LC_ALL": "C.UTF-8", "PYTHONHASHSEED": "1", "OMP_NUM_THREADS": "1"},
        {
            "channels": ALL if SEARCHES else [3],
            "threads": 8,
            "shaken": True,
            "odd": True,
            "wire": True,
            "prefetch": 256,
        },
    ),
}
#: The plans that CI runs in each way, by their place in the order of their names: threads and delays meet every plan.
PART: Final = {
    "one thread, no look-ups ahead": slice(0, None, 8),
    "two threads, odd batches, delays": slice(0, None, 2),
    "eight threads, odd batches over gRPC, delays": slice(1, None, 2),
}
ROW_WISE: Final = (
    *("union_all, inline", "union_all, files", "row-wise pieces", "limit, inline", "limit, files"),
    *operator_queries.ROW_WISE,
)


@pytest.mark.parametrize("surroundings", SURROUNDINGS)
def test_the_pinned_digests_come_again(surroundings: str, tpch_files: dict[str, Path], project: Path) -> None:
    changes, how = SURROUNDINGS[surroundings]
    folder = next(iter(tpch_files.values())).parent
    plans = sorted(pinned()["2"])[slice(None) if SEARCHES else PART[surroundings]]
    command = [sys.executable, "-m", f"{__package__}.strict_digests", str(folder), json.dumps({**how, "plans": plans})]
    environment = {**os.environ, **changes}
    done = subprocess.run(command, cwd=project, env=environment, stdout=subprocess.PIPE, check=True, text=True)
    assert json.loads(done.stdout) == {
        str(count): {name: value for name, value in pinned()[str(count)].items() if name in [*plans, "look-ups"]}
        for count in how["channels"]
    }


def test_every_plan_is_run_by_several_threads_with_delays() -> None:
    names = sorted(pinned()["2"])
    threaded = [name for surroundings, part in PART.items() if "delays" in surroundings for name in names[part]]
    assert sorted(threaded) == names
    assert {*pinned()["1"], *pinned()["3"]} == {*names, "look-ups"}


def test_an_engine_whose_digests_nobody_has_pinned_fails() -> None:
    with pytest.raises(NotPinnedError, match=r"no digests are pinned for duckdb 9\.9 on x, only for .* `make digests`"):
        pinned("duckdb 9.9 on x")


@pytest.mark.parametrize("name", ROW_WISE)
def test_the_number_of_channels_does_not_show_in_row_wise_answers(name: str) -> None:
    assert len({digests[name] for digests in pinned().values()}) == 1


def test_an_ordered_join_is_in_the_order_of_its_inputs_on_any_number_of_channels() -> None:
    """Which the hash join is not: the inputs are large enough for the ordered form to run."""
    digests_of_join = {
        digests[f"many_matches in order, {form}"] for digests in pinned().values() for form in ("inline", "files")
    }
    assert len(digests_of_join) == 1


@pytest.mark.parametrize("name", [*loop_queries.ONE_STATEMENT, *loop_queries.ROUND_BY_ROUND, "ranks"])
def test_neither_channels_nor_the_way_a_loop_runs_show_in_its_rows(name: str) -> None:
    """Continuously it is changes that come out, which have a digest of their own."""
    for ways in (("one statement", "round by round"), ("continuous",)):
        names = [f"{name}, {way}" for way in ways]
        assert (
            len({digests[query_name] for digests in pinned().values() for query_name in names if query_name in digests})
            == 1
        )


# --- across numbers of channels ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tidegate.Client]:
    with Way(threads=2).client(tmp_path_factory.mktemp("service")) as opened:
        yield opened


@pytest.fixture(scope="module")
def queries(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Query]:
    """Those over rows that come with the calls."""
    folder = tmp_path_factory.mktemp("splits")
    return {
        query.name: query for query in strict_digests.queries(folder, folder, odd=False) if ", inline" in query.name
    }


@pytest.mark.parametrize("plan", [path.stem for path in sorted(strict_digests.PLANS.glob("*.bin"))])
def test_the_rows_are_the_same_on_any_number_of_channels(
    plan: str, client: tidegate.Client, queries: dict[str, Query]
) -> None:
    query = queries[f"{plan}, inline"]
    one = in_order(query.answer(client, 1))
    for channels in (2, 3):
        assert_alike(in_order(query.answer(client, channels)), one)


def in_order(table: pa.Table) -> pa.Table:
    return table.sort_by([(name, "ascending") for name in table.column_names])


def assert_alike(actual: pa.Table, expected: pa.Table) -> None:
    """Equal but for the rounding of floats: a sum's error is of the size of what was summed."""
    assert (actual.schema, actual.num_rows) == (expected.schema, expected.num_rows)
    for one, other in zip(actual.columns, expected.columns, strict=True):
        if pa.types.is_floating(one.type):
            assert one.null_count == other.null_count
            ours, theirs = (np.nan_to_num(column.to_numpy()) for column in (one, other))
            assert np.abs(ours - theirs).max() <= 1e-12 * np.abs(theirs).max()
        else:
            assert one.equals(other)


# --- the inputs --------------------------------------------------------------------------------------------------


def test_the_inputs_are_such_that_order_shows() -> None:
    """Sums whose bits depend on the order of adding, and more groups than come out in an order of their own."""
    facts = strict_digests.tables()["facts"]
    values = facts["x"].to_pylist()
    assert functools.reduce(operator.add, values) != functools.reduce(operator.add, reversed(values))
    assert len(set(facts["g"].to_pylist())) > 50_000
    assert len(strict_digests.many_groups()["g"].unique()) > 1_000_000


@pytest.mark.parametrize(
    ("sql", "facts", "channels"),
    [("sort_with_ties", strict_digests.many_groups, 1), ("distinct", strict_digests.long_texts, 3)],
)
def test_the_inputs_that_should_spill_do(sql: str, facts: Callable[[], pa.Table], channels: int) -> None:
    """An engine that has no place to spill to cannot do what each channel of a strict task does."""
    share = facts().slice(0, facts().num_rows // channels)
    statement = (strict_digests.PLANS / f"{sql}.sql").read_text()
    settings = {"threads": 1, "memory_limit": f"{SMALLEST_MEMORY}B", "temp_directory": ""}
    with duckdb.connect(config=settings) as connection:
        connection.register("facts", share)
        with pytest.raises(duckdb.OutOfMemoryException):
            list(connection.sql(statement).to_arrow_reader())
