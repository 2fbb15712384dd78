"""Passes know nodes by the nodes themselves: by identity, with a type, and as long as the pass needs them."""

from __future__ import annotations

import ast
from dataclasses import fields, replace
from typing import get_args

import pytest

from tidegate.planner import ir
from tidegate.planner.changes.change_nodes import ChangeNode
from tidegate.planner.cut.divide import Division
from tidegate.planner.decode import decode_plan
from tidegate.planner.ir import visit
from tidegate.planner.ir.by_node import ByNode
from tidegate.planner.physical.pipelines import PhysicalNode
from tidegate.planner.prepare import prepare
from tidegate.planner.rewrite import rewrite
from tidegate.proto.errors import InternalError
from tidegate.proto.values import PlanBytes, TaskOptions

from ..conformance import tpch
from ..house.modules import modules
from .build import I64, read

NODES = (*get_args(ir.Relation), *get_args(ir.Expression), *get_args(ChangeNode), *get_args(PhysicalNode))
RELATIONS = get_args(ir.Relation)
PRODUCERS = ("datafusion", "duckdb", "ibis")
NUMBERS = read("n", k=I64)


@pytest.mark.parametrize("kind", NODES, ids=lambda kind: kind.__name__)
def test_a_node_is_equal_to_itself_alone(kind: type) -> None:
    assert kind.__eq__ is object.__eq__
    assert kind.__hash__ is object.__hash__


def test_no_pass_keeps_the_id_of_a_node_that_may_be_gone() -> None:
    """`meaning` numbers values that are no nodes, too, and holds on to the plan; `type_sizes` holds on to the types."""
    holding = {"tidegate.planner.meaning", "tidegate.planner.decode.declarations.type_sizes"}
    calls = {
        (name, node.lineno)
        for name, module in modules().items()
        if name.startswith("tidegate.planner.") and name not in holding
        for node in ast.walk(ast.parse(module.path.read_text()))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "id"
    }
    assert calls == set()


@pytest.mark.parametrize("kind", RELATIONS, ids=lambda kind: kind.__name__)
def test_the_parts_of_a_relation_are_fields_of_it(kind: type[ir.Relation]) -> None:
    parts = kind.parts
    assert {*parts.inputs, *parts.columns, *parts.expressions} <= {field.name for field in fields(kind)}


@pytest.mark.parametrize("kind", RELATIONS, ids=lambda kind: kind.__name__)
def test_no_field_with_relations_is_left_out_of_the_parts(kind: type[ir.Relation]) -> None:
    """An `iterate` of `Rounds` has only `LoopInput`s for its inputs: walks do not enter it."""
    typed = {field.name for field in fields(kind) if "Relation" in str(field.type)}
    assert typed == set(kind.parts.inputs)


@pytest.mark.parametrize(("producer", "query"), [(name, query) for name in PRODUCERS for query in tpch.plans(name)])
def test_no_two_relations_of_a_rewritten_plan_have_one_number(producer: str, query: str) -> None:
    decoded = decode_plan(PlanBytes(binary=tpch.plan_bytes(producer, query))).plan
    for rewritten in (decoded, rewrite(decoded), prepare(decoded, TaskOptions(channels=4)).plan):
        relations = {relation for root in (rewritten.root, *rewritten.shared) for relation in visit.relations(root)}
        assert len({relation.number for relation in relations}) == len(relations)


def test_what_is_known_of_a_relation_goes_with_it_and_with_no_other() -> None:
    known = ByNode[str]()
    known[NUMBERS] = "kept0"
    assert known[NUMBERS] == "kept0"
    assert read("n", k=I64) not in known


def test_a_rewrite_that_loses_what_is_known_of_a_relation_is_noticed() -> None:
    known = ByNode[str]()
    known[NUMBERS] = "kept0"
    rewritten = replace(NUMBERS, whole=True)
    assert rewritten.number == NUMBERS.number
    for ask in (known.__getitem__, known.__contains__, known.get):
        with pytest.raises(InternalError, match="a rewrite lost what was known of the read at "):
            ask(rewritten)


def test_what_a_division_knows_of_relations_is_lost_by_no_rewrite_in_silence() -> None:
    """A dictionary by relation that outlives a pass would not notice."""
    assert {field.name for field in fields(Division) if "dict[ir.Relation" in str(field.type)} == set()
