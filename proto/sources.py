"""How a call names a source: as the plan does, or in other upper and lower case where that is unambiguous."""

from __future__ import annotations

from collections.abc import Collection

from .errors import NotFound, Refused


def fed_source(name: str, fed: Collection[str], static: Collection[str]) -> str:
    """The plan's spelling of the source that takes splits; says what is wrong where none of this name does."""
    if name in fed:
        return name
    if name in static:
        raise Refused(
            f"source {name!r} is static: it is whole in every epoch and takes no splits", reason="STATIC_SOURCE"
        )
    known = sorted((*fed, *static))
    alike = [each for each in known if each.casefold() == name.casefold()]
    if len(alike) == 1:
        return fed_source(alike[0], fed, static)
    if alike:
        raise NotFound(
            f"source {name!r} could be any of {', '.join(alike)}: write it as the plan does", reason="AMBIGUOUS_SOURCE"
        )
    raise NotFound(
        f"the plan has no source {name!r}; its sources are: {', '.join(known) or 'none'}", reason="UNKNOWN_SOURCE"
    )
