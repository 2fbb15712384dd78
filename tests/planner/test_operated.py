"""Relations with an operator of their own: what stands around them, what starts when, what is made once."""

from __future__ import annotations

import pytest

from tidegate.planner import ir
from tidegate.planner.cut.column_selection import selection
from tidegate.planner.cut.divide import DEPTH
from tidegate.planner.ir import types as t
from tidegate.planner.ir.tree import all_of
from tidegate.planner.physical.pipelines import (
    Feed,
    FragmentNode,
    KeptNode,
    LookupNode,
    PhysicalNode,
    PhysicalPlan,
    ReceiveNode,
    ScanNode,
    SelectNode,
    SourceShape,
    Start,
    UnnestNode,
    inputs,
    walk,
)
from tidegate.planner.prepare import prepare
from tidegate.proto.errors import PlanError
from tidegate.proto.values import TaskOptions

from ..on_channels import on_channels
from .build import I64, aggregate, call, col, fetch, filtered, join, lit, measure, new_plan_path, plan, project, read

LISTS = read("lists", k=I64, items=t.List(element=I64))
PROBES = read("probes", k=I64, v=I64)
TABLE = read("table", id=I64, name=t.String(), unused=I64)


def unnest(below: ir.Relation, *, ordinality: bool = False) -> ir.Unnest:
    kept = tuple(col(at, type_) for at, type_ in enumerate(below.schema))
    schema = (*below.schema, t.nullable(I64), *([I64] if ordinality else []))
    lists = (col(1, below.schema[1]),)
    return ir.Unnest(
        input=below,
        kept=kept,
        lists=lists,
        ordinality=ordinality,
        outer=False,
        schema=schema,
        plan_path=new_plan_path(),
    )


def lookup(left: ir.Relation, right: ir.Relation, **index: object) -> ir.IndexLookup:
    return ir.IndexLookup(
        left=left,
        right=right,
        keys=((col(0), col(len(left.schema))),),
        type=ir.JoinType.INNER,
        index=ir.IndexUse(**{"kind": "arrow", **index}),
        schema=(*left.schema, *right.schema),
        plan_path=new_plan_path(),
    )


def physical(
    root: ir.Relation, feed: Feed = Feed.STREAM, channels: int = 1, rows: int = 10, fed_rows: int | None = None
) -> PhysicalPlan:
    """Sources of `rows` rows; those that are fed of `fed_rows`, if that is given."""
    prepared = prepare(plan(root), TaskOptions(**on_channels(channels)), ("table",))
    sizes = {source.name: rows if source.static or fed_rows is None else fed_rows for source in prepared.sources}
    return prepared.physical({name: SourceShape(feed=feed, size_class=size) for name, size in sizes.items()})


def chain(node: PhysicalNode) -> list[type]:
    kinds: list[type] = [type(node)]
    while inputs(node):
        (node,) = inputs(node)
        kinds.append(type(node))
    return kinds


def test_what_stands_above_and_below_an_operator_are_fragments() -> None:
    (pipeline,) = physical(
        filtered(unnest(filtered(LISTS, call("gt", col(0), lit(1)))), call("gt", col(2), lit(5)))
    ).pipelines
    assert chain(pipeline.root) == [FragmentNode, UnnestNode, FragmentNode, ScanNode]


def test_an_operator_reads_a_stream_without_a_fragment_between() -> None:
    (pipeline,) = physical(unnest(LISTS)).pipelines
    assert chain(pipeline.root) == [SelectNode, UnnestNode, ScanNode]


def test_files_are_read_by_a_fragment_below_the_operator() -> None:
    (pipeline,) = physical(unnest(LISTS), Feed.FILES).pipelines
    assert chain(pipeline.root) == [SelectNode, UnnestNode, FragmentNode]


def test_columns_of_an_operators_rows_need_no_statement() -> None:
    below = project(unnest(LISTS), col(2), col(0))
    (pipeline,) = physical(project(below, col(1), col(0), col(1))).pipelines
    assert isinstance(pipeline.root, SelectNode)
    assert pipeline.root.columns == (0, 1, 0)
    assert chain(pipeline.root) == [SelectNode, UnnestNode, ScanNode]


def test_columns_of_an_operators_rows_are_selected_for_another_one() -> None:
    (pipeline,) = physical(lookup(project(unnest(LISTS), col(0), col(2)), TABLE)).pipelines
    assert chain(pipeline.root) == [SelectNode, LookupNode, SelectNode, UnnestNode, ScanNode]


def test_what_is_computed_from_an_operators_rows_is_a_fragment() -> None:
    (pipeline,) = physical(project(unnest(LISTS), col(0), lit(1))).pipelines
    assert chain(pipeline.root) == [FragmentNode, UnnestNode, ScanNode]


