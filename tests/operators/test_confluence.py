"""Every operator of several inputs gives the same rows however they interleave and whatever batches they come in.

The rows are many enough, and their keys repeat enough, that an engine's own order would show. Where the order of an
input's rows means nothing to an operator, another order gives the same multiset.
"""

from __future__ import annotations

import importlib
import itertools
import pkgutil
import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import tidegate.operators
from tidegate.operators.arrays.digest import digest
from tidegate.operators.arrays.ordering import Order, Ordering
from tidegate.operators.arrays.sorted_merge import merged
from tidegate.operators.as_of_merge_join import AsOfMergeJoin
from tidegate.operators.core.key_rows import Holding
from tidegate.operators.core.operator import Operator, Stream
from tidegate.operators.core.streams import BatchStream
from tidegate.operators.core.submit import at_once
from tidegate.operators.duckdb.fragment import Fragment
from tidegate.operators.duckdb.instances import Instance
from tidegate.operators.index_lookup_join import IndexLookupJoin
from tidegate.operators.loop import Loop
from tidegate.operators.merge_join import MergeJoin
from tidegate.operators.merging.kinds import MergeJoinType
from tidegate.operators.pack_lists import PackLists
from tidegate.operators.select import Select
from tidegate.operators.slices.dense_slices import DenseSlices
from tidegate.operators.slices.dense_windows import DenseWindows
from tidegate.operators.slices.sliding_windows import SlidingWindows
from tidegate.operators.sources.scan import Scan
from tidegate.operators.streaming_aggregate import StreamingAggregate
from tidegate.operators.unnest import Unnest
from tidegate.operators.user.batch_function import BatchFunctionOperator
from tidegate.operators.user.iterate import Iterate
from tidegate.operators.user.union import Union
from tidegate.operators.user.user import User, UserStream
from tidegate.operators.write import AdoptingWrite, Write
from tidegate.proto.errors import InternalError
from tidegate.testing import check_operator

from ..searching import tries
from .data import over_streams
from .lookups import ByHand, LastFirst
from .reaching import counted, reached
from .test_index_lookup_join import squares
from .test_merge_join import join

Epoch = Sequence[pa.Table]
BY_KEY = [("k", "ascending")]
LARGE = 100_000_000


def rows(seed: int, count: int, keys: int) -> pa.Table:
    """Keys that repeat, some null, each row with a number of its own."""
    numbers = np.random.PCG64(seed).random_raw(count)
    ks = [None if number % 11 == 0 else int(number % keys) for number in numbers.tolist()]
    return pa.table({"k": pa.array(ks, pa.int64()), "v": pa.array(range(count), pa.int64())})


SMALL: list[Epoch] = [[rows(1, 9, 3), rows(2, 7, 3)], [rows(3, 3, 2), rows(4, 0, 2)]]


def by_key(table: pa.Table) -> pa.Table:
    return table.sort_by([*BY_KEY, ("v", "ascending")])


SORTED: list[Epoch] = [[by_key(table) for table in epoch] for epoch in SMALL]


def in_any_order(epoch: Epoch, chooser: random.Random) -> Epoch:
    return [table.take(pa.array(chooser.sample(range(len(table)), len(table)), pa.int64())) for table in epoch]


def in_any_order_of_a_key(epoch: Epoch, chooser: random.Random) -> Epoch:
    """Sorted all the same: pyarrow's sort is not stable, so the new order of equal keys is a column to sort by."""
    tables = []
    for table in epoch:
        draws = pa.array([chooser.random() for _ in range(len(table))], pa.float64())
        order = table.append_column("place", draws).sort_by([*BY_KEY, ("place", "ascending")])
        tables.append(order.drop_columns(["place"]))
    return tables


# --- fragments ---------------------------------------------------------------------------------------------------

PAIR = "in0.c0, in0.c1, in1.c0, in1.c1"
STATEMENTS = {
    "inner": f"SELECT {PAIR} FROM in0 JOIN in1 ON in0.c0 = in1.c0",
    "left": f"SELECT {PAIR} FROM in0 LEFT JOIN in1 ON in0.c0 = in1.c0",
    "right": f"SELECT {PAIR} FROM in0 RIGHT JOIN in1 ON in0.c0 = in1.c0",
    "full": f"SELECT {PAIR} FROM in0 FULL JOIN in1 ON in0.c0 = in1.c0 AND in0.c1 < in1.c1",
    "semi": "SELECT c0, c1 FROM in0 WHERE EXISTS (FROM in1 WHERE in1.c0 = in0.c0)",
    "anti": "SELECT c0, c1 FROM in0 WHERE NOT EXISTS (FROM in1 WHERE in1.c0 = in0.c0)",
    "cross": f"SELECT {PAIR} FROM in0 CROSS JOIN in1",
    "range": f"SELECT {PAIR} FROM in0 JOIN in1 ON in0.c1 < in1.c0",
    "union all": "SELECT c0, c1 FROM in0 UNION ALL SELECT c0, c1 FROM in1",
    "union": "SELECT c0 FROM in0 UNION SELECT c0 FROM in1",
    "intersect": "SELECT c0 FROM in0 INTERSECT ALL SELECT c0 FROM in1",
    "except": "SELECT c0 FROM in0 EXCEPT ALL SELECT c0 FROM in1",
    "groups of a join": "SELECT in0.c0, sum(in1.c1)::BIGINT FROM in0 JOIN in1 ON in0.c0 = in1.c0 GROUP BY in0.c0",
}
STREAMED = ("inner", "full", "union all")


