"""Files of the client's machine that travel."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tidegate
from tidegate.client import Client
from tidegate.executor.runtime.batch_store import Quota, SpillFiles, SpillSpace
from tidegate.executor.runtime.timers import Timers
from tidegate.executor.service.embedded import open_service
from tidegate.executor.service.static_uploads import Staging
from tidegate.executor.tasks.task_uploads import FILE_BYTES
from tidegate.proto.values import FileSplit, Split
from tidegate.transport import inline_files
from tidegate.transport.remote import RemoteService

from ..executor.fakes import FakeComputation, FakeEngine
from ..executor.plans import passed_through
from ..server.running import remote_client, served
from .conftest import PLAN

Open = Callable[..., Client]


class Reading(FakeEngine):
    """Notes what is in the files it is given."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[tuple[str, bytes]] = []

    def prepare(
        self, plan: object, options: object, tables: Mapping[str, Sequence[Split]], space: SpillSpace, _: object
    ) -> object:
        for split in (split for splits in tables.values() for split in splits if isinstance(split, FileSplit)):
            self.note(split)
        return _Noting(self)

    def note(self, split: FileSplit) -> None:
        if os.path.exists(split.path):
            self.seen.append((Path(split.path).suffix, Path(split.path).read_bytes()))


class _Noting(FakeComputation):
    def accept_file(self, source: str, split: FileSplit, origin: str) -> object:
        self.engine.note(split)
        return super().accept_file(source, FileSplit("1"), origin)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "odd-name.v1-x.csv"
    path.write_bytes(b"x\n" * 3_000_000)
    return path


def test_uploads_of_tables_tell_nothing_of_those_of_others(tmp_path: Path) -> None:
    """Before, files were numbered over all principals, and the path of another one's was answered in another way."""
    timers = Timers()
    staging = Staging(tmp_path / "staged", 1 << 20, timers)
    space = SpillSpace(SpillFiles(tmp_path / "task"), Quota(1 << 20))
    theirs, own = (staging.begin_upload(owner, "x.csv").receive([b"a"]) for owner in ("alice", "mallory"))
    assert {len(Path(path).name.split(".")[0]) for path in (theirs, own)} == {32}
    timers.close()
    for spelled in ("{0}/{1}", "{0}/./{1}", "{0}//{1}", "{0}/../staged/{1}", "{0}/{1}/"):
        refusals = []
        for name in (Path(theirs).name, "0" * 32 + ".upload.csv"):
            path = spelled.format(tmp_path / "staged", name)
            with pytest.raises(tidegate.NotFound) as gone:
                staging.take("mallory", {"t": [FileSplit(path)]}, space)
            refusals.append((gone.value.reason, str(gone.value).replace(path, "")))
        assert refusals[0] == refusals[1]
    assert staging.take("mallory", {"t": [FileSplit(own)]}, space)["t"] != [FileSplit(own)]


def test_an_uploaded_file_is_a_split(open_client: Open, file: Path) -> None:
    engine = Reading()
    task = open_client(engine).create_task(b"plan")
    task.run_epoch({"a": tidegate.upload(file)})
    assert engine.seen == [(".csv", file.read_bytes())]


def test_an_uploaded_file_is_a_table(open_client: Open, file: Path) -> None:
    engine = Reading()
    with open_client(engine).create_task(b"plan", tables={"t": tidegate.upload(file)}) as task:
        assert task.id
    assert engine.seen == [(".csv", file.read_bytes())]


def test_an_upload_beyond_the_tasks_quota_is_refused(open_client: Open, file: Path) -> None:
    client = open_client(Reading())
    with pytest.raises(tidegate.Exhausted, match="spill_quota"):
        client.create_task(b"plan", spill_quota=1_000_000).add_split("a", tidegate.upload(file))
    with pytest.raises(tidegate.Exhausted, match="spill_quota"):
        client.create_task(b"plan", tables={"t": tidegate.upload(file)}, spill_quota=1_000_000)


def test_a_file_that_is_missing_is_looked_for_on_the_clients_side(tmp_path: Path) -> None:
    with pytest.raises(tidegate.InvalidRequest, match=r"no file .*nowhere\.csv on the client's machine"):
        tidegate.upload(tmp_path / "nowhere.csv")


def test_much_inline_data_travels_as_a_file(open_client: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inline_files, "INLINE_BYTES", 1_000)
    engine = Reading()
    client = open_client(engine)
    task = client.create_task(b"plan")
    table = pa.table({"x": range(10_000)})
    assert task.add_split("a", table).sequence == 1
    if isinstance(client.service, RemoteService):
        ((ending, data),) = engine.seen
        assert (ending, pa.ipc.open_stream(data).read_all()) == (".arrow", table)


class _Missing(FakeEngine):
    def prepare(self, plan: object, options: object, tables: object, space: SpillSpace, _: object) -> object:
        return _Blind(self)


class _Blind(FakeComputation):
    def accept_file(self, source: str, split: FileSplit, origin: str) -> object:
        raise tidegate.NotFound(f"{split.path} does not exist on the server ({origin})", reason="FILE_NOT_FOUND")


def test_a_file_that_only_the_client_has_is_said_to_be_there(file: Path) -> None:
    with remote_client(_Missing()) as client, client.create_task(b"plan") as task:
        with pytest.raises(tidegate.NotFound, match=r"on the server .*is on the client's machine.*tidegate\.upload"):
            task.add_split("a", file)
        with pytest.raises(tidegate.NotFound, match=r"on the server \(split 1 of source 'a'\)$"):
            task.add_split("a", "/nowhere")


