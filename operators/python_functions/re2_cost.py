"""Bounds on the time that RE2 takes for a pattern, from a look at the pattern alone. A bound may be too high. For a
pattern that RE2 refuses, it means nothing.

RE2 follows all ways through a pattern at once: it takes a step for each of them at each byte. A repeated search may
also read the same bytes for match after match: it reads beyond a match where a longer one might begin like it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import lru_cache
from math import inf, prod
from typing import Final

STEPS_AT_ONCE: Final = 100_000_000
"""The steps that are taken together without a look at an interruption: 0.2 s. A step takes about 2 ns at most."""

ROW_STEPS: Final = 200_000
"""The most steps for a row where DuckDB computes it among 2,048 rows, which nothing can interrupt: 1 s for all rows. It
is 4 s where each byte is in a new state of the pattern, which DuckDB's RE2 then makes. All calls of a statement share
the steps.
"""

SHARED_STEPS: Final = "shared_steps()"
"""The steps of a call for a row, in SQL."""

SHARED: Final = r"shared_(?:steps\(\)|bytes\([^)]*\))"
"""A pattern for `SHARED_STEPS` and `shared_bytes`."""

SEARCH_STEPS: Final = 2_500_000_000
"""The most steps of one search, which nothing can interrupt: 5 s."""

COMPILED: Final = 200
"""The steps to compile an instruction."""
_TOKEN: Final = re.compile(
    r"(?P<quoted>\\Q(?:(?!\\E).)*(?:\\E|$))"
    r"|(?P<class>\[\^?\]?(?:\[:\^?\w+:\]|\\.|[^\]\\])*\])"
    r"|(?P<property>\\[pP](?:\{[^}]*\}|.))"
    r"|(?P<place>\\[AzbB]|[\^$])"
    r"|(?P<known>\\[dDwWsS]|\.)"
    r"|(?P<byte>\\C)"
    r"|(?P<character>\\x\{[0-9A-Fa-f]+\}|\\x[0-9A-Fa-f]{2}|\\[0-7]{1,3}|\\.)"
    r"|(?P<open>\((?:\?P?<[^>]*>)?(?!\?))"
    r"|(?P<flags>\(\?(?P<on>[a-zA-Z]*)(?P<off>-[a-zA-Z]*)?(?P<ends>[:)]))"
    r"|(?P<close>\))"
    r"|(?P<or>\|)"
    r"|(?P<times>[*+?]|\{(?P<least>\d+)(?:(?P<to>,)(?P<most>\d*))?\})\??"
    r"|(?P<other>.)",
    re.DOTALL,
)
_MOST_REPEATED: Final = 1_000
"""RE2 refuses a pattern that repeats something more often."""

_ROUGH: Final = 16
"""No character of a pattern has more steps or instructions, but for those of Unicode's properties."""
_LARGE: Final = re.compile(r"\\[pP]|\[:\^")
_TIMES: Final = re.compile(r"[{,](\d+)(?=[,}])")

_ANY: Final = 6
"""The steps of a class of characters beyond ASCII at a byte."""
_PROPERTY: Final = 20
_PROPERTY_SIZE: Final = 1_000
_FEW: Final = 12
"""RE2 knows all states of a pattern of so few characters after a while, and then takes one step for a byte."""
_FEW_SIZE: Final = 150
_FEW_STEPS: Final = 4
"""The steps at a byte where it knows them and is asked for no groups: it may read a text forward and backward."""

_MATCH: Final = 10
"""The steps for a match of a repeated search, beside those at its bytes. Where all characters match, they are 50."""

_GROUPS: Final = 16
"""So many groups make a step twice as long: RE2 copies their places."""

_MOST_EARLY: Final = 400_000
"""The instructions that leave room in RE2 for those of the text's end at each character."""


