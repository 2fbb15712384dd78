from __future__ import annotations

import datetime as dt
import decimal
import itertools
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow.fs import PyFileSystem

from tidegate.operators.core.blocks import BLOCK_ROWS
from tidegate.operators.core.key_rows import Holding
from tidegate.operators.core.streams import BatchStream
from tidegate.operators.duckdb.instances import Instance
from tidegate.operators.merge_join import JoinKey, MergeJoin
from tidegate.operators.merging.kinds import Comparison, MergeJoinType
from tidegate.operators.merging.pair_filter import PairCondition
from tidegate.operators.sources.scan import Scan
from tidegate.operators.testing import CHECKS, Case, WatchedStream
from tidegate.proto.errors import ExecutionError, InternalError

from .data import column, pieces_of, rows_of, run, stream
from .test_early_close import CountingHandler, groups_touched

T = MergeJoinType
ONE_SIDE = {T.LEFT_SEMI: 0, T.LEFT_ANTI: 0, T.RIGHT_SEMI: 1, T.RIGHT_ANTI: 1}
BY_FIRST = [JoinKey(left=0, right=0)]


@pytest.fixture
def holding(tmp_path: Path) -> Holding:
    return Holding(memory_limit=1 << 20, folder=tmp_path / "held")


def output_schema(left: pa.Schema, right: pa.Schema, type_: T) -> pa.Schema:
    sides = [left, right] if type_ not in ONE_SIDE else [[left, right][ONE_SIDE[type_]]]
    return pa.schema([pa.field(f"c{i}", f.type) for i, f in enumerate(itertools.chain(*sides))])


def join(
    left: pa.Schema,
    right: pa.Schema,
    holding: Holding,
    type_: T = T.INNER,
    keys: Sequence[JoinKey] = BY_FIRST,
    condition: PairCondition | None = None,
    instance: Instance | None = None,
) -> MergeJoin:
    return MergeJoin(
        left=left,
        right=right,
        keys=keys,
        type=type_,
        schema=output_schema(left, right, type_),
        holding=holding,
        condition=condition,
        instance=instance,
        plan_path="relations[0]",
    )


def tuples(rows: list[dict[str, object]]) -> list[tuple[object, ...]]:
    return [tuple(row.values()) for row in rows]


LEFT = pa.table({"k": [1, 2, 2, 4, None], "v": ["a", "b", "c", "d", "e"]})
RIGHT = pa.table({"k": [2, 2, 3, 4, None], "w": [20, 21, 30, 40, 50]})


# --- what comes out -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("type_", [type_ for type_ in T if "single" not in type_.value])
def test_a_merge_join_conforms(check: Callable[[Case], None], type_: T, holding: Holding) -> None:
    epochs = [[LEFT, RIGHT], [LEFT.slice(0, 0), RIGHT], [LEFT, RIGHT.slice(0, 0)], [LEFT.slice(2), RIGHT.slice(1)]]
    check(Case(make=lambda: join(LEFT.schema, RIGHT.schema, holding, type_), epochs=epochs))


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("type_", [T.LEFT_SINGLE, T.RIGHT_SINGLE])
def test_a_single_join_conforms(check: Callable[[Case], None], type_: T, holding: Holding) -> None:
    one, two = LEFT.slice(2), RIGHT.slice(1)
    check(Case(make=lambda: join(LEFT.schema, RIGHT.schema, holding, type_), epochs=[[one, two], [two_rows(), two]]))


def two_rows() -> pa.Table:
    return LEFT.take([0, 3])


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("type_", [T.OUTER, T.LEFT_ANTI, T.RIGHT_SEMI])
def test_a_join_with_a_condition_conforms(
    check: Callable[[Case], None], type_: T, holding: Holding, instance: Instance
) -> None:
    condition = PairCondition(sql="c3 > 20", reads=frozenset({3}))

    def make() -> MergeJoin:
        return join(LEFT.schema, RIGHT.schema, holding, type_, condition=condition, instance=instance)

    check(Case(make=make, epochs=[[LEFT, RIGHT], [LEFT.slice(2), RIGHT]]))


