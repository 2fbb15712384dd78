"""Calls that fail half-way: what they have recorded is carried out."""

from __future__ import annotations

from pathlib import Path

import pytest

from tidegate.proto.errors import SplitError
from tidegate.proto.values import AddRequest, Data, FileSplit

from ..fakes import FakeEngine, rows
from .restarts import Restarts


def test_splits_ahead_of_a_refused_one_run_though_the_caller_lends_no_thread(tmp_path: Path) -> None:
    request = AddRequest(splits=[("a", rows(1), None), ("a", FileSplit("missing"), None)])
    with Restarts(tmp_path, FakeEngine(early=True)) as service:
        task = service.create()
        with pytest.raises(SplitError, match="no file"):
            service.manager.add_splits(task.id, request, wake=False)
        [data] = task.next(1, wait=5.0)
        assert isinstance(data, Data)
        assert data.rows == 1
