"""Tables that a plan writes beside its result, for plans made with substrait's builders or its data frames."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .window_builders import Resolve, of_kind, scoped, unframed

if TYPE_CHECKING:
    from substrait.extension_registry import ExtensionRegistry
    from substrait.plan_pb2 import Plan


def with_tables(rows: Any, *written: Any) -> Any:
    """The same rows, in a plan that also writes tables: each of `written` is rows with a write above them. A continuous
    task reads the sources once, and writes the rows of an epoch at its barrier.

    `rows` and `written` are plans of substrait's builders, or data frames; the result is of the kind of `rows`.

    >>> import tempfile
    >>> import substrait.dataframe as sub
    >>> from tidegate import windows
    >>> clicks = windows.watermark(sub.read_named_table("clicks", {"at": sub.i64}), "at")
    >>> per_ten = windows.tumbling(clicks, "at", 10, measures=[sub.f.count().alias("clicks")], final=True)
    >>> late = windows.late_rows(clicks, "at", size=10)
    >>> plan = windows.with_tables(per_ten, late.write_named_table(["late"])).to_plan()
    >>> with tempfile.TemporaryDirectory() as tables, tidegate.local(write_root=tables) as client:
    ...     with client.create_task(plan, mode="continuous") as task:
    ...         epoch = task.run_epoch({"clicks": pa.table({"at": [3, 12, 9]})})
    ...         print(epoch.table().column("clicks").to_pylist(), epoch.statistics.rows_written)
    [1] 1
    """
    return of_kind(rows, lambda unbound: _with_tables(unbound, [unframed(write) for write in written]))


def _with_tables(rows: Any, written: list[Any]) -> Resolve:
    def resolve(registry: ExtensionRegistry) -> Plan:
        from substrait.algebra_pb2 import SetRel
        from substrait.builders import plan as builders
        from substrait.plan_pb2 import PlanRel

        together = builders.set([rows, *written], SetRel.SET_OP_UNION_ALL)(registry)
        *subtrees, union = together.relations
        result, *writes = union.root.input.set.inputs
        plan = type(together)()
        plan.CopyFrom(together)
        del plan.relations[:]
        plan.relations.extend([*subtrees, *(PlanRel(rel=write) for write in writes)])
        plan.relations.add().root.CopyFrom(union.root)
        plan.relations[-1].root.input.CopyFrom(result)
        return plan

    return scoped(resolve)
