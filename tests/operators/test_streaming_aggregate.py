"""Groups leave as they close, with the values that SQL and plain Python give them."""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tidegate.operators.arrays.digest import digest
from tidegate.operators.arrays.ordering import Order
from tidegate.operators.arrays.reductions import Reduction
from tidegate.operators.core.blocks import BLOCK_ROWS
from tidegate.operators.core.streams import BatchStream
from tidegate.operators.duckdb.duckdb_private import PrivateEngine
from tidegate.operators.duckdb.instances import Instance, InstanceSettings
from tidegate.operators.group_measures import Measure
from tidegate.operators.streaming_aggregate import StreamingAggregate
from tidegate.operators.testing import CHECKS, Case
from tidegate.proto.errors import ExecutionError, InternalError

from ..duckdb_oracle import oracle
from ..searching import tries
from .data import Rows, run, stream

KEY = pa.field("k", pa.int64())
COUNT = ("count(*)", pa.field("n", pa.int64()))
SUM = ("sum(c1)::BIGINT", pa.field("s", pa.int64()))
LIST = ("list(c1)", pa.field("l", pa.list_(pa.int64())))
INPUT = pa.schema([KEY, pa.field("v", pa.int64())])
Column = tuple[str, pa.Field]


def aggregate(
    instance: Instance,
    *measures: Column,
    input_schema: pa.Schema = INPUT,
    keys: Sequence[int] = (0,),
    order: Sequence[Order] = (),
) -> StreamingAggregate:
    return StreamingAggregate(
        input_schema,
        keys=keys,
        measures=[Measure(sql=sql) for sql, _ in measures],
        schema=pa.schema([*(input_schema.field(key) for key in keys), *(field for _, field in measures)]),
        instance=instance,
        order=order,
        plan_path="relations[0]",
    )


def table(keys: Sequence[object], values: Sequence[object] | None = None) -> pa.Table:
    return pa.table([list(keys), list(range(len(keys)) if values is None else values)], schema=INPUT)


EPOCHS = [
    [table([1, 1, 2, None, None, 3, 3, 3, 1], [5, None, 7, 8, 9, None, 1, 2, 3])],
    [table([4, 4, 5])],
    [table([])],
    [table([5])],
]


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("keys", [(0,), ()], ids=["by key", "global"])
def test_it_conforms(check: Callable[[Case], None], keys: tuple[int, ...], instance: Instance) -> None:
    check(Case(make=lambda: aggregate(instance, COUNT, SUM, LIST, keys=keys), epochs=EPOCHS))


def test_a_key_that_comes_again_is_another_group(instance: Instance) -> None:
    assert run(aggregate(instance, COUNT, LIST), table([2, 2, 1, 2])) == [
        {"k": 2, "n": 2, "l": [0, 1]},
        {"k": 1, "n": 1, "l": [2]},
        {"k": 2, "n": 1, "l": [3]},
    ]


def test_each_epoch_begins_with_fresh_groups(instance: Instance) -> None:
    operator = aggregate(instance, SUM)
    assert run(operator, table([1, 1], [10, 20])) == [{"k": 1, "s": 30}]
    assert run(operator, table([1], [5])) == [{"k": 1, "s": 5}]
    assert run(operator, table([])) == []


def test_without_keys_each_barrier_has_one_row(instance: Instance) -> None:
    operator = aggregate(instance, COUNT, SUM, keys=())
    assert run(operator, table([1, 2], [10, 20])) == [{"n": 2, "s": 30}]
    assert run(operator, table([])) == [{"n": 0, "s": None}]


def test_without_measures_it_gives_each_key_once(instance: Instance) -> None:
    assert run(aggregate(instance), table([3, 3, 1, 1, 2])) == [{"k": 3}, {"k": 1}, {"k": 2}]


