"""Plans of several channels: what they answer, and that nothing but the plan and the splits shows in the answer."""

from __future__ import annotations

import random
import sys
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.adding import add_splits
from tidegate.planner.ir import Routing
from tidegate.planner.physical.pipelines import Feed, PhysicalPlan, SourceShape
from tidegate.proto.errors import TaskFailed
from tidegate.proto.values import Cursor, Data, FileSplit, InlineSplit

from ..shaking import shaken
from .channel_plans import (
    ByHand,
    broadcast_join,
    diamond,
    exchange,
    files,
    fragment,
    inline,
    limited,
    pipeline,
    plan,
    receive,
    row_wise,
    running,
    scan,
    self_join,
    sorted_by_key,
    summed,
    three_deep,
)

Rows = list[tuple[object, ...]]
CHANNELS = pytest.mark.parametrize("channels", [1, 2, 3, 8])
MANY = 150_000


def keyed(rows: int, keys: int, seed: int = 7) -> tuple[list[int], list[int]]:
    random_numbers = random.Random(seed)
    return [random_numbers.randrange(keys) for _ in range(rows)], [
        random_numbers.randrange(-1_000, 1_000) for _ in range(rows)
    ]


T = keyed(MANY, 500)
N = keyed(400, 500, seed=8)
FEW = keyed(3_000, 200)


def sums(keys: Sequence[int], values: Sequence[int]) -> Counter[int]:
    totals: Counter[int] = Counter()
    for key, value in zip(keys, values, strict=True):
        totals[key] += value
    return totals


def even(keys: Sequence[int], values: Sequence[int]) -> tuple[list[int], list[int]]:
    kept = [(key, value) for key, value in zip(keys, values, strict=True) if value % 2 == 0]
    return [key for key, _ in kept], [value for _, value in kept]


def arrow_file(path: Path, split: InlineSplit) -> Path:
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, split.schema) as writer:
        for batch in split.batches:
            writer.write_batch(batch)
    return path


# -------------------------------------------------------------------------------------------------------- answers


@CHANNELS
def test_groups_are_exchanged_by_hash(channels: int, tmp_path: Path) -> None:
    with running(summed(channels), tmp_path) as task:
        assert sorted(task.run(t=inline(*T))) == sorted(sums(*T).items())


@CHANNELS
def test_a_small_side_is_given_to_all_channels(channels: int, tmp_path: Path) -> None:
    small = [(key, value) for key, value in zip(*N, strict=True) if value >= 0]
    wanted = Counter((k, v + w) for k, v in zip(*FEW, strict=True) for key, w in small if key == k)
    with running(broadcast_join(channels), tmp_path) as task:
        assert Counter(task.run(t=inline(*FEW), n=inline(*N))) == wanted


@CHANNELS
def test_sorted_channels_are_merged(channels: int, tmp_path: Path) -> None:
    with running(sorted_by_key(channels), tmp_path) as task:
        keys = [key for key, _ in task.run(t=inline(*T))]
    assert keys == sorted(T[0])


@CHANNELS
def test_one_source_may_feed_both_sides_of_a_join(channels: int, tmp_path: Path) -> None:
    wanted = Counter((a, b) for k, a in zip(*N, strict=True) for key, b in zip(*N, strict=True) if key == k)
    with running(self_join(channels), tmp_path) as task:
        assert Counter(task.run(t=inline(*N))) == wanted


@CHANNELS
def test_a_fragment_may_read_its_share_of_a_source_and_the_whole_of_it(channels: int, tmp_path: Path) -> None:
    for at in range(3):
        table = pa.table({"k": N[0][at::3], "v": N[1][at::3]})
        pq.write_table(table, tmp_path / f"{at}.parquet", row_group_size=50)
    sql = "SELECT a.c1, b.c1 FROM src0 a JOIN src1 b ON a.c0 = b.c0"
    pairs = fragment(sql, files("t", "src0"), files("t", "src1", whole=True))
    wanted = Counter((a, b) for k, a in zip(*N, strict=True) for key, b in zip(*N, strict=True) if key == k)
    with running(plan(pipeline(pairs, "t", channels=channels)), tmp_path) as task:
        assert Counter(task.run(t=FileSplit(path=str(tmp_path / "*.parquet")))) == wanted