@dataclass(frozen=True, slots=True)
class PatternCost:
    """The steps for each byte of a text in one search, and the instructions of the compiled pattern. A repeated search
    reads up to `overrun` characters in vain for each character of a match, with `again` steps for each. With `in_bytes`
    a match may begin or end inside of a character beyond ASCII. A pattern that `consumes` has no empty match, and no
    signs for places, such as `^`. Behind `ended`, which is the pattern, more signs may follow.

    `early` also matches what may become a match behind the text's end, up to there: at each place it takes the text's
    end for the rest. It finds a match that ends before the text's end if, and only if, the pattern finds it however the
    text goes on. None where RE2 might refuse it as too large.
    """

    steps: int
    size: int
    overrun: float
    again: int
    groups: int
    in_bytes: bool
    consumes: bool
    ended: str
    early: str | None
    row_steps: int
    """As `steps`, after many rows."""
    match_steps: float
    """The most steps for the matches of a repeated search, for each byte."""
    needed: frozenset[str]
    """Characters that each match has: there are no more matches than any of them in a text."""

    @property
    def compiled(self) -> int:
        """The steps to compile the pattern. RE2 gives up on a large one."""
        return min(COMPILED * self.size, STEPS_AT_ONCE)

    def search(self, size: float) -> float:
        """The steps of one search in a text of so many bytes."""
        return size * self.steps

    def longest(self, steps: float, overrun: float) -> int:
        """The bytes of the longest text that takes no more steps, where a search reads so many in vain."""
        return _longest(steps, self.steps, self.again, overrun)

    def shared_bytes(self, *, repeated: bool) -> str:
        """The bytes of the longest text of a row that takes no more than `SHARED_STEPS`, in SQL. It is a number by the
        time that DuckDB reads it, as thousands of such calls would be long to plan.
        """
        steps = self.row_steps + repeated * self.match_steps
        return f"shared_bytes({steps}, {self.again}, {self.overrun if repeated else 0})"


def shared(sql: str, steps: int) -> str:
    """What matches `SHARED`, if so many steps are a call's."""
    if sql == SHARED_STEPS:
        return f"{steps}e0"
    at_byte, again, overrun = map(float, sql[sql.index("(") + 1 : -1].split(","))
    return str(_longest(steps, at_byte, again, overrun))


def _longest(steps: float, at_byte: float, again: float, overrun: float) -> int:
    half = at_byte / (2 * again)
    return int(max(steps / (at_byte + overrun * again), (steps / again + half**2) ** 0.5 - half))


def rough_steps(pattern: str) -> float:
    """A bound on the steps at a byte and on the instructions, without reading the pattern sign by sign."""
    at_character = _PROPERTY_SIZE + _ROUGH if _LARGE.search(pattern) else _ROUGH
    copies = prod(max(float(times), 1) for times in _TIMES.findall(pattern))
    return (len(pattern) + 1) * at_character * copies * (1 + pattern.count("(") / _GROUPS)


@dataclass(slots=True)
class _Part:
    """A part of a pattern. It matches `least` to `most` characters, and always an empty text if it `skips`. In vain it
    reads up to `reach` characters before it may end. `overrun` is the most that choices inside read in vain at their
    ends, and `loop` what its choices may read where something must follow them. `single`: one character in one way.
    """

    steps: int = 1
    size: int = 1
    characters: int = 1
    """Those of the pattern, with all repetitions."""

    least: float = 1
    most: float = 1
    reach: float = 1
    overrun: float = 0
    loop: float = 0
    skips: bool = False
    single: bool = False
    text: str | None = None
    """The part, if it is literal."""
    needed: frozenset[str] = frozenset()
    """Characters that the part always has, in this case of letters."""

    def times(self, least: int, most: float) -> _Part:
        """The part, repeated."""
        copies = int(most) if 0 < most < inf else max(least, 1)
        more = 0 if least == most else 2
        again = self.loop if copies > 1 or most == inf else 0
        part = _Part(
            steps=(self.steps + more) * copies,
            size=(self.size + more) * copies,
            characters=self.characters * copies,
            least=self.least * least,
            most=self.most * most if self.most and most else 0,
            reach=(least - 1) * self.most + self.reach if least > 1 else self.reach * least,
            overrun=self.overrun if self.skips else max(self.overrun, again),
            loop=self.loop,
            skips=not least or self.skips,
            needed=self.needed if least else frozenset(),
        )
        if self.single:
            part.reach = least
        elif least != most:
            part.overrun = max(part.overrun, self.reach)
            part.loop = max(part.loop, part.most)
        return part


