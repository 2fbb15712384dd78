"""Held state: the state that operators write at a checkpoint, kept in memory.

Runs never change, so that keeping them costs their references alone. An operator that loads takes the runs as they
are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from ...core.operator import Part
from ..values.consolidate import Entries
from .packed_words import PackedRun


@dataclass(frozen=True, slots=True, eq=False)
class HeldState:
    """A `StateWriter` and `StateReader` in memory, for names that begin with its own."""

    _name: str = ""
    _held: dict[str, tuple[int, Sequence[Any]]] = field(default_factory=dict)

    def under(self, name: str) -> HeldState:
        """The part of the state for names that begin with this one."""
        return HeldState(f"{self._name}{name}/", self._held)

    def write(self, name: str, version: int, table: pa.Table) -> None:
        self._held[self._name + name] = version, (table,)

    def write_parts(self, name: str, version: int, parts: Sequence[Part], table: Callable[[Part], pa.Table]) -> None:  # noqa: ARG002 - no part becomes a table
        self._held[self._name + name] = version, tuple(parts)

    def read(self, name: str) -> tuple[int, pa.Table]:
        version, (table,) = self._held[self._name + name]
        return version, table

    def read_parts(self, name: str) -> tuple[int, Sequence[pa.Table]]:
        raise AssertionError(f"{name!r} was saved as runs, not as tables: read its parts with `runs`")

    def runs(self, name: str) -> Sequence[Entries | PackedRun]:
        """The parts of an arrangement."""
        return self._held[self._name + name][1]

    def all_runs(self) -> Iterator[Any]:
        for _, parts in self._held.values():
            yield from (part for part in parts if not isinstance(part, pa.Table))


class SettledRuns:
    """A `StateWriter` that notes which runs there are. It changes nothing about how state lies, so it may look at any
    time: the rows that operators give out depend on that.
    """

    def __init__(self) -> None:
        self.identities: set[int] = set()

    def write(self, name: str, version: int, table: pa.Table) -> None:
        """Pass over a table: it is no run."""

    def write_parts(self, name: str, version: int, parts: Sequence[Part], table: Callable[[Part], pa.Table]) -> None:  # noqa: ARG002 - the runs alone are noted
        self.identities.update(map(id, parts))
