"""An expression's error counts only for rows that are there at the end of the epoch."""

from __future__ import annotations

import functools
import random
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import product
from typing import Any, Final

import duckdb
import pyarrow as pa
import pytest

import tidegate
from tidegate.planner import ir
from tidegate.planner.ir import types as t
from tidegate.proto.errors import ExecutionError

from ..duckdb_oracle import oracle
from ..loops.oracle import evaluate
from ..planner.build import I64, call, col, filtered, join, lit, plan, project, read
from ..searching import in_search, one_of_each
from . import test_random_loops as loops
from .histories import Changed, Epochs, Integral, Row, changes, multiset, planned, rows_of, total
from .network import Running

SCHEMA: Final = pa.schema([("k", pa.int64()), ("v", pa.int64()), ("s", pa.string())])
SCHEMAS: Final = {"l": SCHEMA, "r": SCHEMA}

QUERIES: Final = {
    "a projection": "SELECT k, CAST(s || '0' AS BIGINT) FROM l",
    "an overflow": "SELECT k, v + v FROM l",
    "a filter": "SELECT k, v FROM l WHERE CAST(s || '0' AS BIGINT) > 5",
    "a projection of pairs": "SELECT l.k, CAST(l.s || r.s AS BIGINT) FROM l JOIN r ON l.k = r.k",
    "a projection of all pairs": "SELECT CAST(l.s || r.s AS BIGINT) FROM l CROSS JOIN r",
    "a projection of padded pairs": "SELECT CAST(l.s || coalesce(r.s, '') AS BIGINT) FROM l LEFT JOIN r ON l.k = r.k",
    "a join's condition": "SELECT l.k, r.v FROM l JOIN r ON l.k = r.k AND CAST(l.s || r.s AS BIGINT) > 5",
    "an outer join's condition": "SELECT l.v, r.v FROM l FULL JOIN r ON l.k = r.k AND CAST(l.s || r.s AS BIGINT) > 5",
    "a semi join's condition": (
        "SELECT k, v FROM l WHERE EXISTS (SELECT 1 FROM r WHERE l.k = r.k AND CAST(l.s || r.s AS BIGINT) > 5)"
    ),
    "a join's key": "SELECT l.v, r.v FROM l JOIN r ON CAST(l.s || '0' AS BIGINT) = r.k",
    "an aggregate's argument": "SELECT k, sum(CAST(s || '0' AS BIGINT)) FROM l GROUP BY k",
    "an aggregate's argument over pairs": "SELECT max(CAST(l.s || r.s AS BIGINT)) FROM l JOIN r ON l.k = r.k",
    "an aggregate's filter": "SELECT k, count(*) FILTER (WHERE CAST(s || '0' AS BIGINT) > 5) FROM l GROUP BY k",
    "an argument that is added up again": "SELECT k, sum(CAST(s || '0' AS DOUBLE)) FROM l GROUP BY k",
    "a group's key": "SELECT CAST(l.s || r.s AS BIGINT), count(*) FROM l JOIN r ON l.k = r.k GROUP BY 1",
    "distinct values": "SELECT count(DISTINCT CAST(l.s || r.s AS BIGINT)) FROM l JOIN r ON l.k = r.k",
    "a window's order": "SELECT k, rank() OVER (PARTITION BY k ORDER BY CAST(s || '0' AS BIGINT), v) FROM l",
    "a window's partition": "SELECT v, sum(v) OVER (PARTITION BY CAST(s || '0' AS BIGINT)) FROM l WHERE v < 9",
    "a sorted limit": "SELECT CAST(l.s || r.s AS BIGINT) FROM l JOIN r ON l.k = r.k ORDER BY 1 LIMIT 3",
    "a union": "SELECT CAST(s || '0' AS BIGINT) FROM l UNION SELECT v + v FROM r",
}


@pytest.fixture(scope="module")
def client() -> Iterator[tidegate.Client]:
    with tidegate.local(roots=()) as client:
        yield client


class History:
    """Epochs in which rows are replaced on both sides, and rows come that are gone again."""

    def __init__(self, seed: int) -> None:
        self._chance = random.Random(seed)
        self._there: dict[str, list[Row]] = {name: [] for name in SCHEMAS}
        self.epochs: list[dict[str, Changed]] = []

    def go_on(self, fails: bool, sql: str) -> bool:
        """Add an epoch after which the query has an answer, or mostly, if it `fails`, none; whether it has one."""
        for attempt in range(20):
            there = {name: list(rows) for name, rows in self._there.items()}
            epoch = {name: self._changed(rows) for name, rows in there.items()}
            works = answer(sql, [*self.epochs, epoch]) is not None
            if works is not fails or attempt == 19:
                break
        self._there = there
        self.epochs.append(epoch)
        return works

    def _changed(self, there: list[Row]) -> Changed:
        chance = self._chance
        changed: list[tuple[Row, int]] = []
        for _ in range(chance.randrange(4)):
            passing = self._row()
            changed += [(passing, 1), (passing, -1)]
        for _ in range(min(len(there), chance.randrange(5))):
            changed.append((there.pop(chance.randrange(len(there))), -1))
        for _ in range(chance.randrange(1, 4)):
            row = self._row()
            there.append(row)
            changed.append((row, 1))
        chance.shuffle(changed)
        return changed

    def _row(self) -> Row:
        chance = self._chance
        return chance.choice([0, 1, 10]), chance.choice([1, 2, 5, 2**62]), chance.choice(["1", "2", "-", "", "x1"])


