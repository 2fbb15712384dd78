"""A task's options as its user gives them: by name, as plain values. The service chooses those that are not given."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, fields
from enum import Enum
from typing import Any, Final, Literal, TypedDict, TypeVar

from .proto.errors import InvalidRequest
from .proto.values import (
    Determinism,
    Durability,
    ExecutorKind,
    Loops,
    MissingColumns,
    Mode,
    OnError,
    Spill,
    TaskOptions,
)

Choice = TypeVar("Choice", bound=Enum)

_ENUMS: Final[Mapping[str, type[Enum]]] = {
    "mode": Mode,
    "determinism": Determinism,
    "on_error": OnError,
    "spill": Spill,
    "loops": Loops,
    "executor": ExecutorKind,
    "missing_columns": MissingColumns,
    "durability": Durability,
}
_LARGEST: Final = {
    "channels": 2**31 - 1,
    "max_pending_epochs": 2**31 - 1,
    "checkpoint_epochs": 2**31 - 1,
    "retries": 1_000,
    "auto_cores": 2**20,
    "memory_limit": 2**63 - 1,
    "slot_memory": 2**63 - 1,
    "spark_threshold_bytes": 2**63 - 1,
    "queue_bytes": 2**63 - 1,
    "output_bytes": 2**63 - 1,
    "spill_quota": 2**63 - 1,
    "write_quota": 2**63 - 1,
    "loop_rows": 2**63 - 1,
}
_KNOWN: Final = tuple(field.name for field in fields(TaskOptions))


class SharedOptions(TypedDict, total=False):
    """The options of a task that loaders of training data have, too."""

    channels: int | Literal["auto"]
    max_pending_epochs: int
    memory_limit: int
    queue_bytes: int
    output_bytes: int
    spill_quota: int
    idle_seconds: float
    time_zone: str
    broadcast: Collection[str]
    spill: Spill | Literal["auto", "ordered", "error"]
    write_format: Literal["parquet", "arrow", "csv"]
    write_quota: int
    loops: Loops | Literal["auto", "general"]
    loop_rows: int
    loop_seconds: float
    epoch_seconds: float
    parallel_threshold_seconds: float
    executor: ExecutorKind | Literal["local", "spark"]
    spark: object
    """A master's address, or a Spark session of yours."""
    missing_columns: MissingColumns | Literal["error", "null"]
    durability: Durability | Literal["auto", "none"]
    checkpoint_epochs: int
    checkpoint_seconds: float
    retries: int
    auto_cores: int
    slot_memory: int
    spark_threshold_bytes: int
    result_files: bool


class Options(SharedOptions, total=False):
    """The options of a task, by name, so that a type checker knows a wrong one. Limits are bytes and seconds.

    >>> task = client.create_task(plan, channels=2, determinism="strict", memory_limit=1 << 30)
    >>> task.options.channels
    2
    """

    mode: Mode | Literal["per_epoch", "continuous"]
    determinism: Determinism | Literal["strict", "relaxed"]
    on_error: OnError | Literal["fail", "skip_epoch"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChosenOptions(TaskOptions):
    """Options of which only `chosen` were chosen. A server puts its own defaults in place of the others."""

    chosen: frozenset[str] = frozenset()


def chosen(options: Mapping[str, object]) -> ChosenOptions:
    """The options as values. Refuses an unknown name or choice, and names the known ones."""
    if unknown := set(options) - set(_KNOWN):
        names = ", ".join(sorted(unknown))
        raise InvalidRequest(f"there is no option {names}; there are: {', '.join(_KNOWN)}", reason="UNKNOWN_OPTION")
    values: dict[str, Any] = {name: _choice(name, value) for name, value in options.items()}
    return ChosenOptions(chosen=frozenset(values), **values)


AUTO: Final = "auto"


def _channels(value: object) -> int:
    """The number of channels; 0 if the service is to choose it."""
    if value == AUTO:
        return 0
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise InvalidRequest(f'channels must be a whole number from 1, or "{AUTO}", not {value!r}')
    return min(value, _LARGEST["channels"])


def _choice(name: str, value: Any) -> Any:
    """The value in its own type. The service checks whether a task may have it."""
    if name in _ENUMS:
        return member(name, _ENUMS[name], value)
    if name == "channels":
        return _channels(value)
    if name in _LARGEST:
        if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= _LARGEST[name]:
            raise InvalidRequest(f"{name} must be a whole number from 0 to {_LARGEST[name]}, not {value!r}")
        return int(value)
    if name == "result_files":
        if not isinstance(value, bool):
            raise InvalidRequest(f"{name} must be True or False, not {value!r}")
        return value
    if name.endswith("_seconds"):
        if not isinstance(value, int | float) or isinstance(value, bool):
            raise InvalidRequest(f"{name} must be a number of seconds, not {value!r}")
        return float(value)
    if name == "broadcast":
        if not isinstance(value, list | tuple | set | frozenset) or not all(
            isinstance(choice, str) for choice in value
        ):
            raise InvalidRequest(f"{name} must be a list of source names, not {value!r}")
        return tuple(value)
    if not isinstance(value, str):
        raise InvalidRequest(f"{name} must be text, not {value!r}")
    return value


def member(name: str, choices: type[Choice], value: Any) -> Choice:
    """The choice that is given by itself or by its value. Raises `InvalidRequest`, which names the choices."""
    known = [choice.value for choice in choices]
    if isinstance(value, choices):
        return value
    if value not in known:
        raise InvalidRequest(f"{name} must be one of {', '.join(known)}, not {value!r}", reason="UNKNOWN_OPTION")
    return choices(value)
