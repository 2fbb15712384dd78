"""Plans name operators that the service's owner has registered, and they run as those of graphs do."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import tidegate
from tidegate.planner.decode import decode_plan
from tidegate.planner.meaning import meaning as meaning_of
from tidegate.proto.operator_registration import Options
from tidegate.proto.values import PlanBytes
from tidegate.relations import UserOperator

from ..on_channels import on_channels
from .operated_plans import I64, TEXT, joined, operated, picked, plan, read

NUMBERS = {"k": I64, "v": I64}
SUMS = pa.schema([("k", pa.int64()), ("total", pa.int64())])
ROWS = pa.table({"k": [at % 700 for at in range(200_000)], "v": list(range(200_000))})


class Sums:
    """The sum of c1 for each c0, `times` so much, by c0."""

    def __init__(self, options: Options) -> None:
        self.times = options.get("times", 1)
        self.rows: list[pa.RecordBatch] = []

    def execute(self, batches: Sequence[pa.RecordBatch], stream: str, channel: int) -> None:
        if self.times == 0:
            raise ZeroDivisionError("no times at all")
        self.rows += batches

    def done(self, channel: int) -> pa.Table | None:
        if not self.rows:
            return None
        sums = pa.Table.from_batches(self.rows).group_by("c0").aggregate([("c1", "sum")]).sort_by("c0")
        totals = pa.array([total * self.times for total in sums["c1_sum"].to_pylist()])
        return pa.table({"k": sums["c0"], "total": totals})


class First:
    """The first `rows` rows of its stream."""

    def __init__(self, options: Options) -> None:
        self.left = options["rows"]

    def execute(self, batches: Sequence[pa.RecordBatch], stream: str, channel: int) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield batch.slice(0, self.left)
            self.left -= min(self.left, batch.num_rows)

    def finished(self, stream: str, channel: int) -> bool:
        return bool(self.left == 0)

    def done(self, channel: int) -> None:
        return None


class OfBuild:
    """The rows of "probe" whose first column is among that of "build"."""

    def __init__(self, options: Options) -> None:
        self.known: set[int] = set()

    def execute(self, batches: Sequence[pa.RecordBatch], stream: str, channel: int) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            if stream == "build":
                self.known.update(batch["c0"].to_pylist())
            else:
                yield batch.filter(pa.array([value in self.known for value in batch["c0"].to_pylist()]))

    def done(self, channel: int) -> None:
        return None


def keyed(options: Options) -> Mapping[str, Any]:
    return {"rows": options.get("key", "c0")}


OPERATORS = {
    "sums": tidegate.user_operator(Sums, schema=SUMS, partition="c0"),
    "sums_by": tidegate.user_operator(Sums, schema=SUMS, partition=keyed),
    "first": tidegate.user_operator(First),
    "known": tidegate.user_operator(
        OfBuild,
        streams=("build", "probe"),
        schema=lambda options, schemas: schemas[1],
        partition={"build": None, "probe": tidegate.SPREAD},
        after={"probe": "build"},
    ),
    "broken": tidegate.user_operator(Sums, schema=lambda options, schemas: schemas[7]),
    "copies": tidegate.user_operator(Sums, schema=SUMS, partition=None),
}


@pytest.fixture(scope="module")
def client() -> Iterator[tidegate.Client]:
    with tidegate.local(operators=OPERATORS) as service:
        yield service


def named(name: str, **options: Any) -> UserOperator:
    detail = UserOperator(name=name)
    detail.options.update(options)
    return detail


def summed(name: str = "sums", **options: Any) -> bytes:
    return plan(operated(named(name, **options), read("numbers", NUMBERS)), ["k", "total"])


def expected(rows: pa.Table, times: int = 1) -> list[tuple[int, int]]:
    totals: dict[int, int] = {}
    for key, value in zip(rows["k"].to_pylist(), rows["v"].to_pylist(), strict=True):
        totals[key] = totals.get(key, 0) + value * times
    return sorted(totals.items())


def rows_in_order(table: pa.Table) -> list[tuple[int, ...]]:
    return sorted(zip(*(column.to_pylist() for column in table.columns), strict=True))


def refused(client: tidegate.Client, plan_: bytes, **options: Any) -> tidegate.Problem:
    with pytest.raises(tidegate.PlanError) as error:
        client.create_task(plan_, **options)
    (problem,) = error.value.problems
    return problem


def test_a_relaxed_plan_gives_the_rows_of_a_strict_one(client: tidegate.Client) -> None:
    with client.create_task(summed(times=2), determinism="relaxed") as task:
        for rows in (ROWS, ROWS.slice(7, 70_000), ROWS.slice(0, 0)):
            assert rows_in_order(task.run_epoch({"numbers": rows}).table()) == expected(rows, 2)


@pytest.mark.parametrize("channels", [1, 3])
def test_every_epoch_has_executors_of_its_own(client: tidegate.Client, channels: int) -> None:
    with client.create_task(summed(times=2), **on_channels(channels)) as task:
        for rows in (ROWS, ROWS.slice(0, 5), ROWS.slice(0, 0)):
            assert rows_in_order(task.run_epoch({"numbers": rows}).table()) == expected(rows, 2)


def test_rows_of_one_key_are_on_one_channel(client: tidegate.Client) -> None:
    with client.create_task(summed(), **on_channels(3)) as task:
        assert rows_in_order(task.run_epoch({"numbers": ROWS}).table()) == expected(ROWS)
        text = client.explain(summed(), **on_channels(3), rows={"numbers": ROWS.num_rows}).text
    assert "exchange 0 to pipeline 2: hash of columns 0" in text
    assert "user operator 'sums': rows hash of columns 0" in text


def test_what_stands_around_an_operator_is_planned_as_always(client: tidegate.Client) -> None:
    over = operated(named("sums"), picked(read("numbers", {"v": I64, "k": I64}), 2, [1, 0]))
    names = plan(joined(over, read("names", {"id": I64, "name": TEXT}), 2), ["k", "total", "id", "name"])
    with client.create_task(names) as task:
        splits = {"numbers": ROWS.slice(0, 1_000), "names": pa.table({"id": [3, 9_999], "name": ["three", "none"]})}
        assert task.run_epoch(splits).table().to_pylist() == [{"k": 3, "total": 3 + 703, "id": 3, "name": "three"}]


def test_one_stream_waits_for_another(client: tidegate.Client) -> None:
    inputs = (read("few", {"k": I64}), read("numbers", NUMBERS))
    with client.create_task(plan(operated(named("known"), *inputs), ["k", "v"]), **on_channels(3)) as task:
        result = task.run_epoch({"few": pa.table({"k": [5, 6]}), "numbers": ROWS}).table()
    assert rows_in_order(result) == sorted((at % 700, at) for at in range(200_000) if at % 700 in (5, 6))


def test_an_operator_that_has_enough_stops_what_it_reads(client: tidegate.Client) -> None:
    with client.create_task(plan(operated(named("first", rows=3), read("numbers", NUMBERS)), ["k", "v"])) as task:
        assert task.run_epoch({"numbers": [ROWS, ROWS, ROWS, ROWS]}).table() == ROWS.slice(0, 3)
        (scan, *_) = task.statistics().operators
    assert scan.rows_out <= ROWS.num_rows


@pytest.mark.parametrize("batch", [1_000, 65_537])
@pytest.mark.parametrize("threads", [1, 4])
def test_the_order_of_rows_depends_on_neither_threads_nor_batches(threads: int, batch: int) -> None:
    def digest(threads: int, batch: int) -> pa.Table:
        cut = pa.Table.from_batches(ROWS.to_batches(max_chunksize=batch))
        service = tidegate.local(operators=OPERATORS, threads=threads)
        with service, service.create_task(summed(), **on_channels(3)) as task:
            return task.run_epoch({"numbers": cut}).table()

    assert digest(threads, batch).equals(digest(2, 200_000))


def test_an_unknown_operator_is_refused_with_those_that_are_known(client: tidegate.Client) -> None:
    problem = refused(client, summed("summs"))
    assert (problem.reason, problem.place) == (
        "UNKNOWN_OPERATOR",
        "relations[0].root.input.extension_single.detail.name",
    )
    assert "there are: broken, copies, first, known, sums, sums_by" in problem.message
    assert [problem.reason for problem in client.validate(summed("summs"))] == ["UNKNOWN_OPERATOR"]


@pytest.mark.parametrize(
    ("name", "options", "reason", "text"),
    [
        ("sums", {"text": "x" * 70_000}, "OPTIONS_TOO_LARGE", "at most 65,536 are allowed"),
        ("sums", {"times": float("nan")}, "BAD_OPTIONS", "numbers must be finite"),
        ("sums_by", {"key": "k"}, "UNKNOWN_COLUMN", "is partitioned by 'k'; its columns are: c0, c1"),
        ("sums_by", {"key": 5}, "BAD_OPERATOR", "not 5"),
        ("broken", {}, "BAD_OPERATOR", "the schema of operator 'broken' failed: IndexError"),
        ("copies", {}, "BAD_OPERATOR", "all rows of all streams on every channel"),
        ("known", {}, "WRONG_INPUTS", "has the streams build, probe, and 1 inputs here"),
    ],
)
def test_what_an_operator_cannot_be_is_refused(
    client: tidegate.Client, name: str, options: dict[str, Any], reason: str, text: str
) -> None:
    problem = refused(client, summed(name, **options))
    assert problem.reason == reason
    assert text in problem.message


def test_a_continuous_task_is_refused(client: tidegate.Client) -> None:
    problem = refused(client, summed(), mode="continuous")
    assert problem.reason == "USER_OPERATOR_OVER_CHANGES"
    assert "run the plan in per-epoch mode" in problem.message


def test_what_its_code_raises_is_told_with_channel_and_epoch(
    client: tidegate.Client, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.ERROR)
    with client.create_task(summed(times=0)) as task, pytest.raises(tidegate.TaskFailed) as failed:
        task.run_epoch({"numbers": ROWS})
    assert "node 'sums', channel 0, epoch 1: execute on stream 'rows' raised ZeroDivisionError" in str(failed.value)
    assert 'raise ZeroDivisionError("no times at all")' in str(failed.value)
    assert 'raise ZeroDivisionError("no times at all")' in caplog.text


@pytest.mark.parametrize("channels", [1, 3])
def test_a_channel_whose_operator_fails_of_something_transient_is_made_anew(channels: int) -> None:
    failures = iter([tidegate.TransientError("busy")] * 2)

    class Busy(Sums):
        def done(self, channel: int) -> pa.Table | None:
            for error in failures:
                raise error
            return super().done(channel)

    operators = {"sums": tidegate.user_operator(Busy, schema=SUMS, partition="c0")}
    with (
        tidegate.local(operators=operators) as client,
        client.create_task(summed(), retries=2, **on_channels(channels)) as task,
    ):
        assert rows_in_order(task.run_epoch({"numbers": ROWS}).table()) == expected(ROWS)
    assert next(failures, None) is None


def test_options_arrive_as_they_were_written() -> None:
    seen: list[Options] = []

    def make(options: Options) -> First:
        seen.append(options)
        return First({"rows": 1})

    options = {"n": 3, "x": 0.5, "t": "é", "b": True, "none": None, "list": [1, {"a": [2]}]}
    rows = plan(operated(named("op", **options), read("numbers", NUMBERS)), ["k", "v"])
    service = tidegate.local(operators={"op": tidegate.user_operator(make)})
    with service, service.create_task(rows) as task:
        task.run_epoch({"numbers": ROWS})
    assert seen == [options]
    assert type(seen[0]["n"]) is int


def test_the_same_plan_of_another_version_means_something_else() -> None:
    def meaning(version: str) -> str:
        operators = {"first": tidegate.user_operator(First, version=version)}
        plan_bytes = plan(operated(named("first", rows=1), read("numbers", NUMBERS)), ["k", "v"])
        return meaning_of(decode_plan(PlanBytes(binary=plan_bytes), operators=operators).plan)

    assert meaning("1") == meaning("1")
    assert meaning("1") != meaning("2")


def test_a_checkpoint_of_another_version_of_an_operator_is_refused(tmp_path: Path) -> None:
    def service(version: str) -> tidegate.Client:
        operators = {"first": tidegate.user_operator(First, version=version)}
        return tidegate.local(operators=operators, checkpoint_root=tmp_path)

    rows = plan(operated(named("first", rows=1), read("numbers", NUMBERS)), ["k", "v"])
    with service("1") as client:
        taken = client.create_task(rows).run_epoch({"numbers": ROWS}, checkpoint=True).checkpoint
    with service("1") as client:
        assert client.create_task(rows, restore=taken).cursor == tidegate.Cursor(2, 0)
    with service("2") as client, pytest.raises(tidegate.CheckpointError, match="in another version") as refused:
        client.create_task(rows, restore=taken)
    assert refused.value.reason == "CHECKPOINT_OTHER_PLAN"
