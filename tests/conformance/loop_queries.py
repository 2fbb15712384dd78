"""Loops of the strict digests: in one statement, round by round, and continuously, over a graph that is a bit random.

Floats go round in some, whose sums would show the order of adding.
"""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final
from unittest import mock

import numpy as np
import pyarrow as pa

import tidegate
from tidegate.operators.arrays.digest import digest
from tidegate.operators.changes.network.schedule import InOrder, Work

from ..loops.queries import QUERIES, SCHEMAS, Looped, Query
from ..on_channels import on_channels

NODES: Final = 250
EDGES: Final = 300
CHANGED: Final = 40
"""Edges that go in the second epoch, and as many that come instead."""
FLOATS: Final = pa.schema([("a", pa.int64()), ("b", pa.float64())])

ONE_STATEMENT: Final = ("reachability", "transitive closure")
ROUND_BY_ROUND: Final = (
    *("non-linear closure", "what enters goes round", "cheapest path", "components", "a loop in a loop"),
    *("an anti join with a source", "first rows", "a sum by window", "every path"),
)
RANKS: Final = Query(
    {
        "x": Looped(
            "select e.b as a, sum(x.b / (e.c + 3)) as b from x join edges e on x.a = e.a group by e.b",
            "select a, cast(b as double) / 7 as b from seeds",
            rounds=6,
            columns=FLOATS,
        )
    }
)
"""A part of each node's rank goes on over each of its edges."""

Cut = Callable[[pa.Table], pa.Table]
Epoch = Mapping[str, pa.Table]


@dataclass(frozen=True)
class LoopQuery:
    """A loop over epochs, all of which count for the digest. Continuously they are changes."""

    name: str
    plan: bytes
    epochs: Sequence[Epoch]
    options: Mapping[str, Any] = field(default_factory=dict)

    def digest(self, client: tidegate.Client, channels: int) -> str:
        options = on_channels(channels, self.options.get("mode", "per_epoch")) | self.options
        with client.create_task(self.plan, **options) as task:
            epochs = [{name: _split(epoch[name]) for name in task.sources} for epoch in self.epochs]
            batches = [batch for epoch in epochs for batch in task.run_epoch(epoch)]
            return digest(task.schema, iter(batches))


def loop_queries(cut: Cut) -> Iterator[LoopQuery]:
    """`cut` cuts what travels into batches."""
    first, *changed = [{name: cut(table) for name, table in epoch.items()} for epoch in _epochs()]
    plans = {name: QUERIES[name].plan() for name in (*ONE_STATEMENT, *ROUND_BY_ROUND)} | {"ranks": RANKS.plan()}
    small = {name: table.slice(0, 100) for name, table in first.items()}
    for name, plan in plans.items():
        once = (small, first)
        if name in ONE_STATEMENT:
            yield LoopQuery(f"{name}, one statement", plan, once)
        yield LoopQuery(f"{name}, round by round", plan, once, {"loops": "general"})
        yield LoopQuery(f"{name}, continuous", plan, (first, *changed), {"mode": "continuous"})


@contextlib.contextmanager
def out_of_order(seed: int) -> Iterator[None]:
    """Whatever is at hand inside of a loop or a continuous task may be done next, one message at a time."""
    chance = random.Random(seed)

    def any_of_it(self: InOrder) -> Work | None:
        self._ready.rotate(chance.randrange(len(self._ready) or 1))
        return self._ready.popleft() if self._ready else None

    with mock.patch.multiple(InOrder, whole=False, next=any_of_it):
        yield


def _split(table: pa.Table) -> Any:
    return tidegate.Changes(table) if "_weight" in table.column_names else table


def _epochs() -> list[Epoch]:
    """All rows; then some edges are others, the first seed's among them; then none of its edges is there."""
    edges = _rows("edges", 1, EDGES, [NODES, NODES, 5])
    kept = {
        "edges": edges,
        "more": _rows("more", 2, CHANGED, [NODES, NODES]),
        "seeds": _rows("seeds", 3, 3, [NODES, NODES]),
    }
    root = edges["a"].to_numpy() == kept["seeds"]["b"][0].as_py()
    gone = np.zeros(EDGES, dtype=np.bool_)
    gone[:CHANGED] = True
    new = _rows("edges", 4, CHANGED, [NODES, NODES, 5])
    second = pa.concat_tables([_weighed(edges.filter(pa.array(gone)), -1), _weighed(new, 1)])
    third = _weighed(edges.filter(pa.array(root & ~gone)), -1)
    nothing = {name: _weighed(table.slice(0, 0), 1) for name, table in kept.items()}
    return [kept, {**nothing, "edges": second}, {**nothing, "edges": third}]


def _rows(name: str, seed: int, count: int, below: Sequence[int]) -> pa.Table:
    numbers = np.random.PCG64(seed).random_raw(count * len(below)).reshape(len(below), count)
    columns = [
        pa.array((column % np.uint64(most)).astype(np.int64)) for column, most in zip(numbers, below, strict=True)
    ]
    return pa.table(columns, SCHEMAS[name])


def _weighed(table: pa.Table, weight: int) -> pa.Table:
    return table.append_column("_weight", pa.array(np.full(table.num_rows, weight, dtype=np.int64)))
