"""A server under load answers right and keeps nothing; `make soak` loads one for minutes, and times it."""

from __future__ import annotations

import sys

import pytest

from tidegate.proto.tidegate.v1 import plans_pb2
from tidegate.proto.tidegate.v1 import tasks_pb2 as pb

from .hostile_clients import ACTS
from .soak import Load, beside_long_epochs, under_load

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")

FEW = Load(tasks=10, hostile=2 * len(ACTS), long_epochs=4, long_seconds=0.2, seconds=3.0, idle_seconds=20.0, seed=1)


def test_small_epochs_beside_hostile_clients_are_answered_and_nothing_is_left_behind() -> None:
    findings = under_load(FEW)
    assert findings.wrong == []
    assert len(findings.epochs) >= FEW.tasks
    assert all(any(end.startswith(act.__name__) for end in findings.ends) for act in ACTS)


def test_control_calls_and_long_epochs_are_answered_beside_each_other() -> None:
    findings = beside_long_epochs(FEW)
    assert findings.wrong == []
    services = (file.services_by_name.values() for file in (pb.DESCRIPTOR, plans_pb2.DESCRIPTOR))
    methods = {method.name for several in services for service in several for method in service.methods}
    assert findings.calls.keys() == methods - {"AddSplits", "Feed", "Upload", "Results"}
