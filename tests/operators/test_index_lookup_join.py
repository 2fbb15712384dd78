"""The index look-up join: order, prefetch, failures, closing. What it joins is tested with the kinds of index."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.operators.core.sizes import BATCH_BYTES
from tidegate.operators.index_lookup_join import WAITING_BYTES, IndexLookupJoin, Retries
from tidegate.operators.indexes import Matches
from tidegate.operators.testing import CHECKS, Boom, Case, WatchedStream, one_row_each
from tidegate.proto.errors import ExecutionError, InternalError

from .data import rows_of, stream
from .lookups import JOINED, PROBE, ByHand, LastFirst, Squares, Transient, on_a_thread

WIDTH = 300_000


def squares(index: Squares | None = None, **options: Any) -> IndexLookupJoin:
    """Look-ups of one row each, unless told otherwise."""
    options = {"batch_rows": 1, "plan_path": "relations[0]", **options}
    return IndexLookupJoin(schema=JOINED, probe=PROBE, keys=[0], index=index or Squares(), **options)


def numbers(*values: int | None) -> pa.Table:
    return pa.table({"k": pa.array(values, pa.int64())})


def joined(operator: IndexLookupJoin, *values: int | None) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for row in rows_of(operator.run([stream(numbers(*values))]))]


def watched(values: Sequence[int | None], breaks_after: int | None = None) -> WatchedStream:
    return WatchedStream(PROBE, one_row_each(numbers(*values)), breaks_after)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("join", ["inner", "left"])
@pytest.mark.parametrize("prefetch", [0, 1, 4, 16, 256])
def test_it_is_an_operator(check: Any, join: str, prefetch: int) -> None:
    def make() -> IndexLookupJoin:
        return squares(batch_rows=2, join=join, prefetch=prefetch, submit=on_a_thread)

    check(Case(make=make, epochs=[[numbers(3, None, -1, 4, 3, 0, 5)], [numbers()], [numbers(None)]]))


@given(
    st.lists(st.none() | st.integers(-3, 9)), st.integers(1, 5), st.integers(0, 5), st.sampled_from(["inner", "left"])
)
def test_neither_prefetch_nor_the_order_of_completion_shows(
    values: list[int | None], batch_rows: int, prefetch: int, join: str
) -> None:
    operator = squares(batch_rows=batch_rows, prefetch=prefetch, submit=LastFirst(), join=join)
    every = [(v, v * v if v is not None and v >= 0 else None) for v in values]
    assert joined(operator, *values) == [row for row in every if join == "left" or row[1] is not None]


def test_look_up_batches_do_not_depend_on_the_inputs_batches() -> None:
    for rows in (1, 2, 3, 100):
        index = Squares()
        list(squares(index, batch_rows=3).run([stream(numbers(*range(8)), rows)]))
        assert index.looked_up == [[0, 1, 2], [3, 4, 5], [6, 7]]


def test_nulls_are_not_looked_up() -> None:
    index = Squares()
    assert joined(squares(index, batch_rows=3, join="left"), None, 2, None, None, None, None, 3) == [
        (None, None), (2, 4), (None, None), (None, None), (None, None), (None, None), (3, 9)
    ]  # fmt: skip
    assert index.looked_up == [[2], [3]]


@pytest.mark.parametrize("prefetch", [0, 1, 4])
def test_no_more_is_in_flight_or_read_than_prefetched(prefetch: int) -> None:
    rows = watched(range(20))
    submit = LastFirst()
    output = squares(prefetch=prefetch, submit=submit).run([rows])
    for taken in range(1, 5):
        next(output)
        assert rows.pulled == prefetch + taken
    assert submit.most == prefetch + 1


class FirstIsLate:
    """A `Submit` that makes each call at once, but the first only with the call of number `until`."""

    def __init__(self, until: int) -> None:
        self.until = until
        self.calls = 0
        self._late: Callable[[], object] = lambda: None

    def __call__(self, call: Callable[[], Any], /) -> Future[Any]:
        self.calls += 1
        future: Future[Any] = Future()
        if self.calls == 1:
            self._late = lambda: future.set_result(call())
            return future
        future.set_result(call())
        if self.calls == self.until:
            self._late()
        return future


def test_a_late_look_up_does_not_keep_as_many_as_are_prefetched_from_beginning() -> None:
    rows, submit = watched(range(20)), FirstIsLate(until=9)
    output = squares(prefetch=4, submit=submit).run([rows])
    assert rows_of([next(output)])[0]["k"] == 0
    assert (submit.calls, rows.pulled) == (9, 9)
    assert [row["k"] for row in rows_of(output)] == list(range(1, 20))


class Wide(Squares):
    """For every key a text of `WIDTH` bytes."""

    schema = pa.schema([("text", pa.string())])

    def lookup(self, keys: pa.RecordBatch) -> Matches:
        texts = pa.repeat("x" * WIDTH, keys.num_rows)
        return Matches(rows=np.arange(keys.num_rows), columns=pa.record_batch({"text": texts}))


@pytest.mark.parametrize("prefetch", [0, 64])
def test_look_ups_of_wide_rows_are_bounded_by_their_bytes(prefetch: int) -> None:
    submit = LastFirst()
    schema = pa.schema([("k", pa.int64()), ("text", pa.string())])
    operator = IndexLookupJoin(
        schema=schema, probe=PROBE, keys=[0], index=Wide(), prefetch=prefetch, submit=submit, plan_path="relations[0]"
    )
    batches = list(operator.run([stream(numbers(*range(1_000)))]))
    assert [key for batch in batches for key in batch["k"].to_pylist()] == list(range(1_000))
    sizes = [batch.nbytes for batch in batches]
    assert max(sizes) <= 2 * BATCH_BYTES
    assert submit.most <= WAITING_BYTES // BATCH_BYTES + 1
    rows = operator.run([stream(numbers(*range(1_000)))])
    assert [next(rows).num_rows for _ in range(3)] == [BATCH_BYTES // WIDTH] * 3


def test_look_ups_of_narrow_rows_soon_have_all_rows_of_a_look_up_batch() -> None:
    index = Squares()
    joined(squares(index, batch_rows=4_096), *range(20_000))
    assert [len(keys) for keys in index.looked_up] == [16, 256, 3_824, 4_096, 4_096, 4_096, 3_616]


def test_what_is_in_flight_comes_before_the_barrier() -> None:
    assert joined(squares(prefetch=256, submit=LastFirst()), 1, 2, 3, 4, 5) == [(v, v * v) for v in range(1, 6)]


# ------------------------------------------------------------------------------------------------------ failures


def test_a_failure_names_the_index_the_keys_and_the_cause() -> None:
    index = Squares(lambda keys: OSError("the disk is gone") if 7 in keys else None)
    with pytest.raises(
        ExecutionError,
        match=r"^relations\[0\]: looking up keys 3 to 9 \(4 rows\) in index 'squares' failed: the disk is gone$",
    ) as caught:
        joined(squares(index, batch_rows=5), 7, 3, None, 9, 3)
    assert (caught.value.reason, type(caught.value.__cause__)) == ("LOOKUP_FAILED", OSError)


def test_rows_before_a_failure_come_first_even_if_it_was_known_earlier() -> None:
    index = Squares(lambda keys: OSError("gone") if keys == [3] else None)
    output = squares(index, prefetch=3, submit=LastFirst()).run([stream(numbers(1, 2, 3, 4))])
    assert [row["k"] for row in rows_of([next(output), next(output)])] == [1, 2]
    with pytest.raises(ExecutionError, match="key 3"):
        next(output)


def test_rows_before_an_inputs_failure_come_first() -> None:
    rows = watched([1, 2, 3], breaks_after=3)
    output = squares(batch_rows=2, prefetch=4).run([rows])
    assert [row["k"] for row in rows_of([next(output), next(output)])] == [1, 2, 3]
    with pytest.raises(Boom):
        next(output)
    assert rows.closed


class Flaky:
    """Fails of `error` the first `times` times."""

    def __init__(self, error: Exception, times: int) -> None:
        self.error, self.times = error, times

    def __call__(self, keys: list[int]) -> Exception | None:
        self.times -= 1
        return self.error if self.times >= 0 else None


def test_a_look_up_is_made_again_after_longer_and_longer_pauses() -> None:
    pauses: list[float] = []
    index = Squares(Flaky(Transient("busy"), 4))
    retries = Retries(count=4, backoff=0.5, longest=3.0)
    operator = squares(index, retries=retries, pause=lambda stopped, seconds: pauses.append(seconds))
    assert joined(operator, 2) == [(2, 4)]
    assert pauses == [0.5, 1.0, 2.0, 3.0]


def test_a_look_up_that_keeps_failing_fails_with_its_attempts() -> None:
    index = Squares(Flaky(Transient("busy"), 9))
    operator = squares(index, retries=Retries(count=2), pause=lambda stopped, seconds: None)
    with pytest.raises(ExecutionError, match=r"key 2 .* failed after 3 attempts: busy"):
        joined(operator, 2)
    assert len(index.looked_up) == 3


def test_what_the_index_does_not_call_retryable_is_not_made_again() -> None:
    index = Squares(Flaky(OSError("gone"), 1))
    with pytest.raises(ExecutionError, match="failed: gone"):
        joined(squares(index, retries=Retries(count=2)), 2)
    assert len(index.looked_up) == 1


def test_an_epoch_after_a_failed_one_is_as_ever() -> None:
    operator = squares(Squares(Flaky(OSError("gone"), 1)))
    with pytest.raises(ExecutionError):
        joined(operator, 2)
    assert joined(operator, 2) == [(2, 4)]


@pytest.mark.parametrize(("rows", "squares_of"), [([1, 0], [1, 2]), ([0], [1, 2]), ([0, 2], [1, 2]), ([-1, 0], [1, 2])])
def test_an_index_that_breaks_its_contract_is_named(rows: list[int], squares_of: list[int]) -> None:
    class Wrong(Squares):
        def lookup(self, keys: pa.RecordBatch) -> Matches:
            return Matches(rows=np.array(rows), columns=pa.record_batch({"square": squares_of}))

    with pytest.raises(InternalError, match="index 'squares' broke its contract"):
        joined(squares(Wrong(), batch_rows=2), 1, 2)


# ------------------------------------------------------------------------------------------- closing, interrupting


def first_of_three(submit: ByHand) -> None:
    if len(submit.futures) == 3:
        submit.run(0)


def test_an_early_close_cancels_what_has_not_begun() -> None:
    submit, index, rows = ByHand(first_of_three), Squares(), watched(range(9))
    output = squares(index, prefetch=2, submit=submit).run([rows])
    next(output)
    close(output)
    assert [future.cancelled() for future in submit.futures] == [False, True, True]
    assert (rows.closed, rows.pulled, index.interrupted) == (True, 3, 0)


def test_an_early_close_tells_what_runs_to_end_and_does_not_wait_for_it() -> None:
    submit, index = ByHand(first_of_three), Squares()
    output = squares(index, prefetch=2, submit=submit).run([watched(range(9))])
    next(output)
    (running, call), _ = submit.waiting
    running.set_running_or_notify_cancel()
    close(output)
    assert (running.done(), index.interrupted) == (False, 1)
    with pytest.raises(ExecutionError, match="interrupted"):
        call()
    assert index.looked_up == [[0]]


def test_an_interrupt_ends_the_wait_for_a_look_up_that_never_ends() -> None:
    begun = threading.Event()
    submit, index, rows = ByHand(lambda submit: begun.set()), Squares(), watched(range(9))
    operator = squares(index, submit=submit)
    with in_thread(lambda: list(operator.run([rows]))) as failed:
        begun.wait()
        operator.interrupt()
    assert [(type(error), getattr(error, "reason", "")) for error in failed] == [(ExecutionError, "INTERRUPTED")]
    assert (rows.closed, submit.futures[0].cancelled()) == (True, True)


def test_an_interrupt_ends_the_pause_before_another_attempt() -> None:
    pausing = threading.Event()

    def pause(stopped: threading.Event, seconds: float) -> None:
        pausing.set()
        stopped.wait()

    index = Squares(Flaky(Transient("busy"), 1))
    operator = squares(index, retries=Retries(count=1), pause=pause)
    with in_thread(lambda: joined(operator, 1)) as failed:
        pausing.wait()
        operator.interrupt()
    assert [getattr(error, "reason", "") for error in failed] == ["INTERRUPTED"]
    assert (len(index.looked_up), index.interrupted) == (1, 1)


def test_a_look_up_that_the_executor_cancels_ends_the_run() -> None:
    def cancel(submit: ByHand) -> None:
        submit.futures[-1].cancel()

    with pytest.raises(ExecutionError, match="interrupted"):
        joined(squares(submit=ByHand(cancel)), 1)


def test_an_interrupt_between_epochs_does_nothing() -> None:
    index = Squares()
    operator = squares(index)
    operator.interrupt()
    assert joined(operator, 2) == [(2, 4)]
    operator.interrupt()
    assert (joined(operator, 3), index.interrupted) == ([(3, 9)], 0)


def test_closing_the_operator_closes_the_index() -> None:
    index = Squares()
    squares(index).close()
    assert index.closed


# ----------------------------------------------------------------------------------------------------- arguments


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"prefetch": -1}, "-1 of them ahead"),
        ({"batch_rows": 0}, "batches of 0 rows"),
        ({"keys": []}, "keys \\[\\] for index 'squares'"),
        ({"probe": pa.schema([("k", pa.int32())])}, "keys .*int32.* for index 'squares' of keys .*int64"),
        ({"schema": PROBE}, "a join of .* as k: int64"),
        ({"join": "left", "schema": JOINED.set(1, JOINED.field(1).with_nullable(False))}, "are required"),
    ],
)
def test_arguments_that_do_not_fit_are_refused(change: dict[str, Any], message: str) -> None:
    arguments = {"schema": JOINED, "probe": PROBE, "keys": [0], "index": Squares(), **change}
    with pytest.raises(InternalError, match=message):
        IndexLookupJoin(**arguments)


def test_retries_are_not_negative() -> None:
    with pytest.raises(InternalError, match="cannot be negative"):
        Retries(backoff=-1.0)


def close(output: Any) -> None:
    output.close()


@contextmanager
def in_thread(call: Callable[[], object]) -> Iterator[list[Exception]]:
    """Runs `call` beside the block and waits for it at its end; what it raised is in the list."""
    raised: list[Exception] = []

    def run() -> None:
        try:
            call()
        except Exception as error:  # noqa: BLE001 - looked at by the test
            raised.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    yield raised
    thread.join()
