"""Rewrites subqueries and lateral joins as joins, which work on changes.

A relation whose expressions have subqueries becomes one without: each subquery is a column of its input, or, where a
filter asks for it alone, a join that filters. A subquery that looks at the row around it is first pulled apart
(`pulling`): its conditions on pairs of rows are the join's.

- EXISTS, IN, ANY: a mark join; a semi or an anti join as a filter's term. ALL is that no row is otherwise.
- A scalar: a cross join where there is exactly one row, else a single join; an aggregate that looks at the row around
  it is grouped by what it has to be equal to, and joined from the left: a row without a group gets what the aggregate
  says of no rows. As a term of a filter that a null does not pass, the comparison is the join's own condition, so that
  an equality with a scalar is looked up and not tried on all rows.
"""

from __future__ import annotations

from .pulling import CannotPull, needs_rewriting
from .unnest_relations import Unnesting

__all__ = ["CannotPull", "Unnesting", "needs_rewriting"]
