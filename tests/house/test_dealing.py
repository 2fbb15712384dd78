"""A run of several processes deals whole files to them, and all of Spark to one."""

from __future__ import annotations

from pathlib import Path

import pytest

from ..dealing import Files, unit
from ..sparks import only_process


def test_a_file_is_dealt_as_a_whole() -> None:
    tests = ("tests/loops/test_a.py::test_b[x::y@z]", "tests/loops/test_a.py::TestC::test_d")
    assert {unit(test) for test in tests} == {"tests/loops/test_a.py"}


def test_the_run_deals_so(request: pytest.FixtureRequest) -> None:
    hook = request.config.pluginmanager.hook.pytest_xdist_make_scheduler
    config = type("Config", (), {"getvalue": lambda self, name: ["popen"] * 2, "option": None})()
    assert isinstance(hook(config=config, log=None), Files)


def test_tests_that_need_spark_are_dealt_together(request: pytest.FixtureRequest) -> None:
    need_it = [item.nodeid for item in request.session.items if "spark" in getattr(item, "fixturenames", ())]
    assert [test for test in need_it if unit(test) != "Spark"] == []


def test_a_second_process_with_a_spark_session_fails(tmp_path: Path) -> None:
    again = pytest.raises(pytest.fail.Exception, match="another process of this run")
    with only_process(tmp_path, "run"), again, only_process(tmp_path, "run"):
        pass
    with only_process(tmp_path, "run"):
        pass