def answer(sql: str, history: Epochs) -> Counter[Row] | None:
    """DuckDB's over the sum of the input; None if that is an error."""
    with oracle({name: total(history, name, schema) for name, schema in SCHEMAS.items()}) as connection:
        try:
            return multiset(connection.sql(sql).fetchall())
        except (duckdb.ConversionException, duckdb.OutOfRangeException, duckdb.InvalidInputException):
            return None


@pytest.mark.parametrize(("name", "seed"), one_of_each(product(QUERIES, [1, 2])))
def test_what_fails_and_is_gone_by_the_end_of_the_epoch_does_no_harm(
    client: tidegate.Client, name: str, seed: int
) -> None:
    """And what fails and is there does."""
    sql = QUERIES[name]
    history, integral = History(seed), Integral()
    with client.create_task(planned(sql, SCHEMAS), mode="continuous", channels=seed) as task:
        for number in range(8):
            works = history.go_on(number == 7, sql)
            splits = {
                source: [changes([entry], SCHEMA) for entry in history.epochs[-1][source]] for source in task.sources
            }
            if not works:
                with pytest.raises(tidegate.TaskFailed, match=r"relations\[0\]") as failed:
                    task.run_epoch(splits)
                assert failed.value.reason == "EXECUTION_FAILED"
                return
            integral.add(task.run_epoch(splits).table())
            assert integral.rows == answer(sql, history.epochs)


@pytest.mark.parametrize("how", ["JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"])
@pytest.mark.parametrize("side", ["l", "r"])
def test_a_joins_key_that_fails_counts_while_the_other_side_is_empty(
    client: tidegate.Client, how: str, side: str
) -> None:
    """And is gone with its row."""
    sql = f"SELECT l.v, r.v FROM l {how} r ON CAST(l.s AS BIGINT) = CAST(r.s AS BIGINT)"
    bad, good = ((1, 0, "-"), 1), ((1, 0, "1"), 1)
    with client.create_task(planned(sql, SCHEMAS), mode="continuous", on_error="skip_epoch") as task:
        with pytest.raises(tidegate.EpochError, match="Could not convert string '-'"):
            task.run_epoch({side: changes([bad], SCHEMA)}).table()
        assert task.run_epoch({side: changes([bad, (bad[0], -1)], SCHEMA)}).table().num_rows == 0
        assert rows_of(task.run_epoch({name: changes([good], SCHEMA) for name in SCHEMAS}).table()) == [(0, 0, 1)]


def test_pairs_that_never_are_do_no_harm(client: tidegate.Client) -> None:
    """A row is replaced on each side, in either order: the old one of one side meets the new one of the other."""
    sql = QUERIES["a projection of pairs"]
    both = {"l": [((1, 0, "-"), 1)], "r": [((1, 0, "1"), 1)]}
    replaced = {"l": [((1, 0, "-"), -1), ((1, 0, "1"), 1)], "r": [((1, 0, "1"), -1), ((1, 0, ""), 1)]}
    for order in (("l", "r"), ("r", "l")):
        with client.create_task(planned(sql, SCHEMAS), mode="continuous") as task:
            task.run_epoch({source: changes(both[source], SCHEMA) for source in order})
            epoch = task.run_epoch({source: changes(replaced[source], SCHEMA) for source in order})
            assert rows_of(epoch.table()) == [(1, -1, -1), (1, 1, 1)]


def test_the_error_says_where_it_is_and_of_which_row(client: tidegate.Client) -> None:
    rows = pa.table({"k": [1] * 5000, "v": range(5000), "s": [str(at) if at % 2000 else "no" for at in range(5000)]})
    queries = {
        "SELECT CAST(s AS BIGINT) FROM l": r"project: Could not convert string 'no' .* row \('no',\)",
        "SELECT l.v FROM l JOIN r ON l.k = r.k AND CAST(l.s || r.s AS BIGINT) > 5": r"'no5'.* row \(1, 0, 'no', 1, ",
        "SELECT v, sum(v) OVER (PARTITION BY v ORDER BY CAST(s AS BIGINT)) FROM l": r"'no'.* row \(\d+, 'no'\)",
        "SELECT v, lag(CAST(s AS BIGINT)) OVER (PARTITION BY v ORDER BY v) FROM l": r"'no'.* of the key \(\d+,\)",
    }
    for sql, message in queries.items():
        with client.create_task(planned(sql, SCHEMAS), mode="continuous") as task:
            splits = {"l": rows, "r": pa.table({"k": [1], "v": [0], "s": ["5"]})}
            with pytest.raises(tidegate.TaskFailed, match=r"relations\[0\].*" + message):
                task.run_epoch({source: splits[source] for source in task.sources})


