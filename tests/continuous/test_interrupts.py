"""Operators look whether they are to stop, wherever they are; an epoch that is stopped anywhere leaves no trace.

Every operator on changes has to look: a new one is in no list here and fails until it does.
"""

from __future__ import annotations

import random
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from types import FrameType, ModuleType
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pytest
import substrait.dataframe as sub

from tidegate import windows
from tidegate.executor.tasks.epoch_loop import start_beside
from tidegate.operators.changes import group
from tidegate.operators.changes.change_operator import ChangeOperator
from tidegate.operators.changes.kept import present
from tidegate.operators.changes.network.channel_nodes import OperatorNode
from tidegate.operators.changes.values import rows
from tidegate.operators.core import interrupts
from tidegate.operators.core.interrupts import Watch, beside, look, looking, values_of
from tidegate.operators.core.piece import InlinePiece
from tidegate.operators.core.row_reader import reader_of
from tidegate.planner import ir
from tidegate.planner.decode.whole_plan import decode_plan
from tidegate.proto.errors import ExecutionError, TidegateError
from tidegate.proto.values import PlanBytes

from ..planner import build
from ..searching import SEARCHES
from . import test_random_loops as loops
from .histories import Changed, rows_of
from .network import Running
from .relations import INCREMENTAL, RECOMPUTED, SCHEMAS
from .test_relations import history

EVENTS: Final = pa.schema([("t", pa.int64()), ("v", pa.int64())])
ALL: Final = {**INCREMENTAL, **RECOMPUTED}
WITHOUT_LOOKS: Final = {
    "Keyed": "is the base of others",
    "KeyedRows": "is the base of others",
    "WaitingRows": "is the base of others",
    "ClosingWindows": "is the base of others",
    "Compute": "is a statement, which the engine interrupts",
    "Constant": "has a row at most",
    "Select": "passes columns on",
    "Difference": "passes rows on",
    "WindowByRound": "is a Regroup",
    "RowWatermarks": "passes rows on",
    "OnTime": "passes rows on",
}
BEFORE: Final = (1, 2, 3, 5, 8, 13, 21, 34, 55, 89, 144)
"""Looks that are let pass."""


class Stopping:
    """Lets so many looks pass, and counts them."""

    def __init__(self, passes: float = float("inf")) -> None:
        self.looks = 0
        self._passes = passes

    def look(self) -> None:
        self.looks += 1
        if self.looks > self._passes:
            raise ExecutionError("interrupted", reason="INTERRUPTED")


