"""The files in which a graph may end: one for each epoch, committed at the barrier."""

from __future__ import annotations

import os

import pyarrow as pa

from ...operators.write import AdoptingWrite, Write
from ...operators.writing.formats import WRITE_FORMATS
from ...operators.writing.modes import WriteMode
from ...operators.writing.table_folder import TableFolder
from ...proto.errors import InvalidRequest
from ...proto.graph import FileTarget
from ...proto.values import ExecutorKind, TaskOptions

_PLACE = "result"


def write_for(options: TaskOptions) -> type[Write]:
    """The operator that writes a task's tables: on Spark the channels write the files, and the operator adopts them."""
    return Write if options.executor is ExecutorKind.LOCAL else AdoptingWrite


def file_effect(target: FileTarget, schema: pa.Schema, task: str, options: TaskOptions) -> Write:
    """The effect that writes a graph's rows, of this schema. `task` is a name that no other task has."""
    above, name = os.path.split(target.folder)
    if not os.path.isdir(above):
        raise InvalidRequest(f"{target.folder} cannot be made: there is no folder {above}", reason="NO_SUCH_FOLDER")
    if target.format not in WRITE_FORMATS:
        raise InvalidRequest(
            f"format must be one of {', '.join(WRITE_FORMATS)}, not {target.format!r}", reason="UNKNOWN_FORMAT"
        )
    modes = {mode.value: mode for mode in WriteMode}
    if target.mode not in modes:
        raise InvalidRequest(f"mode must be one of {', '.join(modes)}, not {target.mode!r}", reason="UNKNOWN_MODE")
    return write_for(options)(
        pa.schema([]),
        table=schema,
        returned=None,
        folder=TableFolder(above, (name,)),
        format_=WRITE_FORMATS[target.format],
        mode=modes[target.mode],
        writer=task,
        quota=options.write_quota,
        plan_path=_PLACE,
    )