def test_rows_come_by_key_then_left_then_right_each_lost_one_at_its_keys_place(holding: Holding) -> None:
    outer = join(LEFT.schema, RIGHT.schema, holding, T.OUTER)
    assert tuples(run(outer, LEFT, RIGHT)) == [
        (1, "a", None, None),
        (2, "b", 2, 20),
        (2, "b", 2, 21),
        (2, "c", 2, 20),
        (2, "c", 2, 21),
        (None, None, 3, 30),
        (4, "d", 4, 40),
        (None, "e", None, None),
        (None, None, None, 50),
    ]


def test_null_keys_match_where_they_are_said_not_to_be_distinct(holding: Holding) -> None:
    keys = [JoinKey(left=0, right=0, comparison=Comparison.NOT_DISTINCT)]
    inner = join(LEFT.schema, RIGHT.schema, holding, keys=keys)
    assert tuples(run(inner, LEFT, RIGHT))[-1] == (None, "e", None, 50)


def test_a_row_whose_pairs_all_fail_the_condition_has_no_match(holding: Holding, instance: Instance) -> None:
    condition = PairCondition(sql="c3 = 21 AND c1 <> 'c'", reads=frozenset({1, 3}))
    outer = join(LEFT.schema, RIGHT.schema, holding, T.OUTER, condition=condition, instance=instance)
    assert tuples(run(outer, LEFT.slice(1, 2), RIGHT.slice(0, 2))) == [
        (2, "b", 2, 21),
        (2, "c", None, None),
        (None, None, 2, 20),
    ]


def test_a_second_match_of_a_single_join_is_an_error_that_names_the_row(holding: Holding) -> None:
    single = join(LEFT.schema, RIGHT.schema, holding, T.LEFT_SINGLE)
    with pytest.raises(ExecutionError, match=r"left input's row 1 \(k=2\) matches more than one row") as raised:
        run(single, LEFT, RIGHT)
    assert raised.value.reason == "MORE_THAN_ONE_MATCH"


def keyed(values: Sequence[object], type_: pa.DataType) -> pa.Table:
    return pa.table({"k": pa.array(values, type_), "n": pa.array(range(len(values)), pa.int32())})


DAYS = [dt.date(1969, 1, 1), dt.date(1970, 1, 2), dt.date(2262, 1, 1)]
TIMES = [dt.datetime(year, 1, 2, tzinfo=dt.UTC) for year in (1969, 1970, 2100)]
DECIMALS = [decimal.Decimal(text) for text in ("-12.50", "0.00", "99.99")]
ORDERED: list[tuple[pa.DataType, list[Any]]] = [
    *((type_, [-(2 ** (type_.bit_width - 1)), 0, 7]) for type_ in (pa.int8(), pa.int16(), pa.int32(), pa.int64())),
    *((type_, [0, 7, 2**type_.bit_width - 1]) for type_ in (pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64())),
    (pa.bool_(), [False, True]),
    (pa.float32(), [float("-inf"), -0.5, 1.5, float("nan")]),
    (pa.float64(), [-1e300, -5e-324, 0.0, float("inf"), float("nan")]),
    *((type_, DECIMALS) for type_ in (pa.decimal32(5, 2), pa.decimal64(12, 2), pa.decimal128(18, 2))),
    (pa.decimal128(38, 2), [*DECIMALS, decimal.Decimal(10**30)]),
    *((type_, ["", "a", "a\0", "b", "é", "\U0001f600"]) for type_ in (pa.string(), pa.large_string())),
    (pa.dictionary(pa.int8(), pa.string()), ["", "a", "b"]),
    *((type_, [b"", b"\x00", b"\x7f", b"\xff"]) for type_ in (pa.binary(), pa.large_binary())),
    (pa.binary(2), [b"\x00\x01", b"\x80\x00"]),
    (pa.date32(), DAYS),
    (pa.date64(), DAYS),
    (pa.time64("us"), [dt.time(0), dt.time(23, 59)]),
    (pa.timestamp("us"), [time.replace(tzinfo=None) for time in TIMES]),
    (pa.timestamp("s", "Europe/Paris"), TIMES),
    (pa.duration("us"), [dt.timedelta(-1), dt.timedelta(0), dt.timedelta(1)]),
]


