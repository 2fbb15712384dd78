"""Every official function case, through binding, rendering and DuckDB.

`KNOWN` lists the cases that do not pass, each with its reason; a listed case that passes fails its file's test.
"""

import re
from collections import Counter

import duckdb
import pytest

from .official_answers import failure
from .official_cases import Unreadable, files, read

WRONG_NUMBER = "the case's number is wrong: computed by hand it is another"
NAN_MEANS_NULL = "the option says NaN, the case wants null from a function whose result is not nullable"
NO_SUCH_VALUE = "the case asks for an option value that the extension does not have"
NULL_LAMBDA = "a null in the place of a function literal cannot be written in a plan"
OTHER_ROUNDING = "floating point rounds ties to even, nothing else"
NO_INDEXING = "the case leaves out the indexing; counted from one, the answer is another"

KNOWN = {
    r"multiply\(-13::i8, -10::i8\) \[overflow:SATURATE\]": WRONG_NUMBER,
    r"shift_left\(301989888::i64, 8::i32\)": WRONG_NUMBER,
    r"\(\(-5\.0\), \(-3\.0\), .* (std_dev|variance)\(SAMPLE": WRONG_NUMBER,
    r"\(\(1\.1\), \(2\.2\), .* \[rounding:TIE_TO_EVEN\]": WRONG_NUMBER,
    r"\(\(0\.0\), \(100\.0\), .* (std_dev|variance)\(": WRONG_NUMBER,
    r"\[rounding:TRUNCATE\]": OTHER_ROUNDING,
    r"sqrt\(-\d+::i64\) \[on_domain_error:NAN\]": NAN_MEANS_NULL,
    r"\[on_log_zero:NAN\]": NAN_MEANS_NULL,
    r"\[on_division_by_zero:NAN\]": NO_SUCH_VALUE,
    r"acosh\(0\.5::fp32\) \[on_domain_error:NONE\]": NO_SUCH_VALUE,
    r"extract\((SUNDAY|MONDAY)_DAY_OF_WEEK": NO_INDEXING,
    r"null::func": NULL_LAMBDA,
}
TOTAL, PASSING = 1317, 1291


@pytest.fixture(scope="module")
def connection():
    with duckdb.connect(config={"threads": 1}) as connection:
        connection.execute("SET TimeZone = 'UTC'")
        yield connection


def expected_to_fail(text):
    return next((reason for pattern, reason in KNOWN.items() if re.search(pattern, text)), None)


def surprises(file, failure_of):
    """The cases of a file that fail and are not listed, or are listed and pass, a line for each."""
    lines = []
    for line, text, case in read(file):
        why = str(case) if isinstance(case, Unreadable) else failure_of(case)
        reason = expected_to_fail(text)
        if why is not None and reason is None:
            lines.append(f"line {line}: {text}\n    {why}")
        if why is None and reason is not None:
            lines.append(f"line {line}: {text}\n    passes, but is listed: {reason}")
    return "\n".join(lines)


@pytest.mark.parametrize("file", files())
def test_all_cases_of_a_file_give_their_answers(file, connection):
    assert surprises(file, lambda case: failure(case, connection)) == ""


def test_the_known_failures_are_few_and_every_reason_is_used():
    texts = [text for file in files() for _, text, _ in read(file)]
    used = Counter(reason for text in texts if (reason := expected_to_fail(text)))
    assert set(used) == set(KNOWN.values())
    assert (len(texts), len(texts) - used.total()) == (TOTAL, PASSING)
