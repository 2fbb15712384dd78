"""pyarrow does without pandas in processes of Tidegate's own, until other code of the process imports it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

BEGUN = "import sys; from tidegate.proto.arrow.pandas_import import leave_pandas_out; leave_pandas_out(); "
NULLS = "import pyarrow as pa, pandas as pd; assert pa.array(pd.Series([1.0, float('nan')])).null_count == 1"


def run(code: str) -> None:
    done = subprocess.run([sys.executable, "-c", code], stderr=subprocess.PIPE, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("twice", ["", "leave_pandas_out(); "])
def test_arrays_of_values_do_not_import_pandas(twice: str) -> None:
    arrays = "import pyarrow as pa; pa.array([1]); pa.table({'a': ['x']}); "
    run(BEGUN + twice + arrays + "assert 'pandas' not in sys.modules")


def test_pyarrow_knows_pandas_once_it_is_imported() -> None:
    run(BEGUN + NULLS)


def test_pyarrow_knows_pandas_once_it_is_asked_for() -> None:
    run(BEGUN + "import pyarrow as pa; assert list(pa.array([1]).to_pandas()) == [1]; " + NULLS)


def test_a_process_that_has_pandas_keeps_it() -> None:
    run("import pandas; " + BEGUN + NULLS)


def test_nothing_is_left_behind_once_pandas_is_imported() -> None:
    run(BEGUN + "import pandas; assert not any(type(finder).__name__ == '_PandasFinder' for finder in sys.meta_path)")


PLAN = (
    '{"relations": [{"root": {"names": ["a"], "input": {"read": {"virtualTable": {"expressions": [{"fields": '
    '[{"literal": {"i32": 1}}]}]}, "baseSchema": {"names": ["a"], "struct": {"types": '
    '[{"i32": {"nullability": "NULLABILITY_REQUIRED"}}], "nullability": "NULLABILITY_REQUIRED"}}}}}}]}'
)


def test_planning_imports_no_pandas_in_your_process() -> None:
    """It would be most of the time that the first plan of a process takes."""
    run(
        f"import sys, tidegate; client = tidegate.local(); assert not client.validate({PLAN!r}); "
        f"client.create_task({PLAN!r}); client.close(); assert 'pandas' not in sys.modules"
    )


@pytest.mark.parametrize("command", ["validate", "run"])
def test_a_command_imports_no_pandas(command: str, tmp_path: Path) -> None:
    plan = tmp_path / "plan.json"
    plan.write_text(PLAN)
    run(
        "import sys; from tidegate.server.cli import main; "
        f"code = main([{command!r}, {str(plan)!r}]); assert not code and 'pandas' not in sys.modules"
    )
