"""Batches come in the order of plain Python, for any ranks, and go on from any state."""

from __future__ import annotations

import gc
import json
import os
import signal
import threading
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.parquet as pq
import pytest
import substrait.dataframe as sub

import tidegate
from tidegate.client import Client
from tidegate.training import Loader, Position, Shuffle
from tidegate.training.loader_reading import Reading
from tidegate.training.training_source import TrainingSource

from . import oracle
from .conftest import SPLIT_ROWS, kept, numbers

SHUFFLE = Shuffle(11, rows=60)
SIZE = 16


def loader(client: Client, folder: Path, plan: bytes | None = None, **options: Any) -> Loader:
    wanted = {"batch_size": SIZE, "shuffle": SHUFFLE, "prefetch": 3, **options}
    return Loader(client, plan or kept(), {"samples": folder}, **wanted)


def rows_of(batches: Iterator[tidegate.training.Batch] | Loader) -> list[list[int]]:
    return [batch["n"].tolist() for batch in batches]


def expected(epochs: int = 1, tail: str = "short", first: int = 0) -> list[list[int]]:
    """The batches of plain Python for `kept`."""
    ends = [sum(SPLIT_ROWS[:at]) for at in range(len(SPLIT_ROWS) + 1)]
    splits = [[n for n in range(*ends[at : at + 2]) if n > 40 and n % 10 != 7] for at in range(len(SPLIT_ROWS))]
    return [
        batch
        for epoch in range(first, epochs)
        for batch in oracle.batches(oracle.epoch_rows(splits, SPLIT_ROWS, 11, 60, epoch), SIZE, tail)
    ]


def joined(shares: list[list[list[int]]]) -> list[list[int]]:
    """Global batches from the shares of all ranks."""
    return [list(chain.from_iterable(parts)) for parts in zip(*shares, strict=True)]


@pytest.mark.parametrize("tail", ["short", "drop", "pad"])
def test_batches_come_in_the_order_of_plain_python(client: Client, folder: Path, tail: str) -> None:
    read = rows_of(loader(client, folder, epochs=3, drop_last=tail == "drop", pad=tail == "pad"))
    assert read == expected(3, tail)


@pytest.mark.parametrize("prefetch", [0, 1, 50])
def test_prefetching_changes_no_batch(client: Client, folder: Path, prefetch: int) -> None:
    assert rows_of(loader(client, folder, epochs=2, prefetch=prefetch)) == expected(2)


