"""With shards and turns, ranks and workers read only the splits that their rows come from. The order is that of plain
Python.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, product
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import substrait.dataframe as sub
from hypothesis import given, settings
from hypothesis import strategies as st

import tidegate
from tidegate.client import Client
from tidegate.training import Batch, Loader, Position, Shuffle
from tidegate.training.order.rank_shares import Wanted
from tidegate.training.order.shards import Grid, ShardShares, epoch_shards

from ...searching import SEARCHES, one_of_each
from . import oracle
from .conftest import SPLIT_ROWS, kept, numbers

SIZE, SHARDS = 16, 4
TAILS = ["short", "drop", "pad"]


def loader(client: Client, folder: Path, plan: bytes | None = None, **options: Any) -> Loader:
    wanted = {"batch_size": SIZE, "shards": SHARDS, "shuffle": Shuffle(11, rows=60), "prefetch": 0, **options}
    return Loader(client, plan or kept(), {"samples": folder}, **wanted)


def rows_of(batches: Iterator[tidegate.training.Batch] | Loader) -> list[list[int]]:
    return [batch["n"].tolist() for batch in batches]


def expected(
    epochs: int = 1, tail: str = "short", first: int = 0, shards: int = SHARDS, turns: int = 1
) -> list[list[int]]:
    ends = [sum(SPLIT_ROWS[:at]) for at in range(len(SPLIT_ROWS) + 1)]
    splits = [[n for n in range(*ends[at : at + 2]) if n > 40 and n % 10 != 7] for at in range(len(SPLIT_ROWS))]
    return [
        batch
        for epoch in range(first, epochs)
        for batch in oracle.sharded_batches(splits, 11, 60, epoch, SIZE, shards, tail, turns)
    ]


def joined(shares: list[list[list[int]]]) -> list[list[int]]:
    return [list(chain.from_iterable(parts)) for parts in zip(*shares, strict=True)]


@pytest.mark.parametrize(("tail", "shards", "turns"), [*((tail, SHARDS, 1) for tail in TAILS), ("pad", 2, 3)])
def test_batches_of_shards_come_in_the_order_of_plain_python(
    client: Client, folder: Path, tail: str, shards: int, turns: int
) -> None:
    ends = {"drop_last": tail == "drop", "pad": tail == "pad", "shards": shards, "turns": turns}
    assert rows_of(loader(client, folder, epochs=3, prefetch=3, **ends)) == expected(3, tail, 0, shards, turns)


@pytest.mark.parametrize(("ranks", "tail"), one_of_each(product([1, 2, 3, 4, 7, 20], TAILS)))
def test_global_batches_are_the_same_for_any_number_of_ranks(
    local_client: Client, folder: Path, ranks: int, tail: str
) -> None:
    ends = {"drop_last": tail == "drop", "pad": tail == "pad"}
    shares = [rows_of(loader(local_client, folder, rank=rank, ranks=ranks, **ends)) for rank in range(ranks)]
    assert joined(shares) == expected(1, tail)


@pytest.mark.parametrize("grid", [{}, {"turns": 3}, {"shards": 1, "turns": 6}])
def test_workers_take_the_batches_of_shards_in_turns(local_client: Client, folder: Path, grid: dict[str, int]) -> None:
    for rank in range(2):
        whole = rows_of(loader(local_client, folder, rank=rank, ranks=2, **grid))
        shares = [
            rows_of(loader(local_client, folder, rank=rank, ranks=2, worker=number, workers=3, **grid))
            for number in range(3)
        ]
        assert shares == [whole[number::3] for number in range(3)]


@pytest.mark.parametrize(("shards", "turns"), [(SHARDS, 1), (2, 3)])
def test_every_state_of_shards_goes_on_exactly_with_another_number_of_ranks_and_workers(
    local_client: Client, folder: Path, shards: int, turns: int
) -> None:
    """CI takes every fifth state."""
    batches = expected(2, shards=shards, turns=turns)
    whole = loader(local_client, folder, epochs=2, prefetch=3, shards=shards, turns=turns)
    states = [whole.state_dict()]
    for batch in whole:
        states.append(whole.state_dict())
        assert whole.state_after(batch) == states[-1]
    assert len(states) == len(batches) + 1
    per_epoch = len(batches) // 2
    for number, state in list(enumerate(states[:-1]))[:: 1 if SEARCHES else 5]:
        shares = []
        workers = 1 + number % turns
        for rank in range(ranks := 1 + number % 4):
            read: dict[int, list[int]] = {}
            for worker in range(workers):
                options = {"rank": rank, "ranks": ranks, "worker": worker, "workers": workers}
                resumed = loader(local_client, folder, epochs=2, shards=shards, turns=turns, **options)
                resumed.load_state_dict(json.loads(json.dumps(state)))
                read |= {batch.epoch * per_epoch + batch.number: batch["n"].tolist() for batch in resumed}
            shares.append([read[at] for at in range(number, len(batches))])
        assert joined(shares) == batches[number:]


def test_any_batch_of_shards_can_be_had_again(client: Client, folder: Path) -> None:
    whole = loader(client, folder, epochs=2)
    batches = expected(2, first=1)
    assert [whole.batch(1, number)["n"].tolist() for number in range(len(batches))] == batches
    with pytest.raises(tidegate.InvalidRequest, match=f"epoch 1 has no batch {len(batches)}"):
        whole.batch(1, len(batches))


def test_every_row_of_a_shard_says_where_it_comes_from(local_client: Client, folder: Path) -> None:
    ends = [sum(SPLIT_ROWS[:at]) for at in range(len(SPLIT_ROWS) + 1)]
    read = []
    for batch in loader(local_client, folder, numbers(), provenance=True):
        assert [ends[split] + row for split, row in zip(batch["_split"], batch["_row"], strict=True)] == list(
            batch["n"]
        )
        read += batch["n"].tolist()
    assert sorted(read) == list(range(ends[-1]))


@pytest.fixture
def many(tmp_path: Path) -> Path:
    """Sixteen files of a hundred rows."""
    for number in range(16):
        rows = pa.table({"n": range(number * 100, number * 100 + 100)})
        pq.write_table(rows, tmp_path / f"part-{number:02}.parquet")
    return tmp_path


@pytest.fixture
def fed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The files of the splits that loaders feed from now on."""
    paths: list[str] = []
    start_epoch = tidegate.Task.start_epoch

    def noted(task: tidegate.Task, splits: Mapping[str, Sequence[Any]]) -> Any:
        paths.extend(split.path for of_source in splits.values() for split in of_source)
        return start_epoch(task, splits)

    monkeypatch.setattr(tidegate.Task, "start_epoch", noted)
    return paths


