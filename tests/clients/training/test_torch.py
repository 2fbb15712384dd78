"""The data set follows the protocols of PyTorch's and torchdata's loaders. A few lines stand for PyTorch."""

from __future__ import annotations

import dataclasses
import inspect
import pickle
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import substrait.dataframe as sub

import tidegate
from tidegate.client import Client
from tidegate.executor.service.plan_engine import PlanEngine
from tidegate.proto.values import TaskOptions
from tidegate.server.access.certificate import Certificate
from tidegate.server.access.tokens import Tokens
from tidegate.task_options import Options, SharedOptions
from tidegate.training import Loader, Shuffle
from tidegate.training.loader_arguments import LoaderArguments
from tidegate.transport.result_streams import FlightConnection

from ...server.certificates import Authority
from ...server.running import manager, served
from .conftest import numbers
from .test_loader import expected, loader

TOKEN = "alice-has-this-token-0001"
OPTIONS: dict[str, Any] = {"batch_size": 16, "shuffle": Shuffle(11, rows=60)}


class WorkerInfo(SimpleNamespace):
    id: int
    num_workers: int


@pytest.fixture
def worker(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, WorkerInfo | None]]:
    """A PyTorch of a few lines. `worker["now"]` says in which worker the code runs."""
    now: dict[str, WorkerInfo | None] = {"now": None}
    data = ModuleType("torch.utils.data")
    data.IterableDataset = type("IterableDataset", (), {})  # type: ignore[attr-defined]
    data.get_worker_info = lambda: now["now"]  # type: ignore[attr-defined]
    utils, torch = ModuleType("torch.utils"), ModuleType("torch")
    torch.from_numpy = lambda values: ("tensor", values)  # type: ignore[attr-defined]
    torch.utils, utils.data = utils, data  # type: ignore[attr-defined]
    for module in (torch, utils, data):
        monkeypatch.setitem(sys.modules, module.__name__, module)
    import tidegate.training.torch as own

    vars(own).pop("Dataset", None)
    yield now
    vars(own).pop("Dataset", None)


def dataset_of(client: Client, folder: Path, **options: Any) -> Any:
    import tidegate.training.torch as own

    from .conftest import kept

    return own.Dataset(client, kept(), {"samples": folder}, **{**OPTIONS, **options})


def of_numbers(client: Client, data: dict[str, Any]) -> Any:
    import tidegate.training.torch as own

    return own.Dataset(client, numbers(), data, batch_size=1000, epochs=1)


def rows_of(batches: Any) -> list[list[int]]:
    return [batch["n"][1].tolist() for batch in batches]


def test_batches_are_tensors_over_the_arrays(client: Client, folder: Path, worker: dict[str, Any]) -> None:
    dataset = dataset_of(client, folder)
    assert isinstance(dataset, sys.modules["torch.utils.data"].IterableDataset)
    with dataset:
        assert [rows_of(dataset), rows_of(dataset)] == [expected(), expected(2, first=1)]


def test_a_state_goes_on_in_another_data_set(local_client: Client, folder: Path, worker: dict[str, Any]) -> None:
    first = dataset_of(local_client, folder)
    with first:
        batches = iter(first)
        read = [next(batches)["n"][1].tolist() for _ in range(2)]
        state = first.state_dict()
    second = dataset_of(local_client, folder)
    second.load_state_dict(state)
    with second:
        assert read + rows_of(second) == expected()


def test_a_state_that_does_not_fit_leaves_a_data_set_where_it_is(
    local_client: Client, folder: Path, worker: dict[str, Any]
) -> None:
    with dataset_of(local_client, folder) as dataset:
        next(iter(dataset))
        state = dataset.state_dict()
        for refuse in (dataset.check_state, dataset.load_state_dict):
            with pytest.raises(tidegate.Refused, match="batch_size"):
                refuse({**state, "batch_size": 5})
        dataset.check_state(dataset_of(local_client, folder).state_dict())
        assert dataset.state_dict() == state
        assert rows_of(dataset) == expected()[1:]


@pytest.mark.parametrize("state", [{"version": 1}, "state", None, {}])
def test_a_data_set_keeps_nothing_but_a_state(
    local_client: Client, folder: Path, worker: dict[str, Any], state: Any
) -> None:
    with dataset_of(local_client, folder) as dataset:
        with pytest.raises(tidegate.InvalidRequest, match="state") as refused:
            dataset.load_state_dict(state)
        assert refused.value.reason == "BAD_STATE"
        assert isinstance(pickle.loads(pickle.dumps(dataset)), type(dataset))


