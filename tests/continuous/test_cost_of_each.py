"""Every relation that is kept up to date: what a few changes cost does not grow with the state, by counter."""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import tidegate
from tidegate.operators.changes.network.network import Network
from tidegate.operators.changes.values.change import Change, Numbers

from ..loops.queries import Looped, Query
from ..planner.build import plan
from ..searching import every
from .network import bare
from .relations import INCREMENTAL, SCHEMA

SMALL, LARGE = 300, 3_000
CHANGES: Final = 20
PAIRED_WITH_ALL: Final = {
    name for name in INCREMENTAL if "no key" in name or "mark, a condition" in name or name == "cross"
}
"""A row that comes has as many pairs as the other side has rows: any of them may be an unknown match of a condition
that is null though no column is.
"""

ALL_WANTED: Final = {name for name in INCREMENTAL if "9223372036854775806" in name or "beyond all rows" in name}
"""A limit of more rows than there are gives out all of them."""

ONE_GROUP: Final = {
    "aggregate without keys, averages of floats",
    "aggregate without keys, sums of floats",
    "windows of several partitions",
}
"""A group whose floats are added, or whose rows are numbered, is answered from all of its rows, and
here all rows are one group.
"""


def rows(count: int) -> pa.Table:
    """Two rows of each key, four of each text, and no number twice."""
    numbers = np.arange(count)
    values = np.random.default_rng(5).permutation(count)
    texts = [f"text {number // 4}" for number in range(count)]
    return pa.table({"k": numbers // 2, "v": values, "f": values / 4, "s": texts}, SCHEMA)


def changed(table: pa.Table, entries: int) -> tuple[pa.Table, Numbers]:
    """Some rows go, and come back with another number."""
    some = table.take(np.arange(0, table.num_rows, table.num_rows // CHANGES)[:CHANGES] + entries)
    moved = some.set_column(1, "v", pc.add(some["v"], table.num_rows))
    return pa.concat_tables([some, moved]), np.repeat([-1, 1], CHANGES)


def feed(network: Network, port: int, columns: list[str], table: pa.Table, weights: Numbers | None = None) -> None:
    (batch,) = table.select(columns).combine_chunks().to_batches()
    network.feed(port, 0, Change.of_batch(batch, weights))


def touched(name: str, count: int) -> dict[str, int]:
    """By operator how many rows it looks at for a few changes of each source."""
    network, entries = bare(plan(INCREMENTAL[name]), 1)
    table = rows(count)
    for port, (_, columns) in enumerate(entries):
        feed(network, port, list(columns), table)
    complete(network)
    before = {operator.path: operator.touched for operator in network.statistics().operators}
    for port, (_, columns) in enumerate(entries):
        feed(network, port, list(columns), *changed(table, port))
    complete(network)
    return {
        f"{operator.operator} at {operator.path}": operator.touched - before[operator.path]
        for operator in network.statistics().operators
    }


def complete(network: Network) -> None:
    network.end()
    assert network.run()
    network.take()


@pytest.mark.parametrize("name", every(2, sorted(INCREMENTAL.keys() - PAIRED_WITH_ALL - ONE_GROUP - ALL_WANTED)))
def test_ten_times_the_state_costs_no_more_rows_touched(name: str) -> None:
    small, large = touched(name, SMALL), touched(name, LARGE)
    assert {name: (small[name], large[name]) for name in small if large[name] > 1.3 * small[name]} == {}


@pytest.mark.parametrize("name", sorted(PAIRED_WITH_ALL))
def test_a_row_without_a_key_costs_the_other_side_and_not_its_square(name: str) -> None:
    """Three times the state costs at most four times the rows, where all pairs are nine times as many."""
    small, large = touched(name, SMALL // 3), touched(name, SMALL)
    assert {name: (small[name], large[name]) for name in small if large[name] > 4 * small[name]} == {}


@pytest.mark.parametrize("edges", [SMALL, LARGE])
def test_a_loop_touches_what_follows_from_the_changed_edge_and_no_more(edges: int) -> None:
    """Pairs of edges that lead nowhere else: each change is two rounds long, however many edges there are."""
    query = Query(
        {
            "x": Looped(
                "select distinct a, b from (select a, b from edges union all"
                " select x.a, e.b from x join edges e on x.b = e.a)"
            )
        }
    )
    starts = np.arange(edges)
    with tidegate.local(roots=()) as client, client.create_task(query.plan(), mode="continuous") as task:
        table = pa.table({"a": 3 * (starts // 2) + starts % 2, "b": 3 * (starts // 2) + starts % 2 + 1, "c": starts})
        task.run_epoch({"edges": table}).table()
        before = sum(operator.rows_touched for operator in task.info().statistics.operators)
        gone = table.slice(edges // 2, CHANGES).append_column("_weight", pa.array([-1] * CHANGES, pa.int64()))
        assert task.run_epoch({"edges": tidegate.Changes(gone)}).table().num_rows == 3 * CHANGES // 2
        after = sum(operator.rows_touched for operator in task.info().statistics.operators)
    assert after - before <= 20 * CHANGES


@pytest.mark.parametrize("name", sorted(ONE_GROUP))
def test_where_all_rows_are_one_group_a_change_costs_that_group_once(name: str) -> None:
    assert max(touched(name, LARGE).values()) <= 3 * LARGE