def test_a_rank_reads_the_files_of_its_shards_alone(local_client: Client, many: Path, fed: list[str]) -> None:
    read = []
    for rank in range(4):
        fed.clear()
        read += list(chain.from_iterable(rows_of(loader(local_client, many, numbers(), rank=rank, ranks=4))))
        assert len(fed) == len(set(fed)) == 4
    assert sorted(read) == list(range(1_600))


@pytest.mark.parametrize(
    ("turns", "ranks", "workers", "files"), [(2, 2, 2, 4), (4, 1, 4, 4), (4, 1, 2, 8), (2, 1, 4, 8)]
)
def test_a_worker_reads_the_files_of_its_turns_alone(
    local_client: Client, many: Path, fed: list[str], turns: int, ranks: int, workers: int, files: int
) -> None:
    read: list[int] = []
    for rank in range(ranks):
        for worker in range(workers):
            fed.clear()
            options = {"rank": rank, "ranks": ranks, "worker": worker, "workers": workers}
            of_worker = rows_of(
                loader(local_client, many, numbers(), shards=ranks, turns=turns, batch_size=20, **options)
            )
            read += chain.from_iterable(of_worker)
            assert len(fed) == len(set(fed)) == files
    assert sorted(read) == list(range(1_600))


def test_the_splits_of_a_filter_are_counted_once_for_all_epochs(
    local_client: Client, many: Path, fed: list[str]
) -> None:
    samples = sub.read_named_table("samples", {"n": sub.i64})
    plan = bytes(samples.filter(sub.col("n") % 2 == 0).to_plan().SerializeToString())
    rows_of(loader(local_client, many, plan, epochs=3, rank=1, ranks=4))
    assert len(fed) == 16 + 3 * 4


