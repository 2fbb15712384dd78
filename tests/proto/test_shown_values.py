"""Class of bug: a message about a row could not be written, and hid what was wrong with it: Python has no nanoseconds
and no moments beyond the year 9999.
"""

from __future__ import annotations

import subprocess
import sys

import pyarrow as pa
import pytest

import tidegate
from tidegate.proto.arrow.shown_values import shown, shown_names, shown_row

FAR = pa.scalar(2**63 - 1).cast(pa.timestamp("us"))
NANOSECONDS = """
from tidegate.proto.arrow.pandas_import import leave_pandas_out
leave_pandas_out()
import pyarrow as pa
from tidegate.proto.arrow.shown_values import shown
print(shown(pa.scalar(1).cast(pa.timestamp("ns"))))
"""


def test_values_are_shown_as_python_writes_them() -> None:
    values = {"a": pa.scalar(1), "b": pa.scalar("x'"), "c": pa.scalar(None), "d": pa.scalar([1.5])}
    python = {name: value.as_py() for name, value in values.items()}
    assert shown_names(values) == repr(python)
    assert shown_row(list(values.values())) == repr(tuple(python.values()))
    assert shown_row([values["a"]]) == repr((1,))
    assert shown(values["b"], str) == "x'"


def test_a_value_that_python_does_not_have_is_shown_as_arrow_writes_it() -> None:
    number = "value out of range: 9223372036854775807"
    assert number in shown(FAR)
    assert number in shown(pa.scalar([2**63 - 1]).cast(pa.list_(pa.timestamp("us"))))
    struct = pa.StructArray.from_arrays([pa.array([FAR.value]).cast(pa.timestamp("us")), pa.array([1])], ["at", "n"])
    assert shown(struct[0]) == f"{{'at': <{number}>, 'n': 1}}"


def test_nanoseconds_are_shown_without_pandas() -> None:
    done = subprocess.run([sys.executable, "-c", NANOSECONDS], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "1970-01-01 00:00:00.000000001"


@pytest.mark.parametrize("mode", ["per_epoch", "continuous"])
def test_an_error_about_such_a_row_says_what_is_wrong(mode: str) -> None:
    import substrait.dataframe as sub

    plan = sub.read_named_table("t", {"at": sub.precision_timestamp(6), "x": sub.i64}).select(
        (sub.col("x") + 1).alias("y"), sub.col("at")
    )
    rows = pa.table({"at": pa.array([2**63 - 1]).cast(pa.timestamp("us")), "x": [2**63 - 1]})
    with (
        tidegate.local() as client,
        client.create_task(plan.to_plan(), mode=mode) as task,
        pytest.raises(tidegate.TaskFailed, match="verflow"),
    ):
        task.run_epoch({"t": rows}).table()
