"""Terms of a join's condition: the side that a term reads, and the values of both sides that it compares."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from .. import ir
from ..ir.boolean import conjuncts
from ..ir.types import required
from ..ir.visit import is_column, parts, with_positions
from .sliced_columns import sliced_column

Side: TypeAlias = Literal["left", "right"]

_NULLS_MATCH: Final = {"equal": False, "is_not_distinct_from": True}
_OPERANDS: Final = 2


@dataclass(frozen=True, slots=True, eq=False)
class Comparison:
    """A term that compares a value of the left row with a value of the right row. The right value's columns count from
    the right side's first.
    """

    term: ir.Call
    left: ir.Expression
    right: ir.Expression
    turned: bool
    """True if the right row's value is the first operand."""

    @property
    def of_one_type(self) -> bool:
        return required(self.left.type) == required(self.right.type)

    @property
    def nulls_match(self) -> bool:
        """Of an equality, whether a null is equal to a null."""
        return _NULLS_MATCH[self.term.function.name]

    @property
    def columns(self) -> tuple[int, int] | None:
        """The positions of the values in their sides, if both are whole columns."""
        if is_column(self.left) and is_column(self.right):
            return self.left.index, self.right.index
        return None


def side_of(expression: ir.Expression, width: int) -> Side | None:
    """The side that an expression over both rows reads, if it reads only one. The left row has `width` columns."""
    used: set[bool] = set()
    for part in parts(expression):
        if isinstance(part, ir.Subquery | ir.ContextVariable):
            return None
        if isinstance(part, ir.Field) and not part.outer:
            used.add(part.index < width)
    if len(used) != 1:
        return None
    return "left" if used.pop() else "right"


def comparison(term: ir.Expression, width: int) -> Comparison | None:
    """The term as a comparison, if it compares a value of each side."""
    if not isinstance(term, ir.Call) or not term.function.urn.endswith("functions_comparison"):
        return None
    if len(term.arguments) != _OPERANDS:
        return None
    one, other = term.arguments
    if isinstance(one, str) or isinstance(other, str):
        return None
    match side_of(one, width), side_of(other, width):
        case "left", "right":
            turned = False
        case "right", "left":
            one, other, turned = other, one, True
        case _:
            return None
    return Comparison(term, one, with_positions(other, lambda at: at - width), turned)


def equality(term: ir.Expression, width: int) -> Comparison | None:
    """The term as a comparison, if it says that a value of each side must be equal."""
    compared = comparison(term, width)
    return compared if compared is not None and compared.term.function.name in _NULLS_MATCH else None


def equal_columns(condition: ir.Expression | None, width: int) -> list[tuple[int, int]]:
    """The pairs of columns, left and right, that have to be equal for two rows to match."""
    equalities = (equality(term, width) for term in conjuncts(condition)) if condition is not None else ()
    return [pair.columns for pair in equalities if pair is not None and pair.columns is not None]


def equal_moments(condition: ir.Expression | None, width: int) -> list[tuple[int, int]]:
    """The pairs of columns, left and right, that have to be equal, or whose slices of one unit have to be, for two rows
    to match: so joins compare times.
    """
    equalities = (equality(term, width) for term in conjuncts(condition)) if condition is not None else ()
    pairs = (_moments(pair) for pair in equalities if pair is not None)
    return [pair for pair in pairs if pair is not None]


def _moments(pair: Comparison) -> tuple[int, int] | None:
    if pair.columns is not None:
        return pair.columns
    left, right = sliced_column(pair.left), sliced_column(pair.right)
    if left is None or right is None or left.slices != right.slices or left.size != 1:
        return None
    same = required(left.column.type) == required(right.column.type)
    return (left.column.index, right.column.index) if same else None
