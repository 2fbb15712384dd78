"""Joins of rows whose times are near each other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from ...operators.changes.event_time.interval_closing import IntervalClosing
from . import traits as table
from .expressions import Expression, Field
from .relations import JoinType, Node, Schema
from .traits import Parts

if TYPE_CHECKING:
    from . import Relation


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class IntervalJoin(Node):
    """A join of rows with equal keys whose ticks are near each other. `keys` are pairs of columns, a left one and a
    right one; `marks` are the ticks of a left and of a right row, which are never null. Right columns are counted after
    left columns. `closing` says how far apart ticks may be.

    With `final`, a continuous task leaves late rows out, and gives a row without a match once, when no match can come.
    """

    left: Relation
    right: Relation
    keys: tuple[tuple[Field, Field], ...]
    marks: tuple[Expression, Expression]
    type: JoinType
    closing: IntervalClosing
    final: bool
    schema: Schema
    plan_path: str
    parts: ClassVar = Parts(inputs=("left", "right"), columns=("keys",), expressions=("marks",))
    traits: ClassVar = table.INTERVAL_JOIN


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class AsOfJoin(Node):
    """Each left row with the latest right row of equal keys that is not later, and at most `tolerance` ticks earlier.
    Of right rows of one tick it is the last one in the order of all columns. `keys` and `marks` are as in an
    `IntervalJoin`; the type is inner or left. `closing` says which rows are late.

    With `final`, a continuous task leaves late rows out, and gives each left row once.
    """

    left: Relation
    right: Relation
    keys: tuple[tuple[Field, Field], ...]
    marks: tuple[Expression, Expression]
    type: JoinType
    tolerance: int | None
    closing: IntervalClosing
    final: bool
    schema: Schema
    plan_path: str
    parts: ClassVar = Parts(inputs=("left", "right"), columns=("keys",), expressions=("marks",))
    traits: ClassVar = table.AS_OF_JOIN
