"""Clients in this process and over gRPC, of one real engine each."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tidegate.client import Client
from tidegate.executor.service.plan_engine import PlanEngine

from ..server.running import embedded_client, remote_client


@pytest.fixture(params=["embedded", "grpc"])
def client(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Client]:
    """Reads files below `tmp_path`."""
    opener = {"embedded": embedded_client, "grpc": remote_client}[request.param]
    folder = tmp_path / "service"
    folder.mkdir()
    with opener(PlanEngine([str(tmp_path)], folder)) as client:
        yield client
