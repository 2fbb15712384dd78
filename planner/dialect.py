"""The Substrait dialect document of Tidegate: the types, relations, expressions and functions that Tidegate runs.

The registries that decode and bind plans are the source of the document.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import Any, Final

import yaml

from .decode import expressions, relations
from .decode.declarations import declared_types as types
from .functions import registry
from .functions.templates import entry
from .ir import FunctionKind

_SPELLED: Final = {"switch_expression": "SWITCH", "window": "CONSISTENT_PARTITION_WINDOW"}
"""Dialect words that differ from the message's field name in capitals."""

_UNSIGNED: Final = ("u8", "u16", "u32", "u64")
_UNSIGNED_TYPES: Final = "unsigned_integers"


@cache
def dialect() -> str:
    """The dialect document, in YAML."""
    from substrait_extensions.dialects import dialect as official  # a tenth of a second, and rarely asked for

    functions = {kind: _functions(kind) for kind in FunctionKind}
    used = {function["source"] for of_kind in functions.values() for function in of_kind}
    document = {
        "name": "Tidegate",
        "dependencies": {file: registry.urn(file) for file in sorted({*used, _UNSIGNED_TYPES})},
        "supported_types": [
            *_words(types.CONVERTERS, official.SupportedTypes),
            *({"type": "USER_DEFINED", "source": _UNSIGNED_TYPES, "name": name} for name in _UNSIGNED),
        ],
        "supported_relations": _words(relations.CONVERTERS, official.SupportedRelations),
        "supported_expressions": _words(expressions.CONVERTERS, official.SupportedExpressions),
        **{f"supported_{kind.value}_functions": of_kind for kind, of_kind in functions.items()},
        "supported_execution_behavior": {"supported_variable_evaluation_mode": ["PER_PLAN"]},
    }
    return str(yaml.safe_dump(document, sort_keys=False, width=120))


def _words(names: Iterable[str], known: Iterable[Any]) -> list[str]:
    """The dialect's words for `names`. A name that only older releases of Substrait have gets no word."""
    words = {_SPELLED.get(name, name.upper()) for name in names}
    return [word.value for word in known if word.value in words]


def _functions(kind: FunctionKind) -> list[dict[str, Any]]:
    grouped: dict[tuple[str, str], list[str]] = {}
    for implementation in registry.everything():
        if implementation.kind is kind and entry(kind, implementation.file, implementation.name) is not None:
            _, _, signature = implementation.signature.partition(":")
            grouped.setdefault((implementation.file, implementation.name), []).append(signature)
    return [
        {"source": file, "name": name, "supported_impls": sorted(set(signatures))}
        for (file, name), signatures in sorted(grouped.items())
    ]
