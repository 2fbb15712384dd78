"""Names of sources in calls: as the plan has them, or in other upper and lower case where that is unambiguous."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from .errors import InvalidRequest, NotFound, Refused
from .values import SourceInfo


def check_fed(sources: Collection[SourceInfo], named: Collection[str], hint: str) -> None:
    """Raise `InvalidRequest` where `named` lacks a source that takes splits; a named source is fed or declared empty. A
    name that is no such source raises the error of `fed_source`. `hint` says what would be right for `{name}`.
    """
    fed = {source.name for source in sources if not source.static}
    if missing := sorted(fed - spelled(sources, named)):
        raise InvalidRequest(
            f"source {missing[0]!r} has no splits: {hint.format(name=missing[0])}", reason="SOURCE_UNFED"
        )


def spelled(sources: Collection[SourceInfo], named: Iterable[str]) -> set[str]:
    """The plan's spellings of these sources, which take splits."""
    fed, static = ({source.name for source in sources if source.static is one} for one in (False, True))
    return {fed_source(name, fed, static) for name in named}


def fed_source(name: str, fed: Collection[str], static: Collection[str]) -> str:
    """The plan's spelling of a source that takes splits. Raises an error that says what is wrong where no source of
    this name takes any.
    """
    if not isinstance(name, str):
        raise InvalidRequest(f"a source's name must be text, not {name!r:.80}")
    if name in fed:
        return name
    if name in static:
        raise Refused(
            f"source {name!r} is static, so every epoch has all its rows: bind the source as a table, and add no "
            "splits",
            reason="STATIC_SOURCE",
        )
    known = sorted((*fed, *static))
    alike = [candidate for candidate in known if candidate.casefold() == name.casefold()]
    if len(alike) == 1:
        return fed_source(alike[0], fed, static)
    if alike:
        raise NotFound(
            f"source {name!r} could be any of {', '.join(alike)}: write the name as the plan does",
            reason="AMBIGUOUS_SOURCE",
        )
    raise NotFound(
        f"the plan has no source {name!r}; its sources are: {', '.join(known) or 'none'}", reason="UNKNOWN_SOURCE"
    )
