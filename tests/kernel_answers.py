"""Notes whether kernels answer in place of DuckDB."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pytest

from tidegate.operators import kernels


def noted_answers(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether kernels answered, each time that they are asked from now on."""
    used: list[bool] = []
    asked: Callable[[kernels.Kernels, pa.RecordBatch], pa.RecordBatch | None] = kernels.Kernels.of

    def noted(self: kernels.Kernels, rows: pa.RecordBatch) -> pa.RecordBatch | None:
        answer = asked(self, rows)
        used.append(answer is not None)
        return answer

    monkeypatch.setattr(kernels.Kernels, "of", noted)
    return used
