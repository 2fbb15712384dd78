"""The kinds of index for look-ups, by name. `register` adds one; no other room tells them apart."""

from __future__ import annotations

from ...proto.errors import InvalidRequest
from .builtin import ArrowKind, FileKind, SqlKind
from .index import Index, Matches
from .kind import IndexHost, IndexKind, WantedIndex, check_options

_KINDS: dict[str, IndexKind] = {}


def register(kind: IndexKind) -> None:
    """Register a kind of index under its name."""
    _KINDS[kind.name] = kind


def known() -> tuple[str, ...]:
    return tuple(sorted(_KINDS))


def kind_named(name: str) -> IndexKind:
    """The kind of this name. Raises `InvalidRequest`, which lists all kinds, for an unknown name."""
    kind = _KINDS.get(name)
    if kind is None:
        raise InvalidRequest(
            f"unknown kind of index {name!r}; known are {', '.join(known())}", reason="UNKNOWN_INDEX_KIND"
        )
    return kind


def open_index(kind: str, wanted: WantedIndex, host: IndexHost) -> Index:
    """Open an index by the kind of this name."""
    index_kind = kind_named(kind)
    check_options(index_kind, wanted)
    return index_kind.open(wanted, host)


for _kind in (ArrowKind(), FileKind(), SqlKind()):
    register(_kind)

__all__ = ["Index", "IndexHost", "IndexKind", "Matches", "WantedIndex", "kind_named", "known", "open_index", "register"]
