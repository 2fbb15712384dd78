"""The extension declarations at the top of a plan: the function, type or type variation of each anchor."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from ..encoding.message_nodes import Message
from ..plan_path import PlanPath
from ..problems import Problems, shortened

_KINDS: Final = {
    "extension_type": ("type", "type_anchor"),
    "extension_type_variation": ("type variation", "type_variation_anchor"),
    "extension_function": ("function", "function_anchor"),
}


@dataclass(frozen=True, slots=True)
class Declared:
    """A declared name, and the URN or URI of its extension if the plan gives one. Both are cut where they are longer
    than any that Tidegate knows: each use may show them.
    """

    name: str
    source: str | None


@dataclass(frozen=True, slots=True, eq=False)
class Extensions:
    """The declarations of a plan, by anchor."""

    types: Mapping[int, Declared]
    variations: Mapping[int, Declared]
    functions: Mapping[int, Declared]


def read_extensions(plan: Message, problems: Problems) -> Extensions:
    """Every declaration of `plan`. Two different declarations for one anchor are a problem."""
    urns = {extension.extension_urn_anchor: extension.urn for extension in plan.extension_urns}
    uris = {extension.extension_uri_anchor: extension.uri for extension in plan.extension_uris}
    tables: dict[str, dict[int, Declared]] = {kind: {} for kind in _KINDS}
    for index, declaration in enumerate(plan.extensions):
        plan_path = PlanPath().at("extensions", index)
        kind = declaration.WhichOneof("mapping_type")
        if kind is None:
            problems.add(
                plan_path, "MISSING", "an extension declaration must declare a function, type or type variation"
            )
            continue
        entry = getattr(declaration, kind)
        source = urns.get(entry.extension_urn_reference) or uris.get(entry.extension_uri_reference) or None
        what, anchor_field = _KINDS[kind]
        anchor = getattr(entry, anchor_field)
        declared = Declared(shortened(entry.name), source and shortened(source))
        if tables[kind].setdefault(anchor, declared) != declared:
            problems.add(
                plan_path / kind,
                "DUPLICATE_ANCHOR",
                f"the {what} anchor {anchor} is declared as {declared.name!r} here and as "
                f"{tables[kind][anchor].name!r} before: give every {what} another anchor",
            )
    return Extensions(
        types=tables["extension_type"],
        variations=tables["extension_type_variation"],
        functions=tables["extension_function"],
    )
