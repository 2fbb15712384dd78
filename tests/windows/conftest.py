from __future__ import annotations

from collections.abc import Iterator

import pytest

import tidegate


@pytest.fixture(scope="module")
def client() -> Iterator[tidegate.Client]:
    with tidegate.local() as client:
        yield client
