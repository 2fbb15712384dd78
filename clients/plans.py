"""The forms of a plan, values for its parameters, and loops for plans made with substrait's builders."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Protocol, TypeAlias, runtime_checkable

from .iteration import iterate
from .proto.encoding.plan_parameters import parameters_stream
from .proto.errors import InvalidRequest
from .proto.values import PlanBytes


@runtime_checkable
class SerializableMessage(Protocol):
    """A protobuf message, from whichever Substrait package."""

    def SerializeToString(self) -> bytes: ...  # noqa: N802 (protobuf's name)


__all__ = ["Plan", "iterate"]

Plan: TypeAlias = bytes | str | Path | SerializableMessage | PlanBytes
"""A plan in each of its forms: `bytes` (protobuf), `str` (JSON), a `pathlib.Path` (a file of this machine, JSON if its
name ends so) or a Substrait message.

>>> file = pathlib.Path("plan.bin")
>>> file.write_bytes(plan) > 0
True
>>> client.query(file, {"sales": monday}) == client.query(plan, {"sales": monday})
True
"""


def plan_bytes(plan: Plan) -> PlanBytes:
    """The plan as bytes or text.

    `bytes` are protobuf, `str` is JSON, a `Path` is a file (JSON if its name ends so), and a Substrait message is
    itself.
    """
    match plan:
        case PlanBytes():
            return plan
        case bytes() | bytearray() | memoryview():
            return PlanBytes(binary=bytes(plan))
        case str():
            return PlanBytes(json=plan)
        case Path():
            return _read(plan)
        case SerializableMessage():
            return PlanBytes(binary=plan.SerializeToString())
        case _:
            kind = type(plan).__name__
            raise InvalidRequest(
                f"a plan must be bytes (protobuf), str (JSON), a pathlib.Path or a Substrait message, not {kind}",
                reason="NOT_A_PLAN",
            )


def with_parameters(plan: Plan, parameters: Mapping[int, object]) -> PlanBytes:
    """The plan with values for its dynamic parameters, by their numbers. It can stand for a plan in every call.

    A value is a Python value or a `pyarrow.Scalar`, None for null. It must have the type that the plan declares, or be
    of a type whose values can become that type's: 5 is a value of every number type that has room for it. It takes the
    place of a value that the plan itself binds.

    >>> client.query(tidegate.with_parameters(above, {0: 4}), {"sales": monday}).num_rows
    1
    """
    return replace(plan_bytes(plan), parameters=parameters_stream(parameters))


def bound(plan: Plan, parameters: Mapping[int, object] | None) -> PlanBytes:
    """The plan; with values for its parameters if there are some."""
    return plan_bytes(plan) if parameters is None else with_parameters(plan, parameters)


def _read(path: Path) -> PlanBytes:
    try:
        if path.suffix.lower() == ".json":
            return PlanBytes(json=path.read_text(encoding="utf-8"))
        return PlanBytes(binary=path.read_bytes())
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8"
        raise InvalidRequest(
            f"the plan file {path} cannot be read on the client's machine: {reason}", reason="PLAN_UNREADABLE"
        ) from error
