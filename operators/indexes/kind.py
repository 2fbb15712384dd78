"""The interface of a kind of index: the wanted index, and the resources to make it from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from ...proto.errors import InvalidRequest
from ...proto.values import MissingColumns
from ..core.column import Column
from ..core.piece import Piece
from ..duckdb.instances import Instance
from .index import Index
from .sql import Database


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class WantedIndex:
    """The index that a plan wants. `keys` are the columns that the input's keys are compared with, `columns` those that
    a look-up gives. `options` are the kind's own. Messages call the index `name`.
    """

    name: str
    keys: tuple[Column, ...]
    columns: tuple[Column, ...]
    options: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class IndexHost:
    """The executor's resources for indexes: tables as opened pieces, a DuckDB instance, and the databases that the
    service's owner has named. A plan names a database, and cannot say where it is. `missing_columns` is the task's: the
    meaning of columns that a table of a database lacks.
    """

    tables: Mapping[str, Sequence[Piece]] = field(default_factory=dict)
    instance: Instance | None = None
    databases: Mapping[str, Database] = field(default_factory=dict)
    missing_columns: MissingColumns = MissingColumns.ERROR


class IndexKind(Protocol):
    """A kind of index, under its name, with the names of the options that it needs and of those that it may have."""

    @property
    def name(self) -> str: ...

    @property
    def reads_source(self) -> bool:
        """True where the index's table is a source of the plan: one of the host's `tables`, by the option `table`."""
        ...

    @property
    def needed(self) -> frozenset[str]: ...

    @property
    def possible(self) -> frozenset[str]: ...

    def open(self, wanted: WantedIndex, host: IndexHost) -> Index:
        """Open the index. The options' names have been checked."""
        ...


def check_options(kind: IndexKind, wanted: WantedIndex) -> None:
    """Raise `InvalidRequest` for an option that is missing or unknown."""
    options = set(wanted.options)
    wrong = sorted(kind.needed - options) or sorted(options - kind.needed - kind.possible)
    if wrong:
        known = ", ".join(sorted(kind.needed | kind.possible)) or "none"
        problem = "needs the option" if wrong[0] not in options else "has no option"
        raise InvalidRequest(
            f"index {wanted.name!r}: kind {kind.name!r} {problem} {wrong[0]!r}; its options are: {known}"
        )


def named(what: str, name: str, known: Mapping[str, object], wanted: WantedIndex) -> None:
    """Raise `InvalidRequest` where there is no `what` of this name."""
    if name not in known:
        there = ", ".join(map(repr, sorted(known))) or "none"
        raise InvalidRequest(f"index {wanted.name!r}: there is no {what} {name!r}; there are: {there}")
