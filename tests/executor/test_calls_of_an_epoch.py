"""The fixed cost of a small epoch, as the calls of Python functions on its caller's thread. A count is the same on a
busy machine, and on any machine.

Each bound is a tenth more than there are.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable
from types import FrameType

import pyarrow as pa

import tidegate

from ..clients.plans import totals
from ..continuous.histories import changes
from ..loops.queries import QUERIES, SCHEMAS
from .operated_plans import I64, joined, plan, read

EPOCHS = 20
MOST_CALLS = 790
MOST_CALLS_OF_A_STATIC_JOIN = 960
MOST_CALLS_OF_A_LOOP = 2_020


def test_a_small_epoch_of_a_reused_task_takes_few_calls() -> None:
    rows = pa.table({"k": [1, 2, 1], "v": [1, 2, 3]})
    with tidegate.local() as client, client.create_task(totals()) as task:
        assert_few(MOST_CALLS, lambda: task.run_epoch({"rows": rows}).table())


def test_a_small_epoch_that_is_looked_up_in_a_kept_index_takes_few_calls() -> None:
    static = pa.table({"id": range(1_000), "w": range(1_000)})
    rows = pa.table({"k": [1, 2, 2_000], "v": [1, 2, 3]})
    join = joined(read("rows", {"k": I64, "v": I64}), read("static", {"id": I64, "w": I64}), 2)
    with (
        tidegate.local() as client,
        client.create_task(plan(join, ["k", "v", "id", "w"]), tables={"static": static}) as task,
    ):
        assert_few(MOST_CALLS_OF_A_STATIC_JOIN, lambda: task.run_epoch({"rows": rows}).table())


def test_a_small_change_of_what_a_loop_reads_takes_few_calls() -> None:
    line = [(at, at + 1, 1) for at in range(1_000)]
    with (
        tidegate.local() as client,
        client.create_task(QUERIES["reachability"].plan(), mode="continuous", channels=1) as task,
    ):
        seeds = changes([((0, 0), 1)], SCHEMAS["seeds"])
        task.run_epoch({"edges": changes([(edge, 1) for edge in line], SCHEMAS["edges"]), "seeds": seeds}).table()
        copies = [{"edges": changes([(line[1], weight)], SCHEMAS["edges"])} for weight in (1, -1)]
        assert_few(MOST_CALLS_OF_A_LOOP, lambda: [task.run_epoch(copy).table() for copy in copies], epochs=2)


def assert_few(most: int, run: Callable[[], object], epochs: int = 1) -> None:
    """Check the calls of an epoch, of which `run` runs so many."""
    calls: Counter[str] = Counter()

    def count(frame: FrameType, event: str, _: object) -> None:
        if event == "call":
            calls[frame.f_code.co_qualname] += 1

    for _ in range(EPOCHS):
        run()
    before = sys.getprofile()
    sys.setprofile(count)
    try:
        for _ in range(EPOCHS):
            run()
    finally:
        sys.setprofile(before)
    in_one = calls.total() / (EPOCHS * epochs)
    assert in_one <= most, f"{in_one:.0f} calls, most of them of {calls.most_common(20)}"
