"""Rows that an expression fails of, and that are gone by the end of their epoch, leave no trace, wherever it stands."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import tidegate

from ..searching import tries
from .histories import Changed, Row, changes, planned, rows_of

SCHEMA: Final = pa.schema([("k", pa.int64()), ("v", pa.int64()), ("s", pa.string())])
SCHEMAS: Final = {"l": SCHEMA, "r": SCHEMA}

FAILING: Final = {
    "a cast": "CAST({}.s || '1' AS BIGINT)",
    "an overflow": "({0}.v * 3000000000000000000)",
    "a division": "(100 / {}.v)",
    "a remainder": "(100 % {}.v)",
}
"""Each fails of every row in `BAD` and of none in `GOOD`."""
GOOD: Final = [(k, v, s) for k in (0, 1, None) for v in (1, -1) for s in ("1", "2", "")]
BAD: Final = {
    "a cast": [(0, 1, "x"), (1, -1, "-"), (None, 1, "1.5x")],
    "an overflow": [(0, 4, "1"), (1, -7, "2"), (None, 5, "")],
    "a division": [(0, 0, "1"), (1, 0, "2"), (None, 0, "")],
    "a remainder": [(0, 0, "1"), (1, 0, "2"), (None, 0, "")],
}

POSITIONS: Final = {
    "a projection": "SELECT l.k, {l} FROM l",
    "a branch": "SELECT CASE WHEN l.k = 0 THEN {l} ELSE 0 END FROM l",
    "a filter": "SELECT l.k, l.v FROM l WHERE {l} > 5",
    "a filter above an aggregate": "SELECT k FROM (SELECT l.k, {l} AS e FROM l) t GROUP BY k HAVING max(e) > 5",
    "a join's condition": "SELECT l.k, r.v FROM l JOIN r ON l.k = r.k AND {l} > {r}",
    "a join's condition without a key": "SELECT l.k, r.v FROM l JOIN r ON {l} > {r}",
    "a join's key": "SELECT l.v, r.v FROM l JOIN r ON {l} = {r}",
    "a left join's condition": "SELECT l.v, r.v FROM l LEFT JOIN r ON l.k = r.k AND {l} > {r}",
    "a full join's condition": "SELECT l.v, r.v FROM l FULL JOIN r ON l.k = r.k AND {l} > {r}",
    "above an outer join": "SELECT l.k, {r} FROM l LEFT JOIN r ON l.k = r.k",
    "above a cross join": "SELECT {l} + {r} FROM l CROSS JOIN r",
    "an existing match": "SELECT l.k FROM l WHERE EXISTS (SELECT 1 FROM r WHERE l.k = r.k AND {l} > {r})",
    "no existing match": "SELECT l.k FROM l WHERE NOT EXISTS (SELECT 1 FROM r WHERE l.k = r.k AND {l} > {r})",
    "a value in a list": "SELECT l.k FROM l WHERE {l} IN (SELECT {r} FROM r)",
    "a value in no list": "SELECT l.k FROM l WHERE {l} NOT IN (SELECT {r} FROM r)",
    "a scalar": "SELECT l.k FROM l WHERE {l} > (SELECT max({r}) FROM r)",
    "a scalar of its row": "SELECT l.k, (SELECT max({r}) FROM r WHERE r.k = l.k) FROM l",
    "a sum": "SELECT l.k, sum({l} % 1000) FROM l GROUP BY l.k",
    "a least value": "SELECT min({l}) FROM l",
    "an average of floats": "SELECT l.k, avg(CAST({l} AS DOUBLE)) FROM l GROUP BY l.k",
    "distinct values": "SELECT count(DISTINCT {l}) FROM l",
    "an aggregate's filter": "SELECT l.k, count(*) FILTER (WHERE {l} > 5) FROM l GROUP BY l.k",
    "a group's key": "SELECT {l}, count(*) FROM l GROUP BY 1",
    "a deviation": "SELECT stddev({l} % 1000) FROM l",
    "a window's order": "SELECT l.k, row_number() OVER (PARTITION BY l.k ORDER BY {l}, l.v, l.s) FROM l",
    "a window's partition": "SELECT l.v, count(*) OVER (PARTITION BY {l}) FROM l",
    "a window's argument": "SELECT l.k, lag({l}) OVER (PARTITION BY l.k ORDER BY l.v, l.s) FROM l",
    "a running sum": "SELECT l.k, sum({l} % 1000) OVER (PARTITION BY l.k ORDER BY l.v, l.s) FROM l",
    "first rows of a window": (
        "SELECT k FROM (SELECT l.k, row_number() OVER (PARTITION BY l.k ORDER BY {l}, l.v, l.s) AS n FROM l) t"
        " WHERE n = 1"
    ),
    "a sort key": "SELECT l.k, l.v FROM l ORDER BY {l}, 1, 2 LIMIT 3",
    "distinct rows": "SELECT DISTINCT {l} FROM l",
    "a union": "SELECT {l} FROM l UNION SELECT {r} FROM r",
    "a difference": "SELECT {l} FROM l EXCEPT SELECT {r} FROM r",
    "an intersection": "SELECT {l} FROM l INTERSECT SELECT {r} FROM r",
    "two in a row": "SELECT {t} FROM (SELECT l.k, l.v, l.s FROM l WHERE {l} < 1000) t",
}


@pytest.fixture(scope="module")
def client() -> Iterator[tidegate.Client]:
    with tidegate.local(roots=()) as client:
        yield client


@st.composite
def epochs(draw: st.DrawFn, bad: list[Row]) -> list[dict[str, tuple[Changed, Changed]]]:
    """Of each source the changes of three epochs, and the same with rows that come and go in between."""
    there: dict[str, Counter[Row]] = {name: Counter() for name in SCHEMAS}
    return [{name: draw(one_epoch(rows, bad)) for name, rows in there.items()} for _ in range(3)]


@st.composite
def one_epoch(draw: st.DrawFn, there: Counter[Row], bad: list[Row]) -> tuple[Changed, Changed]:
    changed = [(row, 1) for row in draw(st.lists(st.sampled_from(GOOD), max_size=4))]
    present = sorted(there.elements(), key=repr)
    gone = draw(st.lists(st.sampled_from(present), max_size=3)) if present else []
    there.update(row for row, _ in changed)
    for row in gone:
        if there[row]:
            there[row] -= 1
            changed.append((row, -1))
    passing = draw(st.lists(st.sampled_from(bad), max_size=3))
    return changed, draw(st.permutations([*changed, *((row, sign) for row in passing for sign in (1, -1))]))


@settings(max_examples=tries(2), deadline=None, suppress_health_check=list(HealthCheck))
@pytest.mark.parametrize("position", POSITIONS)
@given(data=st.data(), failing=st.sampled_from(list(FAILING)), channels=st.sampled_from([1, 2]))
def test_rows_that_fail_and_are_gone_again_change_nothing(
    client: tidegate.Client, position: str, data: st.DataObject, failing: str, channels: int
) -> None:
    sql = POSITIONS[position].format(**{name: FAILING[failing].format(name) for name in "lrt"})
    plan = planned(sql, SCHEMAS)
    history = data.draw(epochs(BAD[failing]))
    with (
        client.create_task(plan, mode="continuous", channels=channels) as disturbed,
        client.create_task(plan, mode="continuous") as without,
    ):
        for epoch in history:
            order = data.draw(st.permutations(list(without.sources)))
            splits = {name: [changes([change], SCHEMA) for change in epoch[name][1]] for name in order}
            expected = without.run_epoch({name: changes(epoch[name][0], SCHEMA) for name in order})
            assert rows_of(disturbed.run_epoch(splits).table()) == rows_of(expected.table())


@pytest.mark.parametrize("failing", FAILING)
@pytest.mark.parametrize("position", POSITIONS)
def test_a_row_that_fails_and_stays_is_an_error_and_no_other_answer(
    client: tidegate.Client, position: str, failing: str
) -> None:
    """So that the rows above are ones that fail."""
    sql = POSITIONS[position].format(**{name: FAILING[failing].format(name) for name in "lrt"})
    good, bad = [(row, 1) for row in GOOD], [(row, 1) for row in BAD[failing]]
    with (
        client.create_task(planned(sql, SCHEMAS), mode="continuous") as task,
        pytest.raises(tidegate.TaskFailed, match=r"relations\[0\]"),
    ):
        task.run_epoch({name: changes([*good, *bad], SCHEMA) for name in task.sources})


@pytest.mark.parametrize("exists", ["EXISTS", "NOT EXISTS"])
@pytest.mark.parametrize("failing", FAILING)
def test_a_row_that_fails_beside_a_match_is_no_error_while_there_is_none(
    client: tidegate.Client, failing: str, exists: str
) -> None:
    condition = f"{FAILING[failing].format('l')} < r.v"
    sql = f"SELECT l.k FROM l WHERE {exists} (SELECT 1 FROM r WHERE {condition})"
    bad, good = changes([(BAD[failing][0], 1)], SCHEMA), (0, 1, "1")
    with client.create_task(planned(sql, SCHEMAS), mode="continuous") as task:
        assert len(task.run_epoch({"l": bad}).table()) == (exists == "NOT EXISTS")
        assert len(task.run_epoch({"r": changes([(good, 1), (good, -1)], SCHEMA)}).table()) == 0
        with pytest.raises(tidegate.TaskFailed, match=r"relations\[0\]"):
            task.run_epoch({"r": changes([(good, 1)], SCHEMA)})
