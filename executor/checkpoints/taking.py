"""Takes a task's checkpoints, one after the other, at barriers."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from ...operators.core.operator import StateWriter
from ...proto.errors import CheckpointError, TidegateError
from ...proto.values import Checkpoint
from ..ledger.transactions import Record
from .checkpoint_folder import CheckpointFolder
from .manifest import Manifest, Origin
from .state import TablesWriter, Written

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """A barrier: the last sealed split of each source, the last transaction of each application, the watermark."""

    epoch: int
    sources: Mapping[str, int]
    transactions: tuple[Record, ...]
    watermark: int | None


class Checkpoints:
    """The checkpoints of one task, in a folder of its own."""

    def __init__(self, task: str, folder: CheckpointFolder, origin: Origin) -> None:
        self._task = task
        self._folder = folder
        self._origin = origin
        self._written = Written(folder)
        self._collected = False

    def take(self, name: str, position: Position, save: Callable[[StateWriter], None]) -> Checkpoint:
        """Take a checkpoint. Raises `CheckpointError` if it cannot be written; earlier checkpoints then remain."""
        try:
            self._collect()
            self._collected = False
            state = TablesWriter(self._written)
            save(state)
            manifest = Manifest(
                task=self._task,
                name=name,
                epoch=position.epoch,
                taken_us=time.time_ns() // 1000,
                watermark=position.watermark,
                sources=dict(position.sources),
                origin=self._origin,
                tables=state.tables,
                transactions=position.transactions,
            )
            self._folder.commit(manifest)
        except TidegateError:
            raise
        except OSError as error:
            raise CheckpointError(
                f"checkpoint {name!r} cannot be written: {error}; give the folder of checkpoints room"
            ) from error
        self._collect()
        return described(self._task, manifest)

    def taken(self, name: str) -> Checkpoint | None:
        """The checkpoint that has this name now; None if there is none, or if its manifest is damaged."""
        try:
            return described(self._task, self._folder.manifest(name))
        except TidegateError:
            return None

    def remove(self, names: Iterable[str]) -> None:
        """Remove checkpoints, and the files that no other one has."""
        for name in names:
            self._folder.remove(name)
        self._collected = False
        self._collect()

    def _collect(self) -> None:
        """Remove unneeded files.

        Files that cannot be removed now may be later, so no checkpoint fails because of them.
        """
        if self._collected:
            return
        try:
            self._folder.collect()
            self._collected = True
        except (OSError, TidegateError):
            _log.exception("files that belong to no checkpoint could not be removed")


def described(task: str, manifest: Manifest) -> Checkpoint:
    return Checkpoint(
        id=f"{task}/{manifest.name}",
        epoch=manifest.epoch,
        watermark=manifest.watermark,
        size=manifest.size,
        taken_us=manifest.taken_us,
    )
