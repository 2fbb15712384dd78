"""Rewrites subqueries and lateral joins as joins, which work on changes.

A relation whose expressions have subqueries becomes a relation without subqueries: each subquery is a column of the
relation's input, or, if it is a whole term of a filter, a join that filters. A subquery that reads an enclosing row is
first pulled apart (`pulling`): its conditions on pairs of rows become the join's conditions.

- EXISTS, IN and ANY become a mark join; as a filter's term they become a semi or an anti join. ALL means that no row
  contradicts the comparison.
- A scalar becomes a cross join if it has exactly one row, else a single join. An aggregate that reads an enclosing row
  is grouped by the values that have to equal values of that row, and joined from the left: a row without a group gets
  the aggregate's value for no rows. In a term of a filter that a null does not pass, the comparison becomes the join's
  own condition, so that an equality with a scalar is a look-up, not a test of all rows.
"""

from __future__ import annotations

from .pulling import CannotPull, needs_rewriting
from .unnest_relations import Unnesting

__all__ = ["CannotPull", "Unnesting", "needs_rewriting"]
