"""With `on_error="skip_epoch"` an epoch that fails leaves everything as it was before it.

Class of bug: something of the bad epoch stays in state, in a link, in a loop's rounds or in what waits. So histories
with bad epochs are held against the same ones without them: all later epochs are equal bit for bit.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tidegate
from tidegate.operators.changes.network import schedule
from tidegate.planner import ir
from tidegate.proto.errors import TidegateError

from ..executor.plans import joined, plan, read
from ..loops.queries import QUERIES as LOOPS
from ..planner import build
from ..searching import every, in_search
from . import test_random_loops as loops
from .histories import Changed, Row, changes, rows_of
from .network import Running
from .relations import INCREMENTAL, RECOMPUTED, SCHEMAS
from .test_errors_of_rows import _checked_join
from .test_relations import history

BAD: Final[Changed] = [((-99, -99, -99.0, "never there"), -1)]
ALL: Final = {**INCREMENTAL, **RECOMPUTED}
SOME: Final = dict([*list(INCREMENTAL.items())[::5], *RECOMPUTED.items()])
PLAN: Final = plan(joined(read("l", "k", "v"), read("r", "k", "w"), 2), "k", "v", "k2", "w").json
PAIR: Final = pa.schema([("k", pa.int64()), ("v", pa.int64())])


def check(
    planned: ir.Plan, epochs: Iterator[Mapping[str, Changed]], bad: Callable[[int], Mapping[str, Changed]], **how: Any
) -> int:
    """Before each epoch one that is bad, and may have an answer all the same; how many had none."""
    skipped = 0
    schemas = how.pop("schemas", SCHEMAS)
    with Running(planned, skips=True, **how) as running, Running(planned, **how) as without:
        for number, epoch in enumerate(epochs):
            try:
                spoilt = running.epoch(bad(number), schemas, keep=False)
                assert spoilt.schema == running.computation.schema
            except TidegateError:
                skipped += 1
            assert repr(rows_of(running.epoch(epoch, schemas))) == repr(rows_of(without.epoch(epoch, schemas)))
            assert counted(running) == counted(without)
    return skipped


def counted(running: Running) -> list[tuple[object, ...]]:
    """What does not depend on how state lies."""
    return [counts for counts in all_counted(running) if counts[0] in ("Scan", "RetractionCheck")]


def all_counted(running: Running) -> list[tuple[object, ...]]:
    operators = running.computation.operators()
    return [(operator.operator, operator.rows_in, operator.rows_out) for operator in operators]


@pytest.mark.parametrize("name", every(2, SOME))
def test_what_follows_a_bad_deletion_is_as_if_it_had_not_been(name: str) -> None:
    seed = len(name)
    others = list(history(seed + 500, 6))

    def bad(number: int) -> dict[str, Changed]:
        """Rows that come, and one that goes and was not there, on one side or on both."""
        return {source: [*others[number][source], *BAD[: 1 + number % 2]] for source in SCHEMAS}

    assert check(build.plan(SOME[name]), history(seed, 6), bad, channels=1 + seed % 3) == 6


@pytest.mark.parametrize("seed", [*range(6), *in_search(*range(6, 16))])
def test_what_follows_a_bad_epoch_of_loops_is_as_if_it_had_not_been(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The bad ones delete what is not there, or overflow in some round, or fail of nothing and are undone anyway."""
    monkeypatch.setattr(loops, "join", _checked_join)
    draw = random.Random(seed)
    looped = build.plan(loops.loop(draw))
    small = {source: Counter[Row]() for source in loops.SOURCES}

    def clipped(entry: tuple[Row, int]) -> tuple[Row, int]:
        (one, other), weight = entry
        return (min(one, 3), min(other, 3)), weight

    def epochs() -> Iterator[Mapping[str, Changed]]:
        for number in range(6):
            changed = {source: loops.one_epoch(draw, rows, first=not number) for source, rows in small.items()}
            yield {
                source: [((min(a, 3), min(b, 3)), weight) for (a, b), weight in rows]
                for source, rows in changed.items()
            }

    def bad(number: int) -> Mapping[str, Changed]:
        wrong: Changed = [((9, 9), -1)] if number % 3 else []
        return {source: [((number, 3), 1), ((3, 5), 1), ((5, 5), 1), *wrong] for source in loops.SOURCES}

    skipped = check(looped, epochs(), bad, schemas=loops.SCHEMAS, channels=1 + seed % 3)
    assert skipped >= 4


