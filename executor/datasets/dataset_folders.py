"""The folders that hold Datasets: one for this process in each spill folder, removed when no Dataset needs it.

A Dataset outlives its service, so its files are not in the service's folder.
"""

from __future__ import annotations

import os
import secrets
import shutil
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from ..runtime.service_folder import ServiceFolder

_lock = threading.RLock()  # a finalizer may run on any thread, even on one that holds the lock
_folders: dict[Path, _DatasetFolder] = {}


@dataclass(slots=True, eq=False)
class _DatasetFolder:
    """A folder for Datasets. `process` made the folder; a process forked from it has none."""

    folder: ServiceFolder
    process: int
    used: int = 0


def new_folder(parent: Path) -> tuple[Path, Callable[[], None]]:
    """A path for a new folder, and a function that removes the folder with its files.

    The function may be called twice.
    """
    with _lock:
        shared = _folders.get(parent)
        if shared is None or shared.process != os.getpid():
            shared = _folders[parent] = _DatasetFolder(ServiceFolder(parent, shared=True), os.getpid())
        shared.used += 1
        folder = shared.folder.path / secrets.token_hex(8)
    removed = False

    def remove() -> None:
        nonlocal removed
        with _lock:
            if removed or shared.process != os.getpid():
                return
            removed = True
            shutil.rmtree(folder, ignore_errors=True)
            shared.used -= 1
            if not shared.used and _folders.get(parent) is shared:
                del _folders[parent]
                shared.folder.release()

    return folder, remove
