"""Regular expressions with look-around, which DuckDB's engine does not have, by Python's `re`.

While `re` looks at a text, no other Python thread runs, and nothing can stop it. So a pattern is taken only if its
steps grow as a power of the text's length, and a text only if the steps are few enough. Behind each long text, the
other threads have their turn.
"""

from __future__ import annotations

import re
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

import pyarrow as pa

from .replacements import pieces, rewritten

LOOK_AROUND: Final = "look_around"
"""The function in SQL: `look_around(how, text, pattern, argument)` gives a list of texts. `how` is `all`, `split` or
`replace`, a colon, and flags. The argument is the number of a group for `all`, the new text for `replace`.
"""

MOST_STEPS: Final = 20_000_000
"""The most steps for one text: some hundredths of a second."""

_AT_A_TIME: Final = threading.Lock()
"""One thread at a time looks at a text. Behind a long look it waits as long as it has kept all others from running:
a thread that needs the interpreter often would wait for a whole text each time.
"""

LONGEST_PATTERN: Final = 10_000
"""The most characters of a pattern: `re` takes 7 s to read a million of them."""
_MOST_PATHS: Final = MOST_STEPS
_MANY: Final = 65_535
_TOKENS: Final = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|\(\?<?[=!]|\$", re.DOTALL)
_ALIKE: Final = {"$": r"\Z", r"\z": r"\Z"}
"""The signs that Python writes otherwise than DuckDB: those of the end of the text."""

_AMBIGUOUS: Final = re.compile(r"\[|--|&&|~~|\|\|")
"""Signs inside a class that `re` may read in another way in a later release."""

_FLAGS: Final = {"i": re.IGNORECASE, "m": re.MULTILINE, "s": re.DOTALL}


@dataclass(frozen=True, slots=True)
class Bound:
    """A bound on a number for a text of n characters: `factor * (n + 1) ** power`."""

    factor: int = 1
    power: int = 0

    def times(self, other: Bound) -> Bound:
        return Bound(_few(self.factor * other.factor), self.power + other.power)

    def plus(self, other: Bound) -> Bound:
        return Bound(_few(self.factor + other.factor), max(self.power, other.power))


@dataclass(frozen=True, slots=True)
class Paths:
    """The ways through a part of a pattern, and the steps that all of them take together from one place of the text.
    Each way into a part takes the steps of the part again.
    """

    ways: Bound = Bound()
    steps: Bound = Bound()

    def then(self, other: Paths) -> Paths:
        return Paths(self.ways.times(other.ways), self.steps.plus(self.ways.times(other.steps)))

    def either(self, other: Paths) -> Paths:
        return Paths(self.ways.plus(other.ways), self.steps.plus(other.steps))


_LOOK: Final = Bound(4)
"""The steps of a look at what comes before or behind, beside those of what is looked at."""


@dataclass(frozen=True, slots=True)
class LookAround:
    """A pattern with look-around. Texts may have `most` characters."""

    expression: re.Pattern[str]
    most: int


def has_look_around(pattern: str) -> bool:
    return any(token.group().startswith("(") for token in _TOKENS.finditer(pattern))


@lru_cache(maxsize=256)
def read(pattern: str, flags: str) -> LookAround:
    """The pattern. Raises `ValueError`, with the reason, if it is none or may take too many steps."""
    if len(pattern) > LONGEST_PATTERN:
        raise ValueError(
            f"a pattern with look-around has {len(pattern):,} characters; at most {LONGEST_PATTERN:,} are allowed"
        )
    written = pattern
    if "m" not in flags:
        written = _TOKENS.sub(lambda token: _ALIKE.get(token.group(), token.group()), pattern)
    options = re.ASCII
    for flag in flags:
        options |= _FLAGS[flag]
    if any(_AMBIGUOUS.search(token.group(), 1) for token in _TOKENS.finditer(pattern) if token.group()[0] == "["):
        raise ValueError(f"the pattern {pattern!r} has look-around and a class of characters inside a class")
    try:
        expression = re.compile(written, options)
        parsed = re._parser.parse(written, options)  # type: ignore[attr-defined]
    except (re.error, OverflowError, RecursionError) as error:
        raise ValueError(f"the pattern {pattern!r} cannot be read: {error}") from error
    if parsed.getwidth()[0] == 0:
        raise ValueError(f"the pattern {pattern!r} has look-around and may match an empty text")
    steps = _sequence(parsed).steps
    return LookAround(expression, int((MOST_STEPS / steps.factor) ** (1 / (steps.power + 1))))


def _few(factor: int) -> int:
    if factor > _MOST_PATHS:
        raise ValueError("a pattern with look-around has too many alternatives and repetitions")
    return factor


def _sequence(items: Iterable[tuple[Any, Any]]) -> Paths:
    paths = Paths()
    for kind, value in items:
        paths = paths.then(_item(str(kind), value))
    return paths


def _item(kind: str, value: Any) -> Paths:
    """The paths through an item as Python's parser has it."""
    match kind:
        case "LITERAL" | "NOT_LITERAL" | "ANY" | "AT":
            return Paths()
        case "IN":
            # Python may compare with the characters of a class one after the other.
            return Paths(steps=Bound(_few(len(value))))
        case "SUBPATTERN":
            return _sequence(value[3])
        case "ASSERT" | "ASSERT_NOT":
            inside = _sequence(value[1])
            return Paths(inside.ways, inside.steps.plus(_LOOK))
        case "BRANCH":
            paths = Paths(Bound(0))
            for alternative in value[1]:
                paths = paths.either(_sequence(alternative))
            return paths
        case "MAX_REPEAT" | "MIN_REPEAT":
            return _repeat(*value)
        case _:
            raise ValueError("a pattern with look-around may have no back-references, atomic groups or conditions")


def _repeat(least: int, most: int, items: Any) -> Paths:
    inside = _sequence(items)
    if most >= _MANY:
        if inside.ways != Bound() or inside.steps.power or items.getwidth()[0] == 0:
            raise ValueError("a pattern with look-around may repeat without a bound only what matches in one way")
        return Paths(Bound(1, 1), Bound(inside.steps.factor, 1))
    stops = Bound(_few(most - least + 1))
    if inside.ways == Bound():
        return Paths(stops, inside.steps.times(Bound(_few(most + 1))))
    paths = Paths()
    for _ in range(most):
        paths = paths.then(inside)
    return Paths(stops.times(paths.ways), stops.times(paths.steps))


def look_around(
    hows: Sequence[str],
    texts: Sequence[str | None],
    patterns: Sequence[str | None],
    arguments: Sequence[str | None],
    check: Callable[[], None],
) -> pa.Array:
    """The lists of texts, one for each row. `check` is called before each text, to end what has been interrupted.
    Raises `ValueError` for a text that is too long.
    """
    return pa.array(
        [_row(*row, check) for row in zip(hows, texts, patterns, arguments, strict=True)], pa.list_(pa.string())
    )


def _row(
    how: str, text: str | None, pattern: str | None, argument: str | None, check: Callable[[], None]
) -> list[str | None] | None:
    if text is None or pattern is None or argument is None:
        return None
    kind, _, flags = how.partition(":")
    looking = read(pattern, flags)
    if len(text) > looking.most:
        raise ValueError(
            f"a text of {len(text):,} characters is too long for the look-around of {pattern!r}, which takes at most "
            f"{looking.most:,}"
        )
    with _AT_A_TIME:
        check()
        begun = time.perf_counter()
        answer = _answer(kind, looking.expression, text, argument)
        taken = time.perf_counter() - begun
        if taken > sys.getswitchinterval():
            time.sleep(taken)
    return answer


def _answer(kind: str, expression: re.Pattern[str], text: str, argument: str) -> list[str | None]:
    matches = expression.finditer(text)
    match kind:
        case "all":
            return [match.group(int(argument)) for match in matches]
        case "split":
            return list(_between(text, matches))
        case _:
            return [_replaced(text, next(matches, None), argument)]


def _between(text: str, matches: Iterable[re.Match[str]]) -> Iterator[str]:
    end = 0
    for match in matches:
        yield text[end : match.start()]
        end = match.end()
    yield text[end:]


def _replaced(text: str, match: re.Match[str] | None, new: str) -> str:
    """The text with the match replaced."""
    if match is None:
        return text
    return text[: match.start()] + rewritten(pieces(new), match.group) + text[match.end() :]
