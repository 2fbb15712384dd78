"""The relations of loops: the loop, its references, and its form as one recursive statement.

A loop's number identifies it; no two loops of a plan share a number. Names are for people. A reference stands in the
body of the loop that it means, and that body may be inside of other loops' bodies.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from . import traits as table
from .relations import Node, Schema
from .traits import Parts

if TYPE_CHECKING:
    from . import Relation


class AtLimit(enum.Enum):
    """The outcome of a loop that one more round than allowed would still change."""

    ERROR = "error"
    RETURN = "return"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Iterate(Node):
    """A loop to its fixed point.

    With X(0) = nothing and X(k+1) = `input` + `body` over references that read X(k), rows counted, the result is the X
    that no longer changes, in canonical order (all columns ascending, nulls last). Without an `input` no rows enter.
    With `max_rounds`, X(max_rounds) is the last one.
    """

    loop: int
    name: str
    body: Relation
    input: Relation | None
    max_rounds: int | None
    at_limit: AtLimit
    schema: Schema
    plan_path: str
    parts: ClassVar = Parts(inputs=("body", "input"))
    traits: ClassVar = table.ITERATE


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Reference(Node):
    """The rows that came back to the loop of this number. Only inside of that loop's body."""

    loop: int
    name: str
    schema: Schema
    plan_path: str
    parts: ClassVar = Parts()
    traits: ClassVar = table.REFERENCE


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Recursion(Node):
    """An `Iterate` that one recursive statement computes.

    The body is the distinct rows of `base` and of `steps`. Each step reads one reference, once, and takes rows from the
    reference through filters, projections and inner joins alone. The statement fails if the loop has more than
    `max_rows` rows, counted with their copies.
    """

    loop: int
    name: str
    base: tuple[Relation, ...]
    steps: tuple[Relation, ...]
    input: Relation | None
    max_rows: int
    schema: Schema
    plan_path: str
    parts: ClassVar = Parts(inputs=("base", "steps", "input"))
    traits: ClassVar = table.RECURSION


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LoopInput(Node):
    """The rows of a `Rounds`' input number `port`. Only inside of that `Rounds`."""

    port: int
    schema: Schema
    plan_path: str
    parts: ClassVar = Parts()
    traits: ClassVar = table.LOOP_INPUT


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Rounds(Node):
    """An `Iterate` that runs round by round over the rows that changed.

    `iterate`'s body and input read `inputs` as `LoopInput`s, and nothing else from outside of the loop. `why` gives the
    reason why no recursive statement computes the loop. The loop fails if it has more than `max_rows` rows, counted
    with their copies, or takes more than `max_seconds`; 0 is no limit.
    """

    inputs: tuple[Relation, ...]
    iterate: Iterate
    why: str
    max_rows: int
    max_seconds: float
    schema: Schema
    plan_path: str
    parts: ClassVar = Parts(inputs=("inputs",))
    traits: ClassVar = table.ROUNDS
