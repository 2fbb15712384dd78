"""Set-up of every test: repeatable property tests, and the project's folder."""

from __future__ import annotations

import gc
import logging
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from tidegate.server.setup.log_lines import LogLines

from .searching import SEARCHES, tries
from .sparks import connect_address, connected, spark  # noqa: F401 - fixtures of all tests
from .warm import warm  # noqa: F401 - a fixture, too

# Examples come from a fixed seed, so that a red run is red again; `HYPOTHESIS_PROFILE=search` looks for new ones.
settings.register_profile(
    "default",
    derandomize=True,
    max_examples=tries(25),
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("search", deadline=None, print_blob=True, max_examples=tries(50))
settings.load_profile("search" if SEARCHES else "default")

# The processes that tests start find the modules compiled: to compile them all costs each as much as to import them.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

#: What takes longest starts first, so that the processes of a run end together.
LONGEST = (
    "tests/spark/",
    "tests/executor/spark/",
    "tests/conformance/test_determinism.py",
    "tests/house/",
    "tests/conformance/",
    "tests/continuous/",
    "tests/planner/",
)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """What takes longest comes first, and what is too long for CI not at all."""
    left_out = [item for item in items if item.get_closest_marker("search") and not SEARCHES]
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if SEARCHES or not item.get_closest_marker("search")]
    items.sort(key=_turn)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> object:
    """`--dist loadgroup` would say this with marks, and deals single tests, in silence, with pytest 9.2."""
    from .dealing import Files

    return Files(config, log)


@pytest.fixture(autouse=True)
def logs_of_its_own() -> Iterator[None]:
    """A server that a test has run in this process sets up logging for the process: no later test is to see that."""
    loggers = logging.getLogger(), logging.getLogger("tidegate")
    levels = [logger.level for logger in loggers]
    yield
    for logger, level in zip(loggers, levels, strict=True):
        logger.setLevel(level)
    for handler in loggers[0].handlers[:]:
        if isinstance(handler.formatter, LogLines):
            loggers[0].removeHandler(handler)


@pytest.fixture
def ctrl_c() -> Iterator[None]:
    """Python's own handler of Ctrl-C: a shell starts what runs in the background without it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """All tests and what they import stay for the run: no collection of garbage looks at them, then or later."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.collect()
        gc.freeze()
        gc.enable()


def pytest_unconfigure() -> None:
    """What is still frozen when the process ends is reported as leaked by libraries that count their objects."""
    gc.unfreeze()


def _turn(item: pytest.Item) -> int:
    return next((turn for turn, folder in enumerate(LONGEST) if item.nodeid.startswith(folder)), len(LONGEST))


@pytest.fixture(scope="session")
def project() -> Path:
    """The project's top folder."""
    return Path(__file__).resolve().parent.parent
