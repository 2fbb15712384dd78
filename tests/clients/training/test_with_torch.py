"""The data set in the loaders of PyTorch and torchdata themselves, where these are installed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import substrait.dataframe as sub

from tidegate.client import Client
from tidegate.training import Loader, Shuffle

from .conftest import kept
from .test_loader import expected

torch = pytest.importorskip("torch")

NEW_PROCESSES = "spawn"


def dataset_of(client: Client, folder: Path, **options: Any) -> Any:
    from tidegate.training.torch import Dataset

    return Dataset(
        client, kept(), {"samples": str(folder)}, **{"batch_size": 16, "shuffle": Shuffle(11, rows=60), **options}
    )


def rows_of(batches: Any) -> list[list[int]]:
    return [batch["n"].tolist() for batch in batches]


def loader_of(dataset: Any, **options: Any) -> Any:
    return torch.utils.data.DataLoader(dataset, batch_size=None, **options)


def stateful_loader_of(dataset: Any, **options: Any) -> Any:
    stateful = pytest.importorskip("torchdata.stateful_dataloader")
    return stateful.StatefulDataLoader(dataset, batch_size=None, **options)


def served(client: Client) -> Client:
    if client.address is None:
        pytest.skip("a service in this process has no workers")
    return client


def test_a_data_loader_gives_the_batches_of_each_epoch_as_tensors(client: Client, folder: Path) -> None:
    with dataset_of(client, folder) as dataset:
        batches = loader_of(dataset)
        first = next(iter(batches))
        assert isinstance(first["n"], torch.Tensor)
        assert (first["n"].dtype, first.epoch, first.number) == (torch.int64, 0, 0)
        dataset.set_epoch(0)
        assert [rows_of(batches), rows_of(batches)] == [expected(), expected(2, first=1)]


def test_workers_hand_out_the_same_batches_in_the_same_order(client: Client, folder: Path) -> None:
    dataset = dataset_of(served(client), folder)
    batches = loader_of(dataset, num_workers=2, persistent_workers=True, multiprocessing_context=NEW_PROCESSES)
    assert [rows_of(batches), rows_of(batches)] == [expected(), expected(2, first=1)]
    del batches


@pytest.mark.filterwarnings("ignore:'set_vital' is deprecated")  # torchdata calls it
@pytest.mark.parametrize("workers", [0, 2])
def test_a_stateful_data_loader_goes_on_after_its_batches(client: Client, folder: Path, workers: int) -> None:
    options = {"num_workers": workers, "multiprocessing_context": NEW_PROCESSES if workers else None}
    batches, states = expected(), []
    with dataset_of(served(client) if workers else client, folder) as dataset:
        whole = stateful_loader_of(dataset, **options)
        for number, batch in enumerate(whole):
            assert batch["n"].tolist() == batches[number]
            states.append(whole.state_dict())
    for number in [2] if workers else range(len(batches) - 1):
        with dataset_of(client, folder) as other:
            resumed = stateful_loader_of(other, **options)
            resumed.load_state_dict(states[number])
            assert rows_of(resumed) == batches[number + 1 :]


def test_numbers_lists_and_texts_are_tensors_of_their_types(local_client: Client) -> None:
    schema = {"score": sub.fp32, "ok": sub.boolean, "tokens": sub.list_(sub.i32()), "pair": sub.list_(sub.i32())}
    samples = pa.table(
        {
            "score": pa.array([0.5, 1.5, 2.5], pa.float32()),
            "ok": [True, False, True],
            "tokens": pa.array([[1], [], [2, 3]], pa.list_(pa.int32())),
            "pair": pa.array([[1, 2], [3, 4], [5, 6]], pa.list_(pa.int32())),
        }
    )
    plan = sub.read_named_table("samples", schema).to_plan()
    [batch] = Loader(
        local_client, plan, {"samples": samples}, batch_size=3, as_="torch", shapes={"pair": (2,)}, prefetch=0
    )
    assert [batch["score"].dtype, batch["ok"].dtype, batch["pair"].shape] == [torch.float32, torch.bool, (3, 2)]
    assert [tokens.tolist() for tokens in batch["tokens"]] == [[1], [], [2, 3]]


def test_tensors_share_the_memory_of_arrays(local_client: Client) -> None:
    samples = pa.table({"n": range(100)})
    plan = sub.read_named_table("samples", {"n": sub.i64}).to_plan()
    options: Any = {"batch_size": 50, "shuffle": Shuffle(1), "as_": "torch", "prefetch": 0}
    first, second = Loader(local_client, plan, {"samples": samples}, **options)
    assert first["n"].untyped_storage().data_ptr() + 50 * 8 == second["n"].untyped_storage().data_ptr()
