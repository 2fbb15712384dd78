"""A part of a plan's result: some of its columns and rows, as relations above its root.

Neither encoding of a plan loses anything: fields that are unknown here stay as they are.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
from google.protobuf import json_format
from pyarrow import types as kinds
from substrait.proto import Plan, Rel

from ...proto.errors import InvalidRequest
from ...proto.values import PlanBytes


def part_of(plan: PlanBytes, schema: pa.Schema, columns: Sequence[str] | None, limit: int | None) -> PlanBytes:
    """The plan whose result has these columns of `schema` alone, and at most `limit` rows."""
    if columns is None and limit is None:
        return plan
    chosen = list(range(len(schema))) if columns is None else [_index(schema, name) for name in columns]
    part = _Part(chosen, [_names(field.type) for field in schema], limit)
    whole = _of_json(plan.json, part) if plan.json is not None else _of_binary(plan, part)
    return replace(whole, parameters=plan.parameters)


@dataclass(frozen=True)
class _Part:
    """The columns of a result at `chosen`, and the limit. `counts` are the numbers of names of all columns."""

    chosen: Sequence[int]
    counts: Sequence[int]
    limit: int | None

    def above(self) -> Rel | None:
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
    for relation in document.get("relations", []):
        if "root" not in relation:
            continue
        root = relation["root"]
        if (above := part.above()) is not None:
            outer: dict[str, Any] = json_format.MessageToDict(above)
            [body] = outer.values()
            body["input"], root["input"] = root["input"], outer
        root["names"] = _chosen_names(root.get("names", []), part.counts, part.chosen)
    return PlanBytes(json=json.dumps(document))


def _of_binary(plan: PlanBytes, part: _Part) -> PlanBytes:
    message = Plan.FromString(plan.binary or b"")
    for relation in message.relations:
        if not relation.HasField("root"):
            continue
        root = relation.root
        if (above := part.above()) is not None:
            getattr(above, str(above.WhichOneof("rel_type"))).input.CopyFrom(root.input)
            root.input.CopyFrom(above)
        names = _chosen_names(root.names, part.counts, part.chosen)
        del root.names[:]
        root.names.extend(names)
    return PlanBytes(binary=message.SerializeToString())
