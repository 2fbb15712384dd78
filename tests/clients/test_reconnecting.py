"""A broken connection: the client comes back, says the same again, and goes on from its cursor."""

from __future__ import annotations

import contextlib
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from pathlib import Path

import pyarrow as pa
import pytest

import tidegate
from tidegate.executor.api.engine import Engine
from tidegate.executor.api.ownership import Ownership, act_for
from tidegate.executor.journal.durable_tasks import DurableTasks
from tidegate.plans import plan_bytes
from tidegate.proto.address import placeless
from tidegate.proto.errors import TaskFailed
from tidegate.proto.values import Cursor, TaskOptions
from tidegate.server.endpoints.flight_port import FlightPort
from tidegate.transport.access import Access
from tidegate.transport.channel import Channel, Line
from tidegate.transport.remote import RemoteService

from ..executor.fakes import POISON, FakeEngine, manager_of
from ..server.running import fake_server, flight_address, manager, served
from .conftest import PLAN


class Proxy:
    """Passes bytes to `target`; `cut` breaks every connection, `answers_lost` drops what the server says."""

    def __init__(self, target: str) -> None:
        host, _, port = target.rpartition(":")
        self._target = (host, int(port))
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._open: list[socket.socket] = []
        self.connections = 0
        self.answers_lost = False
        self.cut_after: int | None = None
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self._listener.getsockname()[1]}"

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                far = socket.create_connection(self._target)
                self.connections += 1
                self._open += [near, far]
                for source, sink, answers in ((near, far, False), (far, near, True)):
                    threading.Thread(target=self._pass, args=(source, sink, answers), daemon=True).start()

    def _pass(self, source: socket.socket, sink: socket.socket, answers: bool) -> None:
        with source, contextlib.suppress(OSError):
            while data := source.recv(65_536):
                if answers and self.answers_lost:
                    self.answers_lost = False
                    self.cut()
                    return
                sink.sendall(data)
                if answers and self.cut_after is not None:
                    self.cut_after -= len(data)
                    if self.cut_after < 0:
                        self.cut_after = None
                        self.cut()
                        return

    def cut(self) -> None:
        for connection in self._open:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        self._open.clear()

    def close(self) -> None:
        self._listener.close()
        self.cut()


@contextlib.contextmanager
def proxied(engine: Engine) -> Iterator[tuple[Proxy, tidegate.Task]]:
    """A task whose calls go through the proxy."""
    with fake_server(engine) as address:
        proxy = Proxy(address)
        try:
            with tidegate.connect(proxy.address, flight=False) as client, client.create_task(PLAN) as task:
                yield proxy, task
        finally:
            proxy.close()


@contextlib.contextmanager
def proxied_flight(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Proxy, tidegate.Task]]:
    """A task whose large results go through the proxy."""
    with fake_server(engine) as address, tidegate.connect(address) as client, client.create_task(PLAN) as task:
        proxy = Proxy(flight_address(client))
        monkeypatch.setattr(FlightPort, "announced", placeless(proxy.address))
        try:
            yield proxy, task
        finally:
            proxy.close()


def numbers(*values: int) -> pa.Table:
    return pa.table({"x": pa.array(values, pa.int64())})


def test_a_task_goes_on_after_its_connection_broke(engine: Engine) -> None:
    with proxied(engine) as (proxy, task):
        task.run_epoch({"a": numbers(1)})
        proxy.cut()
        assert task.run_epoch({"a": numbers(2)}).table()["x"].to_pylist() == [2]
        assert proxy.connections >= 2  # a busy machine may need more than one attempt


def test_an_epoch_whose_answer_was_lost_is_neither_lost_nor_doubled(engine: Engine) -> None:
    with proxied(engine) as (proxy, task):
        task.run_epoch({"a": numbers(1)})
        proxy.answers_lost = True
        assert task.run_epoch({"a": numbers(2)}).table()["x"].to_pylist() == [2]
        assert task.statistics().splits["a"].added == 2


def test_a_split_and_a_barrier_whose_answers_were_lost(engine: Engine) -> None:
    with proxied(engine) as (proxy, task):
        proxy.answers_lost = True
        assert task.add_split("a", numbers(1)).sequence == 1
        proxy.answers_lost = True
        assert task.request_barrier() == 1
        assert task.read_epoch()["x"].to_pylist() == [1]
        assert task.statistics().barriers_requested == 1


