"""Results that are computed from all rows of a key."""

import functools
import operator
from collections import Counter

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidegate.operators.changes.regroup import Regroup
from tidegate.operators.changes.values.evaluator import Evaluator
from tidegate.operators.duckdb.instances import Instance

from ...searching import tries
from .timed import Bag, Row, Timed, check_timed, timed_epochs

SCHEMA = pa.schema([("k", pa.int64()), ("v", pa.float64())])
GIVEN = pa.schema([("sum", pa.float64()), ("values", pa.list_(pa.float64())), ("key", pa.int64())])
ROW = st.tuples(st.sampled_from([1, None]), st.sampled_from([1e16, 1.0, -1e16, None]))
SQL = "SELECT sum(c1), list(c1), c2 FROM in0 GROUP BY c2"


def lists(bag: Bag) -> Bag:
    rows: dict[Row, list[Row]] = {}
    for row, weight in bag.items():
        rows.setdefault(row[:1], []).extend([row] * weight)
    result: Bag = Counter()
    for name, members in rows.items():
        values = sorted((row[1] for row in members), key=lambda value: (value is None, value or 0))
        there = [value for value in values if value is not None]
        result[(*name, functools.reduce(operator.add, there) if there else None, tuple(values))] += 1
    return result


@pytest.mark.parametrize("depth", [0, 1])
def test_at_every_time_groups_are_computed_from_their_rows_in_canonical_order(instance: Instance, depth: int) -> None:
    given_schema = pa.schema([SCHEMA.field(0), *list(GIVEN)[:-1]])

    @settings(max_examples=tries(8), deadline=None)
    @given(timed_epochs([ROW], depth))
    def check(epochs: list[list[Timed]]) -> None:
        evaluate = Evaluator(
            SQL, [SCHEMA.append(pa.field("n", pa.int64()))], GIVEN, instance=instance, plan_path="here"
        )
        operator = Regroup(SCHEMA, [0], given_schema, evaluate, plan_path="here", depth=depth)
        check_timed(operator, lambda bags: lists(bags[0]), [SCHEMA], epochs, depth)
        evaluate.close()

    check()