@pytest.mark.parametrize("ranks", [2, 4, 7])
@pytest.mark.parametrize("tail", ["short", "drop", "pad"])
def test_global_batches_are_the_same_for_any_number_of_ranks(
    local_client: Client, folder: Path, ranks: int, tail: str
) -> None:
    ends = {"drop_last": tail == "drop", "pad": tail == "pad", "prefetch": 0}
    shares = [rows_of(loader(local_client, folder, rank=rank, ranks=ranks, **ends)) for rank in range(ranks)]
    assert joined(shares) == expected(1, tail)
    assert {len(share) for shares_of in shares for share in shares_of[:-1]} <= {SIZE // ranks, SIZE // ranks + 1}


@pytest.mark.parametrize("workers", [2, 3])
def test_workers_take_the_batches_in_turns(local_client: Client, folder: Path, workers: int) -> None:
    read = [
        rows_of(loader(local_client, folder, worker=worker, workers=workers, prefetch=0)) for worker in range(workers)
    ]
    batches = expected()
    assert read == [batches[worker::workers] for worker in range(workers)]


def test_channels_do_not_show_in_the_order(local_client: Client, folder: Path) -> None:
    assert rows_of(loader(local_client, folder, channels=3, prefetch=0)) == expected()


def test_every_state_goes_on_exactly_with_another_number_of_ranks(local_client: Client, folder: Path) -> None:
    batches = expected(2)
    whole = loader(local_client, folder, epochs=2)
    states = [whole.state_dict()]
    states += [whole.state_dict() for _ in whole]
    assert len(states) == len(batches) + 1
    for number, state in enumerate(states[:-1]):
        ranks = 1 + number % 3
        shares = []
        for rank in range(ranks):
            resumed = loader(local_client, folder, epochs=2, rank=rank, ranks=ranks, prefetch=0)
            resumed.load_state_dict(json.loads(json.dumps(state)))
            shares.append(rows_of(resumed))
        assert joined(shares) == batches[number:]


def test_a_loader_that_is_resumed_again_and_again_gives_the_same_batches(client: Client, folder: Path) -> None:
    state, read = None, []
    while len(read) < len(expected(2)):
        resumed = loader(client, folder, epochs=2)
        if state is not None:
            resumed.load_state_dict(state)
        for _, batch in zip(range(3), resumed, strict=False):
            read.append(batch["n"].tolist())
            state = resumed.state_dict()
        resumed.close()
    assert read == expected(2)


def test_a_state_at_the_end_of_all_epochs_says_that_nothing_is_left(local_client: Client, folder: Path) -> None:
    whole = loader(local_client, folder)
    rows_of(whole)
    with pytest.raises(tidegate.Refused, match="all of its 1 epochs"):
        next(iter(whole))


def test_epochs_may_be_read_one_by_one(client: Client, folder: Path) -> None:
    with loader(client, folder, epochs=None) as endless:
        assert [rows_of(endless.one_epoch()) for _ in range(3)] == [expected(n + 1, first=n) for n in range(3)]
        assert endless.position == Position(3)
        assert len(client.tasks()) <= 2


@pytest.mark.parametrize("prefetch", [0, 3])
def test_an_endless_loop_that_no_batch_comes_to_fails(local_client: Client, prefetch: int) -> None:
    samples = pa.table({"n": range(20)})
    shares: Any = {"epochs": None, "worker": 2, "workers": 3, "prefetch": prefetch}
    endless = Loader(local_client, numbers(), {"samples": samples}, batch_size=10, **shares)
    with pytest.raises(tidegate.ExecutionError, match="epoch 0 has no batch for worker 2 of 3"):
        next(iter(endless))
    assert [rows_of(endless.one_epoch()) for _ in range(3)] == [[], [], []]
    endless.close()


@pytest.mark.parametrize("prefetch", [0, 3])
def test_a_loop_does_not_end_as_if_complete_where_its_loader_is_closed(
    client: Client, folder: Path, prefetch: int
) -> None:
    closed = loader(client, folder, prefetch=prefetch)
    loop = iter(closed)
    read = [next(loop)["n"].tolist() for _ in range(2)]
    closed.close()
    with pytest.raises(tidegate.Refused, match="the loader was closed") as refused:
        next(loop)
    assert refused.value.reason == "CONSUMED"
    assert list(client.tasks()) == []
    assert read + rows_of(closed) == expected()


@pytest.mark.parametrize("prefetch", [0, 3])
def test_a_loop_says_that_its_loader_was_closed_whatever_call_that_cut_off(
    local_client: Client, folder: Path, prefetch: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed = loader(local_client, folder, prefetch=prefetch)

    def cut_off(reading: Reading) -> object:
        closed.close()  # as another thread does while the loop waits for rows
        raise tidegate.EpochError("the task was cancelled", reason="TASK_CANCELLED", epoch=1)

    loop = iter(closed)
    next(loop)
    monkeypatch.setattr(Reading, "__next__", cut_off)
    with pytest.raises(tidegate.Refused, match="the loader was closed") as refused:
        next(loop)
    assert refused.value.reason == "CONSUMED"


@pytest.mark.parametrize("prefetch", [0, 3])
def test_a_loop_that_waits_is_told_that_another_thread_closes_its_loader(local_client: Client, prefetch: int) -> None:
    def samples(epoch: int) -> pa.Table:
        if epoch == 1 and not closings:
            while not closed._open:  # the thread that reads ahead may be here before the loop knows it
                threading.Event().wait(0.01)
            closings.append(threading.Thread(target=closed.close))
            closings[0].start()
            while list(local_client.tasks()):
                threading.Event().wait(0.01)
        return pa.table({"n": range(20)})

    closings: list[threading.Thread] = []
    closed = Loader(local_client, numbers(), {"samples": samples}, batch_size=16, epochs=2, prefetch=prefetch)
    read = []
    with pytest.raises(tidegate.Refused, match="the loader was closed"):
        read.extend(batch["n"].tolist() for batch in closed)
    closings[0].join()
    assert read + rows_of(closed) == 2 * [[*range(16)], [*range(16, 20)]]


def test_a_loader_that_is_closed_while_it_makes_its_tasks_leaves_none(local_client: Client) -> None:
    def samples(_: int) -> pa.Table:
        if not closings:
            closings.append(closed.close())
        return pa.table({"n": range(20)})

    closings: list[None] = []
    closed = Loader(local_client, numbers(), {"samples": samples}, batch_size=16)
    with pytest.raises(tidegate.Refused, match="the loader was closed"):
        next(iter(closed))
    assert list(local_client.tasks()) == []
    assert rows_of(closed) == [[*range(16)], [*range(16, 20)]]


def test_an_epoch_may_be_chosen(local_client: Client, folder: Path) -> None:
    chosen = loader(local_client, folder, epochs=3)
    chosen.set_epoch(2)
    assert rows_of(chosen) == expected(3, first=2)


@pytest.mark.parametrize("read_before", [False, True])
def test_any_batch_can_be_had_again(client: Client, folder: Path, read_before: bool) -> None:
    whole = loader(client, folder, epochs=2)
    if read_before:
        rows_of(whole)
    batches = expected(2, first=1)
    assert [whole.batch(1, number)["n"].tolist() for number in range(len(batches))] == batches
    with pytest.raises(tidegate.InvalidRequest, match=f"epoch 1 has no batch {len(batches)}"):
        whole.batch(1, len(batches))


def test_a_batch_is_found_while_a_loop_counts_rows(
    local_client: Client, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = loader(local_client, folder, prefetch=0)
    read, loop = TrainingSource._rows, iter(whole)

    def loop_meanwhile(source: TrainingSource, *args: Any) -> Any:
        monkeypatch.undo()
        next(loop)  # the rows of the first window are counted after those that `batch` has to count were chosen
        return read(source, *args)

    monkeypatch.setattr(TrainingSource, "_rows", loop_meanwhile)
    assert whole.batch(0, len(expected()) - 1)["n"].tolist() == expected()[-1]
    whole.close()


def test_a_batch_says_where_each_row_comes_from(local_client: Client, folder: Path) -> None:
    splits: dict[int, dict[int, int]] = {}
    for batch in loader(local_client, folder, numbers(), provenance=True):
        for split, row, n in zip(batch["_split"], batch["_row"], batch["n"], strict=True):
            splits.setdefault(split, {})[row] = n
    ends = [sum(SPLIT_ROWS[:at]) for at in range(len(SPLIT_ROWS) + 1)]
    assert splits == {
        split: dict(enumerate(range(*ends[split : split + 2]))) for split, rows in enumerate(SPLIT_ROWS) if rows
    }


@pytest.mark.parametrize(
    ("weight", "error"),
    [
        (pa.array(["1", "2"]), tidegate.InvalidRequest),
        (pa.array([[1], [2]]), tidegate.InvalidRequest),
        (pa.array([1e300, 1.0]), tidegate.ExecutionError),
        (pa.array([2**62, 1]), tidegate.ExecutionError),
        (pa.array([1_000_001, 1]), tidegate.ExecutionError),
        (pa.array([float("nan"), 1.0]), tidegate.ExecutionError),
        (pa.array([float("inf"), 1.0]), tidegate.ExecutionError),
        (pa.array([-0.5, 1.0]), tidegate.ExecutionError),
        (pa.array([None, 1.0]), tidegate.ExecutionError),
    ],
    ids=str,
)
def test_a_column_that_has_no_weights_is_named(
    local_client: Client, weight: pa.Array, error: type[tidegate.TidegateError]
) -> None:
    types = {pa.string(): sub.string, pa.list_(pa.int64()): sub.list_(sub.i64()), pa.int64(): sub.i64}
    plan = sub.read_named_table("samples", {"w": types.get(weight.type, sub.fp64)}).to_plan()
    weighed = Loader(local_client, plan, {"samples": pa.table({"w": weight})}, batch_size=4, weight="w")
    with pytest.raises(error, match="column 'w' has") as refused:
        list(weighed)
    assert refused.value.reason == "BAD_WEIGHTS"


def test_rows_come_by_a_column_of_weights_and_go_on_from_every_state(local_client: Client) -> None:
    samples = pa.table({"n": range(400), "w": [n % 3 for n in range(400)]})
    plan = sub.read_named_table("samples", {"n": sub.i64, "w": sub.i64}).to_plan()
    options: Any = {"batch_size": 37, "shuffle": Shuffle(4), "weight": "w", "columns": ["n"], "prefetch": 0}
    whole = Loader(local_client, plan, {"samples": samples}, **options)
    states, batches = [], []
    for batch in whole:
        batches.append(batch["n"].tolist())
        states.append(whole.state_dict())
    assert sorted(chain.from_iterable(batches)) == sorted(n for n in range(400) for _ in range(n % 3))
    for number, state in enumerate(states[:-1], 1):
        resumed = Loader(local_client, plan, {"samples": samples}, **options)
        resumed.load_state_dict(state)
        assert rows_of(resumed) == batches[number:]
    assert whole.batch(0, 5)["n"].tolist() == batches[5]


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (
            {"shuffle": Shuffle(12, rows=60)},
            r"shuffle \(the state's: \[11, 60, True\], this loader's: \[12, 60, True\]",
        ),
        ({"batch_size": 8}, "batch_size"),
        ({"pad": True}, "tail"),
        ({"plan": numbers()}, "plan"),
        ({"time_zone": "Europe/Dublin"}, "options"),
    ],
)
def test_a_state_of_another_order_is_refused_by_name(
    local_client: Client, folder: Path, change: dict[str, Any], named: str
) -> None:
    state = loader(local_client, folder).state_dict()
    with pytest.raises(tidegate.Refused, match=named) as refused:
        loader(local_client, folder, **change).load_state_dict(state)
    assert refused.value.reason == "STATE_MISMATCH"


def test_a_state_of_other_files_is_refused(local_client: Client, folder: Path, tmp_path: Path) -> None:
    state = loader(local_client, folder).state_dict()
    pq.write_table(pa.table({"n": [1]}), tmp_path / "part-0.parquet")
    with pytest.raises(tidegate.Refused, match="data"):
        loader(local_client, tmp_path).load_state_dict(state)


def test_a_state_of_another_engine_fits_at_the_beginning_of_an_epoch_alone(local_client: Client, folder: Path) -> None:
    whole = loader(local_client, folder)
    begun = {**whole.state_dict(), "engines": {"duckdb": "1.0"}}
    whole.load_state_dict(begun)
    next(iter(whole))
    with pytest.raises(tidegate.Refused, match="engines"):
        whole.load_state_dict({**whole.state_dict(), "engines": {"duckdb": "1.0"}})


def test_a_state_that_is_refused_leaves_the_loader_and_its_loop_as_they_were(
    local_client: Client, folder: Path
) -> None:
    whole = Loader(local_client, numbers(), {"samples": folder}, batch_size=16)
    state = whole.state_dict()
    batches = iter(whole)
    first = next(batches)["n"].tolist()
    for wrong in ({"batch_size": 5}, {"skipped": "1"}, {"workers_from": 3}):
        with pytest.raises(tidegate.TidegateError):
            whole.load_state_dict({**state, **wrong})
    assert [*first, *(n for batch in batches for n in batch["n"].tolist())] == list(range(sum(SPLIT_ROWS)))


@pytest.mark.parametrize("state", [{}, {"version": 9}, {"version": 1, "epoch": -1}, "state"])
def test_other_things_are_no_state(local_client: Client, folder: Path, state: Any) -> None:
    with pytest.raises(tidegate.InvalidRequest, match="state"):
        loader(local_client, folder).load_state_dict(state)


def test_a_loop_that_is_left_early_leaves_no_task(client: Client, folder: Path) -> None:
    left = loader(client, folder)
    for _ in left:
        break
    gc.collect()
    assert list(client.tasks()) == []


def test_an_error_in_the_loop_leaves_no_task_when_the_loader_is_closed(client: Client, folder: Path) -> None:
    def train(batches: Loader) -> None:
        with batches:
            for batch in batches:
                raise ZeroDivisionError(batch.number)

    with pytest.raises(ZeroDivisionError):
        train(loader(client, folder))
    assert list(client.tasks()) == []


@pytest.mark.usefixtures("ctrl_c")
def test_an_interrupt_from_the_keyboard_leaves_no_task(client: Client, folder: Path) -> None:
    endless = loader(client, folder, epochs=None)
    batches = iter(endless)
    next(batches)
    interrupt = threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT))
    interrupt.start()
    with pytest.raises(KeyboardInterrupt), endless:
        for _ in batches:
            pass
    interrupt.join()
    gc.collect()
    assert list(client.tasks()) == []


