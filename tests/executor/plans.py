"""Small plans as Substrait JSON, for tests of the executor over the real engine."""

from __future__ import annotations

import json
from collections.abc import Callable

from tidegate.proto.values import PlanBytes

_NULLABLE = {"nullability": "NULLABILITY_NULLABLE"}
ALWAYS = {"literal": {"boolean": True}}
I64 = {"i64": _NULLABLE}
_BOOL = {"bool": _NULLABLE}
_FUNCTIONS = ("gt:any_any", "equal:any_any", "multiply:i64_i64", "sum:i64")


_KEY = {"directReference": {"structField": {"field": 0}}, "rootReference": {}}


def read(source: str, *names: str) -> dict[str, object]:
    struct = {"types": [I64] * len(names), "nullability": "NULLABILITY_REQUIRED"}
    return {"read": {"baseSchema": {"names": names, "struct": struct}, "namedTable": {"names": [source]}}}


def column(index: int) -> dict[str, object]:
    return {"selection": {"directReference": {"structField": {"field": index}}, "rootReference": {}}}


def number(value: int) -> dict[str, object]:
    return {"literal": {"i64": value}}


def call(name: str, *arguments: object, type_: object = I64) -> dict[str, object]:
    values = [{"value": argument} for argument in arguments]
    return {"functionReference": _FUNCTIONS.index(name) + 1, "outputType": type_, "arguments": values}


def scalar(name: str, *arguments: object, type_: object = I64) -> dict[str, object]:
    return {"scalarFunction": call(name, *arguments, type_=type_)}


def equal(one: int, other: int) -> dict[str, object]:
    return scalar("equal:any_any", column(one), column(other), type_=_BOOL)


def filtered(relation: object, index: int, above: int) -> dict[str, object]:
    condition = scalar("gt:any_any", column(index), number(above), type_=_BOOL)
    return {"filter": {"input": relation, "condition": condition}}


def filtered_by_parameter(relation: object, index: int, number_: int) -> dict[str, object]:
    """The rows whose column is above a parameter."""
    parameter = {"dynamicParameter": {"parameterReference": number_, "type": I64}}
    return {"filter": {"input": relation, "condition": scalar("gt:any_any", column(index), parameter, type_=_BOOL)}}


def doubled(relation: object, width: int) -> dict[str, object]:
    """Every column times two."""
    expressions = [scalar("multiply:i64_i64", column(index), number(2)) for index in range(width)]
    emit = {"emit": {"outputMapping": [width + index for index in range(width)]}}
    return {"project": {"common": emit, "input": relation, "expressions": expressions}}


def summed(relation: object) -> dict[str, object]:
    """The second column's sum by the first."""
    measure = call("sum:i64", column(1)) | {"phase": "AGGREGATION_PHASE_INITIAL_TO_RESULT"}
    return {
        "aggregate": {
            "input": relation,
            "groupings": [{"groupingExpressions": [column(0)]}],
            "measures": [{"measure": measure}],
        }
    }


def joined(left: object, right: object, width: int) -> dict[str, object]:
    """Where the first columns are equal; `width` columns on the left."""
    return {"join": {"left": left, "right": right, "expression": equal(0, width), "type": "JOIN_TYPE_INNER"}}


def declared(relation: object, *columns: int, descending: bool = False) -> dict[str, object]:
    """A read whose source is declared to be sorted by these columns."""
    direction = "DIRECTION_DESC_NULLS_FIRST" if descending else "DIRECTION_ASC_NULLS_LAST"
    keys = [{"column": name, "direction": direction} for name in columns]
    detail = {"@type": "example.com/tidegate.v1.DeclaredOrder", "keys": keys}
    return {"extensionSingle": {"input": relation, "detail": detail}}


def sorted_by(relation: object, *columns: int) -> dict[str, object]:
    keys = [{"expr": column(name), "direction": "SORT_DIRECTION_ASC_NULLS_LAST"} for name in columns]
    return {"sort": {"input": relation, "sorts": keys}}


def merged(left: object, right: object, width: int, type_: str = "INNER", below: bool = False) -> dict[str, object]:
    """A merge join by the first columns; where it is `below`, of left rows whose second column is less than the right
    ones'. `width` columns on the left.
    """
    keys = [{"left": key, "right": key, "comparison": {"simple": "SIMPLE_COMPARISON_TYPE_EQ"}} for key in [_KEY]]
    residual = scalar("gt:any_any", column(width + 1), column(1), type_=_BOOL)
    more = {"residualExpression": residual} if below else {}
    return {"mergeJoin": {"left": left, "right": right, "type": f"JOIN_TYPE_{type_}", "keys": keys, **more}}


def union(*relations: object) -> dict[str, object]:
    return {"set": {"inputs": relations, "op": "SET_OP_UNION_ALL"}}


def limited(relation: object, count: int, offset: int = 0) -> dict[str, object]:
    return {"fetch": {"input": relation, "offset": str(offset), "count": str(count)}}


def crossed(left: object, right: object) -> dict[str, object]:
    return {"cross": {"left": left, "right": right}}


def top(relation: object, count: int, mode: str, direction: str = "ASC") -> dict[str, object]:
    """The first rows by the first column."""
    sort = {"expr": column(0), "direction": f"SORT_DIRECTION_{direction}_NULLS_LAST"}
    count_of_rows = {"literal": {"i64": str(count)}}
    return {"topN": {"input": relation, "sorts": [sort], "count": count_of_rows, "mode": f"FETCH_MODE_{mode}"}}


def lateral(
    left: object,
    right: object,
    above: Callable[[dict[str, object]], object] = lambda matching: matching,
    type_: str = "INNER",
    condition: object = ALWAYS,
) -> dict[str, object]:
    """Each left row with the right rows that have its first column, or with what `above` makes of these, where the
    condition over both holds.
    """
    outer = {"selection": {"directReference": {"structField": {"field": 0}}, "outerReference": {"stepsOut": 1}}}
    is_equal = scalar("equal:any_any", column(0), outer, type_=_BOOL)
    matching = {"filter": {"input": right, "condition": is_equal}}
    types = {"type": f"JOIN_TYPE_{type_}", "expression": condition}
    return {"lateralJoin": {"left": left, "right": above(matching), **types}}


def plan(relation: object, *names: str) -> PlanBytes:
    uris = [
        {"extensionUriAnchor": 1, "uri": "/functions_comparison.yaml"},
        {"extensionUriAnchor": 2, "uri": "/functions_arithmetic.yaml"},
    ]
    extensions = [
        {"extensionFunction": {"extensionUriReference": 1 + (at > 1), "functionAnchor": at + 1, "name": name}}
        for at, name in enumerate(_FUNCTIONS)
    ]
    root = {"root": {"names": names, "input": relation}}
    document = {
        "extensionUris": uris,
        "extensions": extensions,
        "relations": [root],
        "version": {"minorNumber": 60},
    }
    return PlanBytes(json=json.dumps(document))


def passed_through(*sources: str) -> PlanBytes:
    """The rows of the sources' column `x`, one source after the other."""
    reads = [read(source, "x") for source in sources]
    return plan(reads[0] if len(reads) == 1 else union(*reads), "x")
