"""Tries the statements of a plan in DuckDB, so that no plan is accepted that DuckDB refuses, and its texts that are to
be read as values of other types.

To plan a statement takes DuckDB a quarter of the time of the whole planning. So a plan is tried only if it has a word
that no accepted plan of this process had (`planner.analysis.vocabulary`).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from ...operators.core.interrupts import look
from ...operators.duckdb.instances import Instance, InstancePool, InstanceSettings
from ...operators.duckdb.statement import failure, refusal
from ...planner import ir
from ...planner.analysis.read_texts import read_texts
from ...planner.analysis.vocabulary import vocabulary
from ...planner.physical.pipelines import NOTHING, FragmentNode, PhysicalPlan, walk
from ...planner.prepare import Prepared
from ...planner.sql.cast_expressions import cast
from ...planner.sql.literal_sql import literal
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
        """Raises `PlanError` with a problem for every fragment of `prepared` whose statement DuckDB refuses, and for
        every text of the plan that no value can be read from. `prepared` is asked for only if the plan has a new word.
        """
        words = vocabulary(plan)
        if words <= _accepted:
            return
        tried = prepared()
        shape = {source.name: NOTHING for source in tried.sources}
        with self._instance() as instance:
            problems = (*_unreadable(plan, instance), *_refused(tried.physical(shape), instance))
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
        look()
        if isinstance(node, FragmentNode):
            reason = refusal(instance, node.sql, streams_of(node), context_of(node))
            if reason is not None:
                message = f"DuckDB refuses the statement that runs this relation and those below it: {reason}"
                yield Problem(place=node.plan_path, reason="REFUSED_BY_DUCKDB", message=message)


def _unreadable(plan: ir.Plan, instance: Instance) -> Iterator[Problem]:
    """A problem for every text that a cast of the plan cannot read. Most plans have none: all are tried at once."""
    texts = {}
    for text in read_texts(plan):
        written = literal(text.value, text.source)
        texts[cast(written, text.source, text.target, ir.CastFailure.ERROR)] = written, text
    if not texts or failure(instance, list(texts)) is None:
        return
    for sql, (written, text) in texts.items():
        reason = failure(instance, [sql])
        if reason is not None:
            message = f"the text {written} is no {str(text.target).rstrip('?')}: {reason}"
            yield Problem(place=text.plan_path, reason="BAD_CAST", message=message)
