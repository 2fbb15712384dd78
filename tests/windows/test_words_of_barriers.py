"""The word of the feeder with a barrier: watermarks of sources, and sources that are idle in the epoch."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pyarrow as pa
import pytest
import substrait.dataframe as sub

import tidegate
from tidegate import windows
from tidegate.executor.service.embedded import open_service
from tidegate.proto.errors import InvalidRequest, Refused
from tidegate.relations import Span

from ..server.running import served
from .test_watermarks_of_windows import continuous, per_ten, rows, source, starts


@pytest.fixture(params=["in this process", "over gRPC"], scope="module")
def either(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tidegate.Client]:
    folder = tmp_path_factory.mktemp("spill")
    with closing(open_service(roots=[], spill_directory=folder)) as service, ExitStack() as stack:
        if request.param == "over gRPC":
            yield stack.enter_context(tidegate.connect(stack.enter_context(served(service))))
        else:
            yield tidegate.Client(service)


def test_a_barrier_says_the_watermark_of_a_source(either: tidegate.Client) -> None:
    with continuous(either, per_ten(source())) as task:
        first = task.run_epoch({"events": rows(1, 12)}, watermarks={"events": 10})
        assert (starts(first), first.watermark) == ([0], 0)
        assert starts(task.run_epoch({"events": rows(9, 13)})) == []
        task.request_barrier(watermarks={"events": 20})
        assert task.read_epoch().column("rows").to_pylist() == [2]


def test_of_the_words_of_splits_and_of_their_barrier_the_later_one_counts(either: tidegate.Client) -> None:
    for of_split, of_barrier in ((20, 10), (10, 20)):
        with continuous(either, per_ten(source())) as task:
            task.add_split("events", rows(1, 12), watermark=of_split)
            task.request_barrier(watermarks={"events": of_barrier})
            assert sorted(task.read_epoch().column("window_start").to_pylist()) == [0, 10]


def test_a_source_that_ends_holds_no_window_back_by_the_watermark_of_its_last_split(either: tidegate.Client) -> None:
    with continuous(either, per_ten(source("ending").union(source("last")))) as task:
        task.add_split("ending", rows(1, 12), watermark=5)
        task.no_more_splits("ending")
        task.add_split("last", rows(21), watermark=20)
        task.request_barrier()
        task.add_split("last", rows(25, 38), watermark=22)
        task.no_more_splits()
        assert [(starts(epoch), epoch.watermark) for epoch in task.epochs()] == [([0, 10], 10), ([20, 30], None)]


@pytest.mark.parametrize("word", [10**16, 2**63 - 2], ids=["the year 2286", "the greatest"])
@pytest.mark.parametrize("marked", [False, True])
def test_a_word_beyond_the_last_nanosecond_ends_all_windows(either: tidegate.Client, marked: bool, word: int) -> None:
    nanoseconds = sub.read_named_table("events", {"t": sub.precision_timestamp(9)})
    events = windows.watermark(nanoseconds, "t") if marked else nanoseconds
    counts = windows.tumbling(events, "t", Span(nanoseconds=10), measures=[sub.f.count().alias("n")], final=True)
    some = pa.table({"t": pa.array([5, 12, 9_000], pa.timestamp("ns"))})
    with continuous(either, counts) as task:
        assert task.run_epoch({"events": some}, watermarks={"events": word}).table().num_rows == 3
        assert task.run_epoch({"events": some}).table().num_rows == 0


def test_the_later_one_of_rows_and_word_counts(either: tidegate.Client) -> None:
    with continuous(either, per_ten(windows.watermark(source(), "t", delay=5))) as task:
        assert starts(task.run_epoch({"events": rows(1, 12)})) == []
        assert starts(task.run_epoch({}, watermarks={"events": 11})) == [0]
        assert starts(task.run_epoch({"events": rows(26)}, watermarks={"events": 3})) == [10]


def test_a_source_that_is_idle_by_word_holds_no_other_one_back_in_this_epoch(either: tidegate.Client) -> None:
    quiet, busy = (windows.watermark(source(name), "t") for name in ("quiet", "busy"))
    with continuous(either, per_ten(quiet.union(busy))) as task:
        assert starts(task.run_epoch({"quiet": rows(1), "busy": rows(2, 25)})) == []
        assert starts(task.run_epoch({"busy": rows(26)}, idle=["quiet"])) == [0]
        assert starts(task.run_epoch({"busy": rows(47)})) == []
        assert starts(task.run_epoch({"quiet": rows(33)})) == [20]


def test_a_source_without_a_declared_watermark_is_idle_by_word(either: tidegate.Client) -> None:
    busy = windows.watermark(source("busy"), "t")
    with continuous(either, per_ten(source("quiet").union(busy))) as task:
        assert starts(task.run_epoch({"busy": rows(2, 25)})) == []
        assert starts(task.run_epoch({}, idle=["quiet"])) == [0]
        assert task.run_epoch({}, watermarks={"quiet": 12}).watermark == 2


@pytest.mark.parametrize(("declared", "rows_of_first"), [(False, 3), (True, 2)])
def test_only_a_declared_watermark_makes_rows_late_while_another_source_holds_their_window_open(
    either: tidegate.Client, *, declared: bool, rows_of_first: int
) -> None:
    ahead = windows.watermark(source("ahead"), "t", delay=100) if declared else source("ahead")
    behind = windows.watermark(source("behind"), "t")
    with continuous(either, per_ten(ahead.union(behind))) as task:
        assert starts(task.run_epoch({"ahead": rows(1, 25), "behind": rows(2)}, watermarks={"ahead": 20})) == []
        first = task.run_epoch({"ahead": rows(3), "behind": rows(12)})
        assert (starts(first), first.table().column("rows").to_pylist()) == ([0], [rows_of_first])
        second = task.run_epoch({"ahead": rows(4), "behind": rows(23)})
        assert (starts(second), second.table().column("rows").to_pylist()) == ([10], [1])


def test_a_barrier_of_a_per_epoch_task_says_the_watermark_of_its_result(either: tidegate.Client) -> None:
    both = source("one").union(source("other"))
    with either.create_task(both.to_plan()) as task:
        splits = {"one": rows(1), "other": rows(2)}
        assert task.run_epoch(splits, watermarks={"one": 5, "other": 4}).watermark == 4
        assert task.run_epoch(splits, watermarks={"one": 5}).watermark is None
        assert task.run_epoch(splits, watermarks={"one": 5}, idle=["other"]).watermark == 5


def test_a_repeated_request_joins_its_epoch_and_another_word_is_refused(either: tidegate.Client) -> None:
    with continuous(either, per_ten(source())) as task:
        task.add_split("events", rows(1))
        for _ in range(2):
            assert task.request_barrier(1, watermarks={"events": 10}) == 1
        with pytest.raises(Refused) as refused:
            task.request_barrier(1, watermarks={"events": 20})
        assert refused.value.reason == "SAID_TOO_LATE"
        assert task.request_barrier(1) == 1
        assert task.request_barrier(watermarks={"events": 20}) == 2


def test_words_that_make_no_sense_are_refused(either: tidegate.Client) -> None:
    with continuous(either, per_ten(source())) as task:
        for watermarks, idle, words in (
            ({"events": (1 << 63) - 1}, (), "no_more_splits"),
            ({"events": 1 << 63}, (), "64 bits"),
            ({"events": 1}, ["events"], "leave one of the two out"),
            ({"others": 1}, (), "others"),
            ({}, ["others"], "others"),
        ):
            with pytest.raises(Exception, match=words) as refused:
                task.request_barrier(watermarks=watermarks, idle=idle)
            assert isinstance(refused.value, tidegate.TidegateError)
        with pytest.raises(InvalidRequest, match="sequence of names"):
            task.request_barrier(idle="events")
        assert task.run_epoch({"events": rows(1)}).number == 1


def test_the_words_of_barriers_outlive_the_process(tmp_path: Path) -> None:
    quiet, busy = (windows.watermark(source(name), "t") for name in ("quiet", "busy"))
    with tidegate.local(data=tmp_path) as client:
        task = continuous(client, per_ten(quiet.union(busy)))
        task.add_split("busy", rows(2, 25))
        task.request_barrier(idle=["quiet"])
        assert task.read_epoch().num_rows == 1
        task.request_barrier(watermarks={"quiet": 30, "busy": 30})
    with tidegate.local(data=tmp_path) as client:
        again = client.task(task.id)
        assert [again.read_epoch().column("window_start").to_pylist() for _ in range(2)] == [[0], [20]]
