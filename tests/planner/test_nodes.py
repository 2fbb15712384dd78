"""Passes know nodes by the nodes themselves: by identity, with a type, and as long as the pass needs them."""

from __future__ import annotations

import ast
from dataclasses import fields
from typing import get_args

import pytest

from tidegate.planner import ir
from tidegate.planner.changes.change_nodes import ChangeNode
from tidegate.planner.physical.pipelines import PhysicalNode

from ..house.modules import modules

NODES = (*get_args(ir.Relation), *get_args(ir.Expression), *get_args(ChangeNode), *get_args(PhysicalNode))
RELATIONS = get_args(ir.Relation)


@pytest.mark.parametrize("kind", NODES, ids=lambda kind: kind.__name__)
def test_a_node_is_equal_to_itself_alone(kind: type) -> None:
    assert kind.__eq__ is object.__eq__
    assert kind.__hash__ is object.__hash__


def test_no_pass_keeps_the_id_of_a_node_that_may_be_gone() -> None:
    """`meaning` numbers values that are no nodes, too, and holds on to the plan."""
    calls = {
        (name, node.lineno)
        for name, module in modules().items()
        if name.startswith("tidegate.planner.") and name != "tidegate.planner.meaning"
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
