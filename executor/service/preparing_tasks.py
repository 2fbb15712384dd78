"""Prepares tasks: new ones from what their creator wants, and those of before a restart from their records."""

from __future__ import annotations

import logging
import platform
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from ...proto.errors import CheckpointError, InternalError, TaskCancelled, TidegateError
from ...proto.values import Durability, PlanBytes, Split, TaskOptions
from ...proto.version import __version__
from ..api.computation import Computation
from ..api.engine import Engine
from ..checkpoints.fitting_task import origin_of, restored
from ..checkpoints.regular_checkpoints import RegularCheckpoints, has_state
from ..checkpoints.root import CheckpointRoot, KnownCheckpoint, no_root
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
    """The task that a call creates. `restore` is a checkpoint's id; `request` is the client's name of the call. The
    `warnings` are about its options.
    """

    plan: PlanBytes
    options: TaskOptions
    restore: str = ""
    principal: str = ""
    request: str = ""
    request_digest: bytes = b""
    warnings: tuple[str, ...] = ()


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
    regular: RegularCheckpoints | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Parts:
    """A computation, the bytes of its tables that stay in memory, and the digest of its plan's meaning."""

    computation: Computation
    held: int
    meaning: Callable[[], str]


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
        checkpoint = self._checkpoints.find(wanted.restore) if wanted.restore else None
        durable = None if wanted.options.durability is Durability.NONE else self._durable
        first = checkpoint if durable is not None and has_state(wanted.options) else None
        parts = self._parts(wanted, tables, space)
        try:
            kept = [first.manifest.epoch] if first is not None else []
            begun = self._begun(wanted, parts, identity, checkpoint, durable, kept)
            begun = replace(begun, warnings=(*begun.warnings, *wanted.warnings))
            if durable is not None and first is not None:
                durable.adopt(identity, first)
            if durable is not None:
                begun = replace(begun, journal=self._record(durable, wanted, tables, begun, identity, space))
        except BaseException:
            parts.computation.close()
            if durable is not None and first is not None:
                durable.checkpoints.remove(identity)
            raise
        return replace(begun, held=parts.held)

    def _parts(self, wanted: Wanted, tables: Tables, space: SpillSpace) -> _Parts:
        held_tables, held = hold_tables(tables, wanted.options, space)
        return _Parts(
            computation=self._engine.prepare(wanted.plan, wanted.options, held_tables, space, self._scheduler),
            held=held,
            meaning=lambda: self._engine.meaning(wanted.plan, held_tables, space),
        )

    def _begun(
        self,
        wanted: Wanted,
        parts: _Parts,
        identity: str,
        checkpoint: KnownCheckpoint | None,
        durable: DurableTasks | None,
        kept: Sequence[int] = (),
    ) -> Begun:
        """A computation with its checkpoints. It is restored if it begins with one; `kept` are those of its own."""
        computation = parts.computation
        takes = durable is not None and has_state(wanted.options)
        if not (self._checkpoints.kept or takes):
            return Begun(computation)
        origin = origin_of(wanted.plan, wanted.options, computation, parts.meaning(), self._engine.versions())
        start, warnings = (FIRST, ()) if checkpoint is None else restored(checkpoint, origin, computation)
        return Begun(
            computation,
            Checkpoints(identity, self._checkpoints.folder(identity), origin) if self._checkpoints.kept else None,
            start=start,
            warnings=warnings,
            regular=durable.checkpoints.of(identity, origin, wanted.options, kept)
            if durable is not None and takes
            else None,
        )

    def _record(
        self, durable: DurableTasks, wanted: Wanted, tables: Tables, begun: Begun, identity: str, space: SpillSpace
    ) -> TaskJournal:
        """Record the new task with the rows and the uploaded files of its tables."""
        computation, folder = begun.computation, space.files.folder
        info = first_description(identity, wanted.options, computation, (*computation.warnings, *begun.warnings))
        versions, files = self._versions(computation), stored_files(computation.static_files(), folder)
        stored, kept = keep_tables(tables, durable.rows, folder)
        creation = Creation(
            plan=wanted.plan,
            options=wanted.options,
            tables=stored,
            restore=wanted.restore,
            principal=wanted.principal,
            request=wanted.request,
            request_digest=wanted.request_digest,
            info=info,
            versions=versions,
            files=files,
        )
        return durable.create(identity, creation, begun.start, kept)

    def _versions(self, computation: Computation) -> Mapping[str, str]:
        """The versions of all that computes a task's rows, by name. What may change at any time has a new one now."""
        now = f"as of {datetime.now(UTC).isoformat()}"
        owned = {name: now if version is None else version for name, version in computation.owned_versions().items()}
        return {"tidegate": __version__, "machine": platform.machine(), **self._engine.versions(), **owned}

    # ----------------------------------------------------------------------------------------- tasks of before

    def again(self, stored: StoredTask, space: SpillSpace) -> Begun:
        """Prepare a task from its records. Raises the reason why the task cannot go on."""
        if stored.cancelled or self._durable is None:
            return lost(stored, TaskCancelled("the task was cancelled"))
        begun = self._from_checkpoint(self._durable, stored, space)
        other_rows = stored.other_rows_through(self._versions(begun.computation))
        history = _history(stored, begun.start, other_rows)
        start = begun.start.epoch
        if begun.regular is not None and max(other_rows, *(split.epoch for split in stored.left_out), 0) > start:
            # A later restart would take their state for that of the rows which readers get from here on.
            self._durable.checkpoints.drop_behind(stored.identity, start)
            begun.regular.drop_behind(start)
        return replace(begun, journal=stored.journal, history=history)

    def _from_checkpoint(self, durable: DurableTasks, stored: StoredTask, space: SpillSpace) -> Begun:
        """The task behind its newest whole checkpoint; from its start if it has none, and all its records."""
        kept = list(stored.checkpoints)
        damaged: CheckpointError | None = None
        for epoch in reversed(stored.restarts_behind):
            try:
                own = durable.checkpoints.known(stored.identity, epoch)
                begun = self._made_again(durable, stored, space, kept, own)
            except CheckpointError as error:
                _log.warning("task %s cannot go on from its checkpoint at epoch %d: %s", stored.identity, epoch, error)
                damaged = error
                kept.remove(epoch)
            else:
                break
        else:
            if stored.cut and has_state(stored.creation.options):
                raise damaged or no_checkpoint(stored.identity)
            begun = self._made_again(durable, stored, space, kept, None)
        for epoch in set(stored.checkpoints) - set(kept):
            durable.checkpoints.drop(stored.identity, epoch)
        return begun

    def _made_again(
        self,
        durable: DurableTasks,
        stored: StoredTask,
        space: SpillSpace,
        kept: Sequence[int],
        own: KnownCheckpoint | None,
    ) -> Begun:
        """The task behind a checkpoint of its own, or from its start."""
        creation = stored.creation
        wanted = Wanted(plan=creation.plan, options=creation.options, restore=creation.restore)
        tables = tables_of(creation, durable.rows, space)
        # The records of a per-epoch task begin with all that it has of a checkpoint: there is no state.
        restores = own is None and wanted.restore and has_state(wanted.options)
        checkpoint = self._checkpoints.find(wanted.restore) if restores else own
        parts = self._parts(wanted, tables, space)
        try:
            check_files(creation, parts.computation.static_files(), space.files.folder)
            begun = self._begun(wanted, parts, stored.identity, checkpoint, durable, kept)
        except BaseException:
            parts.computation.close()
            raise
        start = stored.start
        if own is None and checkpoint is not None and begun.start != _without_ends(start):
            parts.computation.close()
            raise replaced(wanted.restore)
        if own is not None:
            start = replace(begun.start, ends=start.ends, all_ended=start.all_ended)
        return replace(begun, start=replace(start, wishes=stored.wishes(start.epoch)), held=parts.held)


