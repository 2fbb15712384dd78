"""Operators for plans, from Python modules of a service's owner."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from ...proto.errors import InvalidRequest
from ...proto.operator_registration import UserOperator

DEFAULT_NAME: Final = "OPERATORS"


def registered(modules: Iterable[str]) -> dict[str, UserOperator]:
    """The operators of each MODULE[:NAME], which is imported, also from the working directory.

    Raises `InvalidRequest`, which says what is wrong with which module. No two operators may have one name.
    """
    operators: dict[str, UserOperator] = {}
    for text in modules:
        for name, operator in _mapping(text).items():
            if name in operators:
                raise InvalidRequest(f"{text}: operator {name!r} is also in another module", reason="DUPLICATE_NAME")
            operators[name] = operator
    return operators


def _mapping(text: str) -> Mapping[str, UserOperator]:
    module, _, name = text.partition(":")
    name = name or DEFAULT_NAME
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.append(here)
    try:
        loaded = importlib.import_module(module)
    except Exception as error:
        why = f"{type(error).__name__}: {error}"
        raise InvalidRequest(f"{text}: {module!r} cannot be imported: {why}", reason="BAD_OPERATORS") from error
    if not hasattr(loaded, name):
        raise InvalidRequest(f"{text}: there is no {name!r} in module {module!r}", reason="BAD_OPERATORS")
    mapping = getattr(loaded, name)
    if not isinstance(mapping, Mapping):
        raise InvalidRequest(
            f"{text}: {name!r} must be a mapping, not {type(mapping).__name__}", reason="BAD_OPERATORS"
        )
    for key, operator in mapping.items():
        if not isinstance(key, str) or not isinstance(operator, UserOperator):
            raise InvalidRequest(
                f"{text}: {name!r} maps {key!r} to {type(operator).__name__}; map names to the results of "
                "tidegate.user_operator",
                reason="BAD_OPERATORS",
            )
    return mapping