@pytest.mark.parametrize(("type_", "values"), ORDERED, ids=[str(type_) for type_, _ in ORDERED])
@pytest.mark.parametrize("descending", [False, True], ids=["ascending", "descending"])
def test_keys_of_every_type_are_merged(
    type_: pa.DataType, values: list[Any], descending: bool, holding: Holding
) -> None:
    """All values on the left, all but one on the right, nulls last; what is missing is found missing."""
    ordered = [*(reversed(values) if descending else values), None]
    left, right = keyed(ordered, type_), keyed([*ordered[:1], *ordered[2:]], type_)
    outer = join(left.schema, right.schema, holding, T.OUTER, [JoinKey(left=0, right=0, descending=descending)])
    numbers = [(row["c1"], row["c3"]) for row in run(outer, left, right, rows=2)]
    matched = [(i, i if i == 0 else i - 1) for i in range(len(values)) if i != 1]
    assert numbers == [*sorted([*matched, (1, None), (len(values), None)]), (None, len(values) - 1)]


def test_dictionaries_may_differ_from_batch_to_batch_and_side_to_side(holding: Holding) -> None:
    schema = pa.schema([("k", pa.dictionary(pa.int8(), pa.string()))])

    def batches(*parts: list[str]) -> BatchStream:
        arrays = [pa.array(part).dictionary_encode().cast(schema.field(0).type) for part in parts]
        return BatchStream(schema, [pa.record_batch([array], schema=schema) for array in arrays])

    inner = join(schema, schema, holding)
    left, right = batches(["a", "b"], ["b", "d"]), batches(["b"], ["b", "c"], ["d"])
    assert [row["c0"] for row in rows_of(inner.run([left, right]))] == ["b"] * 4 + ["d"]


def test_keys_too_wide_to_pack_are_merged(holding: Holding) -> None:
    """Three columns of numbers from the whole range of int64."""
    random = np.random.default_rng(5)
    pool = random.integers(-(2**62), 2**62, (40, 3)) * 2
    rows = sorted(tuple(int(pool[random.integers(40), c]) for c in range(3)) for _ in range(3_000))
    left, right = (pa.table({f"k{c}": [row[c] for row in part] for c in range(3)}) for part in (rows, rows[::3]))
    semi = join(left.schema, right.schema, holding, T.LEFT_SEMI, [JoinKey(left=i, right=i) for i in range(3)])
    wanted = set(rows[::3])
    assert tuples(run(semi, left, right, rows=700)) == [row for row in rows if row in wanted]


# --- groups larger than a batch -----------------------------------------------------------------------------------


def one_key(rows: int) -> pa.Table:
    return pa.table({"k": np.zeros(rows, np.int64), "n": np.arange(rows)})


@pytest.mark.parametrize("memory", [0, 1 << 30], ids=["spilled", "in memory"])
def test_a_group_of_many_batches_on_both_sides_is_joined_row_by_row(memory: int, tmp_path: Path) -> None:
    left, right = one_key(5), one_key(BLOCK_ROWS * 2 + 3)
    inner = join(left.schema, right.schema, Holding(memory_limit=memory, folder=tmp_path))
    joined = pa.Table.from_batches(inner.run([stream(left, 2), stream(right, 40_000)]), inner.schema)
    assert joined["c1"].to_numpy().tolist() == np.repeat(np.arange(5), right.num_rows).tolist()
    assert joined["c3"].to_numpy().tolist() == np.tile(np.arange(right.num_rows), 5).tolist()
    assert not list(tmp_path.iterdir())


def test_matches_of_a_spilled_group_are_remembered_over_all_left_batches(tmp_path: Path, instance: Instance) -> None:
    left, right = one_key(6), one_key(1_000)
    condition = PairCondition(sql="c1 = 4 AND c3 % 2 = 0 OR c1 = 1 AND c3 = 7", reads=frozenset({1, 3}))
    holding = Holding(memory_limit=100, folder=tmp_path)
    outer = join(left.schema, right.schema, holding, T.OUTER, condition=condition, instance=instance)
    numbers = [(row["c1"], row["c3"]) for row in rows_of(outer.run([stream(left, 1), stream(right, 300)]))]
    lost = [n for n in range(1, 1_000, 2) if n != 7]
    matched = [(4, n) for n in range(0, 1_000, 2)]
    assert numbers == [(0, None), (1, 7), (2, None), (3, None), *matched, (5, None), *((None, n) for n in lost)]


def test_a_spilled_group_is_removed_when_the_output_is_closed_early(tmp_path: Path) -> None:
    left, right = one_key(100), one_key(10_000)
    output = join(left.schema, right.schema, Holding(memory_limit=100, folder=tmp_path)).run(
        [stream(left), stream(right)]
    )
    next(output)
    assert list(tmp_path.iterdir())
    output.close()  # type: ignore[attr-defined]
    assert not list(tmp_path.iterdir())