def no_checkpoint(task: str) -> CheckpointError:
    return CheckpointError(
        f"the data folder is damaged: task {task!r} has none of the checkpoints that its journal begins with; put back "
        "a copy of the whole data folder, or delete the task",
        reason="CHECKPOINT_DAMAGED",
    )


def replaced(checkpoint: str) -> CheckpointError:
    return CheckpointError(
        f"checkpoint '{checkpoint}' is not the one that the task was restored from: another one has taken its place; "
        "put the first one back, or delete the task",
        reason="CHECKPOINT_DAMAGED",
    )


def _without_ends(start: Start) -> Start:
    return replace(start, ends=FIRST.ends, all_ended=FIRST.all_ended)


def lost(stored: StoredTask, error: Exception) -> Begun:
    """The parts of a task that cannot go on, or that is over. It can be looked at and deleted."""
    known = error if isinstance(error, TidegateError) else None
    if known is None:
        _log.error("a bug in Tidegate: a task could not be recovered", exc_info=error)
        known = InternalError(
            f"a bug in Tidegate kept the task from being recovered ({type(error).__name__}); the log has the traceback"
        )
    history = replace(_history(stored, stored.start, stored.sealed + 1), lost=known)
    computation = LostComputation(stored.creation.info, known)
    return Begun(computation, start=stored.start, journal=stored.journal, history=history)


def _history(stored: StoredTask, start: Start, other_rows_through: int) -> History:
    return History(
        changes=tuple(record.change.after(start.epoch) for record in stored.records),
        acknowledged=stored.acknowledged,
        other_rows_through=other_rows_through,
        left_out=stored.left_out,
        read_by=stored.read_by,
    )
