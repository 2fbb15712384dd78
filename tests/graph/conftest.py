from collections.abc import Iterator

import pytest

import tidegate


@pytest.fixture(scope="module")
def client() -> Iterator[tidegate.Client]:
    with tidegate.local() as service:
        yield service
