"""One table of the official functions as DuckDB's SQL, in families."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Final

from ...ir import FunctionKind
from . import (
    aggregate_functions as aggregates,
)
from . import (
    arithmetic,
    comparison,
    datetimes,
    decimals,
    lists,
    logarithms,
    moment_rounding,
    regexps,
    rounding,
    strings,
)
from . import (
    window_functions as windows,
)
from .additions import AGGREGATE, SCALAR
from .refused import REFUSED
from .use import Entry, Table

_SCALAR: Final[Table] = {
    **arithmetic.TABLE,
    **decimals.TABLE,
    **rounding.TABLE,
    **logarithms.TABLE,
    **comparison.TABLE,
    **strings.TABLE,
    **regexps.TABLE,
    **datetimes.TABLE,
    **moment_rounding.TABLE,
    **lists.TABLE,
    **SCALAR,
}

TABLES: Final[Mapping[FunctionKind, Mapping[tuple[str, str], Entry]]] = MappingProxyType(
    {
        FunctionKind.SCALAR: _SCALAR,
        FunctionKind.AGGREGATE: {**aggregates.TABLE, **AGGREGATE},
        FunctionKind.WINDOW: windows.TABLE,
    }
)


@lru_cache(maxsize=1024)
def entry(kind: FunctionKind, file: str, name: str) -> Entry | None:
    """The table's entry for an official function; None if Tidegate does not run it."""
    return TABLES[kind].get((file.removeprefix("functions_"), name))


def refusal(file: str, name: str) -> str:
    """The reason why Tidegate does not run an official function that has no entry."""
    return REFUSED[file.removeprefix("functions_"), name]
