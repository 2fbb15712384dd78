"""Function names and extension files of a plan, in any of the spellings in use.

Producers write `add:i64_i64`, `and:bool?`, `like:vchar_vchar`, `sum:decimal`, `count:`, a bare `add`; with a URN, a
whole URL, `/functions_x.yaml`, a folder, or nothing at all.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

from .registry import files

_FILE_OF_COMPARISONS: Final = "functions_comparison"
_COMPARISONS: Final = frozenset(
    ("equal", "not_equal", "lt", "lte", "gt", "gte", "is_distinct_from", "is_not_distinct_from")
)
_ORDERINGS: Final = frozenset(("between", "least", "greatest", "least_skip_null", "greatest_skip_null", "nullif"))
_SHORT: Final = 200
_LONG: Final[dict[str, str]] = {
    "boolean": "bool",
    "string": "str",
    "varchar": "vchar",
    "fixedchar": "fchar",
    "binary": "vbin",
    "fixedbinary": "fbin",
    "decimal": "dec",
    "timestamp": "ts",
    "timestamp_tz": "tstz",
    "any1": "any",
    "any2": "any",
    "opt": "req",
}


def split(name: str) -> tuple[str, str | None]:
    """The base name in lower case, and the compound name in the official files' spelling if `name` is one. Names of
    functions are short, and used often: those are remembered.
    """
    return _remembered_split(name) if len(name) <= _SHORT else _split(name)


def _split(name: str) -> tuple[str, str | None]:
    base, colon, types = name.partition(":")
    base = base.strip().lower()
    if not colon:
        return base, None
    shorts = (_LONG.get(part, part) for part in types.replace("?", "").lower().split("_") if part)
    return base, f"{base}:{'_'.join(shorts)}"


_remembered_split: Final = lru_cache(maxsize=1024)(_split)


def extension_file(declared: str | None) -> str | None:
    """The official file of a URN or URI, without `.yaml`; None if it names none (a folder, a foreign file)."""
    if not declared:
        return None
    return _remembered_file(declared) if len(declared) <= _SHORT else _file(declared)


def _file(declared: str) -> str | None:
    last = re.split(r"[/:]", declared.strip())[-1].removesuffix(".yaml").removesuffix(".yml").lower()
    return last if last in files() else None


_remembered_file: Final = lru_cache(maxsize=1024)(_file)


def is_comparison(file: str, name: str) -> bool:
    """Tests whether an official function compares two operands."""
    return file == _FILE_OF_COMPARISONS and name in _COMPARISONS


def is_ordering(file: str, name: str) -> bool:
    """Tests whether a function compares all of its arguments with each other, and may give one of them."""
    return file == _FILE_OF_COMPARISONS and name in _ORDERINGS
