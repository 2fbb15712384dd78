"""Plans as dictionaries, in Substrait's JSON names, and their two encodings."""

from __future__ import annotations

import functools
import json
from collections.abc import Sequence
from typing import Any

from google.protobuf import descriptor_pool, json_format, message_factory

from tidegate.planner import ir
from tidegate.planner.decode import Decoded, decode_plan
from tidegate.planner.decode.encoding.message_classes import restored_files
from tidegate.proto.errors import PlanError, Problem
from tidegate.proto.values import PlanBytes

Node = dict[str, Any]

FUNCTIONS = (
    "equal",
    "and",
    "or",
    "add",
    "gt",
    "sum",
    "count",
    "row_number",
    "transform",
    "like",
    "concat",
    "first_value",
    "last_value",
    "coalesce",
)
I64: Node = {"i64": {"nullability": "NULLABILITY_REQUIRED"}}
I64_NULL: Node = {"i64": {"nullability": "NULLABILITY_NULLABLE"}}
I32: Node = {"i32": {"nullability": "NULLABILITY_REQUIRED"}}
TEXT: Node = {"string": {"nullability": "NULLABILITY_REQUIRED"}}
BOOL: Node = {"bool": {"nullability": "NULLABILITY_REQUIRED"}}
TRUE: Node = {"literal": {"boolean": True}}


# ------------------------------------------------------------------------------------------------ decoding them


def decode(plan: Node) -> Decoded:
    return decode_plan(PlanBytes(json=json.dumps(plan)))


def decode_binary(plan: Node) -> Decoded:
    return decode_plan(PlanBytes(binary=encode(plan)))


def problems(plan: Node) -> tuple[Problem, ...]:
    """Everything wrong with a plan."""
    try:
        decode(plan)
    except PlanError as error:
        return error.problems
    raise AssertionError("the plan has no problems")


def problem(plan: Node) -> Problem:
    """The one thing wrong with a plan."""
    (only_problem,) = problems(plan)
    return only_problem


@functools.cache
def _plan_classes() -> dict[str, type[Any]]:
    """The classes of all messages in plans, each of which has to be kept: protobuf finds them by weak references."""
    pool = descriptor_pool.DescriptorPool()
    files, messages = restored_files()
    for file in files:
        pool.Add(file)
    return {name: message_factory.GetMessageClass(pool.FindMessageTypeByName(name)) for name in messages}


def plan_class() -> type[Any]:
    return _plan_classes()["substrait.Plan"]


def encode(plan: Node) -> bytes:
    """The plan as protobuf, old fields included."""
    message = json_format.ParseDict(plan, plan_class()())
    return bytes(message.SerializeToString())


# ---------------------------------------------------------------------------------------------- building them


def plan(root: Node, names: Sequence[str], *subtrees: Node, **more: Any) -> Node:
    """A plan with one root and, before it, common subtrees. All `FUNCTIONS` are declared, by bare names."""
    extensions = [{"extensionFunction": {"functionAnchor": n, "name": f}} for n, f in enumerate(FUNCTIONS, start=1)]
    relations: list[Node] = [{"rel": subtree} for subtree in subtrees]
    return {"extensions": extensions, "relations": [*relations, {"root": {"input": root, "names": [*names]}}], **more}


def table(*types: Node, name: str = "t", **more: Any) -> Node:
    """A read of columns a, b, c, ..."""
    names = [chr(ord("a") + index) for index in range(len(types))]
    struct = {"types": [*types], "nullability": "NULLABILITY_REQUIRED"}
    return {"read": {"baseSchema": {"names": names, "struct": struct}, "namedTable": {"names": [name]}, **more}}


def field(index: int) -> Node:
    return {"selection": {"directReference": {"structField": {"field": index}}, "rootReference": {}}}


def outer(index: int, **how: int) -> Node:
    """`steps_out=1` or `rel_reference=7`."""
    return {"selection": {"directReference": {"structField": {"field": index}}, "outerReference": how}}


def number(value: int) -> Node:
    return {"literal": {"i64": str(value)}}


def text(value: str) -> Node:
    return {"literal": {"string": value}}


def call(name: str, *arguments: Node, **more: Any) -> Node:
    return {"scalarFunction": function(name, *arguments, **more)}


def function(name: str, *arguments: Node, **more: Any) -> Node:
    """What scalar, aggregate and window functions share."""
    values = [{"value": argument} for argument in arguments]
    return {"functionReference": FUNCTIONS.index(name) + 1, "arguments": values, **more}


def filter_(below: Node, condition: Node, **more: Any) -> Node:
    return {"filter": {"input": below, "condition": condition, **more}}


def project(below: Node, *expressions: Node, **more: Any) -> Node:
    return {"project": {"input": below, "expressions": [*expressions], **more}}


def emit(*mapping: int) -> Node:
    return {"emit": {"outputMapping": [*mapping]}}


def only(relation: ir.Relation, kind: type[Any]) -> Any:
    """The relation, which must be of this kind."""
    assert isinstance(relation, kind), relation
    return relation
