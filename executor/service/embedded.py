"""The only entry of the executor for clients: a service in this process."""

from __future__ import annotations

import atexit
import os
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from ...operators.core.machine import usable_cpus
from ...operators.indexes.sql import Database, sqlite
from ...proto.operator_registration import UserOperators
from ...proto.values import TaskOptions
from ..api.checked_options import check_options
from ..journal.durable_tasks import DurableTasks
from ..runtime.ceilings import NO_CEILINGS, Ceilings
from ..runtime.service_folder import ServiceFolder
from .manager import TaskManager
from .plan_engine import PlanEngine
from .spark_entry import SparkPlace

_LEAST_THREADS: Final = 4
"""Tasks that wait, for example for files, hold threads that compute nothing."""


def open_service(
    *,
    roots: Sequence[Path],
    spill_directory: Path | None = None,
    threads: int | None = None,
    defaults: TaskOptions | None = None,
    side: str = "on this machine",
    write_root: Path | None = None,
    checkpoint_root: Path | None = None,
    databases: Mapping[str, Path | Database] | None = None,
    operators: UserOperators | None = None,
    spark: str = "",
    spark_staging: Path | None = None,
    principals: bool = False,
    ceilings: Ceilings = NO_CEILINGS,
    data: Path | None = None,
    reads_ahead: bool = True,
) -> TaskManager:
    """A service whose plans and splits may read files below `roots`, and write tables as folders of `write_root`.

    - `spill_directory`: the service makes a folder of its own in it for everything that it needs on disk. `close` and
      the end of the process remove the folder; after a kill, the next service in the same place removes it. Without it,
      the system's temporary folder.
    - `threads`: the number of tasks, or channels of tasks, that run at once. Without it, the number of cores, and at
      least four.
    - `defaults`: the options of a task whose creator gives none. `InvalidRequest` if no task can have them.
    - `side`: the words for the place where a missing file was looked for, in messages.
    - `databases`: databases for look-ups, by their names in plans: SQLite files, or anything that ADBC connects to.
    - `operators`: your operators that plans may name.
    - `checkpoint_root`: a folder for checkpoints, with a folder in it for each task. Checkpoints stay when the service
      ends.
    - `spark`: the master of the Spark that tasks with executor="spark" run on, unless they name another one.
    - `spark_staging`: a folder that this service and all executors see.
    - `principals`: the service tells its callers apart, and a caller finds only what it made: see `ownership.act_for`.
    - `ceilings`: the most that tasks and principals may have.
    - `data`: the folder of the journal. Tasks then outlive the service: the next one on the folder goes on with them.
    - `reads_ahead`: tasks may decode files on threads of their own, before they want the rows. Without it a task is
      slower, and takes less memory, most of which stays in the caches of its core.
    """
    _check_folders(write_root=write_root, checkpoint_root=checkpoint_root, spark_staging=spark_staging)
    if defaults is not None:
        check_options(defaults)
    opened = {
        name: sqlite(str(database)) if isinstance(database, Path) else database
        for name, database in (databases or {}).items()
    }
    others = {"spill_directory": spill_directory, "write_root": write_root, "checkpoint_root": checkpoint_root}
    durable = None if data is None else DurableTasks(data, others=others)
    with ExitStack() as failed:
        if durable is not None:
            failed.callback(durable.close)
        folder = ServiceFolder(spill_directory or Path(tempfile.gettempdir()))
        failed.callback(folder.release)
        staging = None if spark_staging is None else ServiceFolder(spark_staging, shared=True)
        if staging is not None:
            failed.callback(staging.release)
        written = None if write_root is None else os.path.realpath(write_root)
        engine = PlanEngine(
            [os.path.realpath(root) for root in roots],
            folder.path,
            side,
            write_root=written,
            databases=opened,
            operators=operators,
            spark=SparkPlace(master=spark, staging=None if staging is None else staging.path),
            reads_ahead=reads_ahead,
        )
        failed.pop_all()

    def ended() -> None:
        folder.release()
        if staging is not None:
            staging.release()
        atexit.unregister(manager.close)

    manager = TaskManager(
        engine,
        folder=folder.path,
        threads=threads or max(_LEAST_THREADS, usable_cpus()),
        task_threads=threads or usable_cpus(),
        checkpoint_root=checkpoint_root,
        defaults=defaults,
        principals=principals,
        ceilings=ceilings,
        ended=ended,
        durable=durable,
    )
    atexit.register(manager.close)
    return manager


def _check_folders(**folders: Path | None) -> None:
    for name, folder in folders.items():
        if folder is not None and not folder.is_dir():
            raise NotADirectoryError(f"{name} is {folder}, which is not a folder")
