"""Watermarks of per-epoch operators, each by the one rule: a result has the least of the sources that were fed, and
none where one of them has none. Bound tables do not count.

Operators of our own read streams, so each must hand on what its inputs say; limits may stop before they have read all.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pytest
from google.protobuf.message import Message
from substrait import algebra_pb2 as algebra

import tidegate
from tidegate.proto.operator_registration import Options
from tidegate.relations import IndexLookupJoin, PackLists, Unnest, UserOperator

from ..on_channels import on_channels
from . import operated_plans as operated
from . import plans
from .test_write import APPEND, writing

COUNT: Final = 3_000
ROWS: Final = pa.table({"k": range(COUNT), "v": [at % 7 for at in range(COUNT)]})
LISTS: Final = pa.table({"k": range(COUNT), "items": [[at] * (at % 3) for at in range(COUNT)]})
WATERMARKS: Final[Sequence[tuple[int | None, int | None]]] = ((70, 50), (71, 90), (80, None), (None, 85), (91, 95))
"""Of the sources in order, epoch after epoch."""

A: Final = plans.read("a", "k", "v")
B: Final = plans.read("b", "k", "v")
SORTED_A, SORTED_B = plans.declared(A, 0), plans.declared(B, 0)
OPERATED: Final = [operated.read(name, {"k": operated.I64, "v": operated.I64}) for name in "ab"]


class PassedOn:
    """A user's operator that gives the rows that it gets."""

    def __init__(self, options: Options) -> None: ...

    def execute(self, batches: Sequence[pa.RecordBatch], stream: str, channel: int) -> Sequence[pa.RecordBatch]:
        return batches

    def done(self, channel: int) -> None: ...


@dataclass(frozen=True)
class Case:
    """A plan over sources that are fed with these rows, and the operator of the statistics that runs it."""

    plan: bytes | str
    operator: str
    fed: Mapping[str, pa.Table] = field(default_factory=lambda: {"a": ROWS})
    tables: Mapping[str, pa.Table] | None = None


BOTH: Final = {"a": ROWS, "b": ROWS}


def by_hand(relation: object, operator: str, fed: Mapping[str, pa.Table] = BOTH, width: int = 2) -> Case:
    return Case(_json(plans.plan(relation, *(f"c{at}" for at in range(width)))), operator, fed)


def of_lists(detail: Message, names: Sequence[str], operator: str, width: int, wanted: Sequence[int]) -> Case:
    source = operated.read("a", {"k": operated.I64, "items": operated.list_of(operated.I64)})
    relation = operated.picked(operated.operated(detail, source), width, wanted)
    return Case(operated.plan(relation, names), operator, {"a": LISTS})


def over(detail: Message, operator: str, inputs: Sequence[algebra.Rel], width: int, bound: str = "") -> Case:
    plan = operated.plan(operated.operated(detail, *inputs), [f"c{at}" for at in range(width)])
    fed = {name: rows for name, rows in BOTH.items() if name in "ab"[: len(inputs)] and name not in bound}
    return Case(plan, operator, fed, {name: BOTH[name] for name in bound} or None)


def _json(plan: Any) -> str:
    assert plan.json is not None
    return str(plan.json)


LOOKED_UP: Final = IndexLookupJoin(keys=[IndexLookupJoin.Key(left=0, right=0)], type=IndexLookupJoin.TYPE_LEFT)
CASES: Final = {
    "unnest": of_lists(Unnest(columns=[1]), ["k", "item"], "Unnest", 3, [0, 2]),
    "pack lists": of_lists(
        PackLists(column=1, length=64, window_rows=100), ["tokens", "segments", "positions"], "PackLists", 3, [0, 1, 2]
    ),
    "look-ups in a table": over(LOOKED_UP, "IndexLookupJoin", OPERATED, 4, "b"),
    "user operator": over(UserOperator(name="passed on"), "User", OPERATED[:1], 2),
    "merge join": by_hand(plans.merged(SORTED_A, SORTED_B, 2), "MergeJoin", width=4),
    "outer merge join": by_hand(plans.merged(SORTED_A, SORTED_B, 2, "OUTER", below=True), "MergeJoin", width=4),
    "streaming aggregate": by_hand(plans.summed(SORTED_A), "StreamingAggregate", {"a": ROWS}),
    "aggregate of a merge join": by_hand(plans.summed(plans.merged(SORTED_A, SORTED_B, 2)), "StreamingAggregate"),
    "write": Case(_json(writing(plans.union(A, B), createMode=APPEND)), "Write", BOTH),
    "sort": by_hand(plans.sorted_by(plans.union(A, B), 1), "Fragment"),
    "limit": by_hand(plans.limited(plans.union(A, B), 1), "Fragment"),
    "limit of no rows": by_hand(plans.limited(plans.union(A, B), 0), "Fragment"),
    "offset behind all rows": by_hand(plans.limited(plans.union(A, B), 9, 3 * COUNT), "Fragment"),
    "limit of a sort": by_hand(plans.limited(plans.sorted_by(plans.union(A, B), 1), 5), "Fragment"),
    "limit of a streaming aggregate": by_hand(plans.limited(plans.summed(SORTED_A), 1), "Fragment", {"a": ROWS}),
    "limit of a merge join": by_hand(plans.limited(plans.merged(SORTED_A, SORTED_B, 2), 1), "MergeJoin", width=4),
    "first rows with ties": by_hand(plans.top(plans.union(A, B), 10, "WITH_TIES"), "Fragment"),
}


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tidegate.Client]:
    written: Path = tmp_path_factory.mktemp("written")
    operators = {"passed on": tidegate.user_operator(PassedOn)}
    with tidegate.local(roots=(), write_root=written, operators=operators) as client:
        yield client


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("name", CASES)
def test_each_result_has_the_least_watermark_of_the_sources_that_are_fed(
    client: tidegate.Client, name: str, channels: int
) -> None:
    case = CASES[name]
    with client.create_task(case.plan, tables=case.tables, **on_channels(channels)) as task:
        for watermarks in WATERMARKS:
            fed = dict(zip(case.fed, watermarks, strict=False))
            for source, watermark in fed.items():
                task.add_split(source, case.fed[source], watermark=watermark)
            task.request_barrier()
            epoch = next(task.epochs())
            epoch.table()
            known = [watermark for watermark in fed.values() if watermark is not None]
            assert epoch.watermark == (min(known) if len(known) == len(fed) else None), watermarks
        assert case.operator in {operator.operator for operator in task.statistics().operators}
