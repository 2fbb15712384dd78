"""The clients' one entry: the service in this process."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path

from ..proto.values import TaskOptions
from .manager import TaskManager
from .plan_engine import PlanEngine


def open_service(
    *,
    roots: Sequence[Path],
    spill_directory: Path | None = None,
    threads: int | None = None,
    defaults: TaskOptions | None = None,
    side: str = "on this machine",
) -> TaskManager:
    """A service whose plans and splits may read files below `roots`.

    What it writes is in a folder of its own inside `spill_directory` (the system's temporary one, unless given),
    which `close` removes. `threads` is how many tasks run at once (as many as there are cores, and four at least).
    Messages about a missing file say that it was looked for at `side`.
    """
    if spill_directory is not None:
        spill_directory.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="tidegate-", dir=spill_directory)).resolve()
    try:
        engine = PlanEngine([os.path.realpath(root) for root in roots], folder, side)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    return TaskManager(engine, folder=folder, threads=threads or max(4, os.cpu_count() or 1), defaults=defaults)
