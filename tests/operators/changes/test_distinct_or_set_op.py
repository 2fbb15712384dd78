"""A row's weight out of its weights in."""

from collections import Counter
from collections.abc import Sequence
from itertools import product

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidegate.operators.changes import distinct_or_set_op as weigh
from tidegate.operators.changes.distinct_or_set_op import DistinctOrSetOp, Weighing
from tidegate.operators.changes.kept.arrangement import Arrangement
from tidegate.operators.changes.kept.state_format import save_arrangement
from tidegate.operators.changes.values.change import Change
from tidegate.operators.testing import MemoryState
from tidegate.proto.errors import CheckpointError

from ...searching import one_of_each, tries
from .timed import Bag, Timed, check_timed, timed_epochs

SCHEMA = pa.schema([("a", pa.int64()), ("b", pa.string())])
ROWS = st.tuples(st.sampled_from([1, 2, None]), st.sampled_from(["x", None]))


def expected(weighing: Weighing, inputs: Sequence[Bag]) -> Bag:
    first, *others = inputs
    result: Bag = Counter()
    for row in set().union(*inputs):
        mine, theirs = max(first[row], 0), [max(other[row], 0) for other in others]
        result[row] = int(
            {
                Weighing.DISTINCT: mine > 0 or any(theirs),
                Weighing.INTERSECT_ANY: mine > 0 and any(theirs),
                Weighing.INTERSECT_EACH: mine > 0 and all(theirs),
                Weighing.INTERSECT_ALL: min([mine, *theirs]),
                Weighing.EXCEPT_ANY: mine > 0 and not any(theirs),
                Weighing.EXCEPT_EACH: 0 if all(theirs) else mine,
                Weighing.EXCEPT_ALL: max(mine - sum(theirs), 0),
            }[weighing]
        )
    return result


@pytest.mark.parametrize("depth", [0, 1, 2])
@pytest.mark.parametrize("weighing", [Weighing.DISTINCT, Weighing.EXCEPT_ALL])
def test_wide_rows_are_decided_some_at_a_time(depth: int, weighing: Weighing, monkeypatch: pytest.MonkeyPatch) -> None:
    """Here all rows are wide, and each change is decided by itself."""
    monkeypatch.setattr(weigh, "has_wide", lambda *_: True)
    monkeypatch.setattr(weigh, "AT_ONCE", 1)
    inputs = 1 if weighing is Weighing.DISTINCT else 2

    @settings(max_examples=tries(12), deadline=None)
    @given(timed_epochs([ROWS] * inputs, depth))
    def check(epochs: list[list[Timed]]) -> None:
        operator = DistinctOrSetOp(SCHEMA, weighing, inputs=inputs, depth=depth)
        check_timed(operator, lambda bags: expected(weighing, bags), [SCHEMA] * inputs, epochs, depth)

    check()


@pytest.mark.parametrize("few", [0, 1, 8])
def test_rows_decided_one_by_one_are_decided_alike(few: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """As they are side by side in arrays, or in turn the one way and the other."""
    monkeypatch.setattr(weigh, "_FEW", few)

    @settings(max_examples=tries(20), deadline=None)
    @given(timed_epochs([ROWS], 1))
    def check(epochs: list[list[Timed]]) -> None:
        operator = DistinctOrSetOp(SCHEMA, Weighing.DISTINCT, depth=1)
        check_timed(operator, lambda bags: expected(Weighing.DISTINCT, bags), [SCHEMA], epochs, 1)

    check()


@pytest.mark.parametrize(("weighing", "depth"), one_of_each(product(Weighing, [0, 1, 2])))
def test_at_every_time_it_has_given_what_the_weights_up_to_then_make(weighing: Weighing, depth: int) -> None:
    inputs = 1 if weighing is Weighing.DISTINCT else 3

    @settings(max_examples=tries(15), deadline=None)
    @given(timed_epochs([ROWS] * inputs, depth))
    def check(epochs: list[list[Timed]]) -> None:
        operator = DistinctOrSetOp(SCHEMA, weighing, inputs=inputs, depth=depth)
        check_timed(operator, lambda bags: expected(weighing, bags), [SCHEMA] * inputs, epochs, depth)

    check()


def test_rows_that_others_have_more_often_than_64_bits_count_are_left_out() -> None:
    operator = DistinctOrSetOp(SCHEMA, Weighing.EXCEPT_ALL, inputs=4)
    row = pa.RecordBatch.from_pylist([{"a": 1, "b": "x"}], SCHEMA)
    for port, copies in enumerate((5, 1 << 62, 1 << 62, 1 << 62)):
        assert not list(operator.receive(port, Change.of_batch(row, np.array([copies]))))
    assert not list(operator.decide(()))


def test_the_format_before_what_was_given_out_was_kept_beside_what_came_in_is_refused_by_name() -> None:
    state = MemoryState()
    for name in ("received", "given"):
        save_arrangement(state, name, Arrangement(SCHEMA.types, (0, 1), depth=1), SCHEMA, version=1)
    with pytest.raises(
        CheckpointError, match="'received' has format version 1, and this version of Tidegate reads version 2"
    ) as no:
        DistinctOrSetOp(SCHEMA, Weighing.DISTINCT, depth=1).load(state)
    assert no.value.reason == "CHECKPOINT_VERSION"
