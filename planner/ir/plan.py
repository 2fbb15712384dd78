"""A plan."""

from __future__ import annotations

from dataclasses import dataclass

from ...operators.writing.modes import WriteMode
from .relation import Relation


@dataclass(frozen=True, slots=True, kw_only=True)
class Write:
    """A table into which a plan's rows go. The result has its `columns` under these `names`, and its rows if they are
    `returned`.
    """

    table: tuple[str, ...]
    table_names: tuple[str, ...]
    mode: WriteMode
    columns: tuple[int, ...]
    returned: bool
    place: str
    names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Plan:
    """A decoded plan: `root`'s columns are called `names` (nested names flattened depth first, as in Substrait).

    A relation in `shared` refers only to those before it. Where the rows are written, `names` are the table's.
    """

    root: Relation
    names: tuple[str, ...]
    shared: tuple[Relation, ...] = ()
    producer: str = ""
    write: Write | None = None
