"""A relation as an item of a FROM clause: a SELECT under an alias of its own, its columns called c0, c1, ..."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """`select` has one column per column of the relation, or a single NULL one when the relation has none, because
    SQL knows no rows without columns. No two tables of a statement share an alias, so no name hides another.
    """

    select: str
    alias: str
    width: int

    @property
    def item(self) -> str:
        """What stands in the FROM clause."""
        names = ", ".join(f"c{index}" for index in range(max(self.width, 1)))
        return f"({self.select}) AS {self.alias}({names})"

    @property
    def columns(self) -> tuple[str, ...]:
        """Its columns as the rest of the SELECT calls them."""
        return tuple(f"{self.alias}.c{index}" for index in range(self.width))


def select_list(columns: Iterable[str]) -> str:
    """The columns of a SELECT; a NULL where there are none."""
    return ", ".join(columns) or "NULL"
