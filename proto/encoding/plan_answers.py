"""Answers about plans as wire messages and back: their problems, and what a service runs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from .. import values as v
from ..errors import Problem
from ..tidegate.v1 import plans_pb2 as plans


def validation_message(problems: Iterable[Problem], warnings: Iterable[str] = ()) -> plans.ValidateResponse:
    wire_problems = [
        plans.Problem(place=problem.place, reason=problem.reason, message=problem.message) for problem in problems
    ]
    return plans.ValidateResponse(problems=wire_problems, warnings=warnings)


def problems_value(message: plans.ValidateResponse) -> Sequence[Problem]:
    return [
        Problem(place=problem.place, reason=problem.reason, message=problem.message) for problem in message.problems
    ]


def capabilities_message(capabilities: v.Capabilities) -> plans.CapabilitiesResponse:
    return plans.CapabilitiesResponse(
        version=capabilities.version,
        dialect=capabilities.dialect,
        engines=capabilities.engines,
        principal=capabilities.principal,
        flight=capabilities.flight,
    )


def capabilities_value(message: plans.CapabilitiesResponse) -> v.Capabilities:
    return v.Capabilities(
        version=message.version,
        dialect=message.dialect,
        engines=dict(message.engines),
        principal=message.principal,
        flight=message.flight,
    )
