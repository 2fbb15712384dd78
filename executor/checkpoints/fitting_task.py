"""Checks that a checkpoint fits a new task: the same plan, options and static tables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...proto.errors import CheckpointError
from ...proto.values import Mode, PlanBytes, TaskOptions
from ...proto.version import __version__
from ..api.computation import Computation
from ..ledger.epoch import Start
from .manifest import Manifest, Origin, digest
from .root import KnownCheckpoint


def origin_of(
    plan: PlanBytes, options: TaskOptions, computation: Computation, meaning: str, engines: Mapping[str, str]
) -> Origin:
    """The origin of a task that is made from these. `meaning` is the digest of the plan's meaning, `engines` are the
    versions of the engines.
    """
    return Origin(
        plan=digest(plan.json.encode() if plan.json is not None else plan.binary or b"").hexdigest(),
        parameters=digest(plan.parameters).hexdigest() if plan.parameters else "",
        meaning=meaning,
        options=_options(options),
        tables=dict(sorted(computation.static_sizes().items())),
        engines={"tidegate": __version__, **engines},
    )


def restored(checkpoint: KnownCheckpoint, origin: Origin, computation: Computation) -> tuple[Start, tuple[str, ...]]:
    """Load the checkpoint into a computation that has not begun; its start, and warnings."""
    check_fits(checkpoint.manifest, origin)
    with checkpoint.reader() as reader:
        computation.load(reader)
        reader.check_all_read()
    manifest = checkpoint.manifest
    start = Start(manifest.epoch, manifest.sources, manifest.transactions)
    return start, upgrades(manifest, origin)


def check_fits(manifest: Manifest, origin: Origin) -> None:
    """Raise `CheckpointError`, which says what differs, if rows depend on the difference."""
    then = manifest.origin
    _check_plan(manifest, origin)
    shipped = _options(TaskOptions())  # an option that is newer than the checkpoint
    for name in {**then.options, **origin.options}:
        before, now = then.options.get(name, shipped.get(name)), origin.options.get(name, shipped.get(name))
        if before != now:
            raise CheckpointError(
                f"checkpoint {manifest.name!r} is of a task with {name}={before!r}, and the new task has "
                f"{name}={now!r}: give {name}={before!r}",
                reason="CHECKPOINT_OTHER_OPTIONS",
            )
    for name in {**then.tables, **origin.tables}:
        if then.tables.get(name) != origin.tables.get(name):
            raise CheckpointError(
                f"checkpoint {manifest.name!r} is of a task with {_sized(then, name)}, and the new task has "
                f"{_sized(origin, name)}: give the same tables",
                reason="CHECKPOINT_OTHER_TABLES",
            )


def _check_plan(manifest: Manifest, origin: Origin) -> None:
    """Equal bytes are enough only for another version of Tidegate, which may digest the meaning of a plan otherwise."""
    then = manifest.origin
    if then.meaning == origin.meaning:
        return
    if then.plan == origin.plan and then.parameters != origin.parameters:
        raise CheckpointError(
            f"checkpoint {manifest.name!r} is of this plan with other values of its parameters: give the values of the "
            "checkpoint's task",
            reason="CHECKPOINT_OTHER_PARAMETERS",
        )
    if then.plan != origin.plan:
        raise CheckpointError(
            f"checkpoint {manifest.name!r} is of another plan (the checkpoint's plan has the digest "
            f"{then.plan[:12]}..., this plan {origin.plan[:12]}...): give the plan of the checkpoint's task",
            reason="CHECKPOINT_OTHER_PLAN",
        )
    if then.engines.get("tidegate") == origin.engines.get("tidegate"):
        raise CheckpointError(
            f"checkpoint {manifest.name!r} is of this plan, but the plan now means something else: the operators that "
            f"it names were registered in another version, or another build of tidegate {__version__} took the "
            "checkpoint. Register the version of the checkpoint's task, run its build, or feed a new task",
            reason="CHECKPOINT_OTHER_PLAN",
        )


def upgrades(manifest: Manifest, origin: Origin) -> tuple[str, ...]:
    """A warning for each engine whose version has changed."""
    then = manifest.origin.engines
    return tuple(
        f"checkpoint {manifest.name!r} was taken with {name} {then[name]} and continues with {name} {version}: from "
        "here on the order of rows and the last bits of floats may differ"
        for name, version in origin.engines.items()
        if name in then and then[name] != version
    )


def _options(options: TaskOptions) -> Mapping[str, Any]:
    """The options that rows depend on, as JSON values."""
    known: dict[str, Any] = {
        "mode": options.mode.value,
        "determinism": options.determinism.value,
        "channels": options.channels,
        "time_zone": options.time_zone,
        "missing_columns": options.missing_columns.value,
        "write_format": options.write_format,
    }
    if options.mode is Mode.PER_EPOCH:
        known |= {
            "memory_limit": options.memory_limit,
            "spill": options.spill.value,
            "loops": options.loops.value,
            "broadcast": list(options.broadcast),
            "slot_memory": options.slot_memory,
            "auto_cores": options.auto_cores,
            "parallel_threshold_seconds": options.parallel_threshold_seconds,
        }
    return known


def _sized(origin: Origin, name: str) -> str:
    return (
        f"{origin.tables[name]} rows in static source {name!r}"
        if name in origin.tables
        else f"no static source {name!r}"
    )
