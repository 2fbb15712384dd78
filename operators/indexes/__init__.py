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
    found = _KINDS.get(name)
    if found is None:
        raise InvalidRequest(
            f"unknown kind of index {name!r}; known are {', '.join(known())}", reason="UNKNOWN_INDEX_KIND"
        )
    return found


def open_index(kind: str, wanted: WantedIndex, host: IndexHost) -> Index:
    """Open an index by the kind of this name."""
    found = kind_named(kind)
    check_options(found, wanted)
    return found.open(wanted, host)


for _kind in (ArrowKind(), FileKind(), SqlKind()):
    register(_kind)

__all__ = ["Index", "IndexHost", "IndexKind", "Matches", "WantedIndex", "kind_named", "known", "open_index", "register"]
