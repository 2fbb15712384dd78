"""Loops.

Loops are told apart by their numbers, which no two loops of a plan share; names are for people. A reference stands in
the body of the loop that it means, which may be inside of other loops' bodies.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .relations import Schema

if TYPE_CHECKING:
    from .relation import Relation


class AtLimit(enum.Enum):
    """What happens where one round more than there may be would still change something."""

    ERROR = "error"
    RETURN = "return"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Iterate:
    """With X(0) = nothing and X(k+1) = `input` + `body` over references that read X(k), rows counted: the X that no
    longer changes, in canonical order (all columns ascending, nulls last). Without an `input` nothing enters. Where
    there are `max_rounds`, X(max_rounds) is the last one.
    """

    loop: int
    name: str
    body: Relation
    input: Relation | None
    max_rounds: int | None
    at_limit: AtLimit
    schema: Schema
    place: str


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Reference:
    """What came back to the loop of this number. Only inside of its body."""

    loop: int
    name: str
    schema: Schema
    place: str


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Recursion:
    """An `Iterate` that one recursive statement computes. Its body is the distinct rows of `base` and of `steps`; each
    of these reads one reference, once, and takes rows from it through filters, projections and inner joins alone.
    Where its rows, counted, are more than `max_rows` it fails.
    """

    loop: int
    name: str
    base: tuple[Relation, ...]
    steps: tuple[Relation, ...]
    input: Relation | None
    max_rows: int
    schema: Schema
    place: str


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LoopInput:
    """Rows of a `Rounds`' input number `port`. Only inside of it."""

    port: int
    schema: Schema
    place: str


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Rounds:
    """An `Iterate` that goes round by round, over what has changed: `iterate`'s body and input read `inputs` as
    `LoopInput`s, and nothing else that is outside of it. `why` says why no recursive statement computes it. Where its
    rows, counted, are more than `max_rows` it fails, or where it takes more than `max_seconds`, if these are not 0.
    """

    inputs: tuple[Relation, ...]
    iterate: Iterate
    why: str
    max_rows: int
    max_seconds: float
    schema: Schema
    place: str
