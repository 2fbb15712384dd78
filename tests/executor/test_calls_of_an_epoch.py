"""The fixed cost of a small epoch, as the calls of Python functions on its caller's thread. A count is the same on a
busy machine, and on any machine.
"""

from __future__ import annotations

import sys
from collections import Counter
from types import FrameType

import pyarrow as pa

import tidegate

from ..clients.plans import totals

EPOCHS = 20
MOST_CALLS = 810
"""A tenth more than there are."""


def test_a_small_epoch_of_a_reused_task_takes_few_calls() -> None:
    calls: Counter[str] = Counter()

    def count(frame: FrameType, event: str, _: object) -> None:
        if event == "call":
            calls[frame.f_code.co_qualname] += 1

    with tidegate.local() as client, client.create_task(totals()) as task:
        rows = pa.table({"k": [1, 2, 1], "v": [1, 2, 3]})
        for _ in range(EPOCHS):
            task.run_epoch({"rows": rows}).table()
        before = sys.getprofile()
        sys.setprofile(count)
        try:
            for _ in range(EPOCHS):
                task.run_epoch({"rows": rows}).table()
        finally:
            sys.setprofile(before)
    in_one = calls.total() / EPOCHS
    assert in_one <= MOST_CALLS, f"{in_one:.0f} calls, most of them of {calls.most_common(20)}"