def test_workers_of_a_server_share_the_batches_in_order(client: Client, folder: Path, worker: dict[str, Any]) -> None:
    sent = pickle.dumps(dataset_of(client, folder))
    shares = []
    for number in range(2):
        worker["now"] = WorkerInfo(id=number, num_workers=2)
        copy = pickle.loads(sent)
        if client.address is None:
            with pytest.raises(tidegate.InvalidRequest, match="start a server"):
                iter(copy)
            return
        with copy:
            shares.append(rows_of(copy))
    batches = expected()
    assert shares == [batches[0::2], batches[1::2]]


@pytest.mark.parametrize("turns", [1, 2])
def test_workers_go_on_behind_any_batch_in_any_number(
    client: Client, folder: Path, worker: dict[str, Any], turns: int
) -> None:
    """A `DataLoader` takes a batch of each worker in turn, and asks worker 0 first, wherever the epoch goes on."""
    if client.address is None:
        pytest.skip("a service in this process has no workers")
    with dataset_of(client, folder, turns=turns) as dataset:
        batches = list(dataset)
        states = [dataset.state_after(pickle.loads(pickle.dumps(batch))) for batch in batches]
    batches = [batch["n"][1].tolist() for batch in batches]
    with dataset_of(client, folder, turns=turns) as dataset:
        dataset.set_epoch(1)
        following = rows_of(dataset)
    for number, workers in [(0, 2), (1, 2), (2, 3), (3, 2)]:
        resumed = dataset_of(client, folder, turns=turns)
        resumed.load_state_dict(states[number])
        sent, shares = pickle.dumps(resumed), []
        for at in range(workers):
            worker["now"] = WorkerInfo(id=at, num_workers=workers)
            with pickle.loads(sent) as copy:
                shares.append([rows_of(copy), rows_of(copy)])
        for epoch, whole in enumerate([batches[number + 1 :], following]):
            assert [shares[at][epoch] for at in range(workers)] == [whole[at::workers] for at in range(workers)]
        worker["now"] = None


def test_the_state_of_a_worker_says_where_its_turns_began(client: Client, folder: Path, worker: dict[str, Any]) -> None:
    """`StatefulDataLoader` saves the state of each worker, and gives each its own state back."""
    if client.address is None:
        pytest.skip("a service in this process has no workers")
    first = dataset_of(client, folder)
    with first:
        first.load_state_dict(first.state_after(next(iter(first))))
        sent = pickle.dumps(first)
    for at in range(2):
        worker["now"] = WorkerInfo(id=at, num_workers=2)
        with pickle.loads(sent) as copy:
            read = [next(iter(copy))["n"][1].tolist()]
            state = copy.state_dict()
        with pickle.loads(pickle.dumps(dataset_of(client, folder))) as other:
            other.load_state_dict(state)
            assert read + rows_of(other) == expected()[1 + at :: 2]
    with pytest.raises(tidegate.InvalidRequest, match="workers_from"):
        other.load_state_dict({**state, "workers_from": [1]})
    worker["now"] = None


def test_a_batch_of_a_worker_does_not_tell_what_was_skipped(
    local_client: Client, folder: Path, worker: dict[str, Any]
) -> None:
    with dataset_of(local_client, folder, on_error="skip") as dataset:
        batch = next(iter(dataset))
        with pytest.raises(tidegate.InvalidRequest, match="on_error='skip'"):
            dataset.state_after(batch)


