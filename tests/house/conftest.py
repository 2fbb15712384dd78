"""Set-up of the tests of the project's own code: what they have parsed stays for the run."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest


@pytest.fixture(scope="module", autouse=True)
def parsed_once() -> Iterator[None]:
    """A million nodes of syntax would be looked at again by each full collection of the tests that follow."""
    yield
    gc.collect()
    gc.freeze()