@pytest.mark.parametrize("shards", [1, 2])
@pytest.mark.parametrize("ahead", [{}, {"prefetch": 0}])
def test_a_loader_that_is_forgotten_leaves_no_task(
    client: Client, folder: Path, shards: int, ahead: dict[str, int]
) -> None:
    forgotten = loader(client, folder, epochs=None, shards=shards, **ahead)
    rows_of(forgotten.one_epoch())
    assert client.tasks()
    del forgotten
    gc.collect()
    assert list(client.tasks()) == []


def test_a_second_iterator_goes_on_where_the_first_was(local_client: Client, folder: Path) -> None:
    both = loader(local_client, folder)
    first = iter(both)
    read = [next(first)["n"].tolist()]
    read += rows_of(both)
    assert read == expected()
    with pytest.raises(tidegate.Refused, match="a newer loop over it"):
        next(first)


def test_statistics_count_what_was_handed_out(local_client: Client, folder: Path) -> None:
    whole = loader(local_client, folder)
    rows_of(whole)
    statistics = whole.statistics()
    batches = expected()
    assert (statistics.batches, statistics.rows) == (len(batches), sum(map(len, batches)))
    assert 0 < statistics.waited_seconds <= statistics.seconds
    assert "rows/s" in str(statistics)


def test_a_line_says_how_far_the_loader_is(
    local_client: Client, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert rows_of(loader(local_client, folder, progress=True)) == expected()
    assert capsys.readouterr().err.startswith("epoch 1, batch 0: ")


def test_a_damaged_file_is_skipped_and_named(client: Client, folder: Path, tmp_path: Path) -> None:
    for file in folder.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    (tmp_path / "part-2.parquet").write_bytes(b"PAR1 damaged")
    with pytest.raises(tidegate.TidegateError, match=r"part-2\.parquet"):
        rows_of(loader(client, tmp_path, numbers()))
    lenient = loader(client, tmp_path, numbers(), on_error="skip")
    read = sorted(n for batch in rows_of(lenient) for n in batch)
    assert read == [n for n in range(sum(SPLIT_ROWS)) if not 71 <= n < 101]
    [skipped] = lenient.statistics().skipped
    assert skipped.epoch == 0
    assert skipped.split.endswith("part-2.parquet")


def test_a_plan_without_rows_is_an_error_and_not_an_endless_loop(local_client: Client) -> None:
    empty = pa.table({"n": pa.array([1, 2], pa.int64())})
    with pytest.raises(tidegate.ExecutionError, match="has no rows"):
        next(iter(Loader(local_client, kept(), {"samples": empty}, batch_size=4, epochs=None)))


@pytest.mark.parametrize("kind", ["glob", "paths", "files", "tables", "mixed"])
def test_the_same_rows_in_other_forms_come_in_the_same_order(client: Client, folder: Path, kind: str) -> None:
    paths = sorted(folder.iterdir())
    tables = [pq.read_table(path) for path in paths]
    data: dict[str, Any] = {
        "glob": str(folder / "*.parquet"),
        "paths": [str(path) for path in paths],
        "files": [tidegate.FileSplit(str(path)) for path in paths],
        "tables": [table for table in tables if len(table)],
        "mixed": [paths[0], *(table for table in tables[1:4] if len(table)), *paths[4:]],
    }
    splits = [table["n"].to_pylist() for table in tables if len(table) or kind not in ("tables", "mixed")]
    wanted = [[n for n in rows if n > 40 and n % 10 != 7] for rows in splits]
    order = oracle.epoch_rows(wanted, list(map(len, splits)), 11, 60, 0)
    read = Loader(client, kept(), {"samples": data[kind]}, batch_size=SIZE, shuffle=SHUFFLE, prefetch=0)
    assert rows_of(read) == oracle.batches(order, SIZE, "short")


def test_new_files_join_at_the_next_epoch(local_client: Client, tmp_path: Path) -> None:
    def day(epoch: int) -> Path:
        pq.write_table(pa.table({"n": [100 + epoch]}), tmp_path / f"day-{epoch}.parquet")
        return tmp_path

    growing = Loader(local_client, numbers(), {"samples": day}, batch_size=9, epochs=3, prefetch=0)
    assert rows_of(growing) == [[100], [100, 101], [100, 101, 102]]


@pytest.mark.parametrize(
    "wrong",
    [
        {"batch_size": 0},
        {"rank": 2, "ranks": 2},
        {"drop_last": True, "pad": True},
        {"columns": ["m"]},
        {"as_": "pandas"},
        {"on_error": "ignore"},
        {"determinism": "relaxed"},
        {"weight": "w"},
        {"epochs": 0},
        {"prefetch": -1},
        {"prefetch": "2"},
        {"prefetch_bytes": 0},
        {"columns": []},
        {"columns": "n"},
        {"shuffle": True},
        {"shuffle": 7},
    ],
)
def test_arguments_that_make_no_sense_are_refused(local_client: Client, folder: Path, wrong: dict[str, Any]) -> None:
    with pytest.raises(tidegate.InvalidRequest):
        next(iter(loader(local_client, folder, **wrong)))
    assert list(local_client.tasks()) == []


@pytest.mark.parametrize(("epoch", "number"), [(-1, 0), (0, -1), ("0", 0), (0, 1.0)])
def test_only_whole_numbers_name_an_epoch_and_a_batch(
    local_client: Client, folder: Path, epoch: Any, number: Any
) -> None:
    with pytest.raises(tidegate.InvalidRequest, match="whole number from 0 on"):
        loader(local_client, folder).batch(epoch, number)
    if epoch != 0:
        with pytest.raises(tidegate.InvalidRequest, match="whole number from 0 on"):
            loader(local_client, folder).set_epoch(epoch)


@pytest.mark.parametrize("shards", [1, 2])
def test_an_epoch_without_a_full_batch_is_an_error_where_short_ones_are_left_out(
    local_client: Client, folder: Path, shards: int
) -> None:
    endless = loader(local_client, folder, batch_size=1_000, drop_last=True, epochs=None, shards=shards)
    with pytest.raises(tidegate.ExecutionError, match="fill no batch"):
        next(iter(endless))


def test_a_loader_takes_one_source(local_client: Client, folder: Path) -> None:
    with pytest.raises(tidegate.InvalidRequest, match="one source"):
        Loader(local_client, numbers(), {"samples": folder, "others": folder}, batch_size=4)
    with pytest.raises(tidegate.TidegateError, match="nowhere"):
        next(iter(Loader(local_client, numbers(), {"samples": "/nowhere.parquet"}, batch_size=4)))


def test_row_groups_of_one_file_are_splits_of_their_own(client: Client, tmp_path: Path) -> None:
    pq.write_table(pa.table({"n": range(250_000)}), tmp_path / "large.parquet", row_group_size=60_000)
    sizes = [60_000, 60_000, 60_000, 70_000]  # the last row group is small, and joined
    ends = [sum(sizes[:at]) for at in range(5)]
    order = oracle.epoch_rows([list(range(*ends[at : at + 2])) for at in range(4)], sizes, 2, 100_000, 0)
    options: Any = {"batch_size": 9_999, "shuffle": Shuffle(2, rows=100_000)}
    whole = Loader(client, numbers(), {"samples": tmp_path / "large.parquet"}, **options)
    first = [next(iter(whole))["n"].tolist() for _ in range(2)]
    state = whole.state_dict()
    whole.close()
    resumed = Loader(client, numbers(), {"samples": tmp_path / "large.parquet"}, **options)
    resumed.load_state_dict(state)
    assert first + rows_of(resumed) == oracle.batches(order, 9_999, "short")


@pytest.mark.parametrize("ending", ["csv", "arrow", "json"])
def test_files_of_other_formats_are_read_in_the_same_way(local_client: Client, tmp_path: Path, ending: str) -> None:
    for part in range(3):
        file = tmp_path / f"{part}.{ending}"
        numbers_of_part = range(part * 10, part * 10 + 10)
        match ending:
            case "csv":
                file.write_text("n\n" + "".join(f"{n}\n" for n in numbers_of_part))
            case "json":
                file.write_text("".join(json.dumps({"n": n}) + "\n" for n in numbers_of_part))
            case _:
                feather.write_feather(pa.table({"n": numbers_of_part}), str(file), compression="uncompressed")
    options: Any = {"batch_size": 7, "shuffle": Shuffle(1, rows=20), "prefetch": 0}
    whole = Loader(local_client, numbers(), {"samples": tmp_path}, **options)
    states, batches = [], []
    for batch in whole:
        batches.append(batch["n"].tolist())
        states.append(whole.state_dict())
    assert sorted(chain.from_iterable(batches)) == list(range(30))
    for number, state in enumerate(states[:-1], 1):
        resumed = Loader(local_client, numbers(), {"samples": tmp_path}, **options)
        resumed.load_state_dict(state)
        assert rows_of(resumed) == batches[number:]


def test_a_file_says_by_the_options_value_that_its_missing_columns_are_null(client: Client, tmp_path: Path) -> None:
    (tmp_path / "old.csv").write_text("n\n1\n2\n")
    plan = sub.read_named_table("samples", {"n": sub.i64, "score": sub.fp64}).to_plan()
    old: Any = tidegate.FileSplit(str(tmp_path / "old.csv"), missing_columns="null")  # type: ignore[arg-type]
    [batch] = list(Loader(client, plan, {"samples": old}, batch_size=2))
    assert batch["n"].tolist() == [1, 2]
    assert all(score != score for score in batch["score"])  # nulls are NaN
