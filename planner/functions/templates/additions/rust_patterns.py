"""Regular expressions of Rust's `regex` crate, in RE2's dialect.

The two differ in the classes with a backslash, which know all letters in Rust and ASCII alone in RE2, in the signs of a
few, and in the references of replacements.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Final

_WORD: Final = r"\p{L}\p{M}\p{Nd}\p{Nl}\p{Pc}\x{200C}\x{200D}"
_SPACE: Final = r"\s\x{0B}\x{85}\p{Z}"
_OUTSIDE: Final = {
    r"\d": r"\p{Nd}",
    r"\D": r"\P{Nd}",
    r"\w": f"[{_WORD}]",
    r"\W": f"[^{_WORD}]",
    r"\s": f"[{_SPACE}]",
    r"\S": f"[^{_SPACE}]",
}
_INSIDE: Final = {r"\d": r"\p{Nd}", r"\D": r"\P{Nd}", r"\w": _WORD, r"\s": _SPACE}
_REFUSED: Final = re.compile(r"\\[<>]|\\b\{|\(\?[a-zA-Z-]*[xuRU]")
"""Signs that RE2 lacks, or reads otherwise."""

_TOKEN: Final = re.compile(r"\\[pPx]\{[^}]*\}|\\u\{[0-9A-Fa-f]+\}|\\u[0-9A-Fa-f]{4}|\\U[0-9A-Fa-f]{8}|\\.|.", re.DOTALL)
_QUANTIFIER: Final = re.compile(r"[?*+][?+]?|\{\d+(?:,\d*)?\}\??")
_OPENING: Final = re.compile(r"\(\?P?<([^>]+)>|\(\?[a-zA-Z-]*[:)]|\(")
_PLACES: Final = frozenset({"^", "$", r"\b", r"\B", r"\A", r"\z"})
_POSIX: Final = re.compile(r"\[:\^?\w+:\]")
_REFERENCE: Final = re.compile(r"\\(\d+)|\$(?:\$|\{([^}]*)\}|(\w+))|\\", re.ASCII)
_MOST_GROUPS: Final = 9
WORD: Final = f"[{_WORD}]"
LOCAL: Final = re.compile(r"\\[dDwWsSbBuU]|&&|--|~~|\(\?[a-zA-Z-]*[xuRU]")
"""The signs of a pattern that mean something else in RE2."""


@dataclass(frozen=True, slots=True)
class Group:
    """A group that captures. It may be absent from a match, and its text may be empty."""

    name: str
    may_be_absent: bool
    may_be_empty: bool


@dataclass(frozen=True, slots=True)
class RustPattern:
    """A pattern as RE2 reads it. With `has_edges` it asks for edges of words, which RE2 knows in ASCII alone, with
    `has_places` for any place in a text. A match may be empty if `may_be_empty`.
    """

    re2: str
    has_edges: bool
    has_places: bool
    may_be_empty: bool
    groups: tuple[Group, ...]

    def replacement(self, new: str) -> str:
        """The new text of a replacement, whose references are `\\1`, `$1`, `${1}` and `$name`, as RE2 reads it."""
        names = [group.name for group in self.groups]

        def part(match: re.Match[str]) -> str:
            name = match[1] or match[2] or match[3]
            if name is None:
                return "$" if match.group() == "$$" else r"\\"
            number = int(name) if name.isdigit() else names.index(name) + 1 if name in names else -1
            if number > _MOST_GROUPS:
                raise ValueError(f"there are no references to more than {_MOST_GROUPS} groups")
            return rf"\{number}" if 0 <= number <= len(names) else ""

        return _REFERENCE.sub(part, new)


def read(pattern: str) -> RustPattern:
    """The pattern. Raises `ValueError`, with the reason, if RE2 cannot have its meaning."""
    if (refused := _REFUSED.search(pattern)) is not None:
        raise ValueError(f"{refused.group()} in a pattern is not supported")
    return _Reader().read(pattern)


@dataclass(slots=True)
class _Level:
    """An open group, or the whole pattern. Each alternative's parts are pieces of which all may be empty or not."""

    captures: int | None = None
    first_inside: int = 0
    branches: list[bool] = field(default_factory=list)
    is_empty: bool = True
    """True while all pieces of the alternative may be empty."""

    last: bool = True
    """Whether the last piece may be empty, which a quantifier behind it changes."""

    before: bool = True
    """Whether all pieces before the last one may be empty."""

    def add(self, *, may_be_empty: bool) -> None:
        self.before = self.is_empty
        self.last = may_be_empty
        self.is_empty = self.before and may_be_empty

    def quantify(self, *, may_be_absent: bool) -> None:
        self.last = self.last or may_be_absent
        self.is_empty = self.before and self.last

    def end_branch(self) -> None:
        self.branches.append(self.is_empty)
        self.is_empty = self.last = self.before = True


