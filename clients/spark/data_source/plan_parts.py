"""A part of a plan's result: some of its columns and rows, as relations above its root.

Neither encoding of a plan loses anything: fields that are unknown here stay as they are.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
from google.protobuf import json_format
from pyarrow import types as kinds
from substrait.proto import Expression, Plan, Rel, RelRoot, Type

from ...proto.errors import InvalidRequest
from ...proto.values import PlanBytes
from .filters import BOOLEANS, Function, conditions


def part_of(
    plan: PlanBytes,
    schema: pa.Schema,
    columns: Sequence[str] | None,
    limit: int | None,
    filters: Sequence[Any] = (),
) -> PlanBytes:
    """The plan whose result has these columns of `schema` alone, and at most `limit` rows; of these, those that pass
    Spark's `filters`.
    """
    chosen = list(range(len(schema))) if columns is None else [_index(schema, name) for name in columns]
    if columns is None and limit is None and not filters:
        return plan
    names = [_names(field.type) for field in schema]
    part = _Part(chosen, names, limit, tuple(filters), pa.schema([schema.field(index) for index in chosen]))
    whole = _of_json(plan.json, part) if plan.json is not None else _of_binary(plan, part)
    return replace(whole, parameters=plan.parameters)


@dataclass(frozen=True)
class _Part:
    """The part of a result: the columns at `chosen`, the limit, and the filters of the result's `schema` then.

    `counts` are the numbers of names of all columns.
    """

    chosen: Sequence[int]
    counts: Sequence[int]
    limit: int | None
    filters: tuple[Any, ...]
    schema: pa.Schema

    def narrowed(self) -> Rel | None:
        """The relation that takes the columns and the limit, without an input; None for all rows and columns."""
        relation = Rel()
        if self.limit is not None:
            relation.fetch.count_expr.literal.i64 = self.limit
            relation.fetch.common.emit.output_mapping.extend(self.chosen)
        elif list(self.chosen) != list(range(len(self.counts))):
            relation.project.common.emit.output_mapping.extend(self.chosen)  # a fetch of an old plan has a count
        else:
            return None
        return relation

    def above(self, functions: _Functions) -> Rel | None:
        """The filter, without an input."""
        together = conditions(self.filters, self.schema, functions)
        if not together:
            return None
        filtered = Rel()
        condition = filtered.filter.condition
        condition.CopyFrom(together[0])
        for other in together[1:]:
            both = Expression()
            call = both.scalar_function
            call.function_reference = functions((BOOLEANS, "and:bool"))
            call.output_type.bool.nullability = Type.NULLABILITY_NULLABLE
            call.arguments.add().value.CopyFrom(condition)
            call.arguments.add().value.CopyFrom(other)
            condition.CopyFrom(both)
        return filtered


class _Functions:
    """The functions that filters use, with numbers that the plan does not use."""

    def __init__(self, anchors: Iterable[int], urns: Iterable[int]) -> None:
        self.first = 1 + max(anchors, default=0)
        self.first_urn = 1 + max(urns, default=0)
        self.used: dict[Function, int] = {}

    def __call__(self, function: Function) -> int:
        return self.used.setdefault(function, self.first + len(self.used))

    def urns(self) -> dict[str, int]:
        names = dict.fromkeys(urn for urn, _ in self.used)
        return {urn: self.first_urn + at for at, urn in enumerate(names)}


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


def _of_json(text: str, part: _Part) -> PlanBytes:
    document = json.loads(text)
    extensions = _listed(document, "extensions")
    known = _listed(document, "extensionUrns", "extension_urns")
    declared = [*known, *document.get("extensionUris", document.get("extension_uris", []))]
    bodies = [body for extension in extensions for body in extension.values()]
    functions = _Functions(
        _numbers(bodies, "functionAnchor", "function_anchor"),
        _numbers(declared, "extensionUrnAnchor", "extension_urn_anchor", "extensionUriAnchor", "extension_uri_anchor"),
    )
    filtered = part.above(functions)
    for root in _roots(document):
        if (narrowed := part.narrowed()) is not None:
            root["input"] = _above(narrowed, root["input"])
        if filtered is not None:
            root["input"] = _above(filtered, root["input"])
        root["names"] = _chosen_names(root.get("names", []), part.counts, part.chosen)
    urns = functions.urns()
    known.extend({"extensionUrnAnchor": anchor, "urn": urn} for urn, anchor in urns.items())
    extensions.extend(
        {"extensionFunction": {"extensionUrnReference": urns[urn], "functionAnchor": anchor, "name": name}}
        for (urn, name), anchor in functions.used.items()
    )
    return PlanBytes(json=json.dumps(document))


def _listed(document: dict[str, Any], *names: str) -> list[Any]:
    """The list of this name, in the document. JSON spells a field in one of two ways."""
    name = next((name for name in names if name in document), names[0])
    listed: list[Any] = document.setdefault(name, [])
    return listed


def _numbers(bodies: Iterable[Mapping[str, Any]], *names: str) -> list[int]:
    return [int(body[name]) for body in bodies for name in names if name in body]


def _above(relation: Rel, below: Any) -> dict[str, Any]:
    """The relation with this input, in JSON."""
    document: dict[str, Any] = json_format.MessageToDict(relation)
    [body] = document.values()
    body["input"] = below
    return document


def _roots(document: dict[str, Any]) -> list[dict[str, Any]]:
    return [relation["root"] for relation in document.get("relations", []) if "root" in relation]


def _of_binary(plan: PlanBytes, part: _Part) -> PlanBytes:
    message = Plan.FromString(plan.binary or b"")
    functions = _Functions(
        [extension.extension_function.function_anchor for extension in message.extensions],
        [urn.extension_urn_anchor for urn in message.extension_urns],
    )
    filtered = part.above(functions)
    for relation in message.relations:
        if relation.HasField("root"):
            _narrow(relation.root, part, filtered)
    urns = functions.urns()
    for urn, anchor in urns.items():
        message.extension_urns.add(extension_urn_anchor=anchor, urn=urn)
    for (urn, name), anchor in functions.used.items():
        declared = message.extensions.add().extension_function
        declared.extension_urn_reference, declared.function_anchor, declared.name = urns[urn], anchor, name
    return PlanBytes(binary=message.SerializeToString())


def _narrow(root: RelRoot, part: _Part, filtered: Rel | None) -> None:
    names = _chosen_names(root.names, part.counts, part.chosen)
    for relation in (part.narrowed(), filtered):
        if relation is not None:
            above = Rel()
            above.CopyFrom(relation)
            getattr(above, str(above.WhichOneof("rel_type"))).input.CopyFrom(root.input)
            root.input.CopyFrom(above)
    del root.names[:]
    root.names.extend(names)