def test_a_barrier_whose_answer_was_lost_seals_one_epoch_though_it_was_read_meanwhile(engine: Engine) -> None:
    with proxied(engine) as (proxy, task), tidegate.connect(proxy.address, flight=False) as client:
        reader = client.task(task.id)
        task.add_split("a", numbers(1))
        service, read = task.service, []
        send = service._channel.call

        def read_then_lose(method: str, *args: object, **how: object) -> object:
            """The server has sealed, and a reader has read the epoch, before the feeder's call comes again."""
            answer = send(method, *args, **how)
            if method.endswith("RequestBarrier") and not read:
                read.append(reader.read_epoch()["x"].to_pylist())
                reader.acknowledge()
                answer = send(method, *args, **how)
            return answer

        service._channel.call = read_then_lose
        assert task.request_barrier() == 1
        assert read == [[1]]
        assert task.info().sealed_epoch == 1


def test_a_split_behind_a_transaction_whose_answer_was_lost_is_not_taken_for_its_split(engine: Engine) -> None:
    with proxied(engine) as (proxy, task):
        proxy.answers_lost = True
        assert task.transact("app", 1, {"a": numbers(1)}, seal=True).added[0].sequence == 1
        assert not proxy.answers_lost
        added = task.add_split("a", numbers(1))  # the same rows as those of the transaction
        assert (added.sequence, added.duplicate) == (2, False)
        assert task.request_barrier() == 2
        assert [task.read_epoch()["x"].to_pylist() for _ in range(2)] == [[1], [1]]


def test_a_task_whose_answer_was_lost_is_found_again_and_no_other_made(engine: Engine) -> None:
    with proxied(engine) as (proxy, first), tidegate.connect(proxy.address) as client:
        client.tasks()
        proxy.answers_lost = True
        with client.create_task(PLAN) as second:
            assert not proxy.answers_lost
            assert {task.id for task in client.tasks()} == {first.id, second.id}
            assert second.run_epoch({"a": numbers(1)}).table()["x"].to_pylist() == [1]


def test_a_recovery_whose_answer_was_lost_is_made_once(tmp_path: Path) -> None:
    durable = DurableTasks(tmp_path / "data")
    backend = manager_of(FakeEngine(), threads=2, durable=durable)
    with (
        contextlib.closing(backend),
        served(backend) as address,
        contextlib.closing(Proxy(address)) as proxy,
        tidegate.connect(proxy.address, flight=False) as client,
    ):
        task = client.create_task(PLAN)
        for values in ([1], [POISON], [2]):
            task.add_split("a", numbers(*values))
        task.request_barrier()
        with pytest.raises(TaskFailed):
            task.read_epoch()
        proxy.answers_lost = True
        task.recover(skip=[("a", 2)])
        assert not proxy.answers_lost
        assert task.read_epoch()["x"].to_pylist() == [1, 2]
        assert sum("was left out" in warning for warning in task.info().warnings) == 1


