"""Makes the effects that write the tables of a plan, in a service that has a folder for tables."""

from __future__ import annotations

import pyarrow as pa

from ...operators.write import Write
from ...operators.writing.formats import WRITE_FORMATS
from ...operators.writing.table_folder import TableFolder
from ...planner import ir
from ...proto.errors import PlanError, Problem
from ...proto.values import TaskOptions
from ..graph.graph_files import write_for


def table_effect(
    write_root: str | None,
    write: ir.Write,
    options: TaskOptions,
    task: str,
    *,
    result: pa.Schema,
    table: pa.Schema,
) -> Write:
    """The effect that writes rows of the schema `table` into a table below `write_root`, and hands on those of
    `result`. `task` is a name that no other task has.
    """
    if write_root is None:
        raise PlanError(not_written(write))
    return write_for(options)(
        result,
        table=table,
        returned=write.columns if write.returned else None,
        folder=TableFolder(write_root, write.table),
        format_=WRITE_FORMATS[options.write_format],
        mode=write.mode,
        writer=task,
        quota=options.write_quota,
        plan_path=write.plan_path,
    )


def not_written(write: ir.Write) -> Problem:
    """The problem of a plan that is correct, but that a service without a folder for tables does not run."""
    message = (
        f"table {'.'.join(write.table)!r} cannot be written: this service writes no tables: give the service a "
        "folder for tables (tidegate serve --write-root DIR, tidegate.local(write_root=DIR))"
    )
    return Problem(place=write.plan_path, reason="WRITES_NOT_ALLOWED", message=message)