def test_a_plan_whose_splits_change_their_rows_is_refused(local_client: Client, many: Path) -> None:
    whole = loader(local_client, many, kept(), epochs=2)
    rows_of(whole.one_epoch())
    pq.write_table(pa.table({"n": range(7)}), many / "part-03.parquet")
    with pytest.raises(tidegate.TidegateError, match=r"part-03|it was counted with"):
        rows_of(whole)


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({"batch_size": 18}, "multiple of shards=4"),
        ({"shards": 0}, "shards"),
        ({"turns": 0}, "turns"),
        ({"shards": 1, "turns": 2, "weight": "n"}, "turns=2 needs"),
        ({"weight": "n"}, "weight"),
        ({"on_error": "skip"}, "on_error"),
    ],
)
def test_shards_that_make_no_sense_are_refused(
    local_client: Client, folder: Path, wrong: dict[str, Any], named: str
) -> None:
    with pytest.raises(tidegate.InvalidRequest, match=named):
        loader(local_client, folder, **wrong)


def test_a_state_of_another_number_of_shards_is_refused(local_client: Client, folder: Path) -> None:
    with pytest.raises(tidegate.Refused, match=r"shards \(the state's: 4, this loader's: 2\)"):
        loader(local_client, folder, shards=2).load_state_dict(loader(local_client, folder).state_dict())


def test_a_state_of_another_number_of_turns_is_refused(local_client: Client, folder: Path) -> None:
    state = loader(local_client, folder).state_dict()
    with pytest.raises(tidegate.Refused, match=r"turns \(the state's: 1, this loader's: 2\)"):
        loader(local_client, folder, turns=2).load_state_dict(state)
    earlier = {name: value for name, value in state.items() if name != "turns"}
    loader(local_client, folder).load_state_dict(earlier)


@pytest.mark.parametrize("options", [{}, {"drop_last": True}, {"pad": True}, {"shards": 1, "turns": 4}])
def test_a_state_behind_the_last_batch_is_refused(local_client: Client, folder: Path, options: dict[str, Any]) -> None:
    whole = loader(local_client, folder, **options)
    count = len(list(whole.one_epoch()))
    beyond = Batch()
    for batch in (count, count + 1, 2**63 - 1):
        beyond.after = Position(batch=batch)
        resumed = loader(local_client, folder, **options)
        resumed.load_state_dict(whole.state_after(beyond))
        with pytest.raises(tidegate.Refused, match=f"batch {batch} of epoch 0") as refused:
            next(iter(resumed))
        assert refused.value.reason == "STATE_MISMATCH"


def test_a_state_with_skipped_splits_is_none_of_shards(local_client: Client, folder: Path) -> None:
    whole = loader(local_client, folder)
    with pytest.raises(tidegate.InvalidRequest, match="skipped") as refused:
        whole.load_state_dict({**whole.state_dict(), "skipped": [0]})
    assert refused.value.reason == "BAD_STATE"


@settings(max_examples=200, deadline=None)
@given(
    counts=st.lists(st.integers(0, 30), min_size=1, max_size=12),
    width=st.integers(1, 5),
    grid=st.builds(Grid, shards=st.integers(1, 5), turns=st.integers(1, 5)),
    ranks=st.integers(1, 7),
    workers=st.integers(1, 5),
    seed=st.integers(0, 99),
    start=st.integers(0, 4),
)
def test_the_ranks_and_workers_have_each_row_of_the_shards_once(
    counts: list[int], width: int, grid: Grid, ranks: int, workers: int, seed: int, start: int
) -> None:
    size = width * grid.shards
    epoch = epoch_shards(counts, Shuffle(seed, rows=20), 0, size, grid)
    rows = [
        (part.split, row) for window in epoch.windows for part in window.parts for row in range(part.first, part.end)
    ]
    tail = [(part.split, row) for part in epoch.tail_window.parts for row in range(part.first, part.end)]
    assert (len(rows), len(tail)) == (epoch.full * size, sum(counts) % size)
    assert sorted(rows + tail) == [(split, row) for split, count in enumerate(counts) for row in range(count)]
    taken = []
    for rank in range(ranks):
        for worker in range(workers):
            wanted = Wanted(size=size, rank=rank, ranks=ranks, stride=workers, offset=worker)
            shares = ShardShares.among(wanted, grid)
            for window in shares.windows(epoch, start):
                positions = shares.positions(window, start)
                of_window = range(window.rows)[positions] if isinstance(positions, slice) else positions.tolist()
                taken += [(window.shard, window.first + row) for row in of_window]
    left = [
        (shard, batch // grid.turns * width + row)
        for batch in range(start, epoch.full)
        for shard in range(batch % grid.turns * grid.shards, (batch % grid.turns + 1) * grid.shards)
        for row in range(width)
    ]
    assert sorted(taken) == sorted(left)
