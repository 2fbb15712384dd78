"""The error of an expression says which splits, of which source, its rows come from."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tidegate

from ..continuous.histories import planned
from ..on_channels import on_channels

SCHEMA: Final = pa.schema([("k", pa.int64()), ("v", pa.int64()), ("s", pa.string())])
SCHEMAS: Final = {"l": SCHEMA, "r": SCHEMA}
GOOD: Final = pa.table({"k": [1, 2], "v": [3, 4], "s": ["5", "6"]}, SCHEMA)
BAD: Final = pa.table({"k": [1], "v": [1 << 62], "s": ["x"]}, SCHEMA)
MODES = pytest.mark.parametrize(
    "how",
    [{}, on_channels(2), {"determinism": "relaxed"}, {"mode": "continuous"}, {"mode": "continuous", "channels": 2}],
    ids=str,
)


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tidegate.Client]:
    with tidegate.local(roots=[tmp_path_factory.getbasetemp()]) as client:
        yield client


def error_of(client: tidegate.Client, sql: str, splits: Mapping[str, Any], **how: Any) -> str:
    """The message of the epoch's error, without the rows that continuous tasks name."""
    with client.create_task(planned(sql, SCHEMAS), on_error="skip_epoch", **how) as task:
        with pytest.raises(tidegate.EpochError) as failed:
            task.run_epoch(splits).table()
        assert failed.value.reason in ("EXECUTION_FAILED", "OVERFLOW")
        return re.sub(r", in (the row|the rows of the key) \{.*?\}", "", str(failed.value))


@MODES
@pytest.mark.parametrize(
    "sql",
    [
        "SELECT k, CAST(s AS BIGINT) AS n FROM l",
        "SELECT k, v + v AS n FROM l",
        "SELECT v FROM l WHERE CAST(s AS BIGINT) > 0",
        "SELECT k, sum(CAST(s AS BIGINT)) AS n FROM l GROUP BY k",
        "SELECT k, v * 2 AS n FROM l ORDER BY v LIMIT 3",
    ],
)
@pytest.mark.parametrize("form", ["rows", "files"])
def test_one_split_is_named(client: tidegate.Client, sql: str, how: dict[str, Any], form: str, tmp_path: Path) -> None:
    pq.write_table(BAD, tmp_path / "bad.parquet")
    bad = BAD if form == "rows" else str(tmp_path / "bad.parquet")
    message = error_of(client, sql, {"l": bad}, **how)
    assert message.startswith("relations[0]")
    assert message.endswith(", in split 1 of source 'l'")


@pytest.mark.parametrize("how", [{}, on_channels(2)], ids=str)
@pytest.mark.parametrize("form", ["rows", "files", "csv"])
def test_the_split_is_found_where_rows_are_computed_one_by_one(
    client: tidegate.Client, how: dict[str, Any], form: str, tmp_path: Path
) -> None:
    splits: list[Any] = [GOOD, GOOD, BAD, GOOD]
    if form == "files":
        for number, rows in enumerate(splits):
            pq.write_table(rows, tmp_path / f"{number}.parquet")
        splits = [str(tmp_path / f"{number}.parquet") for number in range(4)]
    if form == "csv":
        for number, rows in enumerate(splits):
            text = "".join(f"{k},{v},{s}\n" for k, v, s in zip(*rows.to_pydict().values(), strict=True))
            (tmp_path / f"{number}.csv").write_text(f"k,v,s\n{text}")
        splits = [str(tmp_path / f"{number}.csv") for number in range(4)]
    message = error_of(client, "SELECT k, CAST(s AS BIGINT) AS n FROM l", {"l": splits}, **how)
    assert message.endswith(", in split 3 of source 'l'")


@MODES
def test_all_splits_of_the_epoch_are_named_where_rows_are_computed_together(
    client: tidegate.Client, how: dict[str, Any]
) -> None:
    sql = "SELECT k, sum(v) AS n FROM l GROUP BY k"
    with client.create_task(planned(sql, SCHEMAS), on_error="skip_epoch", **how) as task:
        task.run_epoch({"l": GOOD}).table()
        with pytest.raises(tidegate.EpochError, match=r", in splits 2 to 4 of source 'l'$"):
            task.run_epoch({"l": [GOOD, BAD, BAD]}).table()
        assert task.run_epoch({"l": GOOD}).number == 3


@MODES
def test_several_sources_are_named_each_with_its_splits(client: tidegate.Client, how: dict[str, Any]) -> None:
    sql = "SELECT l.k, CAST(l.s || r.s AS BIGINT) AS n FROM l JOIN r ON l.k = r.k"
    message = error_of(client, sql, {"l": [GOOD, BAD], "r": GOOD}, **how)
    where = "in rows of source 'l' (splits 1 to 2), source 'r' (split 1)"
    assert message.endswith((where, "in rows of source 'r' (split 1), source 'l' (splits 1 to 2)"))


@MODES
def test_a_table_is_named(client: tidegate.Client, how: dict[str, Any]) -> None:
    sql = "SELECT l.k, CAST(r.s AS BIGINT) AS n FROM l JOIN r ON l.k = r.k"
    message = error_of(client, sql, {"l": GOOD}, tables={"r": BAD}, **how)
    assert re.search(r", in (rows of .*)?table 'r'", message)


@MODES
@pytest.mark.parametrize(
    "join",
    ["JOIN (SELECT k, max(s) AS s FROM r GROUP BY k) r ON l.k = r.k", "JOIN r ON l.k = r.k"],
    ids=["kept", "all"],
)
@pytest.mark.parametrize("rows", [1, 5000])
def test_a_table_is_named_beside_the_split_that_it_is_joined_with(
    client: tidegate.Client, how: dict[str, Any], join: str, rows: int
) -> None:
    table = pa.table({"k": range(rows + 1), "v": [1] * (rows + 1), "s": ["x"] * (rows + 1)}, SCHEMA)
    message = error_of(
        client, f"SELECT CAST(l.s || r.s AS BIGINT) AS n FROM l {join}", {"l": GOOD}, tables={"r": table}, **how
    )
    assert message.endswith(
        ("in rows of source 'l' (split 1), table 'r'", "in rows of table 'r', source 'l' (split 1)")
    )


@MODES
def test_a_source_that_does_not_feed_what_failed_is_not_named(client: tidegate.Client, how: dict[str, Any]) -> None:
    sql = (
        "SELECT k, n FROM (SELECT k, sum(CAST(s AS BIGINT)) AS n FROM l GROUP BY k) "
        "UNION ALL (SELECT k, count(*) AS n FROM r GROUP BY k)"
    )
    message = error_of(client, sql, {"l": BAD, "r": GOOD}, **how)
    if how.get("mode") == "continuous":
        assert message.endswith(", in split 1 of source 'l'")
    else:  # one statement reads both
        assert message.endswith(", in rows of source 'l' (split 1), source 'r' (split 1)")


def test_the_sentence_has_no_names_of_the_statement(client: tidegate.Client) -> None:
    for expression in ("CAST(s AS BIGINT)", "v + v", "sum(v)", "v / (k - 1)"):
        sql = f"SELECT {expression} AS n FROM l"
        message = error_of(client, sql, {"l": [BAD, BAD]})
        assert not re.search(r"\bc\d+\b|!", message), message
