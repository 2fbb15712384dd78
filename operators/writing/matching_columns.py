"""Check that a table's files have the columns of the rows that are added to the table."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import PurePath
from typing import Final

import pyarrow as pa

from ...proto.errors import ExecutionError
from ..arrays.casts import plain
from ..arrays.retype import nullable
from .formats import WRITE_FORMATS, Column
from .staged_write import writer_of
from .table_folder import OpenFolder

_FORMATS: Final = {format_.ending: format_ for format_ in WRITE_FORMATS.values()}


class TableColumns:
    """The columns of table `name`: names in their order and, where a format has them, types. The storage of a type
    (large, as a dictionary) and nullability make no difference.

    Files that were checked are remembered. One file of each other writer is enough.
    """

    def __init__(self, name: str, schema: pa.Schema) -> None:
        self._name = name
        self._columns = [Column(field.name, field.type) for field in schema]
        self._fit: set[str] = set()

    def check(self, folder: OpenFolder, files: Sequence[str]) -> None:
        """Raise `ExecutionError` where one of the files has other columns. Files of formats that `Write` does not write
        are not read.
        """
        for file in files:
            origin = writer_of(file) or file
            if origin in self._fit:
                continue
            with suppress(FileNotFoundError):  # another writer has replaced the file meanwhile
                self._check(folder, file)
                self._fit.add(origin)

    def _check(self, folder: OpenFolder, file: str) -> None:
        format_ = _FORMATS.get(PurePath(file).suffix)
        if format_ is None:
            return
        with folder.read(file) as source:
            try:
                there = format_.columns(source)
            except (pa.ArrowException, ValueError) as error:
                raise ExecutionError(
                    f"table {self._name!r} cannot be added to: its file {file} cannot be read: "
                    f"{' '.join(str(error).split())}",
                    reason="COLUMNS_DIFFER",
                ) from error
        difference = self._difference(there)
        if difference:
            raise ExecutionError(
                f"table {self._name!r} cannot be added to: its file {file} has other columns than the plan writes: "
                f"{difference}",
                reason="COLUMNS_DIFFER",
            )

    def _difference(self, there: Sequence[Column]) -> str:
        """The first difference, in words; empty if there is none."""
        for number, (old, new) in enumerate(zip(there, self._columns, strict=False), 1):
            if old.name != new.name:
                return f"column {number} is {old.name!r} in the file and {new.name!r} in the plan"
            if old.type is not None and new.type is not None and _stored(old.type) != _stored(new.type):
                return f"column {old.name!r} is {old.type} in the file and {new.type} in the plan"
        if len(there) != len(self._columns):
            return f"{len(there)} columns in the file and {len(self._columns)} in the plan"
        return ""


def _stored(type_: pa.DataType) -> pa.DataType:
    return nullable(plain(type_))
