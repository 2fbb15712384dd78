"""The ordered form of a fragment, made at its first use: most fragments never need one."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, overload

from ...proto.errors import PlanError, Problem
from .. import ir
from ..analysis.join_terms import equal_columns
from ..analysis.recursions import steady
from ..ir import tree
from ..ir.visit import parts
from .ordered_form import ordered

Render = Callable[[ir.Relation, Sequence[ir.Relation]], str]


@dataclass(frozen=True, slots=True)
class WrittenForm:
    """An ordered form that is written out already, or that does not exist (`refused`)."""

    joins: tuple[str, ...]
    builds: bool | None
    text: str
    refused: tuple[Problem, ...] = ()

    @property
    def sql(self) -> str:
        if self.refused:
            raise PlanError(*self.refused)
        return self.text


class OrderedForm:
    """The ordered form of a fragment. `render` writes a relation and the plan's common subtrees as the fragment's own
    statement was written.
    """

    def __init__(
        self, root: ir.Relation, shared: Sequence[ir.Relation], ends: Container[ir.Relation], render: Render
    ) -> None:
        self._root = root
        self._shared = shared
        self._ends = ends
        self._render = render

    @cached_property
    def sql(self) -> str:
        """The statement with the same rows over the same inputs, in an order that does not depend on the order in which
        joins hand out rows. Raises `PlanError` if there is no such statement.
        """
        return self._render(ordered(self._root, self._ends), _Definitions(self._shared, self._ends))

    @cached_property
    def joins(self) -> tuple[str, ...]:
        """The plan paths where the fragment joins, or makes DuckDB join."""
        return tuple(dict.fromkeys(relation.plan_path for relation in self._own() if _joins(relation)))

    @cached_property
    def builds(self) -> bool | None:
        """Tests whether DuckDB builds a hash table to join with. None if DuckDB must be asked, because the fragment
        makes DuckDB add joins.
        """
        own = list(self._own())
        if any(isinstance(part, ir.Join) and equal_columns(part.condition, len(part.left.schema)) for part in own):
            return True
        return None if any(not _reads_once(part) for part in own) else False

    def __reduce__(self) -> tuple[type[WrittenForm], tuple[Any, ...]]:
        """The form written out, for another process. The form's own parts are known by identity, which another process
        does not share.
        """
        try:
            return WrittenForm, (self.joins, self.builds, self.sql)
        except PlanError as error:
            return WrittenForm, (self.joins, self.builds, "", error.problems)

    def _own(self) -> Iterator[ir.Relation]:
        """The fragment's own relations, without a loop's steps: a loop sorts its rows, in whatever order the steps find
        them.
        """
        seen: set[int] = set()
        root = self._root
        stack: list[ir.Relation] = list(steady(root)) if isinstance(root, ir.Recursion) else [root]
        while stack:
            relation = stack.pop()
            if relation is not self._root and relation in self._ends:
                continue
            yield relation
            if isinstance(relation, ir.Shared) and relation.ordinal not in seen:
                seen.add(relation.ordinal)
                stack.append(self._shared[relation.ordinal])
            inner = [part.relation for part in _parts(relation) if isinstance(part, ir.Subquery)]
            stack.extend(reversed((*tree.inputs(relation), *inner)))


class _Definitions(Sequence[ir.Relation]):
    """The common subtrees, each put in order at its use."""

    def __init__(self, shared: Sequence[ir.Relation], ends: Container[ir.Relation]) -> None:
        self._shared = shared
        self._ends = ends
        self._made: dict[int, ir.Relation] = {}

    @overload
    def __getitem__(self, at: int) -> ir.Relation: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[ir.Relation]: ...
    def __getitem__(self, at: int | slice) -> ir.Relation | Sequence[ir.Relation]:
        if isinstance(at, slice):
            return [self[number] for number in range(len(self))[at]]
        if at not in self._made:
            definition = self._shared[at]
            read_as_is = definition in self._ends  # rows that come from elsewhere are in order already
            self._made[at] = definition if read_as_is else ordered(definition, self._ends)
        return self._made[at]

    def __len__(self) -> int:
        return len(self._shared)


def _joins(relation: ir.Relation) -> bool:
    match relation:
        case ir.Join() | ir.LateralJoin() | ir.Cross():
            return True
        case ir.Set():
            return relation.operation not in (ir.SetOperation.UNION_ALL, ir.SetOperation.UNION_DISTINCT)
        case _:
            return any(isinstance(part, ir.Subquery) for part in _parts(relation))


def _reads_once(relation: ir.Relation) -> bool:
    """Tests whether DuckDB surely joins nothing for the relation: neither for its kind, nor for its expressions."""
    match relation:
        case ir.Read() | ir.LocalFiles() | ir.Filter() | ir.Project() | ir.Expand():
            pass
        case ir.Aggregate() | ir.PartialAggregate() | ir.FinalAggregate():
            pass
        case ir.SlidingAggregate() | ir.FinalSlidingAggregate():
            pass
        case _:
            return False
    return not any(isinstance(part, ir.Subquery | ir.OneOf) for part in _parts(relation))


def _parts(relation: ir.Relation) -> Iterator[ir.Expression]:
    return (part for expression in tree.expressions(relation) for part in parts(expression))