@pytest.mark.parametrize("flight", [True, False], ids=["Flight", "gRPC"])
@pytest.mark.parametrize("after", [1_000_000, 3_000_000, 10_000_000])
def test_a_large_result_goes_on_from_the_cursor(
    after: int, flight: bool, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    with proxied_flight(engine, monkeypatch) if flight else proxied(engine) as (proxy, task):
        proxy.cut_after = after
        table = task.run_epoch({"a": [pa.table({"x": range(100_000)})] * 20}).table()
        assert table["x"].to_pylist() == [*range(100_000)] * 20
        assert proxy.cut_after is None  # the connection was cut; gRPC may have brought the rest


def test_a_call_tries_again_for_so_long_after_its_connection_broke_however_long_it_took_before() -> None:
    channel = Channel(Access(address="127.0.0.1:1", reconnect_seconds=0.4))
    attempts = []

    def break_late() -> str:
        attempts.append(time.monotonic())
        if len(attempts) == 1:
            time.sleep(0.6)
            raise tidegate.Unavailable("the connection broke")
        return "answer"

    with contextlib.closing(channel):
        assert channel._retried(break_late, again=True) == "answer"


def test_a_server_that_is_not_there_is_said_to_be_after_a_while() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
    with (
        tidegate.connect(address, reconnect_seconds=0.2) as client,
        pytest.raises(tidegate.Unavailable, match=f"{address} cannot be reached"),
    ):
        client.tasks()


def test_a_task_of_a_server_that_has_started_anew_since_is_told_so(engine: Engine) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        listen = f"127.0.0.1:{taken.getsockname()[1]}"
    with tidegate.connect(listen) as client:
        with manager(engine) as before, served(before, listen=listen):
            task = client.create_task(PLAN)
        with manager() as now, served(now, listen=listen):
            for use in (task.statistics, lambda: task.run_epoch({"a": numbers(1)}), lambda: client.task(task.id)):
                with pytest.raises(tidegate.NotFound, match="the server has started again since") as missing:
                    use()
                assert missing.value.reason == "SERVER_RESTARTED"
            deleted = client.create_task(PLAN)
            deleted.delete()
            for gone in (deleted.id, "no-such-task", task.id[:-1]):
                with pytest.raises(tidegate.NotFound, match="it may have been deleted"):
                    client.task(gone)


@pytest.mark.parametrize("principals", [False, True])
def test_an_id_says_which_run_of_a_service_has_made_it(principals: bool) -> None:
    def check() -> None:
        act_for("alice")
        before, now = Ownership(principals), Ownership(principals)
        identity = before.new_identity()
        assert (before.is_of_another_run(identity), now.is_of_another_run(identity)) == (False, True)
        assert now.has(identity)  # whose it is stays so, for its checkpoints
        assert not any(now.is_of_another_run(other) for other in ("", "none", identity.upper(), f"{identity}0"))

    copy_context().run(check)  # other tests act for nobody


def test_a_closed_client_says_so() -> None:
    client = tidegate.connect("127.0.0.1:1")
    client.close()
    with pytest.raises(tidegate.Unavailable, match="has been closed"):
        client.tasks()


def test_threads_that_feed_at_the_same_time_get_answers_of_their_own(engine: Engine) -> None:
    with fake_server(engine) as address, tidegate.connect(address) as client, ThreadPoolExecutor(8) as pool:
        tasks = [client.create_task(PLAN) for _ in range(8)]
        for epoch in range(10):
            epochs = pool.map(
                lambda numbered_task, n=epoch: numbered_task[1].run_epoch({"a": numbers(n, numbered_task[0])}),
                enumerate(tasks),
            )
            assert [epoch.table()["x"].to_pylist() for epoch in epochs] == [[epoch, at] for at in range(8)]


def test_a_client_that_has_fed_leaves_no_thread_behind(engine: Engine) -> None:
    with fake_server(engine) as address:
        with tidegate.connect(address) as client, client.create_task(PLAN) as task:
            before = set(threading.enumerate())
            task.run_epoch({"a": numbers(1)})
            fed = {thread for thread in threading.enumerate() if not thread.name.startswith("tidegate")} - before
        assert fed
        for thread in fed:
            thread.join(timeout=30)
        assert not any(thread.is_alive() for thread in fed)


def test_a_client_goes_on_where_the_server_has_ended_its_line(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidegate.server.endpoints.task_service.LONGEST_FEED", 0.0)
    with fake_server(engine) as address, tidegate.connect(address) as client, client.create_task(PLAN) as task:
        assert [task.run_epoch({"a": numbers(n)}).table()["x"].to_pylist() for n in range(3)] == [[0], [1], [2]]
        assert task.statistics().splits["a"].added == 3


@pytest.mark.parametrize("closing", ["", "__del__ = lambda self: client.close()"], ids=["never", "at last"])
def test_a_process_ends_that_has_not_closed_its_client(closing: str) -> None:
    script = f"""
import sys, pyarrow, tidegate
class Held:
    client = tidegate.connect(sys.argv[1])
    {closing}
held = Held()
client = held.client
task = client.create_task(b"any")
print(task.run_epoch({{"a": pyarrow.table({{"x": [7]}})}}).table()["x"])
"""
    with fake_server(FakeEngine()) as address:
        ended = subprocess.run([sys.executable, "-c", script, address], capture_output=True, timeout=120, check=True)
    assert b"7" in ended.stdout


def test_a_line_on_which_a_request_was_interrupted_is_not_used_again() -> None:
    class Interrupted:
        """Answers that somebody was waiting for at the Ctrl-C."""

        cancelled = False

        def __init__(self, requests: Iterator[bytes]) -> None:
            self.requests = requests

        def __next__(self) -> bytes:
            raise KeyboardInterrupt

        def cancel(self) -> None:
            self.cancelled = True

    calls: list[Interrupted] = []
    line = Line(lambda requests: calls.append(Interrupted(requests)) or calls[-1])
    with pytest.raises(KeyboardInterrupt):
        line.ask(b"request")
    assert calls[0].cancelled
    assert list(calls[0].requests) == [b"request"]


def test_an_answer_that_does_not_come_in_time_is_given_up_where_that_is_wanted(engine: Engine) -> None:
    with fake_server(engine) as address:
        impatient = Access(address=address, reconnect_seconds=0.0)
        patient = RemoteService(impatient)
        service = RemoteService(impatient, answer_seconds=0.5)
        with contextlib.closing(patient), contextlib.closing(service):
            task = patient.create_task(plan_bytes(PLAN), TaskOptions(), {})
            with pytest.raises(tidegate.Unavailable, match=r"has not answered within 0\.5 seconds"):
                service.next(task.id, Cursor(1, 0), wait=60.0)
