"""Prepares tasks: new ones from what their creator wants, and those of before a restart from their records."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ...proto.errors import InternalError, TaskCancelled, TidegateError
from ...proto.values import Determinism, Durability, Mode, PlanBytes, Split, TaskOptions
from ..api.computation import Computation
from ..api.engine import Engine
from ..checkpoints.fitting_task import origin_of, restored
from ..checkpoints.root import CheckpointRoot, no_root
from ..checkpoints.taking import Checkpoints
from ..journal.durable_tasks import DurableTasks, StoredTask
from ..journal.records import Creation
from ..journal.task_journal import NO_JOURNAL, TaskJournal
from ..ledger.epoch import FIRST, Start
from ..plans.static_tables import hold_tables
from ..runtime.batch_store import Quota, SpillFiles, SpillSpace
from ..runtime.scheduler import Scheduler
from ..tasks.describe import first_description
from ..tasks.task_state import History
from .lost_computation import LostComputation
from .static_uploads import Staging
from .stored_tables import check_files, keep_tables, stored_files, tables_of

_log = logging.getLogger(__name__)

Tables = Mapping[str, Sequence[Split]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """The task that a call creates. `restore` is a checkpoint's id; `request` is the client's name of the call."""

    plan: PlanBytes
    options: TaskOptions
    restore: str = ""
    principal: str = ""
    request: str = ""
    request_digest: bytes = b""


@dataclass(frozen=True, slots=True)
class Begun:
    """The parts of a new task. `held` are the bytes of its tables that stay in memory."""

    computation: Computation
    checkpoints: Checkpoints | None = None
    no_checkpoints: Callable[[], TidegateError] = no_root
    start: Start = FIRST
    warnings: tuple[str, ...] = ()
    held: int = 0
    journal: TaskJournal = NO_JOURNAL
    history: History | None = None


class Preparing:
    """Prepares the parts of tasks. With `durable`, tasks outlive the service unless their options say otherwise."""

    def __init__(
        self,
        engine: Engine,
        scheduler: Scheduler,
        checkpoints: CheckpointRoot,
        staging: Staging,
        folder: Path,
        durable: DurableTasks | None,
    ) -> None:
        self._engine = engine
        self._scheduler = scheduler
        self._checkpoints = checkpoints
        self._staging = staging
        self._folder = folder
        self._durable = durable

    def space(self, identity: str, options: TaskOptions) -> SpillSpace:
        return SpillSpace(SpillFiles(self._folder / identity), Quota(options.spill_quota))

    # -------------------------------------------------------------------------------------------------- new tasks

    def create(self, wanted: Wanted, tables: Tables, identity: str, space: SpillSpace) -> Begun:
        """Prepare a new task. A durable one is recorded when this returns."""
        tables = self._staging.take(wanted.principal, tables, space)
        begun = self._prepare(wanted, tables, identity, space)
        if self._durable is None or wanted.options.durability is Durability.NONE:
            return begun
        try:
            return replace(begun, journal=self._record(self._durable, wanted, tables, begun, identity, space))
        except BaseException:
            begun.computation.close()
            raise

    def _prepare(self, wanted: Wanted, tables: Tables, identity: str, space: SpillSpace) -> Begun:
        """Make the computation, and restore its checkpoint if it begins with one."""
        checkpoint = self._checkpoints.find(wanted.restore) if wanted.restore else None
        held_tables, held = hold_tables(tables, wanted.options, space)
        computation = self._engine.prepare(wanted.plan, wanted.options, held_tables, space, self._scheduler)
        if not self._checkpoints.kept:
            return Begun(computation, held=held)
        try:
            origin = origin_of(wanted.plan, wanted.options, computation, self._engine)
            start, warnings = (FIRST, ()) if checkpoint is None else restored(checkpoint, origin, computation)
            checkpoints = Checkpoints(identity, self._checkpoints.folder(identity), origin)
        except BaseException:
            computation.close()
            raise
        return Begun(computation, checkpoints, start=start, warnings=warnings, held=held)

    def _record(
        self, durable: DurableTasks, wanted: Wanted, tables: Tables, begun: Begun, identity: str, space: SpillSpace
    ) -> TaskJournal:
        """Record the new task with the rows and the uploaded files of its tables."""
        computation, folder = begun.computation, space.files.folder
        stored, kept = keep_tables(tables, durable.rows, folder)
        creation = Creation(
            plan=wanted.plan,
            options=wanted.options,
            tables=stored,
            restore=wanted.restore,
            principal=wanted.principal,
            request=wanted.request,
            request_digest=wanted.request_digest,
            info=first_description(identity, wanted.options, computation, (*computation.warnings, *begun.warnings)),
            engines=self._engine.versions(),
            files=stored_files(computation.static_files(), folder),
        )
        return durable.create(identity, creation, begun.start, kept)

    # ----------------------------------------------------------------------------------------- tasks of before

    def again(self, stored: StoredTask, space: SpillSpace) -> Begun:
        """Prepare a task from its records. Raises the reason why the task cannot go on."""
        creation = stored.creation
        if stored.cancelled or self._durable is None:
            return lost(stored, TaskCancelled("the task was cancelled"))
        # The records of a per-epoch task begin with all that it has of a checkpoint: there is no state.
        restore = creation.restore if creation.options.mode is Mode.CONTINUOUS else ""
        wanted = Wanted(plan=creation.plan, options=creation.options, restore=restore)
        begun = self._prepare(wanted, tables_of(creation, self._durable.rows, space), stored.identity, space)
        try:
            check_files(creation, begun.computation.static_files())
        except BaseException:
            begun.computation.close()
            raise
        same = creation.engines == self._engine.versions()
        repeatable = same and creation.options.determinism is Determinism.STRICT
        return replace(begun, start=stored.start, journal=stored.journal, history=_history(stored, repeatable))


def lost(stored: StoredTask, error: Exception) -> Begun:
    """The parts of a task that cannot go on, or that is over. It can be looked at and deleted."""
    known = error if isinstance(error, TidegateError) else None
    if known is None:
        _log.error("a bug in Tidegate: a task could not be recovered", exc_info=error)
        known = InternalError(
            f"a bug in Tidegate kept the task from being recovered ({type(error).__name__}); the log has the traceback"
        )
    history = replace(_history(stored, repeatable=False), lost=known)
    computation = LostComputation(stored.creation.info, known)
    return Begun(computation, start=stored.start, journal=stored.journal, history=history)


def _history(stored: StoredTask, repeatable: bool) -> History:
    changes = tuple(record.change for record in stored.records)
    return History(changes=changes, acknowledged=stored.acknowledged, repeatable=repeatable)
