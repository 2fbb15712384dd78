"""Windows put together from slices, against windows in plain Python."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Any, Final

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tidegate.operators.arrays.digest import digest
from tidegate.operators.core.streams import BatchStream
from tidegate.operators.duckdb.instances import Instance
from tidegate.operators.slices import sliding_windows
from tidegate.operators.slices.sliding_windows import SlidingWindows, WindowsOfSlices
from tidegate.operators.slices.state_joins import StateFunction

from ..searching import tries

Row = tuple[Any, ...]
STATES: Final[Mapping[str, tuple[StateFunction, pa.DataType, Any]]] = {
    "numbers": ("sum", pa.decimal128(38, 0), st.integers(-9, 9) | st.sampled_from([2**63, -(2**80), 10**30])),
    "decimals": ("sum", pa.decimal128(38, 2), st.integers(-999, 999).map(lambda number: Decimal(number) / 100)),
    "floats": ("sum", pa.float64(), st.integers(-9, 9).map(float) | st.sampled_from([math.inf, math.nan])),
    "count": ("count", pa.int64(), st.integers(0, 9)),
    "least float": ("min", pa.float64(), st.floats(width=32)),
    "greatest float": ("max", pa.float32(), st.floats(width=32)),
    "least decimal": ("min", pa.decimal128(9, 2), st.integers(-999, 999).map(lambda number: Decimal(number) / 100)),
    "greatest i8": ("max", pa.int8(), st.integers(-128, 127)),
    "least time": ("min", pa.timestamp("us"), st.integers(-(2**40), 2**40)),
    "all": ("bool_and", pa.bool_(), st.booleans()),
    "any": ("bool_or", pa.bool_(), st.booleans()),
}
KEYS: Final[Mapping[str, tuple[pa.DataType, Any]]] = {
    "texts": (pa.string(), st.sampled_from(["", "a", "b"])),
    "numbers": (pa.int64(), st.sampled_from([-(2**63), 0, 1, 2**63 - 1])),
    "near numbers": (pa.int32(), st.integers(3, 5)),
    "floats": (pa.float64(), st.sampled_from([0.0, -0.0, math.nan, 1.5])),
    "decimals": (pa.decimal128(38, 1), st.sampled_from([Decimal("1.5"), Decimal(10) ** 36])),
    "truth": (pa.bool_(), st.booleans()),
}
SLICES: Final = pa.schema([pa.field("n", pa.int64(), False), ("k", pa.int64()), ("s", pa.decimal128(38, 0))])


def sliding(
    instance: Instance,
    schema: pa.Schema = SLICES,
    functions: Sequence[StateFunction] = ("sum",),
    length: int = 10,
    step: int = 3,
    *,
    plain: bool = False,
) -> SlidingWindows:
    """Windows that hand out their joined states. DuckDB would put each row into each of its windows."""
    keys = len(schema) - 1 - len(functions)
    columns = "".join(f", c{at}" for at in range(1, 1 + keys))
    joined = "".join(f", {_joined(function)}(c{at})" for at, function in enumerate(functions, 1 + keys))
    first, last = _rounded_down(f"(c0 - {length - step})", step), _rounded_down("c0", step)
    windows = WindowsOfSlices(
        length=length,
        step=step,
        keys=keys,
        functions=tuple(functions),
        values=f"SELECT {', '.join(f'c{at}' for at in range(len(schema)))} FROM in0",
        plain=plain,
        windows=f"SELECT w{columns}{joined} FROM (SELECT *, unnest(range({first}, {last} + 1)) AS w FROM in0) "
        f"GROUP BY (w{columns})",
        long={},
    )
    return SlidingWindows(schema, windows=windows, schema=schema, size_class=1_000, instance=instance)


def _rounded_down(number: str, by: int) -> str:
    return f"({number} // {by} - CAST({number} % {by} < 0 AS BIGINT))"


def _joined(function: str) -> str:
    return "sum" if function == "count" else function


def join(function: str, values: Sequence[Any]) -> Any:
    known = [value for value in values if value is not None]
    if function == "count":
        return sum(known)
    if not known:
        return None
    if function == "sum":
        return sum(known[1:], known[0])
    numbers = [(isinstance(value, float) and math.isnan(value), value) for value in known]
    return (min if function in ("min", "bool_and") else max)(numbers)[1]


def naive(rows: Sequence[Row], functions: Sequence[str], length: int, step: int, keys: int) -> list[Row]:
    groups: dict[Row, list[Row]] = defaultdict(list)
    for row in rows:
        for window in range((row[0] - length) // step + 1, row[0] // step + 1):
            groups[(window, *map(_alike, row[1 : 1 + keys]))].append(row[1 + keys :])
    return [
        (*group, *(join(function, values) for function, values in zip(functions, zip(*own, strict=True), strict=True)))
        for group, own in groups.items()
    ]


def _alike(value: Any) -> Any:
    """One value for values that are equal as keys, or as results."""
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else value + 0.0
    return int(value) if isinstance(value, Decimal) and value == int(value) else value


def counted(rows: Sequence[Row]) -> Counter[Row]:
    return Counter(tuple(map(_alike, row)) for row in rows)


def table(rows: Sequence[Row], schema: pa.Schema) -> pa.Table:
    columns = list(zip(*rows, strict=True)) or [()] * len(schema)
    return pa.table(
        [pa.array(column, type_) for column, type_ in zip(columns, schema.types, strict=True)], schema=schema
    )


def run(operator: SlidingWindows, rows: pa.Table, at_once: int = 1_000) -> pa.Table:
    try:
        stream = BatchStream(rows.schema, rows.to_batches(max_chunksize=at_once))
        return pa.Table.from_batches(operator.run([stream]), operator.schema)
    finally:
        operator.close()


def listed(rows: pa.Table) -> list[Row]:
    columns = [
        (column.cast(pa.int64()) if pa.types.is_timestamp(column.type) else column).to_pylist()
        for column in rows.columns
    ]
    return list(zip(*columns, strict=True))


@st.composite
def cases(draw: Callable[[Any], Any]) -> tuple[list[Row], pa.Schema, list[StateFunction]]:
    states = draw(st.lists(st.sampled_from(sorted(STATES)), min_size=1, max_size=4, unique=True))
    keys = draw(st.lists(st.sampled_from(sorted(KEYS)), max_size=2, unique=True))
    columns = [st.none() | KEYS[key][1] for key in keys]
    columns += [STATES[name][2] if name == "count" else st.none() | STATES[name][2] for name in states]
    slices = draw(st.sampled_from([st.integers(-30, 30), st.integers(-(2**50), 2**50), st.integers(-9, 9)]))
    rows = draw(st.lists(st.tuples(slices, *columns), max_size=60))
    fields = [pa.field("n", pa.int64(), False), *((f"k{key}", KEYS[key][0]) for key in keys)]
    schema = pa.schema([*fields, *((name, STATES[name][1]) for name in states)])
    return rows, schema, [STATES[name][0] for name in states]


@settings(max_examples=tries(60), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(cases(), st.integers(1, 13), st.integers(1, 13), st.booleans())
@example(([(0, 1), (5, 2)], pa.schema([("n", pa.int64()), ("s", pa.int64())]), ["count"]), 3, 1, True)
def test_a_window_has_the_joined_states_of_its_slices(
    warm: Instance, case: tuple[list[Row], pa.Schema, list[StateFunction]], length: int, step: int, plain: bool
) -> None:
    rows, schema, functions = case
    keys = len(schema) - 1 - len(functions)
    answer = run(sliding(warm, schema, functions, length, step, plain=plain), table(rows, schema))
    assert counted(listed(answer)) == counted(naive(rows, functions, length, step, keys))


@pytest.mark.parametrize("groups", [1, 50, 3_000])
def test_many_slices_of_few_groups_and_few_slices_of_many(warm: Instance, groups: int) -> None:
    rows = [(number * 7_919 % 4_001, number * 31 % groups, Decimal(number % 11)) for number in range(9_000)]
    answer = run(sliding(warm, length=200, step=70), table(rows, SLICES))
    assert counted(listed(answer)) == counted(naive(rows, ["sum"], 200, 70, 1))


@pytest.mark.parametrize("function", ["sum", "min"])
def test_the_order_and_the_bits_of_windows_do_not_depend_on_batches(warm: Instance, function: StateFunction) -> None:
    schema = pa.schema([("n", pa.int64()), ("k", pa.string()), ("s", pa.float64())])
    rows = table([(number * 37 % 211, f"{number % 13}", 0.1 * number) for number in range(2_000)], schema)
    digests = {
        digest(schema, iter(run(sliding(warm, schema, [function]), rows, at_once).to_batches()))
        for at_once in (1, 7, 1_000, 2_000)
    }
    assert len(digests) == 1


def test_a_sum_of_floats_is_that_of_a_window_s_own_slices(warm: Instance) -> None:
    """A sum that was once infinite, or very large, leaves nothing behind in windows that begin later."""
    schema = pa.schema([("n", pa.int64()), ("s", pa.float64())])
    rows = [(0, math.inf), (1, 1e300), (2, 0.1), (3, 0.2), (4, 0.3)]
    answer = run(sliding(warm, schema, ["sum"], 3, 1), table(rows, schema))
    assert dict(listed(answer))[2] == pytest.approx(0.6)


def test_sums_of_opposite_infinities_and_of_very_large_floats_warn_nobody(warm: Instance) -> None:
    """The tests take warnings for errors. Rows are in few long blocks of slices, then in many short ones."""
    schema = pa.schema([("n", pa.int64()), ("k", pa.int64()), ("s", pa.float64())])
    values = [math.inf, -math.inf, 1e308, 1e308, -1e308, -1e308, -1e308]
    for groups in (1, 40):
        rows = [(number, number % groups, values[number % 7]) for number in range(400)]
        answer = run(sliding(warm, schema, ["sum"], 6 * groups, groups), table(rows, schema))
        assert any(math.isnan(window[-1]) for window in listed(answer))


def test_rows_beyond_a_share_of_the_memory_are_put_together_by_duckdb(
    warm: Instance, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sliding_windows, "_MOST_BYTES", 1_000)
    rows = [(number * 37 % 211, number % 13, Decimal(number)) for number in range(2_000)]
    answer = run(sliding(warm), table(rows, SLICES), 100)
    assert counted(listed(answer)) == counted(naive(rows, ["sum"], 10, 3, 1))


@pytest.mark.parametrize("rows", [[(0, 1, Decimal(6 * 10**37)), (5, 1, Decimal(3 * 10**37))], [(2**62, 1, Decimal(1))]])
def test_numbers_that_may_not_fit_are_put_together_by_duckdb(warm: Instance, rows: list[Row]) -> None:
    answer = run(sliding(warm), table(rows, SLICES))
    assert counted(listed(answer)) == counted(naive(rows, ["sum"], 10, 3, 1))
