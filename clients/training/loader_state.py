"""The state of a loader: its position, and everything that the order before and after it depends on."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from ..proto.errors import InvalidRequest, Refused
from .batch import Position

State: TypeAlias = dict[str, Any]
Identity: TypeAlias = Mapping[str, Any]

VERSION: Final = 1
_POSITION: Final = ("epoch", "batch", "window", "row")
_MOST: Final = 2**63 - 1
"""The largest number of a state: a count of rows fits into 64 bits."""
_TURNS: Final = "workers_from"
"""The epoch and the batch from which workers take batches in turns, in the state of a worker that began in between."""
CHECKSUM: Final = "checksum"
"""The digest of a position, so that an edited one is noticed. States of earlier releases lack it."""
_ADDED: Final = {"turns": 1}
"""The meaning of what the states of earlier releases lack."""

ROWS: Final = frozenset(("time_zone", "missing_columns", "write_format"))
"""Options of tasks on which the rows of every plan depend."""

ORDER: Final = frozenset(
    (
        *("channels", "auto_cores", "parallel_threshold_seconds", "executor", "spark_threshold_bytes"),
        *("broadcast", "memory_limit", "slot_memory", "spill", "loops"),
    )
)
"""Options of tasks on which the order of rows depends, unless the plan is row-wise."""


@dataclass(frozen=True, slots=True)
class CheckedState:
    """A state that fits the loader, mixture or data set that has checked it. `load()` goes on from it.

    >>> loader = tidegate.training.Loader(client, samples_plan, {"samples": samples}, batch_size=4)
    >>> other = tidegate.training.Loader(client, samples_plan, {"samples": samples}, batch_size=4)
    >>> next(iter(loader))["n"].tolist()
    [0, 1, 2, 3]
    >>> checked = other.check_state(loader.state_dict())
    >>> checked.load()
    >>> next(iter(other))["n"].tolist()
    [4, 5, 6, 7]
    """

    load: Callable[[], None]


def state_of(position: Position, skipped: Sequence[int], identity: Identity) -> State:
    """The state as values of JSON. `skipped` are the splits of the epoch that had no rows before the position."""
    numbers = {name: getattr(position, name) for name in _POSITION}
    state = {"version": VERSION, **numbers, "skipped": list(skipped), **identity}
    return {**state, CHECKSUM: _checksum_of(state)}


def going_on_from(state: Mapping[str, Any]) -> tuple[Position, Sequence[int], tuple[int, int]]:
    """The position, the splits of its epoch that are skipped, and the epoch and the batch from which workers take
    batches in turns. Raises `InvalidRequest` for anything but a state of this version as `state_of` made it.
    """
    position, skipped, turns = _position_of(state), _skipped_of(state), _turns_of(state)
    if CHECKSUM in state and state[CHECKSUM] != _checksum_of(state):
        raise InvalidRequest(
            f"the state has been changed since state_dict() made it: its {CHECKSUM} does not fit {position}, the "
            f"skipped splits {skipped!r:.200} and the beginning of turns {turns}. Load it as it was, or use "
            "set_epoch(...) to go on with the beginning of an epoch",
            reason="BAD_STATE",
        )
    return position, skipped, turns


def checksum(*parts: object) -> str:
    """A digest of values of JSON."""
    return hashlib.blake2b(json.dumps(parts, sort_keys=True).encode(), digest_size=8).hexdigest()


def _checksum_of(state: Mapping[str, Any]) -> str:
    return checksum([state[name] for name in _POSITION], state["skipped"], state.get(_TURNS, [0, 0]))


def _position_of(state: Mapping[str, Any]) -> Position:
    if not isinstance(state, Mapping) or state.get("version") != VERSION:
        raise InvalidRequest(f"this is no loader's state of version {VERSION}: {state!r:.200}", reason="BAD_STATE")
    numbers: list[Any] = [state.get(name) for name in _POSITION]
    if not all(map(_is_count, numbers)):
        raise InvalidRequest(
            f"the state's position must be whole numbers from 0 to 2**63 - 1: {state!r:.200}", reason="BAD_STATE"
        )
    return Position(*numbers)


def _skipped_of(state: Mapping[str, Any]) -> Sequence[int]:
    """The splits that are skipped. No split of a loader with shards or turns is."""
    skipped = state.get("skipped")
    if not isinstance(skipped, list) or not all(map(_is_count, skipped)):
        raise InvalidRequest(
            f"the state's skipped splits must be a list of whole numbers from 0 to 2**63 - 1: {skipped!r:.200}",
            reason="BAD_STATE",
        )
    if skipped and [state.get(name, 1) for name in ("shards", "turns")] != [1, 1]:
        raise InvalidRequest(
            f"the state has skipped splits, {skipped!r:.200}, but a loader with shards or turns skips none",
            reason="BAD_STATE",
        )
    return skipped


def _is_count(number: object) -> bool:
    return isinstance(number, int) and not isinstance(number, bool) and 0 <= number <= _MOST


def with_turns(state: Mapping[str, Any], begun: tuple[int, int]) -> State:
    """The state with the epoch and the batch from which workers take batches in turns."""
    turning = {**state, _TURNS: list(begun)}
    return {**turning, CHECKSUM: _checksum_of(turning)}


def _turns_of(state: Mapping[str, Any]) -> tuple[int, int]:
    """The epoch and the batch from which workers take turns: the first ones, if the state has none."""
    begun = state.get(_TURNS, [0, 0])
    if not isinstance(begun, list) or list(map(_is_count, begun)) != [True, True]:
        raise InvalidRequest(f"the state's {_TURNS} must be an epoch and a batch: {begun!r:.200}", reason="BAD_STATE")
    return begun[0], begun[1]


def ordering(options: Mapping[str, object], *, row_wise: bool) -> dict[str, str]:
    """Those of the options on which the loader's order depends, as texts."""
    depended = ROWS if row_wise else ROWS | ORDER
    return {name: str(options[name]) for name in sorted(depended & options.keys())}


def as_now(state: Mapping[str, Any], *, row_wise: bool) -> Mapping[str, Any]:
    """The state without the options that earlier releases put in it, although no order depends on them."""
    options = state.get("options")
    return {**state, "options": ordering(options, row_wise=row_wise)} if isinstance(options, Mapping) else state


def check_fits(state: Mapping[str, Any], identity: Identity) -> None:
    """Raise `Refused`, which names the differences, unless the state is of a loader with the same order.

    Releases of the engine may give the rows of a split in another order, so a state of another release fits at an
    epoch's beginning alone.
    """
    begins = state["batch"] == 0 and state["window"] == 0 and state["row"] == 0
    different = [
        f"{name} (the state's: {state.get(name)!r}, this loader's: {value!r})"
        for name, value in identity.items()
        if state.get(name, _ADDED.get(name)) != value and not (name == "engines" and begins)
    ]
    if different:
        raise Refused(
            f"the state is of another loader, which differs in {'; '.join(different)}. Make the loader as it was, or "
            "begin without a state",
            reason="STATE_MISMATCH",
        )
