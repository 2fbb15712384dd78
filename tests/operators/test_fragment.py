from __future__ import annotations

import pyarrow as pa

from tidegate.operators.instances import Instance

from .data import over_streams, run

NUMBERS = pa.table({"k": [1, 2, 1], "v": [10, 20, 30]})
SUMS = pa.schema([("k", pa.int64()), ("s", pa.int64())])
SUM = "SELECT c0, sum(c1)::BIGINT FROM in0 GROUP BY c0 ORDER BY c0"


def test_each_epoch_sees_its_own_rows_alone(instance: Instance) -> None:
    fragment = over_streams(instance, SUM, SUMS, NUMBERS)
    assert run(fragment, NUMBERS) == [{"k": 1, "s": 40}, {"k": 2, "s": 20}]
    assert run(fragment, NUMBERS.slice(1)) == [{"k": 1, "s": 30}, {"k": 2, "s": 20}]
    assert run(fragment, NUMBERS.slice(0, 0)) == []


def test_a_small_statement_is_planned_once(instance: Instance) -> None:
    fragment = over_streams(instance, SUM, SUMS, NUMBERS)
    for _ in range(3):
        run(fragment, NUMBERS)
    assert fragment.plans == (1 if instance.engine.prepares else 4)