def test_fields_of_structs_get_their_names_in_a_fragment() -> None:
    pairs = read("pairs", items=t.List(element=I64), pair=t.Struct(fields=(I64, I64)))
    unnested = unnest(read("lists", k=I64, items=t.List(element=I64)))
    assert selection(all_of(unnested), ()) is not None
    assert selection(all_of(lookup(pairs, TABLE)), ()) is None


def test_row_wise_operators_start_with_the_first_piece() -> None:
    (pipeline,) = physical(lookup(unnest(LISTS), TABLE)).pipelines
    assert (pipeline.start, pipeline.sources) == (Start.PIECE, ("lists",))


def test_an_index_is_made_of_the_columns_that_are_used() -> None:
    physical_plan = physical(project(lookup(PROBES, TABLE), col(1), col(3, t.String())))
    (index,) = physical_plan.indexes
    assert index.keys == (0,)
    assert len(index.root.schema) == 2
    node = inputs(physical_plan.pipelines[0].root)[0]
    assert isinstance(node, LookupNode)
    assert node.index == index.name


def test_two_look_ups_by_the_same_columns_share_an_index() -> None:
    physical_plan = physical(lookup(lookup(PROBES, TABLE), TABLE))
    assert len(physical_plan.indexes) == 1


def test_columns_that_nobody_uses_are_not_unnested() -> None:
    counted = aggregate(unnest(LISTS, ordinality=True), (), measure("count", col(2)))
    (pipeline,) = physical(counted).pipelines
    node = inputs(pipeline.root)[0]
    assert isinstance(node, UnnestNode)
    assert (node.keep, node.ordinality, len(node.schema)) == ((), False, 1)


def test_on_several_channels_every_channel_looks_up_for_its_own_rows() -> None:
    keyed = aggregate(lookup(PROBES, TABLE), (col(3, t.String()),), measure("sum", col(1)))
    first, *_ = physical(keyed, channels=2, rows=10**7).pipelines
    assert first.channels == 2
    assert LookupNode in chain(first.root)


def deep(below: ir.Relation, levels: int) -> ir.Relation:
    """Limits, each of which has to stand above the one before."""
    for level in range(levels):
        below = fetch(below, 1_000 - level)
    return below


@pytest.mark.parametrize("channels", [1, 2])
def test_what_is_too_deep_below_an_operator_is_cut_there_too(channels: int) -> None:
    (pipeline,) = physical(unnest(deep(LISTS, DEPTH + 50)), channels=channels).pipelines
    assert chain(pipeline.root) == [SelectNode, UnnestNode, FragmentNode, FragmentNode, ScanNode]


def test_what_is_too_deep_below_a_look_up_that_sizes_choose_is_cut_there_too() -> None:
    probes = deep(PROBES, DEPTH + 50)
    physical_plan = physical(
        join(probes, TABLE, ir.JoinType.LEFT, call("equal", col(0), col(2))), rows=10**7, fed_rows=10
    )
    (pipeline,) = physical_plan.pipelines
    assert chain(pipeline.root) == [SelectNode, LookupNode, FragmentNode, FragmentNode, ScanNode]


def test_what_is_kept_below_an_operator_is_read_there() -> None:
    named = aggregate(TABLE, (col(0),), measure("count"))
    joined = join(LISTS, named, ir.JoinType.INNER, call("equal", col(0), col(2)))
    physical_plan = physical(unnest(filtered(joined, call("gt", col(3), lit(1)))))
    (pipeline,) = physical_plan.pipelines
    assert [kept_table.name for kept_table in physical_plan.kept] == [
        node.name for node in walk(pipeline.root) if isinstance(node, KeptNode)
    ]
    assert len(physical_plan.kept) == 1


def test_what_is_exchanged_below_an_operator_is_received_there() -> None:
    items = t.nullable(t.List(element=I64))
    grouped = project(aggregate(LISTS, (col(0),), measure("any_value", col(1, LISTS.schema[1]))), col(0), col(1, items))
    *_, last = physical(unnest(grouped), channels=2, rows=10**7).pipelines
    assert chain(last.root) == [SelectNode, UnnestNode, FragmentNode, ReceiveNode]


def test_an_index_over_what_is_fed_is_refused() -> None:
    with pytest.raises(PlanError, match="must be static"):
        physical(lookup(TABLE, PROBES))


def test_a_join_inside_an_operators_input_stays_one_fragment() -> None:
    joined = join(LISTS, PROBES, ir.JoinType.INNER, call("equal", col(0), col(2)))
    (pipeline,) = physical(unnest(joined)).pipelines
    below = inputs(inputs(pipeline.root)[0])[0]
    assert isinstance(below, FragmentNode)
    assert [type(child) for child in inputs(below)] == [ScanNode, ScanNode]
