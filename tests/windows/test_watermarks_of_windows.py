"""The watermarks that end final windows: of several sources, of idle ones, by the feeder's word, of times far ahead."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
import substrait.builders.plan as builders
import substrait.dataframe as sub
from substrait.builders.extended_expression import column
from substrait.extension_registry import ExtensionRegistry

import tidegate
from tidegate import windows
from tidegate.plans import iterate
from tidegate.relations import Span

COUNT = sub.f.count().alias("rows")


def source(name: str = "events") -> Any:
    return sub.read_named_table(name, {"t": sub.i64, "k": sub.string})


def rows(*times: int | None) -> pa.Table:
    return pa.table({"t": pa.array(times, pa.int64()), "k": ["a"] * len(times)})


def per_ten(events: Any, **how: Any) -> Any:
    return windows.tumbling(events, "t", 10, measures=[COUNT], final=True, **how)


def starts(epoch: tidegate.Epoch) -> list[int]:
    return sorted(epoch.table().column("window_start").to_pylist())


def continuous(client: tidegate.Client, frame: Any, channels: int = 1) -> tidegate.Task:
    return client.create_task(frame.to_plan(), mode="continuous", channels=channels)


@pytest.mark.parametrize("channels", [1, 2])
def test_the_least_watermark_of_two_sources_ends_their_windows(client: tidegate.Client, channels: int) -> None:
    ahead, behind = (windows.watermark(source(name), "t") for name in ("ahead", "behind"))
    with continuous(client, per_ten(ahead.union(behind)), channels) as task:
        assert starts(task.run_epoch({"ahead": rows(1, 45), "behind": rows(2)})) == []
        epoch = task.run_epoch({"behind": rows(7, 31)})
        assert starts(epoch) == [0]
        assert epoch.watermark == 21
        assert epoch.table().column("rows").to_pylist() == [3]


def test_an_idle_source_holds_no_other_one_back(client: tidegate.Client) -> None:
    quiet = windows.watermark(source("quiet"), "t", idle_epochs=2)
    busy = windows.watermark(source("busy"), "t", idle_epochs=2)
    with continuous(client, per_ten(quiet.union(busy))) as task:
        task.run_epoch({"quiet": rows(1), "busy": rows(2, 25)})
        assert starts(task.run_epoch({"busy": rows(26)})) == []
        assert starts(task.run_epoch({"busy": rows(27)})) == [0]
        late = task.run_epoch({"quiet": rows(3, 24)})
        assert starts(late) == []
        assert starts(task.run_epoch({"quiet": rows(40), "busy": rows(40)})) == [20]
        task.run_epoch({})
        silent = task.run_epoch({})
        assert (silent.watermark, starts(silent)) == (None, [])


def test_a_split_can_say_the_watermark(client: tidegate.Client) -> None:
    timed = sub.read_named_table("events", {"t": sub.precision_timestamp(3), "k": sub.string})
    second = windows.tumbling(timed, "t", Span(nanoseconds=10**9), measures=[COUNT], final=True)
    with continuous(client, second) as task:

        def feed(times: list[int], watermark: int) -> list[int]:
            table = pa.table({"t": pa.array(times, pa.timestamp("ms")), "k": ["a"] * len(times)})
            task.add_split("events", table, watermark=watermark)
            task.request_barrier()
            return [len(row) for row in [task.read_epoch().column("rows").to_pylist()]]

        assert feed([5, 1_005], 999_999) == [0]
        assert feed([6], 1_000_000) == [1]
        assert feed([7, 2_000], 2_000_000) == [1]


def test_one_row_far_ahead_does_not_end_all_windows(client: tidegate.Client) -> None:
    bounded = windows.watermark(source(), "t", ahead=20)
    with continuous(client, per_ten(bounded)) as task:
        assert task.run_epoch({"events": rows(2**62)}).watermark is None
        assert task.run_epoch({"events": rows(0, 1, 2**62)}).watermark == 21 - 10
        assert starts(task.run_epoch({"events": rows(25, 33)})) == [10 * 2]


def test_nulls_deletions_and_infinite_times_do_not_move_the_watermark(client: tidegate.Client) -> None:
    with continuous(client, windows.late_rows(windows.watermark(source(), "t"), "t", size=10)) as task:
        assert task.run_epoch({"events": rows(None, 5)}).watermark == 5
        assert task.run_epoch({"events": rows(50)}).watermark == 50
        gone = rows(50).append_column("_weight", pa.array([-1], pa.int64()))
        assert task.run_epoch({"events": tidegate.Changes(gone)}).watermark == 50


def test_state_is_the_rows_of_open_windows(client: tidegate.Client) -> None:
    def held(task: tidegate.Task) -> int:
        (final,) = [part for part in task.statistics().operators if part.operator == "FinalWindows"]
        return final.state_bytes

    with continuous(client, per_ten(windows.watermark(source(), "t"), keys=["k"])) as task:
        for start in range(0, 40_000, 1_000):
            task.run_epoch({"events": rows(*range(start, start + 1_000))})
            if start == 3_000:
                early = held(task)
        assert held(task) <= 2 * early


@pytest.mark.parametrize("measure", [sub.f.count(), sub.f.max(sub.col("t"))])
def test_groups_of_slices_go_with_their_windows(client: tidegate.Client, measure: Any) -> None:
    def state(task: tidegate.Task) -> int:
        return sum(part.state_bytes for part in task.statistics().operators if part.operator != "RetractionCheck")

    marked = windows.watermark(source(), "t")
    frame = windows.sliding(marked, "t", 4, 2, keys=["k"], measures=[measure.alias("m")], final=True)
    sizes = []
    with continuous(client, frame) as task:
        for start in range(0, 100_000, 5_000):
            task.run_epoch({"events": rows(*range(start, start + 5_000))})
            sizes.append(state(task))
    assert max(sizes) <= 4 * sizes[0]


def test_a_window_keeps_numbers_and_not_its_rows(client: tidegate.Client) -> None:
    frame = windows.tumbling(windows.watermark(source(), "t"), "t", 10**6, measures=[COUNT], final=True)
    sizes = []
    with continuous(client, frame) as task:
        for start in range(0, 100_000, 10_000):
            task.run_epoch({"events": rows(*range(start, start + 10_000))})
            kept = [part for part in task.statistics().operators if part.operator.startswith(("Group", "Final"))]
            sizes.append(sum(part.state_bytes for part in kept))
    assert max(sizes) < 2_000


def test_a_source_forgets_rows_that_are_late_for_its_readers(client: tidegate.Client) -> None:
    def hashes(task: tidegate.Task) -> int:
        (check,) = [part for part in task.statistics().operators if part.operator == "RetractionCheck"]
        return check.state_bytes

    def fed(frame: Any) -> list[int]:
        sizes = []
        with continuous(client, frame) as task:
            for start in range(0, 200_000, 10_000):
                task.run_epoch({"events": rows(*range(start, start + 10_000))})
                sizes.append(hashes(task))
        return sizes

    marked = windows.watermark(source(), "t")
    ending = fed(per_ten(marked))
    assert max(ending) <= 4 * ending[0]
    both = per_ten(marked).select("rows").union(marked.group_by("k").agg(COUNT).select("rows"))
    lasting = fed(both)
    assert lasting[-1] >= 15 * lasting[0]


def test_a_row_that_is_not_there_cannot_be_deleted_while_its_window_is_open(client: tidegate.Client) -> None:
    with continuous(client, per_ten(windows.watermark(source(), "t"), lateness=20)) as task:
        task.run_epoch({"events": rows(5, 30)})
        gone = rows(6).append_column("_weight", pa.array([-1], pa.int64()))
        with pytest.raises(tidegate.TaskFailed, match="deleted more often than inserted"):
            task.run_epoch({"events": tidegate.Changes(gone)})


@pytest.mark.parametrize(
    "frame",
    [
        lambda rows: windows.session(rows, "t", 5, keys=["k"], measures=[COUNT], final=True),
        lambda rows: windows.count(rows, "t", 2, keys=["k"], measures=[COUNT], final=True),
        lambda rows: windows.tumbling(rows, "t", 10, measures=[sub.f.count(sub.col("t")).distinct()], final=True),
        lambda rows: windows.tumbling(rows, "t", 10, measures=[COUNT], final=True),
        lambda rows: windows.sliding(rows, "t", 10, 5, measures=[sub.f.max(sub.col("t"))], final=True),
        lambda rows: windows.tumbling(rows, "t", 10, measures=[COUNT], final=True).union(
            windows.tumbling(rows.filter(sub.col("t") > 100), "t", 10, measures=[COUNT])
        ),
    ],
)
def test_a_deletion_on_time_of_a_row_that_is_late_fails(client: tidegate.Client, frame: Any) -> None:
    with continuous(client, frame(windows.watermark(source(), "t"))) as task:
        wrong = rows(1, 3, 30, 3).append_column("_weight", pa.array([1, -1, 1, 1], pa.int64()))
        with pytest.raises(tidegate.TaskFailed, match="deleted on time, but its insertion came later"):
            task.run_epoch({"events": tidegate.Changes(wrong)})


def test_a_row_that_is_deleted_on_time_and_comes_again_late_is_gone(client: tidegate.Client) -> None:
    with continuous(client, per_ten(windows.watermark(source(), "t"))) as task:
        task.run_epoch({"events": rows(3, 3, 4)})
        again = rows(3, 3, 30, 3).append_column("_weight", pa.array([-1, -1, 1, 1], pa.int64()))
        assert task.run_epoch({"events": tidegate.Changes(again)}).table().column("rows").to_pylist() == [1]


def test_a_row_that_is_deleted_on_time_may_come_late_and_be_deleted_late(client: tidegate.Client) -> None:
    with continuous(client, per_ten(windows.watermark(source(), "t"))) as task:
        changed = rows(3, 3, 4, 30, 3, 3).append_column("_weight", pa.array([1, -1, 1, 1, 1, -1], pa.int64()))
        assert task.run_epoch({"events": tidegate.Changes(changed)}).table().column("rows").to_pylist() == [1]


def test_explain_says_what_final_windows_keep(client: tidegate.Client) -> None:
    def text(frame: Any) -> str:
        return client.explain(frame.to_plan(), mode="continuous").text

    marked = windows.watermark(source(), "t")
    assert "size 10, lateness 3, keeps slices of open windows" in text(per_ten(marked, lateness=3))
    different = sub.f.count(sub.col("k")).distinct().alias("different")
    sliding = windows.sliding(marked, "t", 10, 5, measures=[different], final=True)
    assert "size 10, slide 5, keeps rows of open windows" in text(sliding)
    sliding = windows.sliding(marked, "t", 10, 5, measures=[COUNT], final=True)
    assert "slide 5, keeps slices and running results of open windows; each window at the same cost" in text(sliding)
    mean = sub.f.avg(sub.col("t").cast(sub.fp64)).alias("mean")
    sliding = windows.sliding(marked, "t", 10, 5, measures=[mean], final=True)
    assert "slide 5, keeps rows, slices and running results of open windows; each window at" in text(sliding)
    session = windows.session(marked, "t", 10, measures=[COUNT], final=True)
    assert "gap 10, keeps rows and last times of open sessions; each session at the same cost" in text(session)
    assert "late rows, size 10" in text(windows.late_rows(marked, "t", size=10))


def test_statistics_say_what_bounds_the_state_of_each_operator(client: tidegate.Client) -> None:
    marked = windows.watermark(source(), "t")
    with continuous(client, per_ten(marked)) as task:
        task.run_epoch({"events": rows(3, 15)})
        bounds = {operator.operator: (operator.keeps, operator.bound) for operator in task.statistics().operators}
    assert bounds["GroupSlices"] == ("numbers of groups", "of open windows")
    assert bounds["FinalWindows"] == ("slices", "of open windows")
    assert bounds["RetractionCheck"] == ("a hash of each row", "that is not late for all readers")
    assert bounds["OnTime"] == ("", "")
    with continuous(client, windows.sliding(marked, "t", 10, 5, measures=[COUNT], final=True)) as task:
        bounds = {operator.operator: (operator.keeps, operator.bound) for operator in task.statistics().operators}
    assert bounds["FinalSlidingWindows"] == ("slices and running results", "of open windows")
    both = per_ten(marked).select("rows").union(marked.group_by("k").agg(COUNT).select("rows"))
    with continuous(client, both) as task:
        bounds = {operator.operator: (operator.keeps, operator.bound) for operator in task.statistics().operators}
    assert bounds["RetractionCheck"] == ("a hash of each row", "")


def test_windows_and_sources_without_an_end_get_a_warning(client: tidegate.Client) -> None:
    def warned(frame: Any) -> list[str]:
        return list(client.warnings(frame.to_plan(), mode="continuous"))

    marked = windows.watermark(source(), "t")
    assert warned(per_ten(marked)) == []
    (none_declared,) = warned(per_ten(source()))
    assert "no watermark is declared for source 'events'" in none_declared
    assert "The task keeps a hash of each of its rows for ever" in none_declared
    kept, groups = warned(per_ten(marked).select("rows").union(marked.group_by("k").agg(COUNT).select("rows")))
    assert "source 'events': the task keeps a hash of each of its rows for ever" in kept
    assert "the task keeps numbers of groups for ever, because no watermark says" in groups


def test_a_skipped_epoch_moves_no_watermark_and_leaves_no_row(client: tidegate.Client) -> None:
    frame = per_ten(windows.watermark(source(), "t"), keys=["k"])
    with client.create_task(frame.to_plan(), mode="continuous", on_error="skip_epoch") as task:
        task.run_epoch({"events": rows(5)})
        wrong = rows(7, 50, 99).append_column("_weight", pa.array([1, 1, -1], pa.int64()))
        with pytest.raises(tidegate.EpochError, match="deleted more often"):
            task.run_epoch({"events": tidegate.Changes(wrong)})
        assert starts(task.run_epoch({"events": rows(6)})) == []
        assert task.run_epoch({"events": rows(10)}).table().column("rows").to_pylist() == [2]


def test_windows_and_late_rows_are_in_one_plan(client: tidegate.Client) -> None:
    marked = windows.watermark(source(), "t")
    late = windows.late_rows(marked, "t", size=10).select("t")
    both = per_ten(marked).select("window_start").union(late)
    with continuous(client, both) as task:
        assert task.run_epoch({"events": rows(3, 21, 4)}).table().column(0).to_pylist() == [0, 4]


def test_final_windows_are_the_input_of_other_relations(client: tidegate.Client) -> None:
    inner = windows.tumbling(windows.watermark(source(), "t"), "t", 10, measures=[COUNT], final=True)
    outer = windows.tumbling(inner, "window_start", 20, measures=[sub.f.sum(sub.col("rows")).alias("rows")], final=True)
    with continuous(client, outer) as task:
        assert starts(task.run_epoch({"events": rows(1, 2, 15, 29)})) == []
        assert task.run_epoch({"events": rows(44)}).table().column("rows").to_pylist() == [3]


def test_final_windows_inside_of_a_loop_are_refused(client: tidegate.Client) -> None:
    def body(back: Any) -> Any:
        inside = windows.tumbling(back, "c0", 10, measures=[COUNT], final=True)
        return builders.select(inside, [column(0)])

    start = sub.read_named_table("events", {"c0": sub.i64}).to_plan()
    loop = iterate("again", start, body)(ExtensionRegistry(load_default_extensions=True))
    assert [problem.reason for problem in client.validate(loop, mode="continuous")] == ["FINAL_IN_LOOP"]


def test_late_rows_are_counted(client: tidegate.Client) -> None:
    with continuous(client, per_ten(windows.watermark(source(), "t"))) as task:
        task.run_epoch({"events": rows(1, 25, 2, 3)})
        (on_time,) = [part for part in task.statistics().operators if part.operator == "OnTime"]
        assert on_time.rows_in - on_time.rows_out == 2


def test_rows_of_an_aggregate_are_judged_by_the_watermark_of_the_epoch_before(client: tidegate.Client) -> None:
    groups = windows.watermark(source(), "t").group_by("t", "k").agg(sub.f.count().alias("n"))
    with continuous(client, per_ten(groups)) as task:
        assert starts(task.run_epoch({"events": rows(3, 30, 4)})) == [0]
        assert starts(task.run_epoch({"events": rows(5, 35, 41)})) == [30]


def test_rows_of_an_integer_column_of_any_width_have_watermarks(client: tidegate.Client) -> None:
    for kind, arrow in ((sub.i8, pa.int8()), (sub.i16, pa.int16()), (sub.i32, pa.int32())):
        narrow = windows.watermark(sub.read_named_table("events", {"t": kind}), "t")
        with continuous(client, windows.tumbling(narrow, "t", 10, measures=[COUNT], final=True)) as task:
            epoch = task.run_epoch({"events": pa.table({"t": pa.array([-100, 27], arrow)})})
            assert starts(epoch) == [-100]


def test_a_barrier_ends_all_windows_of_a_per_epoch_task(client: tidegate.Client) -> None:
    marked = windows.watermark(source(), "t")
    for final, late in ((per_ten(marked), windows.late_rows(marked, "t", size=10)),):
        with client.create_task(final.to_plan()) as task:
            assert starts(task.run_epoch({"events": rows(25, 1)})) == [0, 20]
        with client.create_task(late.to_plan()) as task:
            assert task.run_epoch({"events": rows(25, 1)}).table().num_rows == 0


@pytest.mark.parametrize(
    ("frame", "reason"),
    [
        (lambda: windows.watermark(source().group_by("t").agg(COUNT), "t"), "MISPLACED_WATERMARK"),
        (lambda: windows.watermark(source(), "t", -1), "WRONG_SPAN"),
        (lambda: windows.watermark(source(), "t", ahead=0), "WRONG_SPAN"),
        (lambda: windows.watermark(source(), "k"), "NOT_A_TIME"),
        (lambda: per_ten(source(), lateness=-1), "WRONG_SPAN"),
        (lambda: windows.late_rows(source(), "t", slide=2), "MISSING"),
        (
            lambda: windows.watermark(source(), "t", 1).union(windows.watermark(source(), "t", 2)),
            "WATERMARK_CONFLICT",
        ),
    ],
)
def test_a_watermark_that_makes_no_sense_is_refused(client: tidegate.Client, frame: Any, reason: str) -> None:
    assert [problem.reason for problem in client.validate(frame().to_plan(), mode="continuous")] == [reason]


def test_lateness_without_final_windows_is_refused() -> None:
    with pytest.raises(tidegate.InvalidRequest, match="final=True"):
        windows.tumbling(source(), "t", 10, lateness=5)