@CHANNELS
def test_a_diamond_s_arms_meet_again(channels: int, tmp_path: Path) -> None:
    total = sums(*even(*T))
    wanted = Counter((key, total[key]) for key in even(*T)[0])
    with running(diamond(channels), tmp_path) as task:
        assert Counter(task.run(t=inline(*T))) == wanted


@CHANNELS
def test_pipelines_are_chained_three_exchanges_deep(channels: int, tmp_path: Path) -> None:
    counts = Counter(Counter(T[0]).values())
    with running(three_deep(channels), tmp_path) as task:
        assert sorted(task.run(t=inline(*T))) == sorted(Counter(counts.values()).items())


def test_an_epoch_without_rows_is_an_answer_too(tmp_path: Path) -> None:
    with running(diamond(2), tmp_path) as task:
        assert task.run() == []


def test_epochs_follow_one_another_on_warm_instances(tmp_path: Path) -> None:
    with running(summed(3), tmp_path) as task:
        for seed in range(5):
            rows = keyed(2_000, 50, seed)
            assert sorted(task.run(t=inline(*rows))) == sorted(sums(*rows).items())
        assert {plan_path: operator.runs for plan_path, operator in task.operators().items()} == dict.fromkeys(
            ("scan t", "partial", "exchange 0", "final"), 15
        )


# -------------------------------------------------------------------------------------------------- determinism

PLANS: dict[str, tuple[Callable[[int], PhysicalPlan], dict[str, tuple[list[int], list[int]]]]] = {
    "groups": (summed, {"t": T}),
    "merged": (sorted_by_key, {"t": T}),
    "broadcast": (broadcast_join, {"t": T, "n": N}),
    "self-join": (self_join, {"t": FEW}),
    "diamond": (diamond, {"t": T}),
    "three deep": (three_deep, {"t": T}),
    "row-wise": (row_wise, {"t": T}),
}


@pytest.mark.parametrize("name", PLANS)
def test_neither_threads_nor_delays_nor_batches_nor_memory_for_exchanges_show(name: str, tmp_path: Path) -> None:
    of, rows = PLANS[name]
    digests = set()
    for at, (threads, batch_rows, options) in enumerate(
        [(1, 1 << 20, {}), (2, 1_000, {}), (8, 70_001, {"queue_bytes": 100_000}), (3, 65_536, {"output_bytes": 1_000})]
    ):
        pauses = shaken(at, lambda number: number * 0.003) if at else nullcontext()
        with pauses, running(of(2), tmp_path / str(at), threads=threads, **options) as task:
            splits = {source: inline(*columns, batch_rows=batch_rows) for source, columns in rows.items()}
            digests |= {task.digest(**splits), task.digest(**splits)}
    assert len(digests) == 1


@CHANNELS
def test_row_wise_rows_keep_the_order_of_the_splits(channels: int, tmp_path: Path) -> None:
    splits = [inline(range(start, start + 30_000)) for start in range(0, 300_000, 30_000)]
    with running(row_wise(channels), tmp_path) as task:
        assert task.run(t=splits) == [(row, 2 * row) for row in range(300_000)]


def test_row_wise_rows_come_before_the_seal_whatever_the_channels(tmp_path: Path) -> None:
    with running(row_wise(3), tmp_path) as task:
        for start in (0, 250_000):
            add_splits(task.manager, task.id, [("t", inline(range(start, start + 250_000)), None)])
        row = 0
        while row < 500_000:
            (frame,) = task.manager.next(task.id, Cursor(1, row), wait=60.0)
            assert isinstance(frame, Data)
            row += frame.rows
        assert len(list(task.batches(task.seal()))) > 0


# ------------------------------------------------------------------------------------------------------ exchanges