def test_the_key_of_a_group_is_its_first_rows(instance: Instance) -> None:
    schema = pa.schema([("k", pa.float64()), ("v", pa.int64())])
    rows = pa.table([[-0.0, 0.0, float("nan"), float("nan")], [1, 2, 3, 4]], schema=schema)
    groups = run(aggregate(instance, SUM, input_schema=schema), rows)
    assert [(str(row["k"]), row["s"]) for row in groups] == [("-0.0", 3), ("nan", 7)]


@pytest.mark.parametrize("type_", [pa.dictionary(pa.int8(), pa.large_string()), pa.string_view()], ids=str)
def test_keys_keep_their_type(type_: pa.DataType, instance: Instance) -> None:
    schema = pa.schema([("k", type_), ("v", pa.int64())])
    parts = [pa.table([pa.array(keys, type_), [1, 2]], schema=schema) for keys in (["a", "b"], ["b", None])]
    operator = aggregate(instance, SUM, input_schema=schema)
    assert run(operator, pa.concat_tables(parts)) == [{"k": "a", "s": 1}, {"k": "b", "s": 3}, {"k": None, "s": 2}]


def test_a_group_of_many_blocks_is_one_row(instance: Instance) -> None:
    sizes = [3, 5 * BLOCK_ROWS, 1, BLOCK_ROWS - 1, 1, 2 * BLOCK_ROWS, 70]
    keys = np.repeat(np.arange(len(sizes)), sizes)
    expected = [
        {"k": key, "n": size, "s": sum(range(end - size, end))}
        for key, (size, end) in enumerate(zip(sizes, itertools.accumulate(sizes), strict=True))
    ]
    rows = pa.table([keys, np.arange(len(keys))], schema=INPUT)
    for cut in (None, BLOCK_ROWS, 10_007):
        assert run(aggregate(instance, COUNT, SUM), rows, rows=cut) == expected
    assert run(aggregate(instance), rows) == [{"k": row["k"]} for row in expected]


def test_more_groups_than_a_byte_can_number_keep_their_order(instance: Instance) -> None:
    keys = np.repeat(np.random.default_rng(3).permutation(100_000), 2)
    groups = run(aggregate(instance, COUNT), pa.table([keys, np.zeros(len(keys), np.int64)], schema=INPUT))
    assert groups == [{"k": key, "n": 2} for key in keys[::2].tolist()]


