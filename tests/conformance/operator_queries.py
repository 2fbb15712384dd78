"""Plans beside SQL that have strict digests: plans with operators of their own, and joins that run ordered."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
from substrait import algebra_pb2 as algebra

from tidegate.proto.values import PlanBytes
from tidegate.relations import IndexLookupJoin, Unnest

from ..executor import operated_plans as operated
from ..executor import plans

ROWS: Final = 60_000
TABLE_ROWS: Final = 100_000
KEYS: Final = 40_000
SORTED: Final = ("merge join", "full merge join", "streaming aggregate", "streaming aggregate of a merge join")
ROW_WISE: Final = ("unnest", "look-ups in files", "look-ups in files, four ahead", "look-ups in a table")

Numbers = npt.NDArray[np.int64]


def numbers(seed: int, rows: int, below: int) -> Numbers:
    numbers_: Numbers = (np.random.PCG64(seed).random_raw(rows) % np.uint64(below)).astype(np.int64)
    return numbers_


def inputs() -> dict[str, pa.Table]:
    """Lists of no to six items, some of them null; keys with many matches, with one and with none; sorted sides."""
    lengths = numbers(21, ROWS, 7)
    items = pa.array(numbers(22, int(lengths.sum()), 1_000))
    lists = pa.ListArray.from_arrays(np.append(0, np.cumsum(lengths)).astype(np.int32), items)
    sides = [np.sort(numbers(seed, ROWS, KEYS)) for seed in (23, 24)]
    return {
        "lists": pa.table({"k": range(ROWS), "items": lists}),
        "events": pa.table({"k": numbers(25, ROWS, 2 * KEYS), "v": range(ROWS)}),
        "few": pa.table({"k": numbers(26, 5_000, 2 * KEYS), "v": range(5_000)}),
        "a": pa.table({"k": sides[0], "v": numbers(27, ROWS, 1_000)}),
        "b": pa.table({"k": sides[1], "w": numbers(28, ROWS, 1_000)}),
    }


def table() -> pa.Table:
    ids = numbers(29, TABLE_ROWS, KEYS)
    return pa.table({"id": ids, "name": pa.array(ids).cast(pa.string())})


def table_file(folder: Path) -> str:
    folder.mkdir(exist_ok=True)
    path = folder / "names.parquet"
    pq.write_table(table(), path, row_group_size=7_001)
    return str(path)


def unnested() -> bytes:
    source = operated.read("lists", {"k": operated.I64, "items": operated.list_of(operated.I64)})
    relation = operated.operated(Unnest(columns=[1], outer=True, ordinality=True), source)
    return operated.plan(operated.picked(relation, 4, [0, 2, 3]), ["k", "item", "n"])


def looked_up(prefetch: int) -> bytes:
    detail = IndexLookupJoin(
        keys=[IndexLookupJoin.Key(left=0, right=0)],
        type=IndexLookupJoin.TYPE_LEFT,
        index="file",
        prefetch=prefetch,
    )
    return operated.plan(operated.operated(detail, _events("events"), _names()), ["k", "v", "id", "name"])


def static_join() -> bytes:
    """A plan's own join, which becomes look-ups in a kept index."""
    return operated.plan(operated.joined(_events("few"), _names(), 2), ["k", "v", "id", "name"])


def over_sorted() -> Mapping[str, str]:
    a, b = (plans.declared(plans.read(name, "k", value), 0) for name, value in (("a", "v"), ("b", "w")))
    relations = (
        (plans.merged(a, b, 2), 4),
        (plans.merged(a, b, 2, "OUTER", True), 4),
        (plans.summed(a), 2),
        (plans.summed(plans.merged(a, b, 2)), 2),
    )
    return {
        name: _json(plans.plan(relation, *(f"c{at}" for at in range(width))))
        for name, (relation, width) in zip(SORTED, relations, strict=True)
    }


def _json(plan: PlanBytes) -> str:
    assert plan.json is not None
    return plan.json


def _events(source: str) -> algebra.Rel:
    return operated.read(source, {"k": operated.I64, "v": operated.I64})


def _names() -> algebra.Rel:
    return operated.read("names", {"id": operated.I64, "name": operated.TEXT})
