"""The watch over a statement's loops: whoever notices that time is over names the loop, and no later run suffers."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pyarrow as pa
import pytest

from tidegate.operators.core.streams import BatchStream
from tidegate.operators.duckdb.fragment import Fragment
from tidegate.operators.duckdb.instances import Instance
from tidegate.operators.duckdb.loop_resources import LoopBound, LoopWatch
from tidegate.operators.duckdb.statement_inputs import StreamSource
from tidegate.proto.errors import ExecutionError

from .data import rows_of

X = pa.schema([("x", pa.int64())])
BOUND = LoopBound(loop=0, name="paths", columns=1, max_rows=100, plan_path="relations[0]")


class Later:
    """Makes the last call that was asked for when it is told to."""

    def __init__(self) -> None:
        self.call: Callable[[], None] = lambda: None

    def __call__(self, _seconds: float, call: Callable[[], None]) -> None:
        self.call = call


def batches(between: Callable[[], None]) -> Iterator[pa.RecordBatch]:
    for number in range(4):
        yield pa.record_batch({"x": [number] * 65_536}, schema=X)
        between()


def watched(instance: Instance, later: Later) -> Fragment:
    source = StreamSource(relation="in0", schema=X, size_class=100_000_000)
    sql = "SELECT max(c0) FROM in0"
    return Fragment(
        sql, schema=X, instance=instance, streams=[source], loops=[BOUND], loop_seconds=1e-9, later=later, strict=False
    )


def test_a_loop_whose_time_is_over_while_its_input_is_read_is_named(instance: Instance) -> None:
    later = Later()
    fragment = watched(instance, later)
    with pytest.raises(ExecutionError, match="loop 'paths' is not done after") as caught:
        rows_of(fragment.run([BatchStream(X, batches(lambda: later.call()))]))
    assert caught.value.reason == "LOOP_SECONDS"
    assert rows_of(fragment.run([BatchStream(X, batches(lambda: None))])) == [{"x": 3}]


def test_a_look_after_a_run_has_ended_interrupts_nothing() -> None:
    later, interrupts = Later(), []
    watch = LoopWatch([BOUND], seconds=1e-9, later=later, interrupt=lambda: interrupts.append(1))
    watch.begin()
    watch.end()
    later.call()
    assert not interrupts
    assert watch.overdue() is None


def test_a_run_that_was_late_is_not_blamed_for_the_next_one() -> None:
    later, interrupts = Later(), []
    watch = LoopWatch([BOUND], seconds=1e-9, later=later, interrupt=lambda: interrupts.append(1))
    watch.begin()
    later.call()
    assert interrupts
    assert watch.overdue() is not None
    watch.end()
    watch.begin()
    assert watch.overdue() is None
