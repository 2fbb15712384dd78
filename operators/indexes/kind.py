"""How an index of some kind is made: what is asked for, what there is to make it from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from ...proto.errors import InvalidRequest
from ..core.column import Column
from ..core.piece import Piece
from ..duckdb.instances import Instance
from .index import Index
from .sql import Database


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class WantedIndex:
    """`keys` are the columns that the input's keys are compared with, `columns` those a look-up gives. `options` are
    the kind's own. `name` is what messages call the index.
    """

    name: str
    keys: tuple[Column, ...]
    columns: tuple[Column, ...]
    options: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class IndexHost:
    """What the executor has for indexes: tables as opened pieces, a DuckDB instance, and the databases that the
    service's owner has given a name. A plan names them; where they are it cannot say.
    """

    tables: Mapping[str, Sequence[Piece]] = field(default_factory=dict)
    instance: Instance | None = None
    databases: Mapping[str, Database] = field(default_factory=dict)


class IndexKind(Protocol):
    """A kind of index, under its name, with the names of the options it needs and of those it may have."""

    @property
    def name(self) -> str: ...

    @property
    def reads_source(self) -> bool:
        """Whether its table is a source of the plan, one of the host's `tables`, by the option `table`."""
        ...

    @property
    def needed(self) -> frozenset[str]: ...

    @property
    def possible(self) -> frozenset[str]: ...

    def open(self, wanted: WantedIndex, host: IndexHost) -> Index:
        """The index. The options' names have been checked."""
        ...


def check_options(kind: IndexKind, wanted: WantedIndex) -> None:
    """`InvalidRequest` for an option that is missing or unknown."""
    given = set(wanted.options)
    wrong = sorted(kind.needed - given) or sorted(given - kind.needed - kind.possible)
    if wrong:
        known = ", ".join(sorted(kind.needed | kind.possible)) or "none"
        problem = "needs the option" if wrong[0] not in given else "has no option"
        raise InvalidRequest(f"index {wanted.name!r}: kind {kind.name!r} {problem} {wrong[0]!r}; there are: {known}")


def named(what: str, name: str, known: Mapping[str, object], wanted: WantedIndex) -> None:
    """`InvalidRequest` where there is no `what` of this name."""
    if name not in known:
        there = ", ".join(map(repr, sorted(known))) or "none"
        raise InvalidRequest(f"index {wanted.name!r}: there is no {what} {name!r}; there are: {there}")