def schema_of(sql: str) -> pa.Schema:
    columns = 4 if PAIR in sql else sql.partition(" FROM ")[0].count(",") + 1
    return pa.schema([(f"c{i}", pa.int64()) for i in range(columns)])


@pytest.mark.parametrize(
    ("name", "size_class"), [*((name, 1_000) for name in STATEMENTS), *((name, LARGE) for name in STREAMED)]
)
def test_a_fragment_of_two_inputs(name: str, size_class: int, warm: Instance) -> None:
    sql = STATEMENTS[name]

    def make() -> Operator:
        return over_streams(warm, sql, schema_of(sql), *SMALL[0], size_class=size_class)

    check_operator(make, SMALL, reordered=in_any_order)


def test_a_fragment_of_three_inputs(warm: Instance) -> None:
    sql = "SELECT in0.c1, in1.c1, in2.c1 FROM in0 JOIN in1 ON in0.c0 = in1.c0 LEFT JOIN in2 ON in2.c0 = in1.c1"
    schema = pa.schema([(f"c{i}", pa.int64()) for i in range(3)])
    epochs = [[rows(1, 5, 2), rows(2, 4, 2), rows(3, 4, 3)], [rows(4, 0, 2), rows(5, 3, 2), rows(6, 3, 2)]]
    check_operator(lambda: over_streams(warm, sql, schema, *epochs[0]), epochs, reordered=in_any_order)


def cut(table: pa.Table, sizes: Sequence[int]) -> list[pa.RecordBatch]:
    """In batches of these sizes, over and over."""
    batches: list[pa.RecordBatch] = []
    at = 0
    for size in itertools.cycle(sizes):
        batches += table.slice(at, size).combine_chunks().to_batches()
        at += size
        if at >= len(table):
            return batches
    return batches


@settings(max_examples=tries(6), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.integers(1_000, 70_000), min_size=2, max_size=9))
def test_an_engine_s_order_does_not_show_how_many_rows_are_cut(warm: Instance, sizes: list[int]) -> None:
    tables = rows(5, 70_000, 20_000), rows(6, 90_001, 20_000)
    sql = STATEMENTS["full"]
    fragment = over_streams(warm, sql, schema_of(sql), *tables, size_class=LARGE)
    digests = set()
    for split_sizes in ((LARGE,), (LARGE,)), (sizes[::2], sizes[1::2]), (sizes, (65_537,)):
        cuts = [BatchStream(table.schema, cut(table, size)) for table, size in zip(tables, split_sizes, strict=True)]
        digests.add(digest(fragment.schema, fragment.run(cuts)))
    assert len(digests) == 1


# --- operators of our own ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("type_", [type_ for type_ in MergeJoinType if "single" not in type_.value])
def test_a_merge_join(type_: MergeJoinType, tmp_path: Path) -> None:
    schema = SORTED[0][0].schema
    holding = Holding(memory_limit=1 << 20, folder=tmp_path)
    check_operator(lambda: join(schema, schema, holding, type_), SORTED, reordered=in_any_order_of_a_key)


@pytest.mark.parametrize("outer", [True, False])
def test_an_as_of_merge_join(outer: bool) -> None:
    """The values are the times."""
    side = SORTED[0][0].schema
    schema = pa.schema([pa.field(f"c{at}", field.type) for at, field in enumerate([*side, *side])])
    check_operator(
        lambda: AsOfMergeJoin(
            left=side, right=side, keys=[(0, 0)], ticks=(1, 1), outer=outer, tolerance=None, schema=schema
        ),
        SORTED,
    )


class Merged(Operator):
    """Sorted inputs as one, by an operator's contract."""

    schema = SORTED[0][0].schema

    def run(self, inputs: Sequence[Stream]) -> Iterator[pa.RecordBatch]:
        yield from merged(inputs, Ordering([Order(column=0)]))


@pytest.mark.parametrize("inputs", [2, 3, 5])
def test_a_merge_of_sorted_streams(inputs: int) -> None:
    epochs = [[by_key(rows(7 * epoch + number, 9, 3)) for number in range(inputs)] for epoch in range(2)]
    check_operator(Merged, epochs, reordered=in_any_order_of_a_key)


class AtRandom(LastFirst):
    """Some look-ups end as soon as others begin, the rest when they are waited for, the last one first."""

    def __init__(self, chooser: random.Random) -> None:
        super().__init__(self._some)
        self._chooser = chooser

    def _some(self, submit: ByHand) -> None:
        while submit.waiting and self._chooser.random() < 0.5:
            submit.run(self._chooser.randrange(len(submit.waiting)))


