from __future__ import annotations

import datetime as dt
import decimal
import itertools
import threading
from collections.abc import Callable, Iterator
from typing import Final

import numpy as np
import pyarrow as pa
import pytest

from tidegate.operators.core.streams import BatchStream
from tidegate.operators.duckdb.fragment import Fragment
from tidegate.operators.duckdb.instances import Instance, InstancePool, InstanceSettings
from tidegate.operators.duckdb.statement import Statement
from tidegate.operators.duckdb.statement_inputs import ContextSource, StreamSource
from tidegate.operators.kernels import Kernels
from tidegate.operators.testing import CHECKS, Case
from tidegate.proto.errors import ExecutionError, InternalError, SplitError

from .data import over_streams, rows_of, run, stream

NUMBERS = pa.table({"k": [1, 2, 1], "v": [10, 20, 30]})
SUMS = pa.schema([("k", pa.int64()), ("s", pa.int64())])
SUM = "SELECT c0, sum(c1)::BIGINT FROM in0 GROUP BY c0 ORDER BY c0"
LARGE = 100_000_000
X = pa.schema([("x", pa.int64())])


def counting(batches: int, rows: int = 65_536) -> tuple[BatchStream, Callable[[], int]]:
    """A stream of numbers, and how many of its batches were taken."""
    taken = itertools.count()
    last = [0]

    def counted_batches() -> Iterator[pa.RecordBatch]:
        for i in range(batches):
            last[0] = next(taken) + 1
            yield pa.record_batch({"x": np.arange(i * rows, (i + 1) * rows)})

    return BatchStream(X, counted_batches()), lambda: last[0]


def allocated() -> int:
    """The bytes of all of pyarrow's allocators."""
    return sum(getattr(pa, f"{name}_memory_pool")().bytes_allocated() for name in pa.supported_memory_backends())


def test_each_epoch_sees_its_own_rows_alone(instance: Instance) -> None:
    fragment = over_streams(instance, SUM, SUMS, NUMBERS)
    assert run(fragment, NUMBERS) == [{"k": 1, "s": 40}, {"k": 2, "s": 20}]
    assert run(fragment, NUMBERS.slice(1)) == [{"k": 1, "s": 30}, {"k": 2, "s": 20}]
    assert run(fragment, NUMBERS.slice(0, 0)) == []


def test_a_small_statement_is_planned_once(instance: Instance) -> None:
    fragment = over_streams(instance, SUM, SUMS, NUMBERS)
    for _ in range(3):
        run(fragment, NUMBERS)
    assert fragment.plans == (1 if instance.engine.prepares else 4)


