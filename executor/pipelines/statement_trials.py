"""Tries the statements of a plan in DuckDB, so that no plan is accepted that DuckDB refuses.

To plan a statement takes DuckDB a quarter of the time of the whole planning. So a plan is tried only if it has a word
that no accepted plan of this process had (`planner.analysis.vocabulary`).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from ...operators.duckdb.instances import Instance, InstancePool, InstanceSettings
from ...operators.duckdb.statement import refusal
from ...planner import ir
from ...planner.analysis.vocabulary import vocabulary
from ...planner.physical.pipelines import NOTHING, FragmentNode, PhysicalPlan, walk
from ...planner.prepare import Prepared
from ...proto.errors import PlanError, Problem
from .build_operators import context_of, streams_of

_MOST_WORDS: Final = 100_000
_accepted: Final[set[int]] = set()
_accepting: Final = threading.Lock()


class StatementTrials:
    """Tries statements on instances of the pool with these settings."""

    def __init__(self, pool: InstancePool, settings: InstanceSettings) -> None:
        self._pool = pool
        self._settings = settings

    def check(self, plan: ir.Plan, prepared: Callable[[], Prepared]) -> None:
        """Raises `PlanError` with a problem for every fragment of `prepared` whose statement DuckDB refuses. `prepared`
        is asked for only if the plan has a new word.
        """
        words = vocabulary(plan)
        if words <= _accepted:
            return
        tried = prepared()
        shape = {source.name: NOTHING for source in tried.sources}
        with self._instance() as instance:
            problems = tuple(_refused(tried.physical(shape), instance))
        if problems:
            raise PlanError(*problems)
        with _accepting:
            if len(_accepted) > _MOST_WORDS:
                _accepted.clear()
            _accepted.update(words)

    @contextmanager
    def _instance(self) -> Iterator[Instance]:
        instance = self._pool.take(self._settings)
        try:
            yield instance
        finally:
            self._pool.give_back(instance)


def _refused(physical: PhysicalPlan, instance: Instance) -> Iterator[Problem]:
    roots = [pipeline.root for pipeline in physical.pipelines]
    roots += [kept.root for kept in physical.kept]
    roots += [index.root for index in physical.indexes]
    for node in dict.fromkeys(node for root in roots for node in walk(root)):
        if isinstance(node, FragmentNode):
            reason = refusal(instance, node.sql, streams_of(node), context_of(node))
            if reason is not None:
                message = f"DuckDB refuses the statement that runs this relation and those below it: {reason}"
                yield Problem(place=node.plan_path, reason="REFUSED_BY_DUCKDB", message=message)
