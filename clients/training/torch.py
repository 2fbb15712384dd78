"""`Dataset`: a loader as PyTorch's `IterableDataset`, for `DataLoader` and torchdata's `StatefulDataLoader`.

PyTorch is imported where `Dataset` is first used. The batches come ready, so a `DataLoader` takes `batch_size=None`.
With workers, each makes a client and a loader of its own, and the workers take the batches in turns. Workers are new
processes, not forks: gRPC's threads do not survive a fork.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Self, Unpack

from ..client import Client
from ..plans import Plan, plan_bytes
from ..proto.errors import InvalidRequest
from .batch import Batch
from .loader import Loader
from .loader_arguments import LoaderArguments
from .loader_state import CheckedState, State, going_on_from, with_turns
from .training_source import Data

if TYPE_CHECKING:
    from ..transport.access import Access

__all__ = ["Dataset"]


class _LoaderDataset:
    """A data set whose items are the batches of a `Loader`. Iterating it gives the rest of an epoch.

    >>> from torch.utils.data import DataLoader
    >>> from tidegate.training.torch import Dataset
    >>> dataset = Dataset(client, samples_plan, {"samples": samples}, batch_size=4)
    >>> for batch in DataLoader(dataset, batch_size=None):
    ...     print(batch["n"])
    tensor([0, 1, 2, 3])
    tensor([4, 5, 6, 7])
    tensor([8, 9])

    The arguments are those of `Loader`. With workers, the client has to be one of a server.
    """

    def __init__(
        self,
        client: Client,
        plan: Plan,
        data: Mapping[str, Data | Callable[[int], Data]],
        **options: Unpack[LoaderArguments],
    ) -> None:
        if {"worker", "workers"} & set(options):
            raise InvalidRequest("PyTorch says which worker a data set is in: leave worker and workers out")
        if "pin_memory" in options:
            raise InvalidRequest("the DataLoader pins what its workers send: give pin_memory to the DataLoader")
        self._client: Client | None = client
        self._access: Access | None = client.access
        self._plan = plan_bytes(plan)
        self._data = data
        self._options: LoaderArguments = {"as_": "torch", "epochs": None, **options}
        self._loader: Loader | None = None
        self._state: State | None = None
        self._epoch: int | None = None
        self._process = os.getpid()

    def __iter__(self) -> Iterator[Batch]:
        if self._loader is None:
            self._loader = self._open()
        return self._loader.one_epoch()

    def set_epoch(self, epoch: int) -> None:
        """Begin with this epoch. Call it before each epoch if the workers are made anew for each."""
        self._state, self._epoch = None, epoch
        if self._loader is not None:
            self._loader.set_epoch(epoch)

    def state_dict(self) -> State:
        """The loader's state, as `Loader.state_dict`."""
        if self._loader is None:
            self._loader = self._open()
        return self._loader.state_dict()

    def state_after(self, batch: Batch) -> State:
        """The state after a batch, in the process of the `DataLoader`: it fits any number of workers and ranks."""
        if self._options.get("on_error") == "skip":
            raise InvalidRequest(
                "with on_error='skip' only the worker that read a batch knows the splits that it skipped: take the "
                "states of a StatefulDataLoader, or of a Loader"
            )
        if self._loader is None:
            self._loader = self._open()
        return self._loader.state_after(batch)

    def load_state_dict(self, state: State) -> None:
        """Go on from a state, as `Loader.load_state_dict`. Before the first batch the state is only kept, if it is one.
        Whether it fits is checked where batches are read: in the workers, if there are some. `check_state` checks it at
        once.
        """
        if self._loader is None:
            going_on_from(state)
            self._state, self._epoch = state, None
        else:
            self.check_state(state).load()

    def check_state(self, state: State) -> CheckedState:
        """Raise what `Loader.load_state_dict` would raise. Until `load()` of the result, the data set stays."""
        if self._loader is None:
            self._loader = self._open()
        checked = self._loader.check_state(state)

        def load() -> None:
            checked.load()
            self._state, self._epoch = state, None

        return CheckedState(load)

    def _open(self) -> Loader:
        from torch.utils.data import get_worker_info

        worker = get_worker_info()
        if worker is None and self._client is not None:
            loader = Loader(self._client, self._plan, self._data, **self._options)
        else:
            number, workers = (0, 1) if worker is None else (worker.id, worker.num_workers)
            loader = Loader(self._connected(), self._plan, self._data, worker=number, workers=workers, **self._options)
        if self._state is not None:
            loader.load_state_dict(self._state)
        elif self._epoch is not None:
            loader.set_epoch(self._epoch)
        return loader

    def _connected(self) -> Client:
        """A client of this process: connections and services do not survive a fork."""
        if self._access is None:
            raise InvalidRequest(
                "a service in this process cannot serve workers, which are other processes: use num_workers=0, or "
                "start a server and use tidegate.connect",
                reason="NO_SERVER",
            )
        if self._process != os.getpid():
            raise InvalidRequest(
                "this worker is a fork of a process with a connection to the server; calls from such a process may "
                "hang: give the DataLoader multiprocessing_context='spawn' or 'forkserver'",
                reason="FORKED_WORKER",
            )
        from ..transport.remote import RemoteService

        return Client(RemoteService(self._access))

    def __getstate__(self) -> dict[str, Any]:
        """The state without what belongs to a process. A `DataLoader` asks worker 0 first, wherever an epoch begins."""
        begins = self._state and with_turns(self._state, (self._state["epoch"], self._state["batch"]))
        return {**vars(self), "_client": None, "_loader": None, "_state": begins}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, _process=os.getpid())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._loader is not None:
            self._loader.close()


if TYPE_CHECKING:
    from torch.utils.data import IterableDataset

    class Dataset(_LoaderDataset, IterableDataset[Batch]):  # type: ignore[misc] # without PyTorch its base is Any
        ...


def __getattr__(name: str) -> Any:
    if name != "Dataset":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        from torch.utils.data import IterableDataset
    except ModuleNotFoundError as missing:
        raise ModuleNotFoundError(
            "tidegate.training.torch.Dataset needs PyTorch: pip install torch", name="torch"
        ) from (missing)
    dataset = type(
        "Dataset", (_LoaderDataset, IterableDataset), {"__module__": __name__, "__doc__": _LoaderDataset.__doc__}
    )
    globals()["Dataset"] = dataset
    return dataset
