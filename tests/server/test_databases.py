"""Databases that the owner of a server has named: `tidegate serve --database NAME=FILE`, from a plan to its rows."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing

import pyarrow as pa
import pytest

import tidegate
from tidegate.relations import IndexLookupJoin
from tidegate.server.cli import main

from ..executor.operated_plans import I64, TEXT, operated, plan, read
from .fake_process import server_process

EVENTS = pa.table({"k": [2, 9, None, 3], "v": [10, 20, 30, 40]})


def looked_up(database: str, table: str = "names", prefetch: int = 2) -> bytes:
    detail = IndexLookupJoin(
        keys=[IndexLookupJoin.Key(left=0, right=0)],
        type=IndexLookupJoin.TYPE_LEFT,
        index="sql",
        options={"database": database},
        prefetch=prefetch,
    )
    events = read("events", {"k": I64, "v": I64})
    return plan(operated(detail, events, read(table, {"id": I64, "name": TEXT})), ["k", "v", "id", "name"])


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server of two databases that are not below its root; one of them is gone when plans ask for it."""
    folder = tmp_path_factory.mktemp("owner")
    (folder / "gone.db").touch()
    with closing(sqlite3.connect(folder / "crm.db")) as database, database:
        database.execute("CREATE TABLE names (id INTEGER PRIMARY KEY, name TEXT)")
        database.executemany("INSERT INTO names VALUES (?, ?)", [(1, "one"), (2, "two"), (3, "three")])
    named = [f"--database=crm={folder / 'crm.db'}", f"--database=gone={folder / 'gone.db'}"]
    root = f"--root={tmp_path_factory.mktemp('root')}"
    with server_process("tidegate.server.cli", "serve", "--listen=127.0.0.1:0", root, *named) as server:
        (folder / "gone.db").unlink()
        yield server.address


@pytest.fixture
def client(address: str) -> Iterator[tidegate.Client]:
    with tidegate.connect(address) as opened:
        yield opened


def test_rows_are_found_in_a_database_by_its_name(client: tidegate.Client) -> None:
    with client.create_task(looked_up("crm")) as task:
        for _ in range(2):
            table = task.run_epoch({"events": EVENTS}).table()
            assert table["name"].to_pylist() == ["two", None, None, "three"]
            assert table["v"].to_pylist() == [10, 20, 30, 40]


@pytest.mark.parametrize("name", ["sales", "crm.db", "../crm.db"])
def test_a_plan_reaches_no_database_by_another_name(client: tidegate.Client, name: str) -> None:
    with pytest.raises(tidegate.InvalidRequest) as refused:
        client.create_task(looked_up(name))
    assert f"there is no database {name!r}; there are: 'crm', 'gone'" in str(refused.value)


@pytest.mark.parametrize(
    ("database", "table", "cause"),
    [
        ("crm", "secrets", "no such table: secrets"),
        ("gone", "names", "the file of the database cannot be opened"),
    ],
)
def test_a_failed_look_up_names_the_keys_and_the_cause(
    client: tidegate.Client, database: str, table: str, cause: str
) -> None:
    with client.create_task(looked_up(database, table)) as task, pytest.raises(tidegate.TaskFailed) as failed:
        task.run_epoch({"events": EVENTS}).table()
    assert failed.value.reason == "LOOKUP_FAILED"
    assert "looking up keys 2 to 9 (3 rows) in index" in failed.value.message
    assert cause in failed.value.message


def test_a_database_that_is_not_there_is_said_before_the_server_starts(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["serve", "--database", "crm=nowhere.db"])
    assert "'crm=nowhere.db' must be NAME=FILE, with a file that exists" in capsys.readouterr().err


def test_a_task_that_failed_to_look_up_leaves_the_others_alone(client: tidegate.Client) -> None:
    with client.create_task(looked_up("crm")) as good, client.create_task(looked_up("gone")) as bad:
        with pytest.raises(tidegate.TaskFailed):
            bad.run_epoch({"events": EVENTS}).table()
        assert good.run_epoch({"events": EVENTS}).table().num_rows == 4
