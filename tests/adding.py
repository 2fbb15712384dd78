"""Splits added to a task of a service, as its callers add them."""

from __future__ import annotations

from collections.abc import Iterable

from tidegate.executor.service.manager import TaskManager
from tidegate.proto.values import Added, AddRequest, Seal, Split


def add_splits(
    service: TaskManager,
    task: str,
    splits: Iterable[tuple[str, Split, int | None]],
    *,
    epoch: int | None = None,
    barrier: bool = False,
) -> tuple[list[Added], int | None]:
    return service.add_splits(task, AddRequest(splits=splits, epoch=epoch, seal=Seal() if barrier else None))