def test_the_kept_plan_is_asked_for_joins(instance: Instance, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    explain = Statement.explained_joins
    monkeypatch.setattr(
        Statement, "explained_joins", lambda self, sql, values: (asked.append(sql), explain(self, sql, values))[1]
    )
    fragment = over_streams(instance, SUM, SUMS, NUMBERS)
    assert asked[0].startswith("EXECUTE") == instance.engine.prepares
    assert run(fragment, NUMBERS) == [{"k": 1, "s": 40}, {"k": 2, "s": 20}]
    assert len(asked) == 1


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("size_class", [1_000, LARGE], ids=["fetched", "streamed"])
def test_a_join_conforms(check: Callable[[Case], None], size_class: int, instance: Instance) -> None:
    left = pa.table({"k": [1, 2, 3, 2], "v": ["a", "b", None, "c"]})
    right = pa.table({"k": [2, 2, 1], "w": [1.5, None, -0.0]})
    sql = "SELECT in0.c1, in1.c1 FROM in0 JOIN in1 ON in0.c0 = in1.c0"
    schema = pa.schema([("v", pa.string()), ("w", pa.float64())])
    epochs = [[left, right], [right.slice(0, 0).cast(right.schema).rename_columns(["k", "v"]).cast(left.schema), right]]
    check(
        Case(
            make=lambda: over_streams(instance, sql, schema, left, right, size_class=size_class),
            epochs=[*epochs, [left.slice(2), right]],
        )
    )


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_an_aggregate_conforms(check: Callable[[Case], None], instance: Instance) -> None:
    epochs = [[NUMBERS], [NUMBERS.slice(1)]]
    check(Case(make=lambda: over_streams(instance, SUM, SUMS, NUMBERS), epochs=epochs))


def test_a_large_row_preserving_statement_takes_its_input_as_it_goes(instance: Instance) -> None:
    fragment = over_streams(instance, "SELECT c0 + 1 FROM in0", X, X.empty_table(), size_class=LARGE)
    source, taken = counting(50)
    output = fragment.run([source])
    assert next(output)["x"][0].as_py() == 1
    assert taken() <= 3
    rest = sum(len(batch) for batch in output)
    assert rest == 49 * 65_536


@pytest.mark.parametrize("kernels", [None, Kernels(())], ids=["statement", "kernels that would do for few rows"])
def test_wide_rows_that_are_made_of_one_row_each_are_not_joined(kernels: Kernels | None, instance: Instance) -> None:
    schema = pa.schema([("t", pa.binary())])
    size = 2 << 20
    wide = (pa.record_batch([pa.array([bytes(size // 16)] * 16)], schema) for _ in range(40))
    source = StreamSource(relation="in0", schema=schema, size_class=LARGE)
    fragment = Fragment(
        "SELECT c0 FROM in0", schema=schema, instance=instance, streams=[source], row_wise=True, kernels=kernels
    )
    before = allocated()
    held = [allocated() - before for _ in fragment.run([BatchStream(schema, wide)])]
    assert len(held) >= 40
    assert max(held[len(held) // 2 :]) < 4 * size


def test_closing_a_chain_of_twenty_stops_the_reading_at_its_bottom(instance: Instance) -> None:
    source, taken = counting(200)
    below: BatchStream = source
    for _ in range(20):
        fragment = over_streams(instance, "SELECT c0 FROM in0 WHERE c0 >= 0", X, X.empty_table(), size_class=LARGE)
        below = BatchStream(X, fragment.run([below]))
    next(below)
    below.close()
    assert taken() <= 45
    assert next(source, None) is None


def test_a_satisfied_limit_closes_its_input(instance: Instance) -> None:
    fragment = over_streams(instance, "SELECT c0 FROM in0 LIMIT 10", X, X.empty_table(), size_class=LARGE)
    source, taken = counting(50)
    assert len(rows_of(fragment.run([source]))) == 10
    assert taken() <= 3
    assert next(source, None) is None


@pytest.mark.parametrize("size_class", [1_000, LARGE])
def test_a_stream_read_twice_is_a_bug_unless_it_is_replayed(size_class: int, instance: Instance) -> None:
    sql = "SELECT a.c0 FROM in0 a JOIN in0 b ON a.c0 = b.c0 ORDER BY 1"

    def over(replayed: bool) -> Fragment:
        source = StreamSource(relation="in0", schema=X, size_class=size_class, replayed=replayed)
        return Fragment(sql, schema=X, instance=instance, streams=[source])

    table = pa.table({"x": [1, 2]})
    assert run(over(replayed=True), table) == [{"x": 1}, {"x": 2}]
    with pytest.raises(InternalError, match="'in0' was read twice"):
        run(over(replayed=False), table)


def test_a_recursive_statement_may_read_a_replayed_stream_in_every_round(instance: Instance) -> None:
    edges = pa.table({"a": list(range(500)), "b": list(range(1, 501))})
    sql = (
        "SELECT * FROM (WITH RECURSIVE r(n) AS (SELECT 0::BIGINT UNION "
        "SELECT in0.c1 FROM r JOIN in0 ON in0.c0 = r.n) SELECT max(n) FROM r)"
    )
    source = StreamSource(relation="in0", schema=edges.schema, size_class=1_000, replayed=True)
    fragment = Fragment(sql, schema=X, instance=instance, streams=[source])
    assert run(fragment, edges) == [{"x": 500}]


def test_the_context_is_one_row_that_changes_between_epochs(instance: Instance) -> None:
    context = ContextSource(relation="context", schema=pa.schema([("c0", pa.timestamp("us", "UTC"))]))
    sql = "SELECT epoch_us((SELECT c0 FROM context)) + c0 + 0 * epoch_us((SELECT c0 FROM context)) FROM in0"
    source = StreamSource(relation="in0", schema=X, size_class=10)
    fragment = Fragment(sql, schema=X, instance=instance, streams=[source], context=context)
    with pytest.raises(InternalError, match="without its context"):
        run(fragment, pa.table({"x": [1]}))
    for now in (100, 200):
        fragment.set_context(pa.record_batch({"c0": pa.array([now], pa.timestamp("us", "UTC"))}))
        assert run(fragment, pa.table({"x": [1, 2]})) == [{"x": now + 1}, {"x": now + 2}]


def test_a_stream_without_columns_still_has_rows(instance: Instance) -> None:
    fragment = over_streams(instance, "SELECT count(*) FROM in0", X, pa.table({}))
    batch = pa.record_batch({"x": [1, 2, 3]}).select([])
    assert rows_of(fragment.run([BatchStream(batch.schema, [batch, batch])])) == [{"x": 6}]


def _required(name: str, type_: pa.DataType) -> pa.Field:
    return pa.field(name, type_, nullable=False)


VALUES: dict[str, pa.Array] = {
    "bool": pa.array([True, None]),
    "int8": pa.array([-128, None], pa.int8()),
    "uint64": pa.array([2**64 - 1, None], pa.uint64()),
    "float32": pa.array([0.5, None], pa.float32()),
    "string": pa.array(["ä", None]),
    "binary": pa.array([b"\xff", None]),
    "fixed binary": pa.array([b"ab", None], pa.binary(2)),
    "decimal": pa.array([decimal.Decimal("123.45"), None], pa.decimal128(38, 2)),
    "date": pa.array([dt.date(1, 1, 1), None]),
    "time s": pa.array([1, None], pa.time32("s")),
    "time ms": pa.array([1, None], pa.time32("ms")),
    "time us": pa.array([1, None], pa.time64("us")),
    "time ns": pa.array([1, None], pa.time64("ns")),
    "timestamp s": pa.array([1, None], pa.timestamp("s")),
    "timestamp ms": pa.array([1, None], pa.timestamp("ms")),
    "timestamp ns": pa.array([1, None], pa.timestamp("ns")),
    "zoned s": pa.array([1, None], pa.timestamp("s", "UTC")),
    "zoned us": pa.array([1, None], pa.timestamp("us", "Asia/Tokyo")),
    "zoned ns": pa.array([1, None], pa.timestamp("ns", "UTC")),
    "duration": pa.array([1_500, None], pa.duration("ms")),
    "long duration": pa.array([-86_400_000_001, None], pa.duration("us")),
    "interval": pa.array([(1, -2, 3_000), None], pa.month_day_nano_interval()),
    "uuid": pa.ExtensionArray.from_storage(pa.uuid(), pa.array([bytes(range(16)), None], pa.binary(16))),
    "list": pa.array([[1, None], None], pa.list_(pa.field("item", pa.int16()))),
    "required items": pa.array([[1], None], pa.list_(_required("item", pa.int16()))),
    "struct": pa.array([{"a": 1, "b": "x"}, None], pa.struct([_required("a", pa.int8()), ("b", pa.string())])),
    "map": pa.array([[("k", 1)], None], pa.map_(pa.string(), _required("value", pa.int64()))),
    "required in a null": pa.array(
        [None, {"a": {"b": [1]}}],
        pa.struct([_required("a", pa.struct([_required("b", pa.list_(_required("item", pa.int8())))]))]),
    ),
    "required map values": pa.array(
        [None, [("k", {"a": 1})]], pa.map_(pa.string(), _required("value", pa.struct([_required("a", pa.int64())])))
    ),
    "nested": pa.array([[{"a": [1]}], None], pa.list_(pa.struct([("a", pa.list_(pa.field("item", pa.int8())))]))),
}


@pytest.mark.parametrize("name", VALUES)
def test_a_type_comes_out_as_it_went_in(name: str, instance: Instance) -> None:
    table = pa.table({"x": VALUES[name]})
    fragment = over_streams(instance, "SELECT c0 FROM in0", table.schema, table)
    (batch,) = list(fragment.run([stream(table)]))
    batch.validate(full=True)
    assert batch.schema.equals(table.schema)
    assert pa.Table.from_batches([batch]).equals(table)


def _listed(values: pa.Array) -> pa.Array:
    """A list of both values, a null, an empty list, and a list behind a part of the array that is cut off."""
    lists = pa.ListArray.from_arrays([0, 1, 3, 3, 3, 4], values.take(pa.array([1, 0, 1, 0])), mask=_NULL_OF_FIVE)
    return lists.slice(1)


def _in_structs(values: pa.Array) -> pa.Array:
    return pa.StructArray.from_arrays([values, values], ["a", "b"], mask=pa.array([False, True]))


def _mapped(values: pa.Array) -> pa.Array:
    return pa.MapArray.from_arrays([0, 1, 2], pa.array(["k", "l"]), values)


_NULL_OF_FIVE = pa.array([False, False, True, False, False])
INSIDE: Final = {"lists": _listed, "structs": _in_structs, "maps": _mapped}


@pytest.mark.parametrize("make", INSIDE.values(), ids=INSIDE)
@pytest.mark.parametrize("name", VALUES)
def test_a_type_comes_out_of_others_as_it_went_in(
    name: str, make: Callable[[pa.Array], pa.Array], instance: Instance
) -> None:
    table = pa.table({"x": make(VALUES[name])})
    fragment = over_streams(instance, "SELECT c0 FROM in0", table.schema, table)
    (batch,) = list(fragment.run([stream(table)]))
    batch.validate(full=True)
    assert batch.schema.equals(table.schema)
    assert pa.Table.from_batches([batch]).equals(table)


def test_fields_of_structs_go_by_place(instance: Instance) -> None:
    inside = pa.array([{"f1": 1, "f2": [{"f1": "x"}]}])
    target = pa.struct([("id", pa.int64()), ("tags", pa.list_(pa.struct([("name", pa.string())])))])
    table = pa.table({"x": inside})
    fragment = over_streams(instance, "SELECT c0 FROM in0", pa.schema([("x", target)]), table)
    assert run(fragment, table) == [{"x": {"id": 1, "tags": [{"name": "x"}]}}]


@pytest.mark.parametrize(
    ("type_", "why"),
    [
        (pa.float16(), "half"),
        (pa.decimal256(40, 2), "38 digits"),
        (pa.duration("ns"), "microseconds"),
        (pa.list_(pa.float16()), "half"),
    ],
)
def test_a_type_that_duckdb_would_change_is_refused_by_name(type_: pa.DataType, why: str, instance: Instance) -> None:
    table = pa.schema([("price", type_)]).empty_table()
    with pytest.raises(ExecutionError, match=f"'price'.*{why}"):
        over_streams(instance, "SELECT c0 FROM in0", table.schema, table)


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("SELECT 1 // (c0 - 2) FROM in0", r"^relations\[0\]: Division by zero$"),
        ("SELECT CAST('x' || c0 AS BIGINT) FROM in0", r"^relations\[0\]: Could not convert string 'x1' to INT64$"),
        ("SELECT c0 + 9223372036854775807 FROM in0", r"^relations\[0\]: Overflow in addition of INT64"),
        ("SELECT error('out of tea') FROM in0", r"^relations\[0\]: out of tea$"),
        (
            "SELECT c0::HUGEINT * 9223372036854775807 FROM in0",
            r"column 'x' of the result: .* is not a value of type int64",
        ),
    ],
)
@pytest.mark.parametrize("size_class", [1_000, LARGE])
def test_what_the_data_does_wrong_is_one_clean_line(
    sql: str, message: str, size_class: int, instance: Instance
) -> None:
    table = pa.table({"x": [1, 2, 3]})
    fragment = over_streams(instance, sql, X, table, size_class=size_class)
    with pytest.raises(ExecutionError, match=message) as caught:
        run(fragment, table)
    assert "\n" not in str(caught.value)


def test_a_null_in_a_required_column_of_the_result_is_an_error(instance: Instance) -> None:
    schema = pa.schema([pa.field("x", pa.int64(), nullable=False)])
    fragment = over_streams(instance, "SELECT c0 FROM in0", schema, X.empty_table())
    assert run(fragment, pa.table({"x": [1]})) == [{"x": 1}]
    with pytest.raises(ExecutionError, match="'x' of the result is required"):
        run(fragment, pa.table({"x": [1, None]}))


def test_a_statement_that_does_not_bind_is_our_bug(instance: Instance) -> None:
    with pytest.raises(InternalError, match=r"DuckDB refused the fragment: .*nonsense"):
        over_streams(instance, "SELECT nonsense FROM in0", X, X.empty_table())


def test_an_error_above_a_chain_of_fragments_comes_out_as_it_went_in(instance: Instance) -> None:
    def broken() -> Iterator[pa.RecordBatch]:
        yield from pa.table({"x": [1]}).to_batches()
        raise SplitError("f.parquet is broken")

    below = BatchStream(X, broken())
    for _ in range(3):
        fragment = over_streams(instance, "SELECT c0 FROM in0", X, X.empty_table(), size_class=LARGE)
        below = BatchStream(X, fragment.run([below]))
    with pytest.raises(SplitError, match=r"^f\.parquet is broken$"):
        list(below)


@pytest.mark.parametrize("size_class", [1_000, LARGE])
def test_an_interrupt_from_another_thread_stops_a_run_and_not_the_next(size_class: int, instance: Instance) -> None:
    sql = "SELECT count(*) FROM in0, range(in0.c0) AS r WHERE r.range % 7 = -1"
    fragment = over_streams(instance, sql, X, X.empty_table(), size_class=size_class)
    stopped = threading.Event()

    def keep_on() -> None:
        while not stopped.wait(0.01):
            fragment.interrupt()

    thread = threading.Thread(target=keep_on)
    thread.start()
    try:
        with pytest.raises(ExecutionError, match="interrupted") as caught:
            run(fragment, pa.table({"x": [10**14]}))
    finally:
        stopped.set()
        thread.join()
    assert caught.value.reason == "INTERRUPTED"
    assert run(fragment, pa.table({"x": [10]})) == [{"x": 0}]


def test_an_interrupt_reaches_the_reading_of_an_input(instance: Instance) -> None:
    fragment = over_streams(instance, "SELECT sum(c0)::BIGINT FROM in0", X, X.empty_table())

    def interrupting() -> Iterator[pa.RecordBatch]:
        for i in itertools.count():
            if i == 3:
                fragment.interrupt()
            yield pa.record_batch({"x": np.arange(65_536)})

    with pytest.raises(ExecutionError, match="interrupted"):
        rows_of(fragment.run([BatchStream(X, interrupting())]))


def test_an_interrupt_after_the_end_is_harmless(instance: Instance) -> None:
    fragment = over_streams(instance, SUM, SUMS, NUMBERS)
    fragment.close()
    fragment.interrupt()
    instance.interrupt()


def test_more_than_the_memory_limit_is_a_clear_error(pool: InstancePool) -> None:
    instance = pool.take(InstanceSettings(memory_limit=32 << 20, spill_limit=1 << 20))
    sql = "SELECT len(list(range::VARCHAR))::BIGINT FROM range(5000000), in0"
    fragment = over_streams(instance, sql, X, X.empty_table())
    with pytest.raises(ExecutionError, match="memory limit of 32 MiB") as caught:
        run(fragment, pa.table({"x": [1]}))
    assert caught.value.reason == "MEMORY_LIMIT"
    instance.close()


def test_names_and_keywords_of_others_are_only_names(instance: Instance) -> None:
    name = 'we"ird; DROP TABLE x --'
    source = StreamSource(relation=name, schema=X, size_class=1, replayed=True)
    sql = f'SELECT c0 FROM "{name.replace(chr(34), chr(34) * 2)}"'
    assert run(Fragment(sql, schema=X, instance=instance, streams=[source]), pa.table({"x": [1]})) == [{"x": 1}]
