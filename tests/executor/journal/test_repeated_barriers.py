"""A request for a barrier may come again, because its answer was lost: it joins the epoch that the first one sealed,
also if that epoch was acknowledged meanwhile, and the service was started again.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tidegate.proto.errors import Refused
from tidegate.proto.values import Cursor, Mode, Seal

from ..fakes import Client, CountingEngine, FakeEngine
from .restarts import Restarts

MODES = list(Mode)


@pytest.fixture(params=MODES)
def service(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Restarts]:
    engine = CountingEngine() if request.param is Mode.CONTINUOUS else FakeEngine()
    with Restarts(tmp_path / "data", engine, checkpoints=tmp_path / "asked-for") as restarts:
        yield restarts


def create(service: Restarts, *, checkpoint_epochs: int = 1) -> Client:
    mode = Mode.CONTINUOUS if isinstance(service.engine, CountingEngine) else Mode.PER_EPOCH
    return service.create(mode=mode, checkpoint_epochs=checkpoint_epochs, checkpoint_seconds=0)


def request(service: Restarts, task: Client, **wishes: object) -> int:
    return service.manager.request_barrier(task.id, None, Seal(after=task.info().sealed_epoch, **wishes))


def acknowledge(service: Restarts, task: Client, epoch: int) -> None:
    task.epoch(epoch)
    service.manager.acknowledge(task.id, Cursor(epoch + 1))
    service.settle()


@pytest.mark.parametrize("checkpoint_epochs", [0, 1, 2])
@pytest.mark.parametrize(
    "wishes",
    [{}, {"checkpoint": ""}, {"checkpoint": "mine"}, {"watermarks": {"a": 7}}, {"idle": ("a",)}, {"through": {"a": 2}}],
    ids=str,
)
def test_a_repeated_request_joins_its_epoch_over_restarts(
    service: Restarts, wishes: dict[str, object], checkpoint_epochs: int
) -> None:
    task = create(service, checkpoint_epochs=checkpoint_epochs)
    task.add(1)
    assert request(service, task) == 1
    acknowledge(service, task, 1)
    task.add(2)
    assert request(service, task, **wishes) == 2
    acknowledge(service, task, 2)
    for _ in range(2):
        task = service.restart(task)
        assert service.manager.request_barrier(task.id, None, Seal(after=1, **wishes)) == 2
        assert task.info().sealed_epoch == 2
    task.add(3)
    assert request(service, task, **{**wishes, "through": None}) == 3


def test_a_checkpoint_that_a_later_request_asked_for_is_known_after_a_restart(service: Restarts) -> None:
    """The record of the request is behind that of a split of the next epoch."""
    task = create(service)
    task.add(1)
    task.seal(1, a=2)
    task.add(3, sequence=3)
    wish = Seal(checkpoint="mine", through={"a": 2})
    assert service.manager.request_barrier(task.id, 1, wish) == 1
    task.add(2, sequence=2)
    acknowledge(service, task, 1)
    task = service.restart(task)
    assert service.manager.request_barrier(task.id, 1, wish) == 1
    with pytest.raises(Refused, match="takes a checkpoint of another name"):
        service.manager.request_barrier(task.id, 1, Seal(checkpoint="theirs"))


def test_a_request_with_other_wishes_seals_an_epoch_of_its_own_after_a_restart(service: Restarts) -> None:
    task = create(service)
    task.add(1)
    assert request(service, task, watermarks={"a": 7}, checkpoint="theirs") == 1
    acknowledge(service, task, 1)
    task = service.restart(task)
    assert service.manager.request_barrier(task.id, None, Seal(after=0, watermarks={"a": 8})) == 2
    acknowledge(service, task, 2)
    assert service.manager.request_barrier(task.id, None, Seal(after=1, checkpoint="mine")) == 3


def test_the_wishes_of_an_epoch_are_not_those_of_the_next_one(service: Restarts) -> None:
    task = create(service)
    for wishes in ({"watermarks": {"a": 7}, "checkpoint": "mine"}, {}):
        task.add(1)
        epoch = request(service, task, **wishes)
        acknowledge(service, task, epoch)
    task = service.restart(task)
    assert service.manager.request_barrier(task.id, None, Seal(after=1, checkpoint="mine")) == 3
