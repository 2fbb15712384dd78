"""Parts of plans as dictionaries, in Substrait's JSON names, for the plans of `benchmarks.plan_limits`."""

from __future__ import annotations

import base64
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeAlias

import substrait.algebra_pb2 as algebra
from google.protobuf import json_format

from .plan_growth import Node

REQUIRED: Final = {"nullability": "NULLABILITY_REQUIRED"}
I64: Final[Node] = {"i64": REQUIRED}
F64: Final[Node] = {"fp64": REQUIRED}
TEXT: Final[Node] = {"string": REQUIRED}
FILE: Final = Path(tempfile.gettempdir(), "tidegate-plan-limits.parquet")
"""A file that plans name. It has one column, `c0`, of one row."""
STATIC: Final = "static"
"""A source that is bound when a task is made."""
_FUNCTIONS: Final = (
    *("equal", "gt", "and", "or", "not", "add", "multiply", "coalesce", "concat", "like", "is_not_null"),
    *("sum", "count", "string_agg", "row_number", "lag", "transform", "regexp_replace", "between"),
    *("array_has", "nullif"),
)
_FAILS: Final = {"failureBehavior": "FAILURE_BEHAVIOR_THROW_EXCEPTION"}
_EXTENSION: Final = "type.googleapis.com/tidegate.v1."


@dataclass(frozen=True, slots=True)
class Made:
    """A plan's result relation with its number of columns, or their names, and what the plan has beside it."""

    root: Node
    columns: int = 1
    names: tuple[str, ...] = ()
    subtrees: tuple[Node, ...] = ()
    detached: tuple[Node, ...] = ()
    more: Mapping[str, Any] = field(default_factory=dict)

    def plan(self) -> Node:
        extensions = [
            {"extensionFunction": {"functionAnchor": n, "name": f}} for n, f in enumerate(_FUNCTIONS, start=1)
        ]
        names = self.names or [f"c{at}" for at in range(self.columns)]
        root: Node = {"root": {"input": self.root, "names": [*names]}}
        if self.detached:
            root["detachedExpressions"] = [*self.detached]
        relations = [*({"rel": subtree} for subtree in self.subtrees), root]
        return {"extensions": extensions, "relations": relations, **self.more}


Make: TypeAlias = Callable[[int], Made]
"""A plan with so many of something."""


# ------------------------------------------------------------------------------------------------- expressions


def col(at: int = 0, **root: Any) -> Node:
    return {"selection": {"directReference": {"structField": {"field": at}}, **(root or {"rootReference": {}})}}


def outer(at: int = 0) -> Node:
    """A column of the row around a subquery."""
    return col(at, outerReference={"stepsOut": 1})


def parameter(at: int = 0) -> Node:
    """A parameter of the lambda around."""
    return col(at, lambdaParameterReference={"stepsOut": 0})


def num(value: int) -> Node:
    return {"literal": {"i64": str(value)}}


def text(value: str) -> Node:
    return {"literal": {"string": value}}


def function(name: str, *arguments: Node) -> Node:
    values = [{"value": argument} for argument in arguments]
    return {"functionReference": _FUNCTIONS.index(name) + 1, "arguments": values}


def call(name: str, *arguments: Node) -> Node:
    return {"scalarFunction": function(name, *arguments)}


def more_than(at: int, value: Node | None = None) -> Node:
    return call("gt", value or col(), num(-at))


def plus(at: int) -> Node:
    return call("add", col(), num(at))


def cast(kind: Node, value: Node) -> Node:
    return {"cast": {"type": kind, "input": value, **_FAILS}}


def case(*pairs: tuple[Node, Node], otherwise: Node) -> Node:
    return {"ifThen": {"ifs": [{"if": condition, "then": then} for condition, then in pairs], "else": otherwise}}


def number_of(condition: Node) -> Node:
    """1 where a condition holds, 0 elsewhere."""
    return case((condition, num(1)), otherwise=num(0))


def switch(value: Node, size: int) -> Node:
    ifs = [{"if": num(at)["literal"], "then": num(at + 1)} for at in range(size)]
    return {"switchExpression": {"match": value, "ifs": ifs, "else": num(-1)}}


def one_of(value: Node, *options: Node) -> Node:
    return {"singularOrList": {"value": value, "options": [*options]}}


def pair_of(values: list[Node], *options: list[Node]) -> Node:
    return {"multiOrList": {"value": values, "options": [{"fields": fields} for fields in options]}}


def listed(*values: Node) -> Node:
    return {"nested": {"list": {"values": [*values]}}}


