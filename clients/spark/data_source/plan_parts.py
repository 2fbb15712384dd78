"""A part of a plan's result: some of its columns, and at most so many rows, as relations above its root.

Neither encoding of a plan loses anything: fields that are unknown here stay as they are.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
from pyarrow import types as kinds
from substrait.proto import Plan, Rel, RelRoot

from ...proto.errors import InvalidRequest
from ...proto.values import PlanBytes


def part_of(plan: PlanBytes, schema: pa.Schema, columns: Sequence[str] | None, limit: int | None) -> PlanBytes:
    """The plan whose result has these columns of `schema` alone, and at most `limit` rows."""
    chosen = list(range(len(schema))) if columns is None else [_index(schema, name) for name in columns]
    if columns is None and limit is None:
        return plan
    names = [_names(field.type) for field in schema]
    return (
        _of_json(plan.json, chosen, names, limit) if plan.json is not None else _of_binary(plan, chosen, names, limit)
    )


def _index(schema: pa.Schema, name: str) -> int:
    indices = schema.get_all_field_indices(name)
    if len(indices) != 1:
        raise InvalidRequest(
            f"the plan's result has {'no' if not indices else 'several'} columns {name!r}; it has: "
            f"{', '.join(schema.names)}",
            reason="MISSING_COLUMN",
        )
    return int(indices[0])


def _names(type_: pa.DataType) -> int:
    """The number of names that a column has in the root: its own, and those of the structs in it."""
    if kinds.is_struct(type_):
        return 1 + sum(_names(type_.field(i).type) for i in range(type_.num_fields))
    if kinds.is_map(type_):
        return 1 + _names(type_.key_type) - 1 + _names(type_.item_type) - 1
    if kinds.is_nested(type_):
        return _names(type_.field(0).type)
    return 1


def _chosen_names(names: Sequence[str], counts: Sequence[int], chosen: Sequence[int]) -> list[str]:
    starts = [sum(counts[:index]) for index in range(len(counts))]
    return [name for index in chosen for name in names[starts[index] : starts[index] + counts[index]]]


def _of_json(text: str, chosen: Sequence[int], counts: Sequence[int], limit: int | None) -> PlanBytes:
    document = json.loads(text)
    for root in _roots(document):
        fetched: dict[str, Any] = {
            "common": {"emit": {"outputMapping": list(chosen)}},
            "input": root["input"],
        }
        if limit is not None:
            fetched["countExpr"] = {"literal": {"i64": str(limit)}}
        root["input"] = {"fetch": fetched}
        root["names"] = _chosen_names(root.get("names", []), counts, chosen)
    return PlanBytes(json=json.dumps(document))


def _roots(document: dict[str, Any]) -> list[dict[str, Any]]:
    return [relation["root"] for relation in document.get("relations", []) if "root" in relation]


def _of_binary(plan: PlanBytes, chosen: Sequence[int], counts: Sequence[int], limit: int | None) -> PlanBytes:
    message = Plan.FromString(plan.binary or b"")
    for relation in message.relations:
        if relation.HasField("root"):
            root: RelRoot = relation.root
            fetched = Rel()
            fetched.fetch.common.emit.output_mapping.extend(chosen)
            fetched.fetch.input.CopyFrom(root.input)
            if limit is not None:
                fetched.fetch.count_expr.literal.i64 = limit
            names = _chosen_names(root.names, counts, chosen)
            root.input.CopyFrom(fetched)
            del root.names[:]
            root.names.extend(names)
    return PlanBytes(binary=message.SerializeToString())