def test_output_batches_have_at_most_a_block_of_rows(holding: Holding) -> None:
    left, right = one_key(700), one_key(700)
    inner = join(left.schema, right.schema, holding, T.OUTER)
    sizes = [batch.num_rows for batch in inner.run([stream(left), stream(right)])]
    assert sum(sizes) == 490_000
    assert max(sizes) <= BLOCK_ROWS


# --- what is read -------------------------------------------------------------------------------------------------


def watched(keys: Sequence[object], rows: int = 1) -> WatchedStream:
    table = pa.table({"k": pa.array(keys, pa.int64())})
    return WatchedStream(table.schema, table.to_batches(max_chunksize=rows))


K = pa.schema([("k", pa.int64())])
KEEPS_LEFT = {T.LEFT, T.OUTER, T.LEFT_ANTI, T.LEFT_SINGLE}
KEEPS_RIGHT = {T.RIGHT, T.OUTER, T.RIGHT_ANTI, T.RIGHT_SINGLE}


@pytest.mark.parametrize("type_", sorted(set(T) - KEEPS_RIGHT, key=str))
def test_the_right_side_is_closed_once_the_left_one_has_ended(type_: T, holding: Holding) -> None:
    left, right = watched([1, 3]), watched(range(10))
    list(join(K, K, holding, type_).run([left, right]))
    assert right.closed
    assert right.pulled <= 5


@pytest.mark.parametrize("type_", sorted(set(T) - KEEPS_LEFT, key=str))
def test_the_left_side_is_closed_once_the_right_one_has_ended(type_: T, holding: Holding) -> None:
    left, right = watched(range(10)), watched([1, 3])
    list(join(K, K, holding, type_).run([left, right]))
    assert left.closed
    assert left.pulled <= 5


@pytest.mark.parametrize("type_", sorted(set(T) - KEEPS_RIGHT, key=str))
def test_an_empty_left_side_leaves_the_right_one_alone(type_: T, holding: Holding) -> None:
    right = watched(range(10))
    assert list(join(K, K, holding, type_).run([watched([]), right])) == []
    assert right.pulled <= (type_ is T.RIGHT_SEMI)  # which looks at the right side first


@pytest.mark.parametrize("type_", [T.INNER, T.LEFT_SEMI, T.LEFT, T.LEFT_ANTI])
def test_null_keys_at_the_end_close_the_side_that_they_cannot_match(type_: T, holding: Holding) -> None:
    left, right = watched([1, *[None] * 5]), watched([1, *range(2, 12)])
    list(join(K, K, holding, type_).run([left, right]))
    assert right.pulled <= 3
    assert left.pulled == (6 if type_ in KEEPS_LEFT else 2)


def test_a_side_is_read_one_batch_at_a_time(holding: Holding) -> None:
    left, right = watched(range(0, 100, 10)), watched(range(100), rows=10)
    output = join(K, K, holding, T.RIGHT).run([left, right])
    next(output)
    assert (left.pulled, right.pulled) == (10, 10)


@pytest.mark.parametrize("dropped", ["left", "right"])
def test_a_scan_stops_within_two_row_groups_of_the_last_match(dropped: str, root: Path, holding: Holding) -> None:
    """One hundred row groups below one side; the other one's last key is in the tenth."""
    groups, rows = 100, BLOCK_ROWS
    path = root / "f.parquet"
    numbers = np.arange(groups * rows, dtype=np.int32)
    table = pa.table({"k": numbers, "unwanted": numbers})  # the file's end is read for its footer
    pq.write_table(table, path, row_group_size=rows, use_dictionary=False, compression="none")
    handler = CountingHandler()
    scan = Scan("t", (column("k", pa.int32()),), filesystem=PyFileSystem(handler))
    scan.assign("t", pieces_of(path, root))
    scanned = BatchStream(scan.schema, scan.run(()))
    few = stream(pa.table({"k": pa.array([5, 9 * rows + 7], pa.int32())}))
    inner = join(scan.schema, few.schema, holding)
    scanned_rows = rows_of(inner.run([scanned, few] if dropped == "left" else [few, scanned]))
    assert [row["c0"] for row in scanned_rows] == [5, 9 * rows + 7]
    assert groups_touched(path, handler.reads) <= set(range(12))


