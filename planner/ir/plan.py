"""A decoded plan: its root relation, its shared relations, and the tables that it writes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ...operators.writing.modes import WriteMode

if TYPE_CHECKING:
    from . import Relation

MOST_SHARED: Final = 200
"""The most shared relations of a plan. DuckDB's time and memory to plan shared relations in one statement grow with the
square: 200 took 0.6 s and 0.1 GB, 400 took 1.8 to 3.1 s and 0.3 to 0.4 GB.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Write:
    """A table into which a plan's rows are written. The result has the `columns` under these `names`; it has the
    written rows if `returned` is set.
    """

    table: tuple[str, ...]
    table_names: tuple[str, ...]
    mode: WriteMode
    columns: tuple[int, ...]
    returned: bool
    plan_path: str
    names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SideTable:
    """A table that a plan writes beside its result: the rows of the shared relation `ordinal`."""

    ordinal: int
    write: Write


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Plan:
    """A decoded plan: `root`'s columns are called `names` (nested names flattened depth first, as in Substrait).

    A relation in `shared` refers only to relations before it. If the rows are written, `names` are the table's. No
    relation refers to the shared relations of `side_tables`.
    """

    root: Relation
    names: tuple[str, ...]
    shared: tuple[Relation, ...] = ()
    producer: str = ""
    write: Write | None = None
    side_tables: tuple[SideTable, ...] = ()