@pytest.fixture(params=[False, True], ids=["on this thread", "beside it"])
def start(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Callable[..., object] | None:
    """How calls without pieces are made: with a thread beside, for two rows already."""
    if not request.param:
        return None
    for module in (interrupts, rows):
        monkeypatch.setattr(module, "MANY", 2)
    return start_beside


@pytest.mark.parametrize("name", ALL)
def test_an_epoch_that_is_stopped_at_any_look_leaves_no_trace(name: str, start: Callable[..., object] | None) -> None:
    if not SEARCHES and len(name) % (10 if start else 4):
        pytest.skip("a part of them is enough: each takes its time")
    plan, stopped = build.plan(ALL[name]), 0
    with Running(plan, skips=True) as running, Running(plan) as without:
        for number, (epoch, other) in enumerate(zip(history(1, len(BEFORE)), history(2, len(BEFORE)), strict=True)):
            stopped += stops(running, other, SCHEMAS, BEFORE[number], start)
            assert repr(rows_of(running.epoch(epoch, SCHEMAS))) == repr(rows_of(without.epoch(epoch, SCHEMAS)))
    assert stopped


def stops(
    running: Running,
    changed: Mapping[str, Changed],
    schemas: Mapping[str, pa.Schema],
    passes: int,
    start: Callable[..., object] | None,
) -> bool:
    """Whether the epoch, which is not kept, is stopped after so many looks. It may fail of its own before."""
    try:
        with looking(Watch(Stopping(passes).look, start)):
            running.epoch(changed, schemas, keep=False)
    except TidegateError as error:
        return error.reason == "INTERRUPTED"
    return False


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> Iterator[Counter[str]]:
    """How often each kind of operator looks in its own steps."""
    counts: Counter[str] = Counter()
    stepped: list[str] = []
    run = OperatorNode._run

    def noting(node: OperatorNode, *arguments: object) -> None:
        stepped.append(type(node.operator).__name__)
        try:
            run(node, *arguments)
        finally:
            stepped.pop()

    def count() -> None:
        if stepped:
            counts[stepped[-1]] += 1

    monkeypatch.setattr(OperatorNode, "_run", noting)
    with looking(Watch(count)):
        yield counts


def kinds(of: type = ChangeOperator) -> Iterator[str]:
    """The kinds of operators on changes that the package has, whatever other tests have defined."""
    for kind in of.__subclasses__():
        if kind.__module__.startswith("tidegate."):
            yield kind.__name__
        yield from kinds(kind)


def final_windows() -> Iterator[ir.Plan]:
    """Windows of events of each kind, each given once."""
    rows = windows.watermark(sub.read_named_table("events", {"t": sub.i64, "v": sub.i64}), "t", 0)
    built = {"keys": ["v"], "measures": [sub.f.avg(sub.col("t").cast(sub.fp64)).alias("average")], "final": True}
    kinds_of_windows = (windows.tumbling, windows.session, windows.count)
    for relation in (
        *(kind(rows, "t", 10, **built) for kind in kinds_of_windows),
        windows.sliding(rows, "t", 10, 5, **built),
        windows.tumbling(rows, "t", 10, keys=["v"], measures=[sub.f.count(sub.col("t")).alias("rows")], final=True),
    ):
        yield decode_plan(PlanBytes(binary=relation.to_plan().SerializeToString())).plan


def final_joins() -> Iterator[ir.Plan]:
    """Joins by time of two sources, of which each row comes once."""
    columns = {"t": sub.i64, "v": sub.i64}
    left, right = (windows.watermark(sub.read_named_table(name, columns), "t", 0) for name in ("l", "r"))
    near = windows.interval_join(left, right, "t", before=5, after=5, keys=["v"], how="left", final=True)
    latest = windows.as_of_join(left, right, "t", keys=["v"], final=True)
    for relation in (near, latest):
        yield decode_plan(PlanBytes(binary=relation.to_plan().SerializeToString())).plan


def test_every_operator_on_changes_looks_in_its_own_steps(looks: Counter[str]) -> None:
    for relation in ALL.values():
        with Running(build.plan(relation)) as running:
            for epoch in history(3, 3):
                running.epoch(epoch, SCHEMAS)
    for seed in range(8):
        draw = random.Random(seed)
        with Running(build.plan(loops.loop(draw))) as running:
            running.epoch({source: [((1, 2), 1), ((2, 3), 1)] for source in loops.SOURCES}, loops.SCHEMAS)
    for plan in final_windows():
        with Running(plan) as running:
            running.epoch({"events": [((time, time % 3), 1) for time in range(0, 90, 7)]}, {"events": EVENTS})
    for plan in final_joins():
        with Running(plan) as running:
            rows = [((time, time % 3), 1) for time in range(0, 90, 7)]
            running.epoch({"l": rows, "r": rows}, {"l": EVENTS, "r": EVENTS})
    assert set(kinds()) - set(looks) == set(WITHOUT_LOOKS)


# ------------------------------------------------------------------------------------------- work between two looks

ROWS: Final = 20_000
WORTH_A_THREAD: Final = 1_000
MOST_PASSES: Final = 30
SORTING: Final = {"argsort": 10, "sort": 10, "searchsorted": 10}
"""The passes over an array that these methods are worth."""
HEAVY: Final = (
    "aggregate, averages",
    "aggregate, distinct ones and others",
    "aggregate without keys, averages",
    "aggregate, extremes",
    "windows of several partitions",
    "join, left_semi, a key and more",
    "join, outer, two keys",
    "set, intersection_multiset of 2",
    "top-n with ties",
    "distinct",
)


class Passes:
    """Counts the passes over all rows that methods of arrays make on this thread between two looks, without a clock."""

    def __init__(self) -> None:
        self.most = 0.0
        self._values = 0

    def look(self) -> None:
        self.most = max(self.most, self._values / ROWS)
        self._values = 0

    def called(self, _: FrameType, event: str, method: Any) -> None:
        array = getattr(method, "__self__", None)
        if event == "c_call" and isinstance(array, np.ndarray):
            self._values += array.size * SORTING.get(method.__name__, 1)


def all_different(schema: pa.Schema) -> InlinePiece:
    """Rows of which no two have the same value in a column, in no order."""
    numbers = [np.random.default_rng(at).permutation(ROWS) for at in range(len(schema))]
    columns = [
        pa.array(map(str, part.tolist()), field.type) if field.type == pa.string() else pa.array(part).cast(field.type)
        for part, field in zip(numbers, schema, strict=True)
    ]
    (rows,) = pa.table(columns, schema=schema).to_batches()
    return InlinePiece(read=reader_of((rows,)), schema=schema, origin="a split", rows=(0, ROWS), row_count=ROWS)


@pytest.mark.parametrize("name", HEAVY)
def test_little_is_done_over_all_rows_between_two_looks(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    passes = Passes()
    for module in (interrupts, rows):
        monkeypatch.setattr(module, "MANY", WORTH_A_THREAD)
    with Running(build.plan(INCREMENTAL[name])) as running:
        known = {source.name for source in running.computation.sources}
        pieces = {name: [all_different(schema)] for name, schema in SCHEMAS.items() if name in known}
        monkeypatch.setattr(running.computation, "check_stopped", passes.look)
        with looking(Watch(passes.look, start_beside)):
            sys.setprofile(passes.called)
            try:
                for _ in running.computation.epoch(1, 0).sealed(pieces, {}):
                    passes.look()
            finally:
                sys.setprofile(None)
    passes.look()
    assert 1 <= passes.most < MOST_PASSES


# ------------------------------------------------------------------------------------------------- calls beside


@pytest.mark.parametrize(
    ("module", "name", "relation"),
    [(present, "_sums_of", "aggregate, sums"), (group, "to_decimal", "aggregate, averages")],
)
def test_what_groups_do_over_all_rows_at_once_is_done_beside(
    module: ModuleType, name: str, relation: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[str] = []
    call = getattr(module, name)

    def noting(*arguments: object) -> object:
        threads.append(threading.current_thread().name)
        return call(*arguments)

    monkeypatch.setattr(module, name, noting)
    monkeypatch.setattr(interrupts, "MANY", 1)
    with Running(build.plan(INCREMENTAL[relation])) as running, looking(Watch(lambda: None, start_beside)):
        for epoch in history(3, 3):
            running.epoch(epoch, SCHEMAS)
    assert set(threads) == {"tidegate-beside"}


def test_a_call_beside_is_waited_for_only_as_long_as_the_work_goes_on() -> None:
    goes_on, ended = threading.Event(), threading.Event()

    def call() -> None:
        goes_on.wait(30.0)
        ended.set()

    stopping = Stopping(passes=3)
    with looking(Watch(stopping.look, start_beside)), pytest.raises(ExecutionError, match="interrupted"):
        beside(call, interrupts.MANY)
    assert not ended.is_set()
    goes_on.set()
    assert ended.wait(30.0)


def test_a_call_beside_gives_its_value_or_its_error_and_few_rows_need_no_thread() -> None:
    def name() -> str:
        return threading.current_thread().name

    with looking(Watch(lambda: None, start_beside)):
        assert beside(name, interrupts.MANY) == "tidegate-beside"
        assert beside(name, interrupts.MANY - 1) == threading.current_thread().name
        with pytest.raises(ZeroDivisionError):
            beside(lambda: 1 // 0, interrupts.MANY)
    assert beside(name, interrupts.MANY) == threading.current_thread().name


def test_python_that_nobody_waits_for_stops_at_its_next_look() -> None:
    stopped = threading.Event()
    goes_on = threading.Event()

    def call() -> None:
        goes_on.wait(30.0)
        try:
            while True:
                look()
        except Exception:
            stopped.set()
            raise

    with looking(Watch(Stopping(passes=1).look, start_beside)), pytest.raises(ExecutionError):
        beside(call, interrupts.MANY)
    goes_on.set()
    assert stopped.wait(30.0)


def test_values_are_taken_with_looks_between_them() -> None:
    stopping = Stopping()
    with looking(Watch(stopping.look)):
        assert list(values_of(pa.array(range(100_000)))) == list(range(100_000))
    assert stopping.looks >= 5