def _sequence(parts: list[_Part]) -> _Part:
    if len(parts) == 1:
        return parts[0]
    last = max((at for at, part in enumerate(parts) if not part.skips), default=-1)
    before = parts[: max(last, 0)]
    texts = [part.text for part in parts]
    return _Part(
        steps=sum(part.steps for part in parts),
        size=sum(part.size for part in parts),
        characters=sum(part.characters for part in parts),
        least=sum(part.least for part in parts),
        most=sum(part.most for part in parts),
        reach=sum(part.most for part in before) + parts[last].reach if last >= 0 else 0,
        overrun=max([*(part.overrun for part in parts), *(part.loop for part in before)], default=0),
        loop=max((part.loop for part in parts), default=0),
        skips=last < 0,
        text=None if None in texts else "".join(text or "" for text in texts),
        needed=frozenset().union(*(part.needed for part in parts)),
    )


def _choice(branches: list[_Part]) -> _Part:
    if len(branches) == 1:
        return branches[0]
    steps = 2 * len(branches) + sum(part.steps for part in branches)
    texts = [part.text for part in branches]
    if None not in texts:
        # RE2 takes common beginnings together, and from each place of the text at most one way goes on.
        firsts = len({text[:1] for text in texts if text})
        steps = min(steps, 4 * max(part.steps for part in branches) + 2 * firsts)
    reach = max(part.reach for part in branches)
    single = all(part.single for part in branches)
    return _Part(
        steps=steps,
        size=sum(part.size + 1 for part in branches),
        characters=sum(part.characters for part in branches),
        least=min(part.least for part in branches),
        most=max(part.most for part in branches),
        reach=reach,
        overrun=0 if single else max(reach, *(part.overrun for part in branches)),
        loop=max(part.loop for part in branches),
        skips=any(part.skips for part in branches),
        single=single,
        needed=branches[0].needed.intersection(*(part.needed for part in branches)),
    )


@dataclass(slots=True)
class _Level:
    """An open group, or the whole pattern."""

    captures: bool = False
    branches: list[_Part] = field(default_factory=list)
    parts: list[_Part] = field(default_factory=list)

    def end_branch(self) -> None:
        self.branches.append(_sequence(self.parts))
        self.parts = []

    def closed(self) -> _Part:
        self.end_branch()
        part = _choice(self.branches)
        part.text = None
        part.steps += 2 * self.captures
        part.size += 2 * self.captures
        return part