@pytest.fixture(params=["embedded", "grpc"])
def plans(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Client]:
    """A client of the real engine, which reads no file but those that were sent."""
    with (
        contextlib.closing(open_service(roots=[], spill_directory=tmp_path)) as service,
        contextlib.ExitStack() as stack,
    ):
        if request.param == "grpc":
            yield stack.enter_context(tidegate.connect(stack.enter_context(served(service))))
        else:
            yield Client(service)


@pytest.fixture
def parquet(tmp_path: Path) -> Path:
    pq.write_table(pa.table({"x": range(200_000)}), tmp_path / "sent.parquet")
    return tmp_path / "sent.parquet"


def test_an_uploaded_files_rows_are_read(plans: Client, parquet: Path) -> None:
    task = plans.create_task(PLAN)
    for _ in range(2):
        assert task.run_epoch({"a": tidegate.upload(parquet)}).table()["x"].to_pylist() == [*range(200_000)]


def test_an_uploaded_tables_rows_are_there_in_every_epoch(plans: Client, parquet: Path) -> None:
    task = plans.create_task(passed_through("a", "b").json, tables={"b": tidegate.upload(parquet)})
    for value in (-1, -2):
        rows = task.run_epoch({"a": pa.table({"x": [value]})}).table()["x"].to_pylist()
        assert rows == [value, *range(200_000)]


def test_rows_that_travel_as_a_file_are_the_same_rows(plans: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inline_files, "INLINE_BYTES", 1_000)
    table = pa.table({"x": range(10_000)})
    assert plans.create_task(PLAN).run_epoch({"a": [table, table]}).table()["x"].to_pylist() == [*range(10_000)] * 2


def test_a_file_that_was_not_sent_is_not_read(plans: Client, parquet: Path) -> None:
    with pytest.raises(tidegate.Forbidden, match="outside"):
        plans.create_task(PLAN).add_split("a", parquet)


def test_rows_that_travel_as_a_file_use_the_quota_only_until_their_epoch_is_acknowledged(
    plans: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inline_files, "INLINE_BYTES", 1_000)
    monkeypatch.setattr(inline_files, "MESSAGE_BYTES", 1_000)
    table = pa.table({"x": range(10_000)})
    task = plans.create_task(PLAN, spill_quota=3 * table.nbytes, queue_bytes=4 * table.nbytes)
    for _ in range(10):
        assert task.run_epoch({"a": table}).rows == 10_000


def test_rows_for_which_there_is_no_quota_travel_in_a_message(plans: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inline_files, "INLINE_BYTES", 1_000)
    table = pa.table({"x": range(10_000)})
    assert plans.create_task(PLAN, spill_quota=0).run_epoch({"a": table}).table() == table


def test_rows_that_were_refused_do_not_stand_for_those_given_in_their_place(
    plans: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inline_files, "INLINE_BYTES", 1_000)
    task = plans.create_task(PLAN)
    table = pa.table({"x": range(10_000)})
    with pytest.raises(tidegate.Refused, match="epoch 2"):
        task.add_split("a", table.slice(5_000), epoch=2)
    task.add_split("a", table)
    task.request_barrier()
    assert task.read_epoch() == table


def test_uploads_use_the_quota_only_until_their_epoch_is_acknowledged(plans: Client, parquet: Path) -> None:
    with plans.create_task(PLAN, spill_quota=parquet.stat().st_size) as task:
        for number in range(1, 8):
            assert task.run_epoch({"a": tidegate.upload(parquet)}).number == number
    with plans.create_task(PLAN, spill_quota=2 * parquet.stat().st_size) as task:
        for _ in range(7):
            task.add_split("a", tidegate.upload(parquet))
            task.request_barrier()
            assert task.read_epoch() == pq.read_table(parquet)


def test_the_uploads_of_splits_that_are_refused_give_their_room_back(plans: Client, parquet: Path) -> None:
    task = plans.create_task(PLAN, spill_quota=2 * parquet.stat().st_size)
    for _ in range(5):
        with pytest.raises(tidegate.Refused, match="epoch 2"):
            task.add_split("a", tidegate.upload(parquet), epoch=2)
        with pytest.raises(tidegate.InvalidRequest, match="a split must be a path"):
            task.run_epoch({"a": [tidegate.upload(parquet), 1]})
        with pytest.raises(tidegate.InvalidRequest, match="version"):
            task.transact("app", -1, {"a": tidegate.upload(parquet)}, seal=True)
    assert task.run_epoch({"a": tidegate.upload(parquet)}).table() == pq.read_table(parquet)


def test_a_file_sent_again_with_its_number_is_a_duplicate(plans: Client, parquet: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.parquet"
    pq.write_table(pa.table({"x": pa.array([9], pa.int64())}), other)
    task = plans.create_task(PLAN, spill_quota=2 * parquet.stat().st_size + FILE_BYTES)
    added = [task.add_split("a", tidegate.upload(parquet), sequence=1).duplicate for _ in range(4)]
    assert added == [False, True, True, True]
    with pytest.raises(tidegate.Refused, match="with other content"):
        task.add_split("a", tidegate.upload(other), sequence=1)


def test_a_transaction_said_again_may_send_its_files_again(plans: Client, parquet: Path) -> None:
    task = plans.create_task(PLAN, spill_quota=2 * parquet.stat().st_size)
    for _ in range(4):
        assert task.transact("app", 1, {"a": tidegate.upload(parquet)}, seal=True).epoch == 1
    assert task.read_epoch() == pq.read_table(parquet)
