"""Programs that tests run in forked processes: their input, output and end."""

from __future__ import annotations

import subprocess

import pytest

from .. import forked


def test_a_program_has_its_input_and_its_output() -> None:
    ended = forked.run("json.tool", "--compact", stdin='{"a": [1]}')
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, '{"a":[1]}\n', "")


def test_a_program_that_fails_says_so_and_the_next_one_runs() -> None:
    failed = forked.run("json.tool", stdin="{")
    assert (failed.returncode, failed.stdout) == (1, "")
    assert "Expecting property name" in failed.stderr
    assert forked.run("timeit", "-n1", "-r1", "import os; os.kill(os.getpid(), 9)").returncode == -9
    assert "1 loop" in forked.run("timeit", "-n1", "-r1", "pass").stdout


def test_a_program_that_takes_too_long_is_ended_and_the_next_one_runs() -> None:
    with pytest.raises(subprocess.TimeoutExpired):
        forked.run("timeit", "-n1", "-r1", "import time; time.sleep(300)", seconds=0.2)
    assert "1 loop" in forked.run("timeit", "-n1", "-r1", "pass").stdout


def test_a_program_is_without_pandas_until_it_imports_it() -> None:
    code = "import sys, pyarrow.dataset; assert 'pandas' not in sys.modules and 'tidegate.planner' in sys.modules"
    assert forked.run("timeit", "-n1", "-r1", code).returncode == 0
