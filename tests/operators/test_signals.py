"""Ctrl-C in the main thread while DuckDB works there, or calls a stream: DuckDB loses what the handler raises."""

from __future__ import annotations

import os
import signal
import threading

import duckdb
import pyarrow as pa
import pytest

from tidegate.operators.core.streams import BatchStream
from tidegate.operators.duckdb import failures, statement_inputs
from tidegate.operators.duckdb.fragment import Fragment
from tidegate.operators.duckdb.instances import Instance
from tidegate.operators.duckdb.statement_inputs import StreamSource

X = pa.schema([("x", pa.int64())])
ROW = pa.record_batch({"x": [1]})
ENDLESS = "SELECT sum(c0 * sqrt(n.range))::BIGINT FROM in0, range(100000000000) AS n"


pytestmark = pytest.mark.usefixtures("ctrl_c")


def press() -> None:
    os.kill(os.getpid(), signal.SIGINT)


def run(instance: Instance, sql: str) -> None:
    source = StreamSource(relation="in0", schema=X, size_class=1)
    fragment = Fragment(sql, schema=X, instance=instance, streams=[source])
    try:
        list(fragment.run([BatchStream(X, [ROW])]))
    finally:
        fragment.close()


def test_a_statement_that_ctrl_c_interrupts_raises_it(instance: Instance) -> None:
    timer = threading.Timer(0.2, press)
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        run(instance, ENDLESS)
    timer.join()


def test_ctrl_c_when_duckdb_asks_for_a_stream_is_raised(instance: Instance, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = statement_inputs.FragmentInput.open

    def open_(relation: statement_inputs.FragmentInput, columns: object) -> object:
        press()
        return opened(relation, columns)  # type: ignore[arg-type]

    monkeypatch.setattr(statement_inputs.FragmentInput, "open", open_)
    with pytest.raises(KeyboardInterrupt):
        run(instance, "SELECT c0 FROM in0 ORDER BY c0")


TEXTS = (
    "Query interrupted",
    "Invalid Input Error: exporting a stream from the object registered as 'in0' failed: KeyboardInterrupt: ",
    "Invalid Input Error: reading the stream registered as 'in0' failed: . Detail: Python\nKeyboardInterrupt\n",
)


@pytest.mark.parametrize("text", TEXTS)
def test_duckdb_says_by_its_words_that_a_signal_has_interrupted_it(text: str) -> None:
    assert failures.is_of_signal(RuntimeError(text))


@pytest.mark.parametrize("text", ["Conversion Error: Could not convert string 'KeyboardInterrupt' to INT32", ""])
def test_other_words_say_nothing_of_a_signal(text: str) -> None:
    assert not failures.is_of_signal(duckdb.ConversionException(text))


def test_other_threads_have_no_signals() -> None:
    seen: list[bool] = []
    thread = threading.Thread(target=lambda: seen.append(failures.is_of_signal(duckdb.InterruptException("INTERRUPT"))))
    thread.start()
    thread.join()
    assert seen == [False]
    assert failures.is_of_signal(duckdb.InterruptException("INTERRUPT"))