def test_the_first_rows_come_before_the_inputs_have_been_read(holding: Holding) -> None:
    left, right = watched(range(1_000), rows=10), watched(range(1_000), rows=10)
    inner = join(K, K, holding)
    first = next(iter(inner.run([left, right])))
    assert first.num_rows
    assert left.pulled == 100  # small batches are put together: these are all smaller than one
    left, right = watched(range(100_000), rows=5_000), watched(range(100_000), rows=5_000)
    next(iter(inner.run([left, right])))
    assert (left.pulled, right.pulled) == (1, 1)


# --- what is wrong ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rows", [1, 2, 3, 10])
def test_rows_out_of_order_are_named_with_their_keys_wherever_batches_end(rows: int, holding: Holding) -> None:
    right = pa.table({"k": [1, 2, 9, 4]})
    with pytest.raises(ExecutionError) as raised:
        list(join(K, K, holding, T.OUTER).run([watched(range(10)), stream(right, rows)]))
    assert raised.value.reason == "INPUT_NOT_SORTED"
    assert str(raised.value) == (
        "relations[0]: the right input of the merge join must be sorted by 'k' ascending nulls last: row 3 (k=4) comes "
        "after row 2 (k=9) (rows counted from 0)"
    )


@pytest.mark.parametrize(
    ("values", "key"),
    [
        ([1, None, 2], JoinKey(left=0, right=0)),
        ([1, None], JoinKey(left=0, right=0, nulls_first=True)),
        ([1, 2], JoinKey(left=0, right=0, descending=True)),
    ],
)
def test_the_direction_and_the_place_of_nulls_are_part_of_the_order(
    values: list[int | None], key: JoinKey, holding: Holding
) -> None:
    with pytest.raises(ExecutionError, match="must be sorted by 'k'"):
        list(join(K, K, holding, T.OUTER, [key]).run([watched(values), watched([])]))


def test_the_second_key_counts_where_the_first_is_equal(holding: Holding) -> None:
    schema = pa.schema([("a", pa.int64()), ("b", pa.string())])
    keys = [JoinKey(left=0, right=0), JoinKey(left=1, right=1)]
    good = pa.table({"a": [1, 1, 2], "b": ["x", "y", "a"]}, schema=schema)
    bad = pa.table({"a": [1, 2, 2], "b": ["x", "b", "a"]}, schema=schema)
    semi = join(schema, schema, holding, T.LEFT_SEMI, keys)
    assert len(run(semi, good, good)) == 3
    with pytest.raises(ExecutionError, match=r"row 2 \(a=2, b='a'\) comes after row 1 \(a=2, b='b'\)"):
        run(semi, bad, good)


def test_wrong_arguments_are_refused_when_it_is_made(holding: Holding) -> None:
    views = pa.schema([("k", pa.string_view())])
    floats, lists = pa.schema([("k", pa.float64())]), pa.schema([("k", pa.list_(pa.int8()))])
    with pytest.raises(InternalError, match="keys 'k' and 'k' are int64 and double"):
        join(K, floats, holding)
    with pytest.raises(InternalError, match="have no order"):
        join(lists, lists, holding)
    with pytest.raises(InternalError, match="cannot be picked"):
        join(views, views, holding)
    with pytest.raises(InternalError, match="gives columns of types"):
        MergeJoin(left=K, right=K, keys=BY_FIRST, type=T.INNER, schema=K, holding=holding)
    required = pa.schema([("l", pa.int64()), pa.field("r", pa.int64(), nullable=False)])
    with pytest.raises(InternalError, match="'r' is null where there is no match"):
        MergeJoin(left=K, right=K, keys=BY_FIRST, type=T.LEFT, schema=required, holding=holding)
    with pytest.raises(InternalError, match="needs a DuckDB instance"):
        join(K, K, holding, condition=PairCondition(sql="true", reads=frozenset()))


def test_an_interrupt_fails_the_run_and_not_the_next(holding: Holding) -> None:
    inner = join(K, K, holding)

    def interrupting() -> Iterator[pa.RecordBatch]:
        yield pa.record_batch({"k": [1]})
        inner.interrupt()
        yield pa.record_batch({"k": [2]})

    with pytest.raises(ExecutionError, match="interrupted"):
        list(inner.run([BatchStream(K, interrupting()), watched(range(10))]))
    assert len(rows_of(inner.run([watched([1]), watched([1])]))) == 1
