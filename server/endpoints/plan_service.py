"""PlanService: describes a plan, lists its problems, and says what this server can run."""

from __future__ import annotations

from dataclasses import replace

from ...proto.encoding import messages, plan_answers
from ...proto.service import Service
from ...proto.tidegate.v1 import plans_pb2 as pb
from ..calls.answering import Context, Endpoint, called
from ..calls.request_reading import Reading
from ..calls.unread_answers import UnreadAnswers
from ..setup.pools import Pools
from ..setup.settings import Settings
from .flight_port import FlightPort


class Plans(Endpoint):
    """Answers the calls of PlanService."""

    descriptor = pb.DESCRIPTOR.services_by_name["PlanService"]
    large = frozenset({"Validate", "Explain"})

    def __init__(
        self,
        service: Service,
        pools: Pools,
        settings: Settings,
        flight: FlightPort,
        reading: Reading,
        unread: UnreadAnswers,
    ) -> None:
        super().__init__(reading, unread)
        self._service = service
        self._pools = pools
        self._defaults = settings.defaults
        self._flight = flight

    async def validate(self, request: pb.ValidateRequest, _: Context) -> pb.ValidateResponse:
        plan = messages.plan_value(request.plan)
        options = messages.options_value(request.options, self._defaults)
        problems, warnings = await called(self._pools.planning, self._service.validate, plan, options)
        return plan_answers.validation_message(problems, warnings)

    async def explain(self, request: pb.ExplainRequest, _: Context) -> pb.ExplainResponse:
        options = messages.options_value(request.options, self._defaults)
        plan = messages.plan_value(request.plan)
        explanation = await called(
            self._pools.planning,
            self._service.explain,
            plan,
            options,
            tuple(request.static_sources),
            dict(request.rows),
        )
        return pb.ExplainResponse(text=explanation.text, json=explanation.json)

    async def capabilities(self, _request: pb.CapabilitiesRequest, _: Context) -> pb.CapabilitiesResponse:
        capabilities = await called(self._pools.control, self._service.capabilities)
        return plan_answers.capabilities_message(replace(capabilities, flight=self._flight.announced))