@pytest.mark.parametrize(("argument", "said"), [("v", "beyond 64 bits"), ("CAST(v AS DECIMAL(38, 19))", "38 digits")])
def test_a_sum_that_is_too_large_names_its_place_and_its_key(client: tidegate.Client, argument: str, said: str) -> None:
    much = 2**62 if argument == "v" else 9 * 10**18
    rows = pa.table({"k": [1, 1, 7, 7, 7, *[8] * 6], "v": [5, 5, much, much, much, *[1] * 6], "s": [""] * 11})
    rows = pa.concat_tables([rows, *[rows.slice(2, 3)] * 4])
    sql = f"SELECT k, sum({argument}) FROM l GROUP BY k"
    with (
        client.create_task(planned(sql, SCHEMAS), mode="continuous") as task,
        pytest.raises(
            tidegate.TaskFailed, match=rf"relations\[0\].*aggregate: .*{said}, in the rows of the key \(7,\)"
        ),
    ):
        task.run_epoch({"l": rows})


def test_a_null_in_a_required_column_counts_only_for_rows_that_are_there() -> None:
    required = replace(call("nullif", col(0), lit(0)), type=t.required(I64))
    schemas = {"l": pa.schema([("k", pa.int64())])}
    with Running(plan(project(read("l", k=I64), required))) as running:
        assert rows_of(running.epoch({"l": [((0,), 1), ((5,), 1), ((0,), -1)]}, schemas)) == [(5, 1)]
        with pytest.raises(ExecutionError, match=r"is required, and has a null, in the row \(0,\)") as caught:
            running.epoch({"l": [((0,), 1)]}, schemas)
    assert caught.value.reason == "NULL_IN_REQUIRED_COLUMN"


def test_few_rows_wait_for_the_one_that_fails() -> None:
    """The others are passed on at once."""
    session = planned("SELECT CAST(s AS BIGINT) FROM l", SCHEMAS)
    with tidegate.local(roots=()) as client, client.create_task(session, mode="continuous") as task:
        count = 200_000
        rows = pa.table({"k": [1] * count, "v": [1] * count, "s": ["no", *["1"] * (count - 1)]})
        gone = changes([((1, 1, "no"), -1)], SCHEMA)
        assert rows_of(task.run_epoch({"l": [rows, gone]}).table()) == [(1, count - 1)]


# ---------------------------------------------------------------------------------------------------------- loops


def _checked_join(left: ir.Relation, right: ir.Relation, *how: Any) -> ir.Relation:
    """A join of which those pairs overflow whose second columns add up to 8: their sum to the power of 21."""
    joined = join(left, right, *how)
    if how[0] is not ir.JoinType.INNER:
        return joined
    total = call("add", col(1), col(3))
    power = functools.reduce(lambda product, _: call("multiply", product, total), range(20), total)
    return filtered(joined, call("gte", power, lit(0)))


def _meaning(planned: ir.Plan, there: Mapping[str, Counter[Row]]) -> Counter[Row] | None:
    try:
        return multiset(evaluate(planned, loops.tables(there)))
    except OverflowError:
        return None


@pytest.mark.parametrize("seed", [*range(10), *in_search(*range(10, 24))])
def test_in_loops_what_fails_and_is_gone_by_the_end_of_its_round_does_no_harm(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loops, "join", _checked_join)
    draw = random.Random(seed)
    looped = plan(loops.loop(draw))
    there: dict[str, Counter[Row]] = {source: Counter() for source in loops.SOURCES}
    integral = Integral()
    with Running(looped, 1 + seed % 3) as running:
        for epoch in range(8):
            changed, there, meant = _next_epoch(draw, looped, there, first=not epoch)
            if meant is None:
                with pytest.raises(ExecutionError, match=r"relations\[0\].*in the row"):
                    running.epoch(changed, loops.SCHEMAS)
                return
            integral.add(running.epoch(changed, loops.SCHEMAS))
            assert integral.rows == meant


def _next_epoch(
    draw: random.Random, looped: ir.Plan, there: Mapping[str, Counter[Row]], *, first: bool
) -> tuple[dict[str, Changed], dict[str, Counter[Row]], Counter[Row] | None]:
    """Changes, what is there with them, and what the loop means then: nearly always something."""
    for _ in range(20):
        after = {source: Counter(rows) for source, rows in there.items()}
        changed = {source: loops.one_epoch(draw, rows, first) for source, rows in after.items()}
        after = {source: +rows for source, rows in after.items()}
        meant = _meaning(looped, after)
        if meant is not None:
            break
    return changed, after, meant
