"""A row for each item, whatever kind of list it is in, as plain Python and DuckDB expand it."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.operators.core.streams import BatchStream
from tidegate.operators.testing import CHECKS, Case
from tidegate.operators.unnest import Unnest
from tidegate.proto.errors import ExecutionError, InternalError

from ..duckdb_oracle import oracle
from .data import Rows, rows_of, run, stream

INTS = pa.list_(pa.int64())
ONE = pa.schema([("k", pa.string()), ("l", INTS)])
TWO = pa.schema([("k", pa.string()), ("l", INTS), ("m", pa.list_(pa.string()))])


def unnest(schema: pa.Schema, *lists: int, outer: bool = False, ordinality: bool = False, rows: int = 65_536) -> Unnest:
    """Keeps what it does not unnest."""
    keep = [i for i in range(len(schema)) if i not in lists]
    items = [pa.field(schema.field(i).name, schema.field(i).type.value_type) for i in lists]
    output = [*(schema.field(i) for i in keep), *items, *[pa.field("o", pa.int64())] * ordinality]
    return Unnest(
        schema,
        lists=lists,
        keep=keep,
        schema=pa.schema(output),
        ordinality=ordinality,
        outer=outer,
        rows=rows,
        plan_path="relations[0]",
    )


def table(schema: pa.Schema, *columns: Sequence[object]) -> pa.Table:
    return pa.table([pa.array(c, f.type) for c, f in zip(columns, schema, strict=True)], schema=schema)


EPOCHS = [
    [table(TWO, ["a", "b", None, "d"], [[1, None, 3], [], None, [4]], [["x"], None, [], ["y", "z"]])],
    [table(TWO, ["a"], [list(range(10))], [None])],
    [table(TWO, [], [], [])],
    [table(TWO, ["e", "f"], [None, [7]], [[], [None]])],
]


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("outer", [False, True], ids=["inner", "outer"])
def test_it_conforms(check: Callable[[Case], None], outer: bool) -> None:
    check(Case(make=lambda: unnest(TWO, 1, 2, outer=outer, ordinality=True, rows=2), epochs=EPOCHS))


def test_other_columns_are_repeated_beside_each_item() -> None:
    rows = table(ONE, ["a", "b"], [[1, 2], [3]])
    assert run(unnest(ONE, 1), rows) == [{"k": "a", "l": 1}, {"k": "a", "l": 2}, {"k": "b", "l": 3}]


def test_shorter_lists_are_padded_with_nulls() -> None:
    rows = table(TWO, ["a"], [[1]], [["x", "y"]])
    assert run(unnest(TWO, 1, 2), rows) == [{"k": "a", "l": 1, "m": "x"}, {"k": "a", "l": None, "m": "y"}]


@pytest.mark.parametrize("empty", [None, []])
def test_an_empty_list_gives_a_row_of_nulls_only_when_outer(empty: list[int] | None) -> None:
    rows = table(ONE, ["a"], [empty])
    assert run(unnest(ONE, 1, ordinality=True), rows) == []
    assert run(unnest(ONE, 1, ordinality=True, outer=True), rows) == [{"k": "a", "l": None, "o": None}]


def test_a_null_item_has_an_ordinality() -> None:
    rows = table(ONE, ["a"], [[None, 5]])
    expected = [{"k": "a", "l": None, "o": 1}, {"k": "a", "l": 5, "o": 2}]
    assert run(unnest(ONE, 1, ordinality=True, outer=True), rows) == expected


@pytest.mark.parametrize(
    "type_",
    [
        pa.list_(pa.int64()),
        pa.large_list(pa.int64()),
        pa.list_view(pa.int64()),
        pa.large_list_view(pa.int64()),
        pa.list_(pa.int64(), 2),
        pa.list_(pa.dictionary(pa.int8(), pa.string())),
        pa.list_(pa.list_(pa.string())),
        pa.list_(pa.struct([("x", pa.int64())])),
    ],
    ids=str,
)
def test_lists_of_every_kind_are_unnested_also_from_slices(type_: pa.DataType) -> None:
    items = {"dictionary": ["p", "q"], "list": [["p"], None], "struct": [{"x": 1}, {"x": None}]}
    name = next((name for name in items if name in str(type_.value_type)), "")
    pair = items.get(name, [1, None])
    schema = pa.schema([("l", type_)])
    rows = table(schema, [[pair[0]] * 2, None, pair, pair[::-1]]).slice(1)
    assert [row["l"] for row in run(unnest(schema, 0), rows)] == [*pair, *pair[::-1]]


def test_a_map_gives_its_entries() -> None:
    schema = pa.schema([("m", pa.map_(pa.string(), pa.int64()))])
    output = pa.schema([("e", pa.struct([("name", pa.string()), ("value", pa.int64())]))])
    operator = Unnest(schema, lists=[0], keep=[], schema=output)
    rows = table(schema, [[("a", 1)], None, [("b", None), ("c", 3)]]).slice(1)
    assert run(operator, rows) == [{"e": {"name": "b", "value": None}}, {"e": {"name": "c", "value": 3}}]


def test_text_in_views_is_kept_and_unnested() -> None:
    schema = pa.schema([("k", pa.string_view()), ("l", pa.list_(pa.string_view()))])
    rows = table(schema, ["a", "b"], [["x"], [None, "y"]])
    assert run(unnest(schema, 1, outer=True), rows.slice(1)) == [{"k": "b", "l": None}, {"k": "b", "l": "y"}]


def test_what_lies_below_a_null_list_is_not_an_item() -> None:
    hidden = pa.ListArray.from_arrays([0, 2, 4], pa.array([1, 2, 3, 4]), mask=pa.array([True, False]))
    schema = pa.schema([("l", INTS)])
    assert run(unnest(schema, 0), pa.table([hidden], schema=schema)) == [{"l": 3}, {"l": 4}]


def test_a_list_of_millions_comes_in_bounded_batches_and_is_given_up_at_once() -> None:
    schema = pa.schema([("l", INTS)])
    long = pa.ListArray.from_arrays([0, 3_000_000], pa.nulls(3_000_000, pa.int64()).fill_null(1))
    pulled = []

    def batches() -> Iterator[pa.RecordBatch]:
        for number in range(3):
            pulled.append(number)
            yield pa.record_batch([long], schema=schema)

    source = BatchStream(schema, batches())
    output = unnest(schema, 0).run([source])
    sizes = [batch.num_rows for batch in itertools.islice(output, 46)]
    assert sizes == [65_536] * 45 + [3_000_000 - 45 * 65_536]
    output.close()  # type: ignore[attr-defined] # a generator
    assert pulled == [0]
    assert next(source, None) is None


def test_an_interrupt_ends_the_run_within_a_list() -> None:
    operator = unnest(ONE, 1, rows=1)
    output = operator.run([stream(table(ONE, ["a"], [[1, 2]]))])
    next(output)
    operator.interrupt()
    with pytest.raises(ExecutionError, match=r"relations\[0\]: interrupted"):
        next(output)


@pytest.mark.parametrize(
    ("schema", "output", "outer", "message"),
    [
        (pa.schema([("k", pa.int64())]), [("k", pa.int64())], False, "only lists and maps can be unnested"),
        (ONE.remove(0), [("l", pa.string())], False, "is int64, and in the result string"),
        (ONE.remove(0), [("l", pa.int64()), ("o", pa.int64())], False, "no ordinality for 2 columns"),
        (ONE.remove(0), [pa.field("l", pa.int64(), nullable=False)], True, "may be null"),
    ],
)
def test_a_result_that_cannot_be_is_refused(
    schema: pa.Schema, output: Sequence[object], outer: bool, message: str
) -> None:
    with pytest.raises(InternalError, match=message):
        Unnest(schema, lists=[0], keep=[], schema=pa.schema(output), outer=outer, plan_path="relations[0]")


# --- any lists --------------------------------------------------------------------------------------------------------

LIST = st.none() | st.lists(st.none() | st.integers(0, 9), max_size=5)
ROWS = st.lists(st.tuples(st.text("ab", max_size=1), LIST, LIST), max_size=8)
BOTH = pa.schema([("k", pa.string()), ("l", INTS), ("m", pa.large_list(pa.int64()))])
Row = tuple[str, list[int | None] | None, list[int | None] | None]


@given(ROWS, st.booleans(), st.integers(1, 7), st.integers(1, 4))
def test_it_is_a_zip_to_the_longest(rows: list[Row], outer: bool, size: int, cut: int) -> None:
    operator = unnest(BOTH, 1, 2, outer=outer, ordinality=True, rows=size)
    given_rows = table(BOTH, *zip(*rows, strict=True)) if rows else BOTH.empty_table()
    batches = list(operator.run([stream(given_rows, cut)]))
    assert all(0 < batch.num_rows <= size for batch in batches)
    assert rows_of(batches) == in_python(rows, outer)


def in_python(rows: list[Row], outer: bool) -> Rows:
    expected: Rows = []
    for k, l, m in rows:  # noqa: E741 - as the columns are called
        zipped = list(itertools.zip_longest(l or [], m or []))
        expected += [{"k": k, "l": a, "m": b, "o": o} for o, (a, b) in enumerate(zipped, 1)]
        if outer and not zipped:
            expected.append({"k": k, "l": None, "m": None, "o": None})
    return expected


@given(ROWS)
def test_it_is_what_duckdb_unnests(rows: list[Row]) -> None:
    given_rows = table(BOTH, *zip(*rows, strict=True)) if rows else BOTH.empty_table()
    with oracle({"given_rows": given_rows}) as connection:
        expected = connection.sql("SELECT k, unnest(l), unnest(m) FROM given_rows").fetchall()
    assert [tuple(row.values()) for row in run(unnest(BOTH, 1, 2), given_rows)] == expected
