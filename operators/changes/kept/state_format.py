"""The format of an arrangement in a checkpoint: its runs, which never change, are the parts of a table."""

from __future__ import annotations

import json
from collections.abc import Container, Mapping, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa

from ....proto.errors import CheckpointError
from ...arrays.retype import same_layout
from ...core.operator import StateReader, StateWriter
from ..values.change import ManyRounds, Numbers
from ..values.evaluator import whole
from ..values.rows import Rows
from .arrangement import Arrangement, Run
from .held_state import HeldState, SettledRuns
from .packed_layout import Form, Layout
from .packed_words import PackedRun, is_run

VERSION: Final = 1
_LAYOUT: Final = b"layout"
"""The metadata key for the layout of a part's words."""
_WORDS: Final = "packed"


def save_arrangement(
    state: StateWriter, name: str, arrangement: Arrangement, schema: pa.Schema, version: int = VERSION
) -> None:
    """Write an arrangement under `name`, a part for each run: the columns of its rows by their position, or the words
    that the rows are packed in; its numbers; its rounds. An operator whose numbers have changed their meaning has
    another `version`.
    """
    runs = arrangement.settled_runs if isinstance(state, SettledRuns) else arrangement.runs
    state.write_parts(name, version, runs, lambda run: _table(run, schema))


def load_arrangement(
    state: StateReader,
    name: str,
    arrangement: Arrangement,
    schema: pa.Schema,
    version: int = VERSION,
    earlier: Container[int] = (),
) -> None:
    """Load the table of `save_arrangement` into an empty arrangement of the same form. It gets the same runs. Tables of
    `earlier` versions are read, too.
    """
    if isinstance(state, HeldState):
        for run in state.runs(name):
            arrangement.insert_run(run)
        return
    written_version, tables = state.read_parts(name)
    if written_version not in earlier:
        check_version(name, written_version, version)
    for table in tables:
        packed = _packed_run(name, table, schema)
        if packed is not None and arrangement.takes(packed):
            arrangement.insert_run(packed)
        else:
            arrangement.insert_saved(*_entries_of(name, table, schema))


def _packed_run(name: str, table: pa.Table, schema: pa.Schema) -> PackedRun | None:
    """The part as the run that it was, which takes far less time than to pack its rows again; None if it is none."""
    described = description(table)
    if described is None:
        return None
    _check_types(name, described["types"], schema)
    layout = layout_of(described, schema.types)
    arrays = dict(zip(table.column_names, map(whole, table.columns), strict=True))
    words, weights = _numbers(arrays[_WORDS]), _weights(arrays)
    # The run keeps the bytes of the file, which has nothing else.
    return PackedRun(layout, words, weights) if is_run(layout, words, weights) else None


def _weights(arrays: Mapping[str, pa.Array]) -> Numbers:
    """The weights in the type that they were written in, which is the smallest for them."""
    columns = [array.to_numpy(zero_copy_only=False) for column, array in arrays.items() if column.startswith("w")]
    return columns[0] if len(columns) == 1 else np.stack(columns, axis=1)


def _entries_of(name: str, table: pa.Table, schema: pa.Schema) -> tuple[Rows, Numbers, ManyRounds]:
    """The entries in a part of the table that was written under `name` for rows of `schema`."""
    arrays = dict(zip(table.column_names, map(whole, table.columns), strict=True))
    weights = _weights(arrays)
    described = description(table)
    if described is not None:
        _check_types(name, described["types"], schema)
        layout = layout_of(described, schema.types)
        words = _numbers(arrays[_WORDS])
        return layout.rows(words), weights, layout.rounds(words)
    _check_types(name, _kept_types(table, schema), schema)
    rows = Rows.of_arrays([arrays[f"c{at}"] for at in range(len(schema))], table.num_rows)
    rounds = tuple(_numbers(array) for column, array in arrays.items() if column.startswith("r"))
    return rows, weights, rounds


def save_numbers(state: StateWriter, name: str, version: int, numbers: Mapping[str, int | None]) -> None:
    """Save numbers that an operator keeps beside its rows."""
    state.write(name, version, pa.table({key: pa.array([number], pa.int64()) for key, number in numbers.items()}))


def load_numbers(state: StateReader, name: str, version: int) -> list[Any]:
    """The numbers that `save_numbers` saved, in their order."""
    written_version, table = state.read(name)
    check_version(name, written_version, version)
    return [column[0].as_py() for column in table.columns]


def check_version(name: str, written_version: int, known: int) -> None:
    """Raise `CheckpointError` unless the state called `name` is in the format that this version of Tidegate reads."""
    if written_version != known:
        raise CheckpointError(
            f"the checkpoint's {name!r} has format version {written_version}, and this version of Tidegate reads "
            f"version {known}: restore the checkpoint with the version of Tidegate that took it",
            reason="CHECKPOINT_VERSION",
        )


def _table(run: Run, schema: pa.Schema) -> pa.Table:
    matrix = run.weights if run.weights.ndim > 1 else run.weights[:, np.newaxis]
    numbers = {f"w{at}": pa.array(np.ascontiguousarray(matrix[:, at])) for at in range(matrix.shape[1])}
    if isinstance(run, PackedRun):
        described = {_LAYOUT: json.dumps(_described(run.layout, schema))}
        return pa.table({_WORDS: pa.array(run.words), **numbers}).replace_schema_metadata(described)
    columns = {f"c{at}": array for at, array in enumerate(run.rows.to_arrays(schema.types))}
    rounds = {f"r{at}": pa.array(round_) for at, round_ in enumerate(run.rounds)}
    return pa.table({**columns, **numbers, **rounds})


def _described(layout: Layout, schema: pa.Schema) -> dict[str, Any]:
    form, domain = layout.form, layout.domain
    return {
        "types": list(map(str, schema.types)),
        "columns": form.columns,
        "descending": form.descending,
        "keys": form.keys,
        "depth": form.depth,
        "lows": domain.lows,
        "bits": domain.bits,
    }


def description(table: pa.Table) -> Mapping[str, Any] | None:
    """The description of the layout of a part's words; None where the part has columns."""
    metadata = table.schema.metadata or {}
    described: Mapping[str, Any] | None = json.loads(metadata[_LAYOUT]) if _LAYOUT in metadata else None
    return described


def layout_of(described: Mapping[str, Any], types: Sequence[pa.DataType]) -> Layout:
    """The layout that a part's description gives, for rows of these types."""
    columns = tuple(described["columns"])
    form = Form(columns, tuple(described["descending"]), described["keys"], described["depth"])
    return Layout.of(form, tuple(described["lows"]), tuple(described["bits"]), types)


def _kept_types(table: pa.Table, schema: pa.Schema) -> list[str]:
    """The types of a part's columns. Those that differ from the schema's in names of lists' items are the schema's."""
    written, kept = table.schema.types[: len(schema)], schema.types
    alike = len(written) == len(kept) and all(map(same_layout, written, kept))
    return list(map(str, kept if alike else written))


def _check_types(name: str, written: Sequence[str], schema: pa.Schema) -> None:
    kept = list(map(str, schema.types))
    if list(written) != kept:
        raise CheckpointError(
            f"the checkpoint's {name!r} has columns [{', '.join(written)}], and this version of Tidegate keeps "
            f"[{', '.join(kept)}]: restore the checkpoint with the version of Tidegate that took it",
            reason="CHECKPOINT_OTHER_STATE",
        )


def _numbers(array: pa.Array) -> Numbers:
    numbers: Numbers = array.to_numpy(zero_copy_only=False).astype(np.int64, copy=False)
    return numbers
