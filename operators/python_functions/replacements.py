"""Replacements of matches, as RE2 writes them: a backslash and a digit stand for a group, two backslashes for one."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Final

_REFERENCE: Final = re.compile(r"\\([0-9\\])")


def pieces(new: str) -> list[str | int]:
    """The texts of a replacement, and between them the numbers of the groups that it names."""
    signs = _REFERENCE.split(new)
    signs[1::2] = ["\\" if sign == "\\" else int(sign) for sign in signs[1::2]]
    return [sign for sign in signs if sign != ""]


def rewritten(new: Sequence[str | int], group: Callable[[int], str | None]) -> str:
    """The replacement of a match. `group` gives the text of a group by its number."""
    return "".join([piece if isinstance(piece, str) else group(piece) or "" for piece in new])
