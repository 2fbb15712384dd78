"""A relation as an item of a FROM clause: a SELECT under an alias of its own, its columns called c0, c1, ..."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple


class Direct(NamedTuple):
    """An input of the statement, and those of its columns that a SELECT has."""

    name: str
    columns: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A SELECT under an alias. `select` has one column per column of the relation, or a single NULL column if the
    relation has none, because SQL knows no rows without columns. No two tables of a statement share an alias, so no
    name hides another. Where the SELECT has columns of an input and nothing else, the table is the input itself: DuckDB
    takes the second power of the columns to plan each SELECT.
    """

    select: str
    alias: str
    width: int
    direct: Direct | None = None

    @property
    def item(self) -> str:
        """The item of the FROM clause."""
        if self.direct is not None:
            return f"{self.direct.name} AS {self.alias}"
        names = ", ".join(f"c{index}" for index in range(max(self.width, 1)))
        return f"({self.select}) AS {self.alias}({names})"

    @property
    def columns(self) -> tuple[str, ...]:
        """The table's columns under the names that the rest of the SELECT uses."""
        names = self.direct.columns if self.direct is not None else (f"c{index}" for index in range(self.width))
        return tuple(f"{self.alias}.{name}" for name in names)

    @property
    def with_a_column(self) -> Table:
        """The rows of a table without columns, with the column of its SELECT."""
        return replace(self, width=1, direct=None)


def numbered(aliases: Iterator[int], select: str, width: int, direct: Direct | None = None) -> Table:
    """A table under the next of these aliases."""
    return Table(select=select, alias=f"r{next(aliases)}", width=width, direct=direct)


def gathered(select: str) -> str:
    """The SELECT's rows, gathered in a table before anything reads them.

    Where four or more pipelines feed a window with partitions (files of several schemas, parts of files, a union), each
    reserves memory. A join above it gets too little then, and the order of its rows is another one in every run.
    """
    return f"WITH gathered AS MATERIALIZED ({select}) SELECT * FROM gathered"


def group_by(positions: Iterable[int]) -> str:
    """The GROUP BY of columns of the SELECT, counted from 0; nothing if there are none.

    They are one grouping set in brackets: DuckDB's parser compares keys in a list without brackets in pairs.
    """
    keys = ", ".join(str(position + 1) for position in positions)
    return f" GROUP BY ({keys})" if keys else ""


def select_list(columns: Iterable[str]) -> str:
    """The columns of a SELECT; a NULL if there are none."""
    return ", ".join(columns) or "NULL"
