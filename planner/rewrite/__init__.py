"""Rewrites plans that DuckDB alone would run badly, because it sees one fragment at a time. One pure function a file;
`REWRITES` has their order.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from .. import ir
from .common_subtrees import share_common_subtrees
from .expand_windows import expand_windows
from .join_laterals import join_laterals
from .limits_before_long_values import limit_before_long_values
from .prune_columns import prune_columns
from .reduce_aggregates import reduce_aggregates
from .repeated_filters import drop_repeated_filters
from .split_expressions import split_expressions
from .time_windows import end_windows_at_barriers

REWRITES: Final[tuple[Callable[[ir.Plan], ir.Plan], ...]] = (
    end_windows_at_barriers,
    expand_windows,
    join_laterals,
    drop_repeated_filters,
    limit_before_long_values,
    share_common_subtrees,
    reduce_aggregates,
    prune_columns,
    split_expressions,
)


def rewrite(plan: ir.Plan, *, narrow: bool = False) -> ir.Plan:
    """The plan after every rewrite. Each is linear in the plan's size and keeps the rows, their order included.
    `narrow` is for plans on several channels: see `prune_columns`.
    """
    for pass_ in REWRITES:
        plan = prune_columns(plan, narrow=narrow) if pass_ is prune_columns else pass_(plan)
    return plan
