"""The reach of a window function: which other rows an answer depends on."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Final

from .. import ir
from ..functions.templates.window_functions import RANKING
from ..ir import types as t


class Carry(enum.Enum):
    """The step from the answer of the row before to the next answer, by the function's result over the rows from there
    on.
    """

    ADD = "add"
    LEAST = "least"
    GREATEST = "greatest"
    FIRST = "first"
    LAST_NOT_NULL = "last_not_null"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reaching:
    """The rows on which an answer depends: `before` and `after` rows around it; with `counted` also the number of rows
    before it, and with a `carry` the answer of the row before; or the `whole` partition. With `peers` all rows that are
    equal in the sort columns have one answer.
    """

    whole: bool = False
    before: int = 0
    after: int = 0
    counted: bool = False
    carry: Carry | None = None
    peers: bool = False

    @property
    def distance(self) -> int:
        """The distance to which a change shows: some rows around it (0), all later rows (1) or any row (2)."""
        return 2 if self.whole else int(self.counted or self.carry is not None)

    def going_on(self, answer: str, base: str | None) -> str:
        """SQL for the answer of a row with `before` rows in front of those that the function has seen. The last of
        these rows has the answer `base`.
        """
        if self.counted:
            return f"before + {answer}"
        match self.carry:
            case None:
                return answer
            case Carry.ADD:
                return f"coalesce({base} + {answer}, {base}, {answer})"
            case Carry.LEAST | Carry.GREATEST:
                return f"{self.carry.value}({base}, {answer})"
            case Carry.FIRST:
                return f"CASE WHEN before > 0 THEN {base} ELSE {answer} END"
            case Carry.LAST_NOT_NULL:
                return f"coalesce({answer}, {base})"


_RUNNING: Final = {
    "count": Carry.ADD,
    "sum": Carry.ADD,
    "min": Carry.LEAST,
    "max": Carry.GREATEST,
    "first_value": Carry.FIRST,
    "last_not_null": Carry.LAST_NOT_NULL,
}
_FRAMED: Final = frozenset({*_RUNNING, "avg", "avg_cut", "last_value", "nth_value"})
"""Functions that give the same result however their frames are put together."""
_ADDED: Final = frozenset({"sum", "avg", "avg_cut"})
_MOST: Final = 1 << 20
"""The largest limited frame, in rows. A larger frame is as good as a whole partition."""


def reaching(call: ir.WindowCall) -> Reaching:
    """The reach of a call: the whole partition if any other row, or the way in which rows are put together, may make a
    difference.
    """
    return _near(call) or Reaching(whole=True, peers=_by_peers(call))


def _by_peers(call: ir.WindowCall) -> bool:
    if call.function.name in RANKING:
        return call.function.name in ("rank", "dense_rank", "percent_rank", "cume_dist")
    everything = call.lower.offset is None and call.upper.offset is None
    return call.bounds is not ir.BoundsKind.ROWS and not everything


def _near(call: ir.WindowCall) -> Reaching | None:
    name = call.function.name
    if call.distinct:
        return None
    match name:
        case "row_number":
            return Reaching(counted=True)
        case "rank" if call.sorts:
            return Reaching(counted=True, peers=True)
        case "dense_rank" if call.sorts:
            return Reaching(carry=Carry.ADD, peers=True)
        case "lag" | "lead":
            return _shifted(call)
        case _ if name in _FRAMED and _is_exact(call):
            return _framed(call)
        case _:
            return None


def _shifted(call: ir.WindowCall) -> Reaching | None:
    offset = 1
    if len(call.arguments) > 1:
        argument = call.arguments[1]
        match argument.operand if isinstance(argument, ir.Cast) else argument:
            case ir.Literal(value=int(value)):
                offset = value
            case _:
                return None
    if abs(offset) > _MOST:
        return None
    if call.function.name == "lead":
        offset = -offset
    return Reaching(before=max(offset, 0), after=max(-offset, 0))


def _framed(call: ir.WindowCall) -> Reaching | None:
    lower, upper, name = call.lower.offset, call.upper.offset, call.function.name
    if lower is None and upper == 0 and name in _RUNNING:
        if name == "first_value":
            return Reaching(carry=Carry.FIRST)
        if call.bounds is ir.BoundsKind.ROWS:
            return Reaching(carry=_RUNNING[name])
        # Without an order all rows are peers.
        return Reaching(carry=_RUNNING[name], peers=True) if call.sorts else None
    if call.bounds is not ir.BoundsKind.ROWS or not isinstance(lower, int) or not isinstance(upper, int):
        return None
    if max(abs(lower), abs(upper)) > _MOST:
        return None
    return Reaching(before=max(-lower, -upper, 0), after=max(lower, upper, 0))


def _is_exact(call: ir.WindowCall) -> bool:
    """Tests whether a sum does not depend on the order, and is added up to the end."""
    if call.function.name not in _ADDED:
        return True
    argument = next(value for value in call.arguments if not isinstance(value, str))
    exact = isinstance(argument.type, t.Integer | t.Decimal)
    return exact and call.options.get("overflow", ("ERROR",))[:1] == ("ERROR",)
