"""Reads JSON text of any depth, in time linear in its length.

Python's own reader recurses, so the interpreter limits its depth. The reader here keeps its own stack. It reads the
JSON of RFC 8259, and comments, because Substrait's own examples begin with comments: from `//` or `#` to the end of the
line, wherever space may stand. NaN and trailing commas are errors. If a key is given twice, the last one counts.

Python's reader is ten times as fast. It reads the texts that nest little and that both readers read alike, and of other
texts the objects and lists that nest little.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator
from typing import Final, NoReturn, TypeAlias

import numpy as np

Json: TypeAlias = "dict[str, Json] | list[Json] | str | int | float | bool | None"

_SPACE: Final = re.compile(r"(?:[ \t\n\r]++|(?://|#)[^\n]*+){0,4096}+")
"""The space between tokens, or the first part of a very long one; the pattern always matches."""
_BEFORE_TOKENS: Final = frozenset(" \t\n\r/#")
"""The first characters of what stands between tokens."""
_SCALAR: Final = re.compile(r"(-?(?:0|[1-9]\d*))(\.\d+)?([eE][-+]?\d+)?|true|false|null", re.ASCII)
_STRING: Final = re.compile(r'"((?:[^"\\\x00-\x1f]++|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*+)"')
_WORDS: Final[dict[str, bool | None]] = {"true": True, "false": False, "null": None}
_LONGEST_NUMBER: Final = 1000
_LITTLE_NESTED: Final = 200
_HALF_PAIR: Final = re.compile(r"\\u[dD][89a-fA-F]")
"""An escape that stands for half of a character, as Python's reader takes it."""
_TEXT_OR_COMMENT: Final = re.compile(r'"(?:[^"\\]++|\\.)*+"?+|(?://|#)[^\n]*+', re.DOTALL)
_TO_BRACKET: Final = re.compile(r'(?:[^][{}"/#]++|"(?:[^"\\]++|\\.)*+"?+|(?://|#)[^\n]*+|/)*+([][{}])', re.DOTALL)
"""A bracket, and the strings, the comments and all else before it."""
_WHOLE_TOKENS: Final = re.compile(r'(?:[^"/#]++|"(?:[^"\\]++|\\.)*+"|(?://|#)[^\n]*+\n|/(?=[^/]))*+', re.DOTALL)
"""Strings and comments that have an end, and what stands between them; the pattern always matches."""
_WINDOW: Final = 1 << 18
"""The characters that a regular expression looks at in one call: other threads get no turn while it runs. Only a single
string or comment may be longer.
"""
_NO_BRACKETS: Final = bytes(set(range(256)) - set(b"{}[]"))


class JsonError(Exception):
    """The text is not JSON."""


def parse_json(text: str) -> Json:
    """The value that `text` holds. Raises `JsonError`, which gives the position."""
    if _HALF_PAIR.search(text) is None:
        try:
            if deepest("".join(without_texts(text))) <= _LITTLE_NESTED:
                return _PYTHONS.decode(text)  # type: ignore[no-any-return]
            return _Reader(text, _little_nested(text)).read()
        except (ValueError, RecursionError):
            """It has comments, or is no JSON: our reader says where."""
    return _Reader(text).read()


def after_space(text: str, at: int = 0) -> int:
    """The position of the first token at or after this position."""
    while (end := _SPACE.match(text, at).end()) > at:  # type: ignore[union-attr]  # matches always
        at = end
    return at


def without_texts(text: str) -> Iterator[str]:
    """JSON text without its strings and comments, in pieces."""
    at = 0
    while at < len(text):
        end = _WHOLE_TOKENS.match(text, at, at + _WINDOW).end()  # type: ignore[union-attr]  # matches always
        yield _TEXT_OR_COMMENT.sub("", text[at:end])
        cut = _TEXT_OR_COMMENT.match(text, end)  # a string or a comment that ends beyond the window
        at = end if cut is None else cut.end()
        if cut is None and end < len(text) and text[end] == "/":
            yield "/"
            at += 1


def deepest(bare: str) -> int:
    """The most objects and lists inside of each other, in JSON text without strings."""
    brackets = np.frombuffer(bare.encode("utf-8", "replace").translate(None, _NO_BRACKETS), dtype=np.uint8)
    opens = (brackets == ord("{")) | (brackets == ord("["))
    return int(np.cumsum(np.where(opens, np.int8(1), np.int8(-1)), dtype=np.int32).max(initial=0))


