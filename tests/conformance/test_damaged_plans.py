"""Class of bug: a plan with one field damaged gives another answer than it says, or fails without a named reason."""

from __future__ import annotations

import re
import resource
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Final

import datafusion
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from datafusion import substrait

import tidegate

from ..messages import messages
from ..planner.decode.plans import plan_class
from ..producers.outcomes import Outcome, held_against
from ..searching import SEARCHES
from . import tpch
from .damage import damaged
from .official_cases import ERRORS

ROWS: Final = 300
JOINED_ROWS: Final = 3_000
"""So many of each table that the queries have rows."""
EVERY: Final = 1 if SEARCHES else 7
"""The suite tries one damage of so many of one plan, a search all of them."""
EVERY_OF_DATAFUSION: Final = 7 if SEARCHES else 331
"""The same for all plans of DataFusion, which have 35,000 damages."""
EVERY_OF_ALL: Final = 41 if SEARCHES else 1_009
"""The same for the plans of all producers, which have 125,000 damages: a search tries 3,000 and takes two minutes."""
MOST_ROWS: Final = 100_000
"""Answers of more rows are not compared: DataFusion takes long for the crossed joins that some damages make."""

OTHERWISE_IN_DATAFUSION: Final = (
    r"projection\.select\.struct_items",  # reads columns in the table's order, and refuses one that is named twice
    r"measure\.arguments.*output_type\.decimal\.scale",  # takes no notice of declared result types
    r"filter\.condition.*arguments: (left out|cut)",  # refuses an AND of fewer than two arguments
)
"""Damages that DataFusion reads otherwise than Substrait says."""
OTHERWISE_IN_OTHER_PLANS: Final = (
    r"decimal\.scale",  # takes no notice of declared types of other results, and of tables' columns
    r"^version",  # takes no notice of who wrote a plan, by which Tidegate reads averages
)

BUGS: Final = ("", "INTERNAL", "EXECUTION_FAILED")
"""Reasons that a refused plan does not have. An epoch may fail with the last for a value, as with an overflow."""
LARGER: Final = 256
"""The MiB by which a process may grow over damaged plans, of which 500 make it grow by about 50."""

ALL: Final = [(producer, query) for producer in tpch.PRODUCERS for query in tpch.plans(producer)]
Tables = Mapping[str, pa.Table]


@pytest.fixture(scope="module")
def generated(tmp_path_factory: pytest.TempPathFactory) -> Tables:
    files = tpch.generate(tmp_path_factory.mktemp("tpch"))
    return {name: _wide(pq.read_table(file)) for name, file in files.items()}


@pytest.fixture(scope="module")
def tables(generated: Tables) -> Tables:
    return {name: table.slice(0, ROWS) for name, table in generated.items()}


@pytest.fixture(scope="module")
def client() -> Iterator[tidegate.Client]:
    with tidegate.local() as opened:
        yield opened


def _wide(table: pa.Table) -> pa.Table:
    """The table with the plans' types: keys are 64 bits wide."""
    return table.cast(
        pa.schema(
            [column.with_type(pa.int64()) if pa.types.is_integer(column.type) else column for column in table.schema]
        )
    )


@pytest.fixture(scope="module")
def joined(generated: Tables) -> Tables:
    """Tables of the types that DataFusion's plans declare."""
    tables = {name: table.slice(0, JOINED_ROWS) for name, table in generated.items()}
    for query in tpch.plans("datafusion"):
        for message in messages(plan_class().FromString(tpch.plan_bytes("datafusion", query))):
            if message.DESCRIPTOR.full_name == "substrait.ReadRel":
                name, schema = message.named_table.names[-1], message.base_schema
                narrow = {
                    column
                    for column, type_ in zip(schema.names, schema.struct.types, strict=True)
                    if type_.HasField("i32")
                }
                tables[name] = tables[name].cast(_narrowed(tables[name].schema, narrow))
    return tables


def _narrowed(schema: pa.Schema, narrow: Collection[str]) -> pa.Schema:
    return pa.schema([column.with_type(pa.int32()) if column.name in narrow else column for column in schema])


def without_filters_of_reads(plan: bytes) -> bytes:
    """The plan without the filters inside its reads: DataFusion repeats each above the read, and skips it there."""
    whole = plan_class().FromString(plan)
    for message in list(messages(whole)):
        if message.DESCRIPTOR.full_name == "substrait.ReadRel":
            message.ClearField("filter")
    return bytes(whole.SerializeToString())


def without_limits(plan: bytes) -> bytes:
    """The plan with limits that keep all rows, so that rows with equal keys make no difference."""
    whole = plan_class().FromString(plan)
    for message in list(messages(whole)):
        if message.DESCRIPTOR.full_name == "substrait.FetchRel":
            message.count_expr.literal.i64 = 1_000_000
    return bytes(whole.SerializeToString())