class _Reader:
    """Reads one pattern, sign by sign."""

    def __init__(self) -> None:
        self._levels = [_Level()]
        self._groups = 0
        self._early: list[str] = []
        self._has_places = self._is_uneven = self._has_choice = self._skips_again = False
        """A flag that changes letters is on in a part only. There is a choice. What is repeated may match nothing."""
        self._flags: set[str] = set()
        """The flags that are on anywhere."""
        self._in_bytes = False
        self._end = ""
        """The sign that ends quoted characters where the pattern does not."""

    def read(self, pattern: str) -> PatternCost:
        for token in _TOKEN.finditer(pattern):
            self._take(token)
        while len(self._levels) > 1:
            self._close()
        whole = self._levels[0].closed()
        steps = max(whole.steps, 1) * (_GROUPS + self._groups) // _GROUPS
        is_few = whole.characters <= _FEW
        is_known = is_few and whole.size <= _FEW_SIZE and not self._groups
        return PatternCost(
            steps=steps,
            size=whole.size,
            overrun=whole.overrun / max(whole.least, 1),
            again=1 if is_few else steps,
            groups=self._groups,
            in_bytes=self._in_bytes,
            consumes=whole.least > 0 and not self._has_places,
            ended=pattern + self._end,
            early="".join(self._early) if self._can_be_early(whole) else None,
            row_steps=min(steps, _FEW_STEPS) if is_known else steps,
            match_steps=_MATCH / max(whole.least, 1),
            needed=whole.needed,
        )

    def _can_be_early(self, whole: _Part) -> bool:
        """RE2 has faults that a pattern and its early form do not share. In a choice of letters, it forgets the other
        case of one that is there already. It may prefer other ways through what matches nothing again and again.
        """
        is_small = whole.size + 2 * whole.characters <= _MOST_EARLY
        return is_small and not (self._is_uneven and self._has_choice) and not self._skips_again

    def _take(self, token: re.Match[str]) -> None:
        level = self._levels[-1]
        match token.lastgroup:
            case "open":
                self._groups += 1
                self._levels.append(_Level(captures=True))
            case "flags":
                self._flags.update(token["on"])
                is_first = token["ends"] == ")" and self._levels == [_Level()]
                self._is_uneven |= not is_first and "i" in token.group()
                if token["ends"] == ":":
                    self._levels.append(_Level())
            case "close":
                self._close()
            case "or":
                self._has_choice = True
                level.end_branch()
            case "times":
                if level.parts:
                    least, most = _times(token)
                    self._skips_again |= most == inf and not level.parts[-1].least
                    level.parts.append(level.parts.pop().times(least, most))
            case "place":
                self._has_places = True
                self._in_bytes |= token.group() == r"\B"
                self._early.append(_or_end(token.group()))
                level.parts.append(_Part(characters=0, least=0, most=0, reach=0))
                return
            case kind:
                self._sign(kind, token.group())
                return
        self._early.append(token.group())

    def _sign(self, kind: str | None, sign: str) -> None:
        """A sign that stands for a character, or for several."""
        match kind:
            case "quoted":
                self._end = "" if sign.endswith(r"\E") else r"\E"
                for character in sign[2:].removesuffix(r"\E"):
                    self._character(re.escape(character), character)
            case "byte":
                self._in_bytes = True
                self._one(r"\C", 1, 1)
            case "class":
                steps = len(sign) if sign.isascii() and sign[1] != "^" else len(sign) + _ANY
                more = len(re.findall(r"\\[pP]|\[:\^", sign))
                self._one(sign, steps + more * _PROPERTY, steps + more * _PROPERTY_SIZE)
            case "property":
                self._one(sign, _PROPERTY, _PROPERTY_SIZE)
            case "known":
                self._one(sign, _ANY, 2 * _ANY)
            case "character":
                self._character(sign, sign)
            case _:
                self._character(re.escape(sign) if sign.isascii() else sign, sign)

    def _one(self, item: str, steps: int, size: int) -> None:
        """One character of several."""
        self._early.append(_or_end(item))
        self._levels[-1].parts.append(_Part(steps, size, single=True))

    def _character(self, item: str, text: str) -> None:
        self._early.append(_or_end(item))
        steps = max(len(text.encode("utf-8", "replace")) if len(text) == 1 else 4, 2 * ("i" in self._flags))
        needed = frozenset() if "i" in self._flags else _needed(text)
        self._levels[-1].parts.append(_Part(steps, steps, single=True, text=text, needed=needed))

    def _close(self) -> None:
        if len(self._levels) > 1:
            part = self._levels.pop().closed()
            self._levels[-1].parts.append(part)


def _needed(sign: str) -> frozenset[str]:
    """The character that a sign stands for; none for a number or a letter behind a backslash."""
    character = sign.removeprefix("\\") or sign
    is_itself = len(character) == 1 and (character == sign or not character.isalnum())
    return frozenset(character) if is_itself else frozenset()


def _or_end(item: str) -> str:
    return rf"(?:{item}|\z)"


def _times(token: re.Match[str]) -> tuple[int, float]:
    if token["least"] is None:
        return {"*": (0, inf), "+": (1, inf), "?": (0, 1)}[token["times"]]
    least = min(int(token["least"]), _MOST_REPEATED)
    if token["to"] is None:
        return least, least
    return least, min(int(token["most"]), _MOST_REPEATED) if token["most"] else inf


@lru_cache(maxsize=1_024)
def cost_of(pattern: str) -> PatternCost:
    """The cost of a pattern, with its flags in front."""
    return _Reader().read(pattern)
