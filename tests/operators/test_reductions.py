"""Results that are computed without DuckDB: they are DuckDB's, bit for bit."""

from __future__ import annotations

import datetime as dt
import decimal
import functools
import itertools
import operator
from collections.abc import Iterator
from typing import Any, Literal, get_args, get_type_hints

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidegate.operators.arrays.digest import digest
from tidegate.operators.arrays.reductions import Reduction, reduce, reducible
from tidegate.operators.duckdb.instances import Instance
from tidegate.operators.group_measures import Measure
from tidegate.operators.streaming_aggregate import StreamingAggregate
from tidegate.proto.errors import ExecutionError

from ..searching import tries
from .data import run

Function = Literal["count", "sum", "min", "max", "first"]
FUNCTIONS = get_args(get_type_hints(Reduction)["function"])
D = decimal.Decimal

VALUES: dict[pa.DataType, st.SearchStrategy[object]] = {
    pa.int8(): st.integers(-128, 127),
    pa.uint32(): st.integers(0, 2**32 - 1),
    pa.int64(): st.integers(-(2**63), 2**63 - 1) | st.integers(-5, 5),
    pa.uint64(): st.integers(0, 2**64 - 1) | st.integers(0, 5),
    pa.float32(): st.floats(width=32) | st.sampled_from([0.0, -0.0]),
    pa.float64(): st.floats() | st.floats(-1, 1) | st.sampled_from([0.0, -0.0, 1e16, 1.0, -1e16]),
    pa.decimal128(18, 2): st.integers(-(10**18) + 1, 10**18 - 1).map(lambda digits: D(digits).scaleb(-2)),
    pa.decimal128(38, 2): st.integers(-(10**30), 10**30).map(lambda digits: D(digits).scaleb(-2)),
    pa.date32(): st.dates(dt.date(1900, 1, 1), dt.date(2100, 1, 1)),
    pa.timestamp("us"): st.datetimes(dt.datetime(1900, 1, 1), dt.datetime(2100, 1, 1)),  # noqa: DTZ001
    pa.string(): st.text("ab", max_size=2),
}


def output_type(function: str, type_: pa.DataType) -> pa.DataType:
    if function == "count":
        return pa.int64()
    if function != "sum":
        return type_
    if pa.types.is_decimal(type_):
        return pa.decimal128(38, type_.scale)
    return pa.float64() if pa.types.is_floating(type_) else pa.int64()


COMPUTED = [(function, type_) for function, type_ in itertools.product(("sum", "min", "max"), VALUES)]
TAKEN = [(function, type_) for function, type_ in itertools.product(("count", "first"), (pa.int8(), pa.string()))]
CASES = [
    (function, type_)
    for function, type_ in COMPUTED + TAKEN
    if reducible(Reduction(function=function, column=0), pa.schema([("v", type_)]), output_type(function, type_))
]


def test_what_has_no_word_of_its_own_is_left_to_duckdb() -> None:
    left_out = {(function, str(type_)) for function, type_ in COMPUTED} - {(f, str(type_)) for f, type_ in CASES}
    sums = {("sum", "date32[day]"), ("sum", "timestamp[us]")}
    assert left_out == sums | set(itertools.product(("sum", "min", "max"), ("string", "decimal128(38, 2)")))


@pytest.fixture(scope="module")
def duckdb_one_thread() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect(config={"threads": 1}) as connection:
        yield connection


@pytest.mark.parametrize(("function", "type_"), CASES, ids=str)
@given(data=st.data())
@settings(max_examples=tries(12), deadline=None)
def test_it_is_what_duckdb_computes_or_nothing(
    function: Function, type_: pa.DataType, duckdb_one_thread: duckdb.DuckDBPyConnection, data: st.DataObject
) -> None:
    groups = data.draw(st.lists(st.lists(st.none() | VALUES[type_], min_size=1, max_size=6), min_size=1, max_size=5))
    values = pa.array([value for group in groups for value in group], type_)
    output = output_type(function, type_)
    totals = reduced(function, values, [len(group) for group in groups], output)
    if totals is None:
        assert function in ("sum", "min", "max")
        return
    number = pa.array([at for at, group in enumerate(groups) for _ in group])
    duckdb_one_thread.register("numbered", pa.table({"g": number, "v": values}))
    sql = f"SELECT {function}(v) AS v FROM numbered GROUP BY g ORDER BY g"
    expected = duckdb_one_thread.sql(sql).to_arrow_table().cast(pa.schema([("v", output)]))
    assert digest_of(totals) == digest_of(expected["v"].combine_chunks())


def reduced(function: Function, values: pa.Array, lengths: list[int], output: pa.DataType) -> pa.Array | None:
    sizes = np.array(lengths)
    rows = pa.record_batch({"v": pa.concat_arrays([values[:1], values])}).slice(1)
    return reduce(Reduction(function=function, column=0), rows, np.cumsum(sizes) - sizes, sizes, output)


def digest_of(column: pa.Array) -> str:
    return digest(pa.schema([("v", column.type)]), [pa.record_batch({"v": column})])


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("type_", [pa.int64(), pa.float64(), pa.decimal128(18, 2)], ids=str)
def test_plain_numbers_and_nulls_need_no_duckdb(function: Function, type_: pa.DataType) -> None:
    number = D if pa.types.is_decimal(type_) else float if pa.types.is_floating(type_) else int
    values = pa.array([None if value is None else number(value) for value in (3, None, 1, None, None, 2)], type_)
    expected = {
        "count": [2, 0, 1],
        "sum": [4, None, 2],
        "min": [1, None, 2],
        "max": [3, None, 2],
        "first": [3, None, None],
    }
    totals = reduced(function, values, [3, 1, 2], output_type(function, type_))
    assert totals is not None
    assert totals.to_pylist() == expected[function]


def one_after_the_other(values: np.ndarray[Any, Any]) -> float:
    """The sum with an error at each step. Python's `sum` corrects these errors from 3.12 on."""
    return functools.reduce(operator.add, values.tolist(), 0.0)


@pytest.mark.parametrize("lengths", [[1, 256, 3], [200, 1, 56, 255]])
def test_floats_are_added_row_after_row(lengths: list[int]) -> None:
    values = np.random.default_rng(4).normal(scale=1e8, size=sum(lengths))
    totals = reduced("sum", pa.array(values), lengths, pa.float64())
    groups = np.split(values, np.cumsum(lengths)[:-1])
    assert totals is not None
    assert totals.to_pylist() == [one_after_the_other(group) for group in groups]


def test_a_sum_that_overflows_is_the_statements_error(instance: Instance) -> None:
    schema = pa.schema([("k", pa.int64()), ("v", pa.int64())])
    operator = StreamingAggregate(
        schema,
        keys=[0],
        measures=[Measure(sql="CAST(sum(c1) AS BIGINT)", reduction=Reduction(function="sum", column=1))],
        schema=pa.schema([("k", pa.int64()), ("s", pa.int64())]),
        instance=instance,
    )
    large = 2**63 - 1
    rows = pa.table([[1, 1, 2], [large, -large, large]], schema=schema)
    assert run(operator, rows) == [{"k": 1, "s": 0}, {"k": 2, "s": large}]
    with pytest.raises(ExecutionError, match="INT64"):
        run(operator, pa.table([[1, 1], [large, 1]], schema=schema))
