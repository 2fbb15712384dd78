"""The basis of the choices: the plan's facts, the rows of its sources, and the options."""

from __future__ import annotations

from collections.abc import Collection, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

from ...operators.core.column import Slices
from .. import ir
from ..analysis.facts import FactTable
from ..ir.visit import beneath, relations
from ..ir.walk import unroll
from .origins import Key


@dataclass(frozen=True, slots=True, kw_only=True)
class Spreading:
    """The basis of the choices: the plan, its sources' rows, the options.

    `kept` are relations computed once for the task; every channel reads them. `keys` are the columns by which
    sources may be cut, with the number of their ranges; a source is cut if `clustered` has the column, and a source
    with a declared order only if `rising` has it. It is cut between slices of a column if `sliced` has both. Several
    channels have to save `least_saved` nanoseconds by the estimates. `ranges` says that sorted rows can be cut into
    ranges. `bytes` are those of each source's rows, where they are known.
    """

    channels: int
    rows: Mapping[str, int]
    facts: FactTable
    shared: Sequence[ir.Relation]
    kept: Mapping[ir.Relation, str] = field(default_factory=dict)
    broadcast: Collection[str] = ()
    least_saved: float = 0.0
    ranges: bool = False
    bytes: Mapping[str, int] = field(default_factory=dict)
    keys: Mapping[Key, int] = field(default_factory=dict)
    clustered: Mapping[str, Collection[str]] = field(default_factory=dict)
    rising: Mapping[str, Collection[str]] = field(default_factory=dict)
    sliced: Mapping[str, Collection[tuple[str, Slices]]] = field(default_factory=dict)

    def rows_below(self, relation: ir.Relation) -> float:
        """The number of rows of all sources that the relation reads."""
        reads = (visited for visited in relations(relation) if isinstance(visited, ir.Read | ir.LocalFiles))
        return float(sum(self.rows[read.source] for read in reads))


class _Named(Enum):
    """The part of a relation's sources that the option `broadcast` names. Two relations together have the greater
    value.
    """

    NOTHING = 0
    """The relation reads no source."""
    ALL = 1
    NOT_ALL = 2


class Broadcasts:
    """Tests whether the option `broadcast` names every source that a relation reads."""

    def __init__(self, sources: Collection[str]) -> None:
        self._sources = sources
        self._named: dict[ir.Relation, _Named] = {}

    def __call__(self, relation: ir.Relation) -> bool:
        return bool(self._sources) and unroll(self._step, relation) is _Named.ALL

    def _step(self, relation: ir.Relation) -> Generator[ir.Relation, _Named, _Named]:
        known = self._named.get(relation)
        if known is not None:
            return known
        answer = _Named.NOTHING
        if isinstance(relation, ir.Read | ir.LocalFiles):
            answer = _Named.ALL if relation.source in self._sources else _Named.NOT_ALL
        for child in beneath(relation):
            answer = max(answer, (yield child), key=lambda named: named.value)
        self._named[relation] = answer
        return answer