def _little_nested(text: str) -> Collection[int]:
    """The positions of the objects and lists that nest little."""
    little: set[int] = set()
    starts: list[int] = []
    heights = [0]
    end = 0
    while (bracket := _TO_BRACKET.match(text, end)) is not None:
        end = bracket.end()
        if text[end - 1] in "{[":
            starts.append(end - 1)
            heights.append(0)
        elif starts:
            height = heights.pop() + 1
            if height > heights[-1]:
                heights[-1] = height
            if height <= _LITTLE_NESTED:
                little.add(starts.pop())
            else:
                starts.pop()
    return little


def _no_number(text: str) -> NoReturn:
    raise ValueError(f"{text} is not JSON")


def _whole(text: str) -> int:
    return int(text) if len(text) <= _LONGEST_NUMBER else _no_number(text)


def _fraction(text: str) -> float:
    return float(text) if len(text) <= _LONGEST_NUMBER else _no_number(text)


_PYTHONS: Final = json.JSONDecoder(parse_constant=_no_number, parse_int=_whole, parse_float=_fraction)


class _Reader:
    """Reads a text. Python's reader reads the objects and lists at the positions `little`."""

    def __init__(self, text: str, little: Collection[int] = ()) -> None:
        self._text = text
        self._little = little
        self._at = 0

    def read(self) -> Json:
        root: list[Json] = []
        # the open containers, innermost last, and for an object the key that waits for its value
        open_: list[dict[str, Json] | list[Json]] = [root]
        keys: list[str] = [""]
        while True:
            whole = self._next() and self._at in self._little
            value = self._whole_value() if whole else self._value()
            container = open_[-1]
            if isinstance(container, dict):
                container[keys[-1]] = value
            else:
                container.append(value)
            if not whole and isinstance(value, dict | list) and not self._closes_at_once(value):
                open_.append(value)
                keys.append(self._key() if isinstance(value, dict) else "")
                continue
            self._close_what_ends(open_, keys)
            if len(open_) == 1:
                break
        if self._next():
            raise self._wrong("the end")
        return root[0]

    def _close_what_ends(self, open_: list[dict[str, Json] | list[Json]], keys: list[str]) -> None:
        """Goes on after a value: to the next value of the innermost container, or closes containers until one has a
        next value.
        """
        while len(open_) > 1:
            container = open_[-1]
            end = "}" if isinstance(container, dict) else "]"
            match self._next():
                case ",":
                    self._at += 1
                    if isinstance(container, dict):
                        keys[-1] = self._key()
                    return
                case closing if closing == end:
                    self._at += 1
                    open_.pop()
                    keys.pop()
                case _:
                    raise self._wrong(f"',' or '{end}'")

    def _next(self) -> str:
        """The next character that is not space; empty at the end of the text."""
        character = self._text[self._at : self._at + 1]
        if character in _BEFORE_TOKENS:
            self._at = after_space(self._text, self._at)
            character = self._text[self._at : self._at + 1]
        return character

    def _value(self) -> Json:
        match self._next():
            case "{":
                self._at += 1
                return {}
            case "[":
                self._at += 1
                return []
            case '"':
                return self._string()
            case _:
                return self._scalar()

    def _whole_value(self) -> Json:
        value: Json
        value, self._at = _PYTHONS.raw_decode(self._text, self._at)
        return value

    def _closes_at_once(self, container: dict[str, Json] | list[Json]) -> bool:
        if self._next() != ("}" if isinstance(container, dict) else "]"):
            return False
        self._at += 1
        return True

    def _key(self) -> str:
        if self._next() != '"':
            raise self._wrong("a key in quotes")
        key = self._string()
        if self._next() != ":":
            raise self._wrong("':'")
        self._at += 1
        return key

    def _string(self) -> str:
        matched = _STRING.match(self._text, self._at)
        if matched is None:
            raise self._wrong("a string")
        self._at = matched.end()
        body = matched.group(1)
        if "\\" not in body:
            return body
        plain = str(json.loads(matched.group()))  # a string alone does not nest
        try:
            plain.encode()
        except UnicodeEncodeError as error:
            raise JsonError(f"half a surrogate pair in the string that ends at character {self._at}") from error
        return plain

    def _scalar(self) -> Json:
        matched = _SCALAR.match(self._text, self._at)
        if matched is None or matched.end() - matched.start() > _LONGEST_NUMBER:
            raise self._wrong("a value")
        self._at = matched.end()
        text = matched.group()
        if matched.group(1) is None:
            return _WORDS[text]
        return int(text) if matched.group(2) is None and matched.group(3) is None else float(text)

    def _wrong(self, expected: str) -> JsonError:
        rest = self._text[self._at : self._at + 20]
        line = self._text.count("\n", 0, self._at) + 1
        column = self._at - self._text.rfind("\n", 0, self._at)
        shown = repr(rest) if rest else "the end"
        return JsonError(f"line {line}, column {column}: expected {expected}, found {shown}")