def struct_of(*fields: Node) -> Node:
    return {"nested": {"struct": {"fields": [*fields]}}}


def inside(value: Node, **segment: Any) -> Node:
    """A part of a value: of a struct, a list or a map."""
    return {"selection": {"directReference": segment, "expression": value}}


def first_of(lists: Node) -> Node:
    return inside(lists, listElement={"offset": 0})


def function_of_one(body: Node) -> Node:
    """A lambda of one number."""
    return {"lambda": {"parameters": {"types": [I64], **REQUIRED}, "body": body}}


def windowed(name: str, *arguments: Node, order: Node | None = None, partition: Node | None = None) -> Node:
    return {
        "windowFunction": {
            **function(name, *arguments),
            "sorts": [ascending(order or col())],
            "partitions": [partition] if partition else [],
            "lowerBound": {"unbounded": {}},
            "upperBound": {"currentRow": {}},
        }
    }


def ascending(expression: Node) -> Node:
    return {"expr": expression, "direction": "SORT_DIRECTION_ASC_NULLS_LAST"}


def in_subquery(haystack: Node) -> Node:
    return {"subquery": {"inPredicate": {"needles": [col()], "haystack": haystack}}}


def exists(relation: Node) -> Node:
    return {"subquery": {"setPredicate": {"predicateOp": "PREDICATE_OP_EXISTS", "tuples": relation}}}


def scalar(relation: Node) -> Node:
    return {"subquery": {"scalar": {"input": relation}}}


def less_than_all(relation: Node) -> Node:
    operations = {"reductionOp": "REDUCTION_OP_ALL", "comparisonOp": "COMPARISON_OP_LT"}
    return {"subquery": {"setComparison": {**operations, "left": col(), "right": relation}}}


# --------------------------------------------------------------------------------------------------- relations


def schema(*types: Node) -> Node:
    return {"names": [f"c{at}" for at in range(len(types))], "struct": {"types": [*types], **REQUIRED}}


def read(name: str = "t", *types: Node) -> Node:
    return {"read": {"baseSchema": schema(*(types or (I64,))), "namedTable": {"names": [name]}}}


def emit(*mapping: int) -> Node:
    return {"emit": {"outputMapping": [*mapping]}}


def project(below: Node, *expressions: Node, width: int = 1) -> Node:
    mapping = range(width, width + len(expressions))
    return {"project": {"common": emit(*mapping), "input": below, "expressions": [*expressions]}}


def filtered(below: Node, condition: Node) -> Node:
    return {"filter": {"input": below, "condition": condition}}


def correlated(at: int) -> Node:
    return filtered(read("m"), call("equal", plus(at), outer()))


def sort(below: Node, *keys: Node) -> Node:
    return {"sort": {"input": below, "sorts": [*map(ascending, keys or (col(),))]}}


def union_all(*inputs: Node) -> Node:
    return {"set": {"inputs": [*inputs], "op": "SET_OP_UNION_ALL"}}


def measure(name: str, *arguments: Node, **more: Any) -> Node:
    return {"measure": {**function(name, *arguments), **more, "phase": "AGGREGATION_PHASE_INITIAL_TO_RESULT"}}


def aggregate(below: Node, keys: int, *measures: Node) -> Node:
    groups = {
        "groupings": [{"expressionReferences": [*range(keys)]}],
        "groupingExpressions": [col(at) for at in range(keys)],
    }
    return {"aggregate": {"input": below, **groups, "measures": [*measures]}}


def join(kind: str, left: Node, right: Node, condition: Node, **more: Any) -> Node:
    return {"join": {"left": left, "right": right, "type": f"JOIN_TYPE_{kind}", "expression": condition, **more}}


def extension(kind: str, name: str, *below: Node, **detail: Any) -> Node:
    inputs: Node = {"input": below[0]} if kind == "extensionSingle" else {"inputs": [*below]}
    return {kind: {**inputs, "detail": {"@type": f"{_EXTENSION}{name}", **detail}}}


def loop_reference(name: str) -> Node:
    detail = {"iterationName": name, "outputLength": 1}
    return {"extensionLeaf": {"detail": {"@type": f"{_EXTENSION}IterationReferenceReadRelation", **detail}}}


def window_body(aggregate_: Node) -> str:
    """An aggregate over windows of time, as its field has it in JSON: encoded."""
    message = json_format.ParseDict(aggregate_, algebra.AggregateRel())
    return base64.b64encode(message.SerializeToString()).decode()
