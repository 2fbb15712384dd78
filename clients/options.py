"""A task's options as its user gives them: by name, as plain values; those not given are the service's to choose."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Final

from .proto.errors import InvalidRequest
from .proto.values import Determinism, Mode, OnError, TaskOptions

_ENUMS: Final = {"mode": Mode, "determinism": Determinism, "on_error": OnError}
_KNOWN: Final = tuple(field.name for field in fields(TaskOptions))


@dataclass(frozen=True, slots=True, kw_only=True)
class ChosenOptions(TaskOptions):
    """Options of which only `given` were chosen; a server puts its own defaults in the others' places."""

    given: frozenset[str] = frozenset()


def chosen(options: Mapping[str, Any]) -> ChosenOptions:
    """Refuses a name or a choice that does not exist, and names those that do."""
    if unknown := set(options) - set(_KNOWN):
        names = ", ".join(sorted(unknown))
        raise InvalidRequest(f"no option is called {names}; there are: {', '.join(_KNOWN)}", reason="UNKNOWN_OPTION")
    values = {name: _choice(name, value) for name, value in options.items()}
    return ChosenOptions(given=frozenset(values), **values)


def _choice(name: str, value: Any) -> Any:
    if name not in _ENUMS or not isinstance(value, str):
        return value
    known = [each.value for each in _ENUMS[name]]
    if value not in known:
        raise InvalidRequest(f"{name} is one of {', '.join(known)}, not {value!r}", reason="UNKNOWN_OPTION")
    return _ENUMS[name](value)
