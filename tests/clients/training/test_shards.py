"""With shards, a rank reads only the splits that its share of batches comes from. The order is that of plain Python."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import chain
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
from tidegate.training import Loader, Shuffle
from tidegate.training.order.rank_shares import Wanted
from tidegate.training.order.shards import ShardShares, epoch_shards

from . import oracle
from .conftest import SPLIT_ROWS, kept, numbers

SIZE, SHARDS = 16, 4
TAILS = ["short", "drop", "pad"]


def loader(client: Client, folder: Path, plan: bytes | None = None, **options: Any) -> Loader:
    wanted = {"batch_size": SIZE, "shards": SHARDS, "shuffle": Shuffle(11, rows=60), "prefetch": 0, **options}
    return Loader(client, plan or kept(), {"samples": folder}, **wanted)


def rows_of(batches: Iterator[tidegate.training.Batch] | Loader) -> list[list[int]]:
    return [batch["n"].tolist() for batch in batches]


def expected(epochs: int = 1, tail: str = "short", first: int = 0, shards: int = SHARDS) -> list[list[int]]:
    ends = [sum(SPLIT_ROWS[:at]) for at in range(len(SPLIT_ROWS) + 1)]
    splits = [[n for n in range(*ends[at : at + 2]) if n > 40 and n % 10 != 7] for at in range(len(SPLIT_ROWS))]
    return [
        batch
        for epoch in range(first, epochs)
        for batch in oracle.sharded_batches(splits, 11, 60, epoch, SIZE, shards, tail)
    ]


def joined(shares: list[list[list[int]]]) -> list[list[int]]:
    return [list(chain.from_iterable(parts)) for parts in zip(*shares, strict=True)]


@pytest.mark.parametrize("tail", TAILS)
def test_batches_of_shards_come_in_the_order_of_plain_python(client: Client, folder: Path, tail: str) -> None:
    ends = {"drop_last": tail == "drop", "pad": tail == "pad"}
    assert rows_of(loader(client, folder, epochs=3, prefetch=3, **ends)) == expected(3, tail)


@pytest.mark.parametrize("tail", TAILS)
@pytest.mark.parametrize("ranks", [1, 2, 3, 4, 7, 20])
def test_global_batches_are_the_same_for_any_number_of_ranks(
    local_client: Client, folder: Path, ranks: int, tail: str
) -> None:
    ends = {"drop_last": tail == "drop", "pad": tail == "pad"}
    shares = [rows_of(loader(local_client, folder, rank=rank, ranks=ranks, **ends)) for rank in range(ranks)]
    assert joined(shares) == expected(1, tail)


def test_workers_take_the_batches_of_shards_in_turns(local_client: Client, folder: Path) -> None:
    for rank in range(2):
        whole = rows_of(loader(local_client, folder, rank=rank, ranks=2))
        shares = [
            rows_of(loader(local_client, folder, rank=rank, ranks=2, worker=number, workers=3)) for number in range(3)
        ]
        assert shares == [whole[number::3] for number in range(3)]


def test_every_state_of_shards_goes_on_exactly_with_another_number_of_ranks(local_client: Client, folder: Path) -> None:
    batches = expected(2)
    whole = loader(local_client, folder, epochs=2, prefetch=3)
    states = [whole.state_dict(), *(whole.state_dict() for _ in whole)]
    assert len(states) == len(batches) + 1
    for number, state in enumerate(states[:-1]):
        shares = []
        for rank in range(ranks := 1 + number % 4):
            resumed = loader(local_client, folder, epochs=2, rank=rank, ranks=ranks)
            resumed.load_state_dict(json.loads(json.dumps(state)))
            shares.append(rows_of(resumed))
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
    add_split = tidegate.Task.add_split

    def noted(task: tidegate.Task, source: str, split: Any) -> Any:
        paths.append(split.path)
        return add_split(task, source, split)

    monkeypatch.setattr(tidegate.Task, "add_split", noted)
    return paths


def test_a_rank_reads_the_files_of_its_shards_alone(local_client: Client, many: Path, fed: list[str]) -> None:
    read = []
    for rank in range(4):
        fed.clear()
        read += list(chain.from_iterable(rows_of(loader(local_client, many, numbers(), rank=rank, ranks=4))))
        assert len(fed) == len(set(fed)) == 4
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


@settings(max_examples=200, deadline=None)
@given(
    counts=st.lists(st.integers(0, 30), min_size=1, max_size=12),
    width=st.integers(1, 5),
    shards=st.integers(2, 6),
    ranks=st.integers(1, 9),
    seed=st.integers(0, 99),
    start=st.integers(0, 4),
)
def test_the_ranks_have_each_row_of_the_shards_once(
    counts: list[int], width: int, shards: int, ranks: int, seed: int, start: int
) -> None:
    size = width * shards
    epoch = epoch_shards(counts, Shuffle(seed, rows=20), 0, size, shards)
    rows = [
        (part.split, row) for window in epoch.windows for part in window.parts for row in range(part.first, part.end)
    ]
    tail = [(part.split, row) for part in epoch.tail_window.parts for row in range(part.first, part.end)]
    assert (len(rows), len(tail)) == (epoch.full * size, sum(counts) % size)
    assert sorted(rows + tail) == [(split, row) for split, count in enumerate(counts) for row in range(count)]
    taken = []
    for rank in range(ranks):
        shares = ShardShares.among(Wanted(size=size, rank=rank, ranks=ranks), shards)
        for window in shares.windows(epoch, start):
            positions = shares.positions(window, start)
            of_window = range(window.rows)[positions] if isinstance(positions, slice) else positions.tolist()
            taken += [(window.shard, window.first + row) for row in of_window]
    first = min(start, epoch.full) * width
    assert sorted(taken) == [(shard, row) for shard in range(shards) for row in range(first, epoch.full * width)]