def test_a_worker_that_is_a_fork_is_refused(
    client: Client, folder: Path, worker: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    if client.address is None:
        pytest.skip("a service in this process has no workers")
    dataset = dataset_of(client, folder)
    worker["now"] = WorkerInfo(id=0, num_workers=1)
    monkeypatch.setattr("os.getpid", lambda: -1)
    with pytest.raises(tidegate.InvalidRequest, match="spawn") as refused:
        iter(dataset)
    assert refused.value.reason == "FORKED_WORKER"


@pytest.fixture
def secured(tmp_path: Path) -> Iterator[tuple[str, Path, Path]]:
    """A server over TLS that asks for a token: its address, the token's file and the authority's."""
    token, known, authority = tmp_path / "token", tmp_path / "known", Authority.new()
    token.write_text(TOKEN)
    known.write_text(f"alice {TOKEN}\n")
    known.chmod(0o600)
    (tmp_path / "authority.pem").write_text(authority.pem)
    certificate = Certificate(*authority.issue(tmp_path, "127.0.0.1"))
    with (
        manager(PlanEngine(["/"], tmp_path), principals=True) as backend,
        served(backend, tokens=Tokens(known), certificate=certificate) as address,
    ):
        yield address, token, tmp_path / "authority.pem"


@pytest.mark.parametrize("flight", [True, False])
def test_a_worker_reads_over_flight_only_if_the_client_does(
    secured: tuple[str, Path, Path],
    tmp_path: Path,
    worker: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
    flight: bool,
) -> None:
    address, token, authority = secured
    table = pa.table({"n": range(1_000_000)})
    pq.write_table(table, tmp_path / "numbers.parquet")
    connections = []
    connected = FlightConnection._connected
    monkeypatch.setattr(
        FlightConnection, "_connected", lambda self, task: connections.append(task) or connected(self, task)
    )
    with tidegate.connect(address, token_file=token, tls=authority, flight=flight) as client:
        sent = pickle.dumps(of_numbers(client, {"samples": tmp_path / "numbers.parquet"}))
    worker["now"] = WorkerInfo(id=0, num_workers=1)
    with pickle.loads(sent) as copy:
        assert sum(map(len, rows_of(copy))) == table.num_rows
    assert bool(connections) is flight


def test_a_worker_whose_token_was_given_as_text_says_how_to_give_it(worker: dict[str, Any]) -> None:
    with tidegate.connect("127.0.0.1:1", token=TOKEN) as client:
        sent = pickle.dumps(of_numbers(client, {"samples": []}))
    worker["now"] = WorkerInfo(id=0, num_workers=1)
    with (
        pickle.loads(sent) as copy,
        pytest.raises(tidegate.Unauthenticated, match=r"token_file.*TIDEGATE_TOKEN") as missing,
    ):
        iter(copy)
    assert missing.value.reason == "TOKEN_MISSING"
    assert TOKEN.encode() not in sent


def test_pinning_a_batch_pins_its_lists() -> None:
    tensor = SimpleNamespace(pin_memory=lambda: "pinned")
    pinned = tidegate.training.Ragged(tensor, tensor).pin_memory()
    assert (pinned.offsets, pinned.values) == ("pinned", "pinned")


def test_a_loader_pins_the_memory_of_its_tensors(
    local_client: Client, worker: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stand-in notes that `Tensor.pin_memory`, which needs an accelerator, is called for each column."""

    def tensor(values: Any) -> Any:
        return SimpleNamespace(pin_memory=lambda: ("pinned", values.tolist()))

    monkeypatch.setattr(sys.modules["torch"], "from_numpy", tensor)
    samples = pa.table({"n": [1, 2], "tokens": pa.array([[5], [6, 7]]), "text": ["a", "b"]})
    schema = {"n": sub.i64, "tokens": sub.list_(sub.i64()), "text": sub.string}
    plan = sub.read_named_table("samples", schema).to_plan()
    [batch] = Loader(
        local_client, plan, {"samples": samples}, batch_size=2, as_="torch", pin_memory=True, provenance=True
    )
    assert (batch["n"], batch["_row"]) == (("pinned", [1, 2]), ("pinned", [0, 1]))
    assert (batch["tokens"].offsets, batch["tokens"].values) == (("pinned", [0, 1, 3]), ("pinned", [5, 6, 7]))
    assert batch["text"].to_pylist() == ["a", "b"]
    with pytest.raises(tidegate.InvalidRequest, match="as_='torch'"):
        Loader(local_client, plan, {"samples": samples}, batch_size=2, pin_memory=True)
    with pytest.raises(tidegate.InvalidRequest, match="DataLoader"):
        dataset_of(local_client, Path("/"), pin_memory=True)


def test_workers_that_are_made_anew_are_told_the_epoch(
    local_client: Client, folder: Path, worker: dict[str, Any]
) -> None:
    dataset = dataset_of(local_client, folder)
    dataset.set_epoch(1)
    with dataset:
        assert rows_of(dataset) == expected(2, first=1)


def test_read_only_memory_is_copied_because_tensors_may_be_written_to(
    local_client: Client, folder: Path, worker: dict[str, Any]
) -> None:
    plain = loader(local_client, folder, numbers(), shuffle=None, as_="torch", prefetch=0)
    assert all(batch["n"][1].flags.writeable for batch in plain)


def test_without_pytorch_the_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    import tidegate.training.torch as own

    for module in ("torch", "torch.utils", "torch.utils.data"):
        monkeypatch.setitem(sys.modules, module, None)
    monkeypatch.delitem(vars(own), "Dataset", raising=False)
    with pytest.raises(ModuleNotFoundError, match="needs PyTorch"):
        own.Dataset  # noqa: B018


def test_the_arguments_that_type_checkers_know_are_those_of_a_loader() -> None:
    """But for the worker, which PyTorch says, and pinned memory, which its `DataLoader` has."""
    of_loader = set(inspect.signature(Loader.__init__).parameters) - {"self", "client", "plan", "data", "options"}
    assert set(LoaderArguments.__annotations__) == of_loader - {"worker", "workers", "pin_memory"} | set(
        SharedOptions.__annotations__
    )
    assert set(Options.__annotations__) == {field.name for field in dataclasses.fields(TaskOptions)}