def test_rows_behind_a_reader_that_does_not_read_wait_on_disk(tmp_path: Path) -> None:
    moved = exchange(0, Routing.HASH, 2)
    passed = plan(
        pipeline(fragment("SELECT c0, c1 FROM in0", scan("t")), "t", channels=2, into=[moved]),
        pipeline(fragment("SELECT c0, c1 FROM in0", receive(moved), plan_path="after"), channels=2),
    )
    with running(passed, tmp_path, threads=1, queue_bytes=100_000, output_bytes=10_000) as task:
        splits = [inline(range(start, start + 5_000)) for start in range(0, 20_000, 5_000)]
        assert sorted(task.run(t=splits)) == [(row, row) for row in range(20_000)]
        statistics = task.operators()["exchange 0"]
        assert (statistics.rows_in, statistics.rows_out) == (20_000, 20_000)
        assert statistics.spilled_bytes > 0


def test_a_limit_above_a_gather_stops_the_scans(tmp_path: Path) -> None:
    rows = 3_000_000
    split = inline(range(rows), batch_rows=10_000)
    with running(limited(2, 10), tmp_path, queue_bytes=1_000_000, memory_limit=1 << 30) as task:
        assert task.run(t=split) == [(row, row) for row in range(10)]
        assert task.operators()["scan t"].rows_in <= rows // 4


def test_a_source_is_shared_out_and_read_once_unless_it_is_whole(tmp_path: Path) -> None:
    with running(self_join(4), tmp_path) as task:
        task.run(t=inline(*N))
        assert task.operators()["scan t"].rows_in == len(N[0]) * 5


def test_statistics_are_the_sums_over_the_channels(tmp_path: Path) -> None:
    with running(summed(3), tmp_path) as task:
        task.run(t=inline(*FEW))
        operators = task.operators()
        assert operators["scan t"].rows_out == len(FEW[0])
        assert operators["partial"].rows_out == operators["exchange 0"].rows_in == operators["exchange 0"].rows_out
        assert operators["final"].rows_out == len(set(FEW[0]))


def splits_of(rows: tuple[list[int], list[int]], parts: int) -> list[InlineSplit]:
    return [inline(rows[0][at::parts], rows[1][at::parts]) for at in range(parts)]


def test_many_small_splits_are_shared_like_one(tmp_path: Path) -> None:
    with running(summed(4), tmp_path) as task:
        assert sorted(task.run(t=splits_of(FEW, 60))) == sorted(sums(*FEW).items())


@pytest.mark.parametrize("threads", [1, 2, 8])
def test_how_much_may_be_moved_between_channels_does_not_depend_on_threads(threads: int, tmp_path: Path) -> None:
    split = FileSplit(path=str(arrow_file(tmp_path / "rows.arrow", inline(range(MANY)))))
    moved = 16 * MANY
    with running(summed(2), tmp_path, threads=threads, queue_bytes=10_000, spill_quota=2 * moved) as task:
        assert len(task.run(t=split)) == MANY
    with running(summed(2), tmp_path, threads=threads, queue_bytes=10_000, spill_quota=moved // 2) as task:
        with pytest.raises(TaskFailed, match="between its channels") as failed:
            task.run(t=split)
        assert failed.value.reason == "SPILL_QUOTA"


@pytest.mark.parametrize("threads", [1, 8])
def test_what_runs_ahead_of_a_single_reader_needs_no_room(threads: int, tmp_path: Path) -> None:
    with running(sorted_by_key(3), tmp_path, threads=threads, queue_bytes=10_000, spill_quota=0) as task:
        write = arrow_file(tmp_path / "rows.arrow", inline(*T))
        assert [key for key, _ in task.run(t=FileSplit(path=str(write)))] == sorted(T[0])


def test_statistics_are_read_while_pipelines_of_other_shapes_are_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ByHand, "relevant", lambda _, shape: shape)
    shapes = [{"t": SourceShape(feed=Feed.STREAM, size_class=size)} for size in (1, 10, 100)]
    with running(plan(pipeline(fragment("SELECT c0, c1 FROM in0", scan("t")), "t")), tmp_path) as task:
        computation, ended = task.computation, threading.Event()

        def take() -> None:
            while not ended.is_set():
                for shape in shapes:
                    computation.pipelines(shape, 0)

        taking = threading.Thread(target=take)
        taking.start()
        interval = sys.getswitchinterval()
        sys.setswitchinterval(1e-6)
        try:
            assert {computation.plans for _ in range(20_000)} == {0}
        finally:
            sys.setswitchinterval(interval)
            ended.set()
            taking.join()
