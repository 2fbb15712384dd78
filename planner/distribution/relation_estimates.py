"""Estimates the rows of each kind of relation, from the estimates of its inputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import fsum
from typing import assert_never

from ...proto.errors import InternalError
from .. import ir
from .estimates import Estimate, filtered, grouped, joined
from .joins import join_estimate


def own_estimate(  # noqa: C901 (a line per relation)
    relation: ir.Relation, below: Sequence[Estimate], source_rows: Mapping[str, int]
) -> Estimate:
    """The estimate of a relation that may have other rows than its input."""
    if not isinstance(relation, ir.OwnRows):
        raise InternalError(f"{relation.plan_path}: the rows of a {relation.traits.name} are not estimated")
    match relation:
        case ir.Read() | ir.LocalFiles():
            rows = float(source_rows[relation.source])
            return Estimate(rows, rows)
        case ir.Values():
            return Estimate(len(relation.rows), len(relation.rows))
        case ir.Filter():
            return filtered(below[0], relation.condition)
        case ir.Aggregate() | ir.StreamingAggregate():
            return grouped(below[0], relation.keys)
        case ir.SlidingAggregate():
            return grouped(below[0], (relation.slice, *relation.keys))
        case ir.Join() | ir.Cross():
            return join_estimate(relation, below[0], below[1])
        case ir.MergeJoin():
            return joined(relation.type, below[0], below[1], equal=True)
        case ir.Set():
            return Estimate(fsum(part.rows for part in below), max(part.base for part in below))
        case ir.Expand():
            return replace(below[0], rows=below[0].rows * len(relation.alternatives))
        case ir.TopN(count=ir.Literal(value=int(count))) | ir.Fetch(count=ir.Literal(value=int(count))):
            return replace(below[0], rows=min(below[0].rows, float(count)))
        case ir.TopN() | ir.Fetch():
            return below[0]
        case _:
            assert_never(relation)
