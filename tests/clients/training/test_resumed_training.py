"""Training over gRPC that is killed goes on with another number of ranks, each a process of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tidegate.executor.service.plan_engine import PlanEngine

from ...server.running import remote_client

EXAMPLE = Path(__file__).parents[3] / "examples" / "resumed_training.py"


def test_every_loss_is_the_same_after_a_kill_and_with_the_loaders_of_a_server(tmp_path: Path) -> None:
    with remote_client(PlanEngine(["/"], tmp_path)) as client:
        shown = subprocess.run([sys.executable, EXAMPLE, client.address], capture_output=True, text=True)
    assert shown.stdout.splitlines()[-1].endswith("to the last bit? Yes."), shown.stderr
