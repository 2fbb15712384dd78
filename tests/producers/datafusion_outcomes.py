"""The outcomes of all of DataFusion's functions and of queries of its features."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Final

import datafusion
import pyarrow as pa
from datafusion.substrait import Consumer, Serde

import tidegate

from . import datafusion_functions as functions
from .datafusion_functions import Call
from .datafusion_tables import TABLES, planned, session
from .outcomes import Outcome, Result, answer, held_against, refusal

_LOST: Final = ("FILTER (WHERE b)", "IGNORE NULLS", "INTERVAL '1 day' PRECEDING", "DISTINCT b")
"""Parts of queries that DataFusion leaves out of its plans."""


def function_outcomes(client: tidegate.Client) -> Mapping[Call, Result]:
    """The outcome of a call of every function. What can be planned goes into few plans of many calls."""
    context = session()
    outcomes: dict[Call, Result] = {}
    for call in functions.calls():
        early = _unwritten(call.query, context) or refusal(planned(call.query, context))
        if early is not None:
            outcomes[call] = early
    rest = [call for call in functions.calls() if call not in outcomes]
    for _, group in groupby(rest, key=lambda call: (call.kind, call.source)):
        outcomes.update(_together(client, context, list(group)))
    return {call: outcomes[call] for call in functions.calls()}


def _unwritten(sql: str, context: datafusion.SessionContext) -> Result | None:
    """The reason why DataFusion itself does not plan, run or write a query."""
    try:
        context.sql(sql).to_arrow_table()
        planned(sql, context)
    except Exception as error:  # noqa: BLE001 (the bindings raise bare exceptions)
        return Result(Outcome.UNWRITTEN, str(error).removeprefix("DataFusion error: ").partition("\n")[0])
    return None


def _together(
    client: tidegate.Client, context: datafusion.SessionContext, calls: Sequence[Call]
) -> Iterator[tuple[Call, Result]]:
    """The outcomes of calls in one plan; one by one, where the whole plan has no answer."""
    sql = functions.select(calls)
    got = answer(client, planned(sql, context), TABLES)
    if isinstance(got, Result):
        if len(calls) == 1:
            yield calls[0], got
            return
        half = len(calls) // 2
        yield from _together(client, context, calls[:half])
        yield from _together(client, context, calls[half:])
        return
    expected = context.sql(sql).to_arrow_table()
    for at, call in enumerate(calls, 1):
        values = call.function not in functions.NOT_REPEATABLE
        yield call, held_against(got.select([0, at]), expected.select([0, at]), values=values)


def feature_outcome(client: tidegate.Client, context: datafusion.SessionContext, sql: str) -> Result:
    """The outcome of one query. An ORDER BY at its end orders all of its rows."""
    early = _unwritten(sql, context)
    if early is not None:
        return early
    plan = planned(sql, context)
    got = answer(client, plan, TABLES)
    if isinstance(got, Result):
        return got
    ordered = "ORDER BY" in sql.rpartition(")")[2]
    result = held_against(got, context.sql(sql).to_arrow_table(), ordered=ordered)
    if result.outcome is Outcome.WRONG and held_against(got, read_back(plan, context)).outcome is Outcome.RIGHT:
        lost = next((part for part in _LOST if part in sql), "a part of the query")
        return Result(Outcome.LOST, f"DataFusion's plan lacks {lost}")
    return result


def read_back(plan: bytes, context: datafusion.SessionContext) -> pa.Table:
    """DataFusion's answer to the plan that it has written."""
    logical = Consumer.from_substrait_plan(context, Serde.deserialize_bytes(plan))
    return context.create_dataframe_from_logical_plan(logical).to_arrow_table()
