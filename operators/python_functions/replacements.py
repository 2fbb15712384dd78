"""Replacements of matches, as RE2 writes them: a backslash and a digit stand for a group, two backslashes for one."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

_REFERENCE: Final = re.compile(r"\\([0-9\\])")


def groups_in(new: str) -> list[int]:
    """The numbers of the groups that a replacement names."""
    return [int(sign) for sign in _REFERENCE.findall(new) if sign != "\\"]


def rewritten(new: str, group: Callable[[int], str | None]) -> str:
    """The replacement of a match. `group` gives the text of a group by its number."""

    def part(reference: re.Match[str]) -> str:
        return "\\" if reference[1] == "\\" else group(int(reference[1])) or ""

    return _REFERENCE.sub(part, new)
