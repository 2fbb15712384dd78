"""Parts ahead: the parts of a checkpoint that are read, and whose digests are checked, before the state asks for them.

Reading a part and checking its digest hold no lock of the interpreter, so they use other processors, while the part
before it becomes state.
"""

from __future__ import annotations

from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Final

import pyarrow as pa

from ...operators.core.machine import usable_cpus
from .checkpoint_folder import CheckpointFolder
from .manifest import Manifest, Part

_WORTH_BYTES: Final = 4 << 20
"""A smaller checkpoint is read faster than threads start."""
_AHEAD_BYTES: Final = 128 << 20
"""A part is begun while the parts that wait have fewer bytes."""
_THREADS: Final = 4


class PartsAhead:
    """Reads the parts of a checkpoint in the order of its manifest. One thread asks for them. `close` ends the other
    threads.
    """

    def __init__(self, folder: CheckpointFolder, manifest: Manifest) -> None:
        self._folder = folder
        self._manifest = manifest
        self._next = deque(manifest.parts if manifest.size >= _WORTH_BYTES else ())
        self._waiting: dict[Part, Future[pa.Table]] = {}
        self._threads = ThreadPoolExecutor(min(_THREADS, usable_cpus()), "tidegate-restore")

    def table(self, part: Part) -> pa.Table:
        """The rows of a part, as `CheckpointFolder.table` gives them."""
        self._begin()
        begun = self._waiting.pop(part, None)
        self._begin()
        return self._folder.table(self._manifest, part) if begun is None else begun.result()

    def close(self) -> None:
        self._threads.shutdown(cancel_futures=True)

    def _begin(self) -> None:
        while self._next and sum(part.size for part in self._waiting) < _AHEAD_BYTES:
            part = self._next.popleft()
            if part not in self._waiting:
                self._waiting[part] = self._threads.submit(self._folder.table, self._manifest, part)
