"""Operators' state in a checkpoint's files: implements the writer and the reader of the operator contract."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Self, TypeVar
from weakref import WeakKeyDictionary

import pyarrow as pa

from ...operators.core.operator import StateWriter
from ...proto.errors import CheckpointError, InternalError
from .checkpoint_folder import CheckpointFolder
from .manifest import Manifest, Part, StateTable
from .parts_ahead import PartsAhead

P = TypeVar("P")


class Written:
    """The part that each object was written as, for as long as the object lives.

    The objects are immutable, so they are not written again.
    """

    def __init__(self, folder: CheckpointFolder) -> None:
        self.folder = folder
        self._parts: WeakKeyDictionary[object, Part] = WeakKeyDictionary()

    def part(self, item: P, table: Callable[[P], pa.Table]) -> Part:
        known = self._parts.get(item)
        if known is not None and self.folder.has(known):
            return known
        file = self._parts[item] = self.folder.put(table(item))
        return file


class TablesWriter:
    """Writes state as tables: implements `StateWriter`."""

    def __init__(self, written: Written) -> None:
        self._written = written
        self._tables: dict[str, StateTable] = {}

    @property
    def tables(self) -> tuple[StateTable, ...]:
        return tuple(self._tables.values())

    def write(self, name: str, version: int, table: pa.Table) -> None:
        self._add(name, version, (self._written.folder.put(table),))

    def write_parts(self, name: str, version: int, parts: Sequence[P], table: Callable[[P], pa.Table]) -> None:
        self._add(name, version, tuple(self._written.part(part, table) for part in parts))

    def _add(self, name: str, version: int, parts: tuple[Part, ...]) -> None:
        if name in self._tables:
            raise InternalError(f"two tables of a checkpoint are called {name!r}")
        self._tables[name] = StateTable(name=name, version=version, parts=parts)


class NotedState:
    """State as it is at a barrier, to be written later: implements `StateWriter`.

    It holds the parts of tables, which never change, so that noting them takes no time.
    """

    def __init__(self) -> None:
        self._writes: deque[Callable[[StateWriter, Callable[[], None]], None]] = deque()

    def write(self, name: str, version: int, table: pa.Table) -> None:
        self._writes.append(lambda writer, _: writer.write(name, version, table))

    def write_parts(self, name: str, version: int, parts: Sequence[P], table: Callable[[P], pa.Table]) -> None:
        noted = tuple(parts)

        def write(writer: StateWriter, look: Callable[[], None]) -> None:
            def looked(part: P) -> pa.Table:
                look()
                return table(part)

            writer.write_parts(name, version, noted, looked)

        self._writes.append(write)

    def write_to(self, writer: StateWriter, look: Callable[[], None]) -> None:
        """Write the state, once; what is written is let go. `look` is called before each part, and may raise."""
        while self._writes:
            self._writes.popleft()(writer, look)


class TablesReader:
    """Reads state from tables: implements `StateReader`. `check_all_read` raises at the end if a table was not read. A
    reader that is left as a context reads no further.
    """

    def __init__(self, folder: CheckpointFolder, manifest: Manifest) -> None:
        self._parts = PartsAhead(folder, manifest)
        self._manifest = manifest
        self._tables = {table.name: table for table in manifest.tables}
        self._unread = dict.fromkeys(self._tables)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self._parts.close()

    def read(self, name: str) -> tuple[int, pa.Table]:
        version, parts = self.read_parts(name)
        return version, pa.concat_tables(parts)

    def read_parts(self, name: str) -> tuple[int, Sequence[pa.Table]]:
        table = self._tables.get(name)
        if table is None:
            raise self._other_state(f"the checkpoint has no {name!r}, which this version of Tidegate keeps")
        self._unread.pop(name, None)
        return table.version, [self._parts.table(part) for part in table.parts]

    def check_all_read(self) -> None:
        if self._unread:
            raise self._other_state(
                f"the checkpoint has {next(iter(self._unread))!r}, which this version of Tidegate does not keep"
            )

    def _other_state(self, how: str) -> CheckpointError:
        version = self._manifest.origin.engines.get("tidegate", "unknown")
        return CheckpointError(
            f"checkpoint {self._manifest.name!r} was taken by another version of Tidegate ({version}) that keeps other "
            f"state for this plan: {how}; restore it with that version, or feed a new task from the start",
            reason="CHECKPOINT_OTHER_STATE",
        )