@pytest.mark.parametrize("seed", [*range(4), *in_search(*range(4, 8))])
def test_a_look_at_the_size_of_state_leaves_what_operators_give_out(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A task looks at its size after so many steps, and those of epochs that were skipped count."""

    def counts(steps: int) -> list[list[tuple[object, ...]]]:
        monkeypatch.setattr(schedule, "_WEIGH_EVERY", steps)
        draw = random.Random(seed)
        planned = build.plan(loops.loop(draw))
        rows = {source: Counter[Row]() for source in loops.SOURCES}
        after = []
        with Running(planned, skips=True) as running:
            for number in range(5):
                changed = {name: loops.one_epoch(draw, of, first=not number) for name, of in rows.items()}
                running.epoch(changed, loops.SCHEMAS)
                after.append(all_counted(running))
        return after

    assert counts(3) == counts(1 << 30)


@pytest.fixture
def client(tmp_path: Path) -> Iterator[tidegate.Client]:
    root = tmp_path / "checkpoints"
    root.mkdir()
    with tidegate.local(roots=[str(tmp_path)], checkpoint_root=root) as client:
        yield client


def pairs(*rows: Row) -> pa.Table:
    return pa.table({"k": [row[0] for row in rows], "v": [row[1] for row in rows]})


def right(*rows: Row) -> pa.Table:
    return pairs(*rows).rename_columns(["k", "w"])


def skipping(client: tidegate.Client, **options: Any) -> tidegate.Task:
    return client.create_task(PLAN, mode="continuous", on_error="skip_epoch", **options)


def test_the_error_of_a_bad_deletion_names_source_split_and_row(client: tidegate.Client) -> None:
    with skipping(client) as task:
        task.run_epoch({"l": pairs((1, 2)), "r": right((1, 3))})
        bad = [pairs((5, 5)), changes([((1, 2), -1), ((7, 7), 1)], PAIR), changes([((1, 2), -1)], PAIR)]
        with pytest.raises(tidegate.EpochError) as failed:
            task.run_epoch({"l": bad, "r": right((5, 6))})
        assert failed.value.reason == "NEGATIVE_TOTAL"
        message = str(failed.value)
        assert "source 'l': the row {'k': 1, 'v': 2}" in message
        assert "(deleted by split 3 of source 'l', split 4 of source 'l')" in message
        epoch = task.run_epoch({"l": pairs((1, 9)), "r": right((5, 6))})
        assert rows_of(epoch.table()) == [(1, 9, 1, 3, 1)]


@pytest.mark.parametrize("channels", [1, 2])
def test_a_scan_that_fails_has_lost_its_health_until_an_epoch_ends_well(
    client: tidegate.Client, tmp_path: Path, channels: int
) -> None:
    def ill() -> list[str]:
        return [operator.operator for operator in task.statistics().operators if not operator.health]

    (tmp_path / "bad.csv").write_text("k,v\n1,x\n")
    with skipping(client, channels=channels) as task:
        for fed in ({"l": str(tmp_path / "bad.csv")}, {"r": right((1, 3))}, {"l": changes([((1, 2), -1)], PAIR)}):
            with suppress(tidegate.EpochError):
                task.run_epoch(fed)
            if "r" in fed:
                assert ill() == []
                assert any(operator.busy > 0 for operator in task.statistics().operators if operator.operator == "Scan")
            else:
                assert ill() == (["Scan"] if isinstance(fed["l"], str) else ["RetractionCheck"])


@pytest.mark.parametrize("number", every(2, range(len(ALL))), ids=list(ALL))
def test_the_error_of_a_bad_deletion_is_the_same_above_every_operator(number: int) -> None:
    """Of a row that never was, that is not there so often, or that comes and goes too often in the epoch. In a source
    of which no column is read, one row is like another.
    """
    name = list(ALL)[number]
    with Running(build.plan(ALL[name]), skips=True, channels=1 + number % 3) as running:
        sources = [source.name for source in running.computation.sources if len(source.schema)]
        source = sources[number % len(sources)]
        first, second, third = (1, 1, 1.0, "a"), (1, 2, 2.0, "b"), (2, 1, 1.0, "a")
        running.epoch({source: [(first, 1), (second, 2), (third, 1)] for source in SCHEMAS}, SCHEMAS)
        other = {source: [(first, -1), ((3, 3, 3.0, "c"), 1)] for source in SCHEMAS}
        wrong = [BAD, [(second, -3)], [((5, 5, 5.0, "z"), 2), ((5, 5, 5.0, "z"), -3)]][number % 3]
        with pytest.raises(TidegateError) as refused:
            running.epoch({**other, source: [*other[source], *wrong]}, SCHEMAS, keep=False)
        assert refused.value.reason == "NEGATIVE_TOTAL"
        assert refused.value.message.startswith(f"source {source!r}: the row ")
        running.epoch(other, SCHEMAS)


def test_a_split_that_cannot_be_read_is_skipped_with_all_of_its_epoch(client: tidegate.Client, tmp_path: Path) -> None:
    file = tmp_path / "some.parquet"
    pq.write_table(pairs(*((1, at) for at in range(1000))), file)
    with skipping(client) as task:
        task.run_epoch({"r": right((1, 3))})
        task.add_split("l", pairs((1, 1)))
        task.add_split("l", tidegate.FileSplit(str(file)))
        content = bytearray(file.read_bytes())
        content[20:400] = bytes(380)
        stat = file.stat()
        file.write_bytes(content)
        os.utime(file, ns=(stat.st_atime_ns, stat.st_mtime_ns))
        task.request_barrier()
        with pytest.raises(tidegate.EpochError, match=r"some\.parquet"):
            task.read_epoch()
        assert rows_of(task.run_epoch({"l": pairs((1, 4))}).table()) == [(1, 4, 1, 3, 1)]


def test_an_epoch_that_is_too_large_is_skipped(client: tidegate.Client) -> None:
    with skipping(client, memory_limit=32 << 20) as task:
        task.run_epoch({"r": right((1, 3))})
        before = task.statistics().operators
        large = pa.table({"k": range(2_000_000), "v": range(2_000_000)})
        with pytest.raises(tidegate.EpochError) as failed:
            task.run_epoch({"l": large, "r": right((2, 2))})
        assert failed.value.reason == "STATE_TOO_LARGE"
        after = task.statistics().operators  # what was kept as it came may be packed by now, which is less
        assert all(now.state_bytes <= then.state_bytes for now, then in zip(after, before, strict=True))
        assert rows_of(task.run_epoch({"l": pairs((1, 4), (2, 2))}).table()) == [(1, 4, 1, 3, 1)]


def test_a_loop_beyond_its_limit_is_skipped(client: tidegate.Client) -> None:
    query = LOOPS["reachability"]
    edges = pa.table({"a": [1, 2, 3], "b": [2, 3, 4], "c": [0, 0, 0]})
    line = pa.table({"a": range(10, 400), "b": range(11, 401), "c": [0] * 390})
    seeds = pa.table({"a": [0], "b": [1], "c": [0]})
    with (
        client.create_task(query.plan(), mode="continuous", on_error="skip_epoch", loop_rows=20) as task,
        client.create_task(query.plan(), mode="continuous") as without,
    ):
        first, last = {"edges": edges, "seeds": seeds}, {"edges": pa.table({"a": [4], "b": [5], "c": [0]})}
        bad = {"edges": line, "seeds": pa.table({"a": [0], "b": [10], "c": [0]})}
        epochs = [
            {name: rows for name, rows in epoch_rows.items() if name in task.sources}
            for epoch_rows in (first, bad, last)
        ]
        assert task.run_epoch(epochs[0]).table() == without.run_epoch(epochs[0]).table()
        with pytest.raises(tidegate.EpochError) as failed:
            task.run_epoch(epochs[1])
        assert failed.value.reason == "LOOP_ROWS"
        assert task.run_epoch(epochs[2]).table() == without.run_epoch(epochs[2]).table()


def test_a_transaction_that_was_skipped_has_happened(client: tidegate.Client) -> None:
    """It is an epoch with an error; said again, it is a duplicate, which changes nothing."""
    with skipping(client) as task:
        task.run_epoch({"l": pairs((1, 2)), "r": right((1, 3))})
        bad = {"l": [changes([((9, 9), -1)], PAIR)]}
        said = task.transact("feeder", 1, bad, seal=True)
        with pytest.raises(tidegate.EpochError):
            task.read_epoch()
        again = task.transact("feeder", 1, bad, seal=True)
        assert (said.replayed, again.replayed, again.epoch) == (False, True, said.epoch)
        assert task.transact("feeder", 2, {"l": [pairs((1, 7))]}, seal=True).epoch == said.epoch + 1
        assert rows_of(task.read_epoch()) == [(1, 7, 1, 3, 1)]


@pytest.mark.parametrize("good", [0, 1, 2])
def test_a_checkpoint_of_a_skipped_epoch_has_the_state_before_it(client: tidegate.Client, good: int) -> None:
    """That of no epoch too: a table that was bound with the task has not arrived."""
    table = {"tables": {"r": right((1, 3), (4, 5))}}
    with skipping(client, **table) as task:
        for number in range(good):
            task.run_epoch({"l": pairs((1, number))})
        task.add_split("l", changes([((9, 9), -1)], PAIR))
        task.request_barrier(checkpoint="bad")
        with pytest.raises(tidegate.EpochError):
            task.read_epoch()
        (taken,) = task.checkpoints()
        with skipping(client, restore=taken.id, **table) as restored:
            for running_task in (task, restored):
                epoch = running_task.run_epoch({"l": [pairs((4, 4)), *[changes([((1, 0), -1)], PAIR)][:good]]})
                gone = [(1, 0, 1, 3, -1)] if good else []
                assert rows_of(epoch.table()) == [*gone, (4, 4, 4, 5, 1)]


def test_a_checkpoint_has_the_watermarks_that_sources_have_reached(client: tidegate.Client) -> None:
    with skipping(client) as task:
        for watermark, rows in ((70, pairs((1, 2))), (90, changes([((9, 9), -1)], PAIR))):
            task.add_split("l", rows, watermark=watermark)
            task.add_split("r", right((1, watermark)), watermark=watermark)
            task.request_barrier(checkpoint=str(watermark))
        reached = [epoch.watermark for _, epoch in zip(range(2), task.epochs(), strict=False)]
        assert reached == [70, None]
        for taken in task.checkpoints():
            with skipping(client, restore=taken.id) as restored:
                restored.add_split("l", pairs((1, 3)), watermark=80)
                restored.request_barrier()
                assert next(restored.epochs()).watermark == 70