class _Reader:
    """Reads one pattern, sign by sign."""

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._groups: list[Group] = []
        self._levels = [_Level()]
        self._edges = self._places = False

    def read(self, pattern: str) -> RustPattern:
        at, closed = 0, None
        while at < len(pattern):
            match = _TOKEN.match(pattern, at)
            assert match is not None
            sign, begin, at = match.group(), at, match.end()
            if (quantifier := _QUANTIFIER.match(pattern, begin)) is not None:
                self._quantify(quantifier.group(), closed)
                sign, at = quantifier.group(), quantifier.end()
            elif sign == "[":
                sign, at = _class(pattern, begin)
                self._levels[-1].add(may_be_empty=False)
            elif sign == "(":
                sign = self._open(pattern, begin)
                at = begin + len(sign)
            elif sign == ")" and len(self._levels) > 1:
                closed = self._close()
                self._parts.append(sign)
                continue
            else:
                sign = self._sign(sign)
            closed = None
            self._parts.append(sign)
        top = self._levels[0]
        top.end_branch()
        if len(top.branches) > 1:
            self._may_be_absent(0)
        groups = tuple(self._groups)
        return RustPattern("".join(self._parts), self._edges, self._places, any(top.branches), groups)

    def _quantify(self, quantifier: str, closed: int | None) -> None:
        """A quantifier behind the last piece, whose groups from `closed` on may then be absent."""
        may_be_absent = quantifier[0] in "?*" or quantifier.startswith("{0")
        self._levels[-1].quantify(may_be_absent=may_be_absent)
        if may_be_absent and closed is not None:
            self._may_be_absent(closed)

    def _may_be_absent(self, first: int) -> None:
        self._groups[first:] = [replace(group, may_be_absent=True) for group in self._groups[first:]]

    def _open(self, pattern: str, at: int) -> str:
        """The signs that open a group, or set flags."""
        opening = _OPENING.match(pattern, at)
        assert opening is not None
        if opening.group().endswith(")"):
            return opening.group()
        level = _Level(first_inside=len(self._groups))
        if opening[1] is not None or opening.group() == "(":
            level.captures = len(self._groups)
            self._groups.append(Group(opening[1] or "", may_be_absent=False, may_be_empty=False))
        self._levels.append(level)
        return opening.group()

    def _close(self) -> int:
        """Close a group. Returns the number of the first group in it."""
        level = self._levels.pop()
        level.end_branch()
        may_be_empty = any(level.branches)
        if len(level.branches) > 1:
            self._may_be_absent(level.first_inside + (level.captures is not None))
        if level.captures is not None:
            self._groups[level.captures] = replace(self._groups[level.captures], may_be_empty=may_be_empty)
        self._levels[-1].add(may_be_empty=may_be_empty)
        return level.first_inside

    def _sign(self, sign: str) -> str:
        level = self._levels[-1]
        if sign == "|":
            level.end_branch()
        elif sign in _PLACES:
            self._places = True
            self._edges |= sign in (r"\b", r"\B")
            level.add(may_be_empty=True)
        else:
            level.add(may_be_empty=False)
        return _OUTSIDE.get(sign) or _character(sign)


def _character(token: str) -> str:
    """A sign outside of the table: Rust also writes characters by `\\u`."""
    return f"\\x{{{token[2:].strip('{}')}}}" if token[:2] in (r"\u", r"\U") and len(token) > 2 else token


def _class(pattern: str, at: int) -> tuple[str, int]:
    """The class that begins at `[`, and the position behind it."""
    end = at + 1 + pattern.startswith("^", at + 1)
    end += pattern.startswith("]", end)
    parts = [pattern[at:end]]
    for text, behind in _members(pattern, end):
        parts.append(text)
        end = behind
    return "".join(parts), end


def _members(pattern: str, at: int) -> Iterator[tuple[str, int]]:
    while at < len(pattern):
        if pattern[at : at + 2] in ("&&", "--", "~~"):
            raise ValueError(f"the operation {pattern[at : at + 2]} in a class of a pattern is not supported")
        posix = _POSIX.match(pattern, at)
        if posix is None and pattern[at] == "[":
            raise ValueError("a class inside a class of a pattern is not supported")
        token = posix or _TOKEN.match(pattern, at)
        assert token is not None
        text, at = token.group(), token.end()
        if text in (r"\W", r"\S"):
            raise ValueError(f"{text} inside a class of a pattern is not supported")
        yield _INSIDE.get(text) or _character(text), at
        if text == "]":
            return
    raise ValueError("a class of a pattern has no end")