@given(
    st.lists(st.none() | st.integers(-3, 9), max_size=40),
    st.integers(0, 9),
    st.sampled_from(["inner", "left"]),
    st.randoms(use_true_random=False),
)
def test_a_look_up_join_whose_index_answers_in_any_order(
    values: list[int | None], prefetch: int, kind: str, chooser: random.Random
) -> None:
    """The index's answers are a second input: they come last first, at random, or as soon as they are asked for."""
    table = pa.table({"k": pa.array(values, pa.int64())})
    digests = set()
    for submit, ahead in (at_once, 0), (LastFirst(), prefetch), (AtRandom(chooser), prefetch), (AtRandom(chooser), 256):
        operator = squares(batch_rows=3, prefetch=ahead, submit=submit, join=kind)
        batches = table.to_batches(max_chunksize=chooser.randint(1, 9))
        digests.add(digest(operator.schema, operator.run([BatchStream(table.schema, batches)])))
    assert len(digests) == 1


@pytest.mark.parametrize("channels", [1, 3])
def test_a_loop(warm: Instance, channels: int) -> None:
    check_operator(lambda: reached(warm, channels), SMALL, reordered=in_any_order)


def test_a_loop_that_is_computed_anew_in_every_round(warm: Instance) -> None:
    check_operator(lambda: counted(warm), SMALL, reordered=in_any_order)


@pytest.mark.parametrize("inputs", [2, 3])
def test_a_union_of_streams(inputs: int) -> None:
    epochs = [[rows(5 * epoch + number, 7, 3) for number in range(inputs)] for epoch in range(2)]
    check_operator(lambda: Union(SMALL[0][0].schema), epochs, reordered=in_any_order)


class Pairs:
    """A user's join: rows of the second stream beside those of the first, which has ended before."""

    def __init__(self) -> None:
        self._values: dict[object, list[object]] = {}

    def execute(self, batches: Sequence[pa.RecordBatch], stream: str, channel: int) -> Iterator[pa.RecordBatch]:
        for row in (row for batch in batches for row in batch.to_pylist()):
            if stream == "build":
                self._values.setdefault(row["k"], []).append(row["v"])
            elif row["k"] in self._values:
                values = self._values[row["k"]]
                yield pa.record_batch({"k": pa.array([row["v"]] * len(values)), "v": pa.array(values)})

    def done(self, channel: int) -> None:
        return None


@pytest.mark.parametrize("after", [("build",), ()], ids=["one after the other", "in turns"])
def test_a_user_s_executor(after: tuple[str, ...]) -> None:
    """In turns too, what it sees does not depend on how its streams are cut."""
    streams = [UserStream(name="build"), UserStream(name="probe", after=after)]
    schema = SMALL[0][0].schema
    check_operator(
        lambda: User("pairs", streams, schema=schema, make=Pairs), SMALL, reordered=in_any_order if after else None
    )


# --- no operator is left out -------------------------------------------------------------------------------------

OF_SEVERAL_INPUTS = {
    Fragment: (test_a_fragment_of_two_inputs, test_a_fragment_of_three_inputs),
    MergeJoin: (test_a_merge_join,),
    AsOfMergeJoin: (test_an_as_of_merge_join,),
    Loop: (test_a_loop, test_a_loop_that_is_computed_anew_in_every_round),
    Union: (test_a_union_of_streams,),
    User: (test_a_user_s_executor,),
}
OF_ONE_AT_MOST = {
    AdoptingWrite,
    BatchFunctionOperator,
    DenseSlices,
    DenseWindows,
    IndexLookupJoin,
    Iterate,
    PackLists,
    Scan,
    Select,
    SlidingWindows,
    StreamingAggregate,
    Unnest,
    Write,
}


def operators() -> set[type[Operator]]:
    """All that the package defines."""
    for module in pkgutil.walk_packages(tidegate.operators.__path__, "tidegate.operators."):
        importlib.import_module(module.name)
    classes, pending = set[type[Operator]](), [Operator]
    while pending:
        known = pending.pop().__subclasses__()
        pending += known
        classes.update(class_ for class_ in known if class_.__module__.startswith("tidegate."))
    return classes


def test_every_operator_of_several_inputs_has_a_case_here() -> None:
    """A new operator is added to one of the two, and to the first with its own test."""
    assert operators() == OF_SEVERAL_INPUTS.keys() | OF_ONE_AT_MOST


@pytest.mark.parametrize("kind", sorted(OF_ONE_AT_MOST, key=str))
def test_the_others_take_no_second_input(kind: type[Operator]) -> None:
    """Neither before they look at anything else, nor at their first row."""
    streams = [BatchStream(pa.schema([]), []) for _ in range(2)]
    with pytest.raises((InternalError, ValueError), match=r"input|unpack"):
        list(kind.run(Mock(spec=kind, _plan_path="here", _source="here", _code=Mock()), streams))