def answer(client: tidegate.Client, plan: bytes, tables: Tables) -> pa.Table | None:
    """The plan's answer; None where it reads another table, where it is refused for a named reason at a place, or where
    a value in the tables does not fit it. A plan that was accepted does not fail for its form.
    """
    try:
        with client.create_task(plan) as task:
            if set(task.sources) <= set(tables):
                return task.run_epoch({name: tables[name] for name in task.sources}).table()
    except tidegate.TidegateError as error:
        if isinstance(error, tidegate.PlanError):
            refused = all(problem.place and problem.reason not in BUGS for problem in error.problems)
        else:
            refused = error.reason not in BUGS or any(re.search(value, str(error)) for value in ERRORS.values())
        if not refused:
            raise
    return None


def datafusion_s_answer(context: datafusion.SessionContext, plan: bytes) -> pa.Table | None:
    try:
        logical = substrait.Consumer.from_substrait_plan(context, substrait.Serde.deserialize_bytes(plan))
        return context.create_dataframe_from_logical_plan(logical).to_arrow_table()
    except BaseException as error:
        if isinstance(error, Exception) or type(error).__name__ == "PanicException":
            return None  # DataFusion refuses a damaged plan in many ways, and panics over some
        raise


def is_same(one: pa.Table, other: pa.Table) -> bool:
    return one.num_columns == other.num_columns and held_against(one, other).outcome is Outcome.RIGHT


def resident() -> int:
    """MiB of this process."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize() >> 20


def most_resident() -> int:
    """MiB that this process has had at most since the peak was reset."""
    [peak] = re.findall(r"^VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text(), re.MULTILINE)
    return int(peak) >> 10


def as_declared(expected: pa.Table, schema: pa.Schema) -> pa.Table:
    """DataFusion's answer with the places of decimals that the plan declares, where its values have no more."""
    try:
        return expected.rename_columns(schema.names).cast(schema) if len(schema) == expected.num_columns else expected
    except pa.ArrowInvalid:
        return expected


def test_a_damaged_plan_is_refused_or_answered_as_datafusion_answers_it(
    client: tidegate.Client, tables: Tables
) -> None:
    context = datafusion.SessionContext()
    context.register_record_batches("lineitem", [tables["lineitem"].to_batches()])
    plan = without_filters_of_reads(tpch.plan_bytes("datafusion", "q06"))
    whole = answer(client, plan, tables)
    assert whole is not None
    wrong: list[str] = []
    for position, bad in damaged(plan, EVERY):
        got = answer(client, bad, tables)
        if got is None or _is_otherwise(position, OTHERWISE_IN_DATAFUSION):
            continue
        expected = datafusion_s_answer(context, bad)
        if not is_same(got, whole if expected is None else expected):
            wrong.append(position)
    assert not wrong


def test_damaged_plans_of_every_query_are_answered_as_datafusion_answers_them_if_it_does(
    client: tidegate.Client, joined: Tables
) -> None:
    context = datafusion.SessionContext()
    for name, table in joined.items():
        context.register_record_batches(name, [table.to_batches()])
    otherwise = (*OTHERWISE_IN_DATAFUSION, *OTHERWISE_IN_OTHER_PLANS)
    held = 0
    wrong: list[str] = []
    for number, query in enumerate(tpch.plans("datafusion")):
        plan = without_limits(without_filters_of_reads(tpch.plan_bytes("datafusion", query)))
        for position, bad in damaged(plan, EVERY_OF_DATAFUSION, number * 97 % EVERY_OF_DATAFUSION):
            got = answer(client, bad, joined)
            if got is None or got.num_rows > MOST_ROWS or _is_otherwise(position, otherwise):
                continue
            expected = datafusion_s_answer(context, bad)
            if expected is not None:
                held += 1
                wrong += [] if is_same(got, as_declared(expected, got.schema)) else [f"{query}: {position}"]
    assert not wrong
    assert held > len(tpch.plans("datafusion"))


def _is_otherwise(position: str, patterns: Collection[str]) -> bool:
    return any(re.search(pattern, position) for pattern in patterns)


def test_every_damaged_plan_is_answered_or_refused_for_a_named_reason(client: tidegate.Client, tables: Tables) -> None:
    """Which damages are tried depends on the plan, so that they are of all kinds. None keeps memory, or takes much."""
    Path("/proc/self/clear_refs").write_text("5")  # resets the peak
    before = resident()
    answers = [
        answer(client, bad, tables)
        for number, (producer, query) in enumerate(ALL)
        for _, bad in damaged(tpch.plan_bytes(producer, query), EVERY_OF_ALL, number * 397 % EVERY_OF_ALL)
    ]
    assert None in answers
    assert any(got is not None for got in answers)
    assert most_resident() - before < LARGER
