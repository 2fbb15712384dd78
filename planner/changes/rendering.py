"""SQL over changes: renders relations over inputs called in0, in1, ..."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from ...proto.errors import InternalError, PlanError, Problem
from .. import ir
from ..analysis.row_wise import is_row_wise
from ..ir import types as t
from ..sql.select_statement import Statement

NUMBER = t.Integer(bits=64)
"""The type of the column behind a row's own columns: the number of the row, or of the row's key."""


def leaf(schema: ir.Schema, plan_path: str) -> ir.Relation:
    """A relation that stands for an input with these columns."""
    return ir.Values(rows=(), schema=schema, plan_path=plan_path)


def numbered(schema: ir.Schema, plan_path: str) -> ir.Relation:
    """An input with a number behind its columns."""
    return leaf((*schema, NUMBER), plan_path)


def render(root: ir.Relation, inputs: Sequence[ir.Relation]) -> str:
    """One SELECT for `root`, which reads each of `inputs` under the name of its input."""
    return render_with_reads(root, inputs, ())[0]


def render_with_reads(
    root: ir.Relation, inputs: Sequence[ir.Relation], shared: Sequence[ir.Relation]
) -> tuple[str, tuple[int, ...]]:
    """As `render`, and how often the SELECT reads each of the inputs."""
    names = {relation: f"in{number}" for number, relation in enumerate(inputs)}
    leaves = _Inputs(names)
    sql = Statement(leaves, shared).select(root, row_wise=is_row_wise(root, names))
    return sql, tuple(leaves.reads[name] for name in names.values())


class _Inputs:
    """The leaves of such a statement."""

    def __init__(self, names: Mapping[ir.Relation, str]) -> None:
        self._names = names
        self.reads: Counter[str] = Counter()

    def read(self, relation: ir.Read | ir.LocalFiles) -> tuple[str, Sequence[str]]:
        name = self._names.get(relation)
        if name is None:
            raise InternalError(f"{relation.plan_path}: a statement over changes reads a source")
        return name, [f"c{at}" for at in range(len(relation.schema))]

    def edge(self, relation: ir.Relation) -> str | None:
        name = self._names.get(relation)
        if name is not None:
            self.reads[name] += 1
        return name

    def clock(self, variable: ir.Clock) -> str:
        message = (
            f"{variable.value} has another value in every epoch, so the result changes without a change of the "
            "input: pass the time as a value"
        )
        raise PlanError(Problem(place="", reason="CLOCK_OVER_CHANGES", message=message))

    @property
    def reads_clock(self) -> bool:
        return False
