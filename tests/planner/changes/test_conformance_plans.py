"""Producers' TPC-H plans on changes."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from tidegate.planner.decode import decode_plan
from tidegate.planner.rewrite import rewrite
from tidegate.proto.values import PlanBytes

from .epochs import recomputed

PLANS: Final = sorted((Path(__file__).parents[2] / "conformance" / "plans").glob("*/*.bin"))


@pytest.mark.parametrize("path", PLANS, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_nothing_of_it_is_computed_again(path: Path) -> None:
    assert recomputed(rewrite(decode_plan(PlanBytes(binary=path.read_bytes())).plan)) == []
