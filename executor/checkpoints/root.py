"""The folder of a service's checkpoints, with a folder in it for each task. A checkpoint's id is TASK/NAME."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ...proto.errors import InvalidRequest, Refused
from ...proto.values import Checkpoint
from ..api.ownership import Ownership
from .checkpoint_folder import NAME, CheckpointFolder, unknown
from .disk import LocalDisk
from .manifest import Manifest
from .state import TablesReader
from .taking import described


@dataclass(frozen=True, slots=True)
class KnownCheckpoint:
    """A checkpoint of the service, whose manifest has been read and is complete."""

    folder: CheckpointFolder
    manifest: Manifest

    def reader(self) -> TablesReader:
        return TablesReader(self.folder, self.manifest)


class CheckpointRoot:
    """The checkpoints of a service. Thread-safe.

    Ids come from outside. They are checked to be two plain names, so no id leads out of the folder. A caller finds no
    checkpoints of another principal's tasks.
    """

    def __init__(self, path: Path | None, ownership: Ownership) -> None:
        self._path = path
        self._ownership = ownership
        self._disk = LocalDisk()

    @property
    def kept(self) -> bool:
        """True if the service has a folder for checkpoints."""
        return self._path is not None

    def check(self) -> Path:
        """The folder; raises if the service has none."""
        if self._path is None:
            raise no_root()
        return self._path

    def folder(self, task: str) -> CheckpointFolder:
        path = self.check()
        if NAME.fullmatch(task) is None:
            raise InvalidRequest(
                f"{task!r} is not a task's id: an id is what CreateTask has answered", reason="CHECKPOINT_ID"
            )
        return CheckpointFolder(self._disk, path / task)

    def find(self, identity: str) -> KnownCheckpoint:
        """The checkpoint of this id. Raises `NotFound` if there is none, `CheckpointError` if it is damaged."""
        self.check()
        task, slash, name = identity.partition("/")
        if not slash or NAME.fullmatch(task) is None or NAME.fullmatch(name) is None:
            raise InvalidRequest(
                f"{identity!r} is not a checkpoint's id: an id is TASK/NAME, as in the BARRIER of the checkpoint",
                reason="CHECKPOINT_ID",
            )
        if not self._ownership.has(task):
            raise unknown(f"'{identity}'", ())
        folder = self.folder(task)
        return KnownCheckpoint(folder, folder.manifest(name))

    def list(self, task: str) -> tuple[Checkpoint, ...]:
        """The checkpoints of a task, by epoch. The task itself may be gone."""
        folder = self.folder(task)
        if not self._ownership.has(task):
            return ()
        checkpoints = [described(task, folder.manifest(name)) for name in folder.names()]
        return tuple(sorted(checkpoints, key=lambda checkpoint: (checkpoint.epoch, checkpoint.taken_us)))


def no_root() -> Refused:
    return Refused(
        "this service keeps no checkpoints: give the service a folder for checkpoints (tidegate serve "
        "--checkpoint-root DIR, tidegate.local(checkpoint_root=DIR))",
        reason="NO_CHECKPOINT_ROOT",
    )


def of_graph() -> InvalidRequest:
    return InvalidRequest(
        "a graph takes no checkpoints: its executors are made anew for each epoch, so there is no state to keep",
        reason="GRAPH_OPTION",
    )