def test_a_group_leaves_with_the_block_after_it(instance: Instance) -> None:
    pulled = [0]

    def batches() -> Iterator[pa.RecordBatch]:
        for at in range(20):
            pulled[0] += 1
            yield pa.record_batch([np.arange(at * BLOCK_ROWS, (at + 1) * BLOCK_ROWS) // 10] * 2, schema=INPUT)

    output = aggregate(instance, COUNT).run([BatchStream(INPUT, batches())])
    assert next(output).num_rows == BLOCK_ROWS // 10
    assert pulled[0] == 1


def test_an_overflow_is_the_statements_error(instance: Instance) -> None:
    rows = table([1, 1], [2**63 - 1, 1])
    with pytest.raises(ExecutionError, match=r"relations\[0\]: .*INT64"):
        run(aggregate(instance, SUM), rows)


def test_an_interrupt_between_two_blocks_ends_the_run(instance: Instance) -> None:
    operator = aggregate(instance, SUM)
    output = operator.run([stream(table(range(3 * BLOCK_ROWS)), BLOCK_ROWS)])
    next(output)
    operator.interrupt()
    with pytest.raises(ExecutionError, match="interrupted"):
        next(output)


def test_a_long_group_whose_aggregate_exceeds_the_memory_fails_by_name(tmp_path: Path) -> None:
    small = Instance(InstanceSettings(memory_limit=32 << 20, spill_limit=1 << 20), str(tmp_path))
    zeros = np.zeros(80 * BLOCK_ROWS, np.int64)
    rows = pa.table([zeros, np.arange(len(zeros))], schema=INPUT)
    with pytest.raises(ExecutionError, match="memory limit") as caught:
        run(aggregate(small, LIST), rows)
    assert caught.value.reason == "MEMORY_LIMIT"
    small.close()


@pytest.mark.parametrize("cut", [None, 1])
def test_input_out_of_its_declared_order_names_the_rows(cut: int | None, instance: Instance) -> None:
    operator = aggregate(instance, COUNT, order=[Order(column=0, descending=True)])
    assert run(operator, table([3, 3, 2, None, None])) == [{"k": 3, "n": 2}, {"k": 2, "n": 1}, {"k": None, "n": 2}]
    message = r"sorted by 'k' descending nulls last: row 3 with {'k': 4} comes after row 2 with {'k': 2}"
    with pytest.raises(ExecutionError, match=message) as caught:
        run(operator, table([3, 3, 2, 4]), rows=cut)
    assert caught.value.reason == "INPUT_NOT_SORTED"


def test_the_declared_order_holds_from_block_to_block(instance: Instance) -> None:
    operator = aggregate(instance, COUNT, order=[Order(column=0)])
    keys = np.repeat([1, 2, 3], [BLOCK_ROWS + 1, BLOCK_ROWS - 1, BLOCK_ROWS])
    assert [row["k"] for row in run(operator, table(keys, keys))] == [1, 2, 3]
    keys[2 * BLOCK_ROWS :] = 0
    with pytest.raises(ExecutionError, match=f"row {2 * BLOCK_ROWS} with .*'k': 0.* comes after"):
        run(operator, table(keys, keys))


def test_an_order_by_what_is_no_key_is_refused(instance: Instance) -> None:
    with pytest.raises(InternalError, match="column 1, which is not a key"):
        aggregate(instance, COUNT, order=[Order(column=1)])


def test_nothing_to_group_by_and_nothing_to_compute_is_refused(instance: Instance) -> None:
    with pytest.raises(InternalError, match="without keys and without measures"):
        aggregate(instance, keys=())


# --- any aggregate, any keys ----------------------------------------------------------------------------------------

MEASURES: list[Column] = [
    COUNT,
    ("count(c2)", pa.field("count", pa.int64())),
    ("sum(c2)", pa.field("sum", pa.float64())),
    ("avg(c2)", pa.field("avg", pa.float64())),
    ("median(c2)", pa.field("median", pa.float64())),
    ("count(DISTINCT c3)", pa.field("distinct", pa.int64())),
    ("min(c3)", pa.field("min", pa.string())),
    ("first(c3)", pa.field("first", pa.string())),
    ("sum(c2) FILTER (WHERE c3 = 'a')", pa.field("filtered", pa.float64())),
    ("string_agg(c3, '' ORDER BY c2, c3)", pa.field("ordered", pa.string())),
]
WIDE = pa.schema([("k", pa.int64()), ("j", pa.string()), ("v", pa.float64()), ("t", pa.string())])
RUNS = st.lists(
    st.tuples(
        st.none() | st.integers(0, 2),
        st.none() | st.sampled_from("xy"),
        st.lists(
            st.tuples(st.none() | st.floats(-1e9, 1e9), st.none() | st.sampled_from("abc")), min_size=1, max_size=9
        ),
    ),
    max_size=12,
)


def rows_of_runs(runs: list[tuple[object, object, list[tuple[object, object]]]]) -> pa.Table:
    rows = [(k, j, v, t) for k, j, items in runs for v, t in items]
    return pa.table([list(column) for column in zip(*rows, strict=True)] or [[]] * 4, schema=WIDE)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StreamingAggregate]:
    instance = Instance(InstanceSettings(memory_limit=1 << 30), str(tmp_path_factory.mktemp("spill")), PrivateEngine())
    operator = aggregate(instance, *MEASURES, input_schema=WIDE, keys=(0, 1))
    yield operator
    operator.close()
    instance.close()


@given(RUNS, st.integers(1, 30))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=tries(30))
def test_it_is_group_by_over_numbered_runs(
    shared: StreamingAggregate, runs: list[tuple[object, object, list[tuple[object, object]]]], cut: int
) -> None:
    rows = rows_of_runs(runs)
    pairs = list(zip(rows["k"].to_pylist(), rows["j"].to_pylist(), strict=True))
    number = [run for run, (_, same) in enumerate(itertools.groupby(pairs)) for _ in same]
    numbered = rows.rename_columns(["c0", "c1", "c2", "c3"]).append_column("r", pa.array(number, pa.int64()))
    measures = ", ".join(f"{sql} AS {field.name}" for sql, field in MEASURES)
    with oracle({"numbered": numbered}) as connection:
        sql = f"SELECT first(c0) AS k, first(c1) AS j, {measures} FROM numbered GROUP BY r ORDER BY r"
        expected = connection.sql(sql).to_arrow_table().cast(shared.schema)
    whole = pa.Table.from_batches(shared.run([stream(rows, cut)]), shared.schema)
    assert digest(shared.schema, whole.to_batches()) == digest(shared.schema, expected.to_batches())


CUTS = (10_007, BLOCK_ROWS, 2 * BLOCK_ROWS - 1, 2 * BLOCK_ROWS + 1)


def rows_with_groups_up_to(longest: int) -> pa.Table:
    random = np.random.default_rng(longest)
    count = 5 * BLOCK_ROWS
    keys = np.cumsum(random.random(count) < 2 / longest)
    values = random.random(count) * 10.0 ** random.integers(-9, 16, count)
    texts = pa.array(["a", "b", "c", None]).take(pa.array(random.integers(0, 4, count)))
    return pa.table([keys, texts.take(pa.array(keys)), values, texts], schema=WIDE)


@pytest.mark.parametrize("longest", [100, 50_000, 10**9])
def test_where_the_input_is_cut_changes_no_bit(shared: StreamingAggregate, longest: int) -> None:
    rows = rows_with_groups_up_to(longest)
    whole = digest(shared.schema, shared.run([stream(rows)]))
    assert [digest(shared.schema, shared.run([stream(rows, cut)])) for cut in CUTS] == [whole] * len(CUTS)


@pytest.mark.parametrize("longest", [100, 50_000, 10**9])
def test_nor_does_it_where_duckdb_is_not_asked(instance: Instance, longest: int) -> None:
    rows = rows_with_groups_up_to(longest)
    measures = [
        Measure(sql="sum(c2)", reduction=Reduction(function="sum", column=2)),
        Measure(sql="max(c2)", reduction=Reduction(function="max", column=2)),
        Measure(sql="count(*)", reduction=Reduction(function="count")),
    ]
    schema = pa.schema([KEY, ("s", pa.float64()), ("m", pa.float64()), ("n", pa.int64())])
    operator = StreamingAggregate(WIDE, keys=[0], measures=measures, schema=schema, instance=instance)
    whole = digest(schema, operator.run([stream(rows)]))
    assert [digest(schema, operator.run([stream(rows, cut)])) for cut in CUTS] == [whole] * len(CUTS)


@given(RUNS)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=tries(30))
def test_it_is_what_plain_python_computes(
    shared: StreamingAggregate, runs: list[tuple[object, object, list[tuple[object, object]]]]
) -> None:
    rows = rows_of_runs(runs)
    grouped = itertools.groupby(rows.to_pylist(), lambda row: (row["k"], row["j"]))
    names = ["k", "j", "n", "count", "median", "distinct", "min", "first"]
    groups = [{name: row[name] for name in names} for row in run(shared, rows)]
    assert groups == [in_python(key, list(group)) for key, group in grouped]


def in_python(key: tuple[object, object], rows: Rows) -> Rows:
    values = [row["v"] for row in rows if row["v"] is not None]
    texts = [row["t"] for row in rows if row["t"] is not None]
    return {
        "k": key[0],
        "j": key[1],
        "n": len(rows),
        "count": len(values),
        "median": pytest.approx(statistics.median(values), abs=1e-6) if values else None,
        "distinct": len(set(texts)),
        "min": min(texts, default=None),
        "first": rows[0]["t"],
    }
