"""Writes docs/producers.md: what becomes of the plans of other producers. `python -m tests.producers.page`."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

import datafusion

import tidegate

from .datafusion_features import FEATURES
from .datafusion_functions import Call
from .datafusion_outcomes import feature_outcome, function_outcomes
from .datafusion_tables import session
from .outcomes import Outcome, Result

PATH: Final = Path("docs") / "producers.md"
_LONGEST: Final = 160
_HEAD: Final = """\
# Producers

This page says which plans of another system Tidegate runs, and which it refuses. Each row was planned by the system
itself, run by both, and compared: values, types and nulls. [Coverage](coverage.md) lists what Substrait itself defines.

| Runs | Meaning |
|---|---|
| yes | Tidegate and the system give the same answer |
| refused | Tidegate refuses the plan, for the reason in the note |
| as written | the plan lacks a part of the query: Tidegate runs the plan, and the system reads its plan the same way |
| not written | the system itself does not run the query, or cannot write it as a plan |

The page is made by `make producers`. The tests plan and run every row again.

## What a name means

A plan that takes a function from an extension means that extension's function. Some producers write a name without an
extension, and mean their own function of that name. Tidegate recognises the producer by the plan's version, and then
runs the producer's function:

| Producer | Written | Meant |
|---|---|---|
| DataFusion | `concat`, `greatest`, `least` | nulls are left out |
| DataFusion | `like`, `ilike` | a backslash makes the next character literal, unless the query names another escape |
| DataFusion | `logb` | the base comes second |
| DataFusion | `initcap` | every run of letters and digits is a word |
| DataFusion | `substring` | a start below 1 counts from before the text |
| DataFusion | `upper` | `ß` becomes `SS`, and so on |
| DataFusion | `regexp_replace` | the first match is replaced, with the flag `g` every match |
| DataFusion | `corr` | null where it is not defined |
| DataFusion | a cast of a float or decimal to an integer | the fraction is cut off |
| DataFusion | a cast of a timestamp to text | ISO 8601, with a `T` |
| DataFusion | several grouping sets | a column of bits, one for each key, between keys and measures |
| Isthmus (Substrait's producer in Java) | several grouping sets | some of its plans have a column with the set's number, some do not: the reading that gives as many columns as the rest of the plan uses; `AMBIGUOUS_GROUPING` if both readings do |

## What a plan lacks

Some producers leave out a part that Substrait asks for, or write another one. Tidegate reads these plans so:

| Producer | Its plans | Read as |
|---|---|---|
| DuckDB's extension | a projection stands for its expressions alone. Substrait has the input's columns before them | the expressions alone, if the plan then has as many columns as names |
| DuckDB's extension | NOT LIKE is `not_equal` | NOT LIKE for [some texts](plans-and-coverage.md#tpc-h) |
| DuckDB's extension | UNION is UNION ALL | UNION ALL, with a warning |
| DuckDB's extension | declared result types are wrong | the derived types |
| ibis-substrait | declared result types are wrong | the derived types |
| ibis-substrait | a quotient of integers is that of integers, declared as a float | the quotient of floats |
| ibis-substrait | outer references are written as inner ones | [as written](plans-and-coverage.md#tpc-h) |
| DataFusion | EXISTS and IN are one join | that join, with a warning where nulls differ |
| DataFusion | unsigned integers are written as signed ones, with a mark (a type variation) that the plan does not declare | unsigned integers |
| all, before Substrait 0.63 | a limit of 0 rows looks like a limit without a number | a limit of 0 rows |

The tests run the TPC-H plans of four producers: 22 of DataFusion, 15 of DuckDB's extension (it writes no others), 20 of
ibis-substrait and 22 of substrait-python. All 79 run. Where `make producers-venv` has made an
environment for them, the tests also have ibis-substrait 4.0.1 and DuckDB 1.1.3 with its extension write plans, and
compare the answers. Neither can be in one environment with Tidegate: ibis-substrait does not import with today's
substrait, and the extension is for DuckDB 1.1.3 alone.
"""  # noqa: E501 - a row of a table is one line


def outcomes() -> tuple[Mapping[Call, Result], Mapping[str, Mapping[str, Result]]]:
    """The outcomes of functions, and of features by chapter."""
    context = session()
    with tidegate.local(roots=()) as client:
        features = {
            chapter: {sql: feature_outcome(client, context, sql) for sql in queries}
            for chapter, queries in FEATURES.items()
        }
        return function_outcomes(client), features


def page(functions: Mapping[Call, Result], features: Mapping[str, Mapping[str, Result]]) -> str:
    """The text of docs/producers.md."""
    return "\n".join(_lines(functions, features)) + "\n"


def _lines(functions: Mapping[Call, Result], features: Mapping[str, Mapping[str, Result]]) -> Iterator[str]:
    version = datafusion.__version__.partition(".")[0]
    yield from (_HEAD, f"## DataFusion {version}: functions", "")
    yield from ("The functions of DataFusion's own list. " + _count(functions.values()), "")
    yield from ("| Function | Kind | Runs | Note |", "|---|---|---|---|")
    for call, result in functions.items():
        yield f"| `{_cell(call.sql)}` | {call.kind} | {result.outcome} | {_note(result)} |"
    yield from ("", f"## DataFusion {version}: features", "")
    yield _count(result for chapter in features.values() for result in chapter.values())
    for chapter, results in features.items():
        yield from ("", f"### {chapter.capitalize()}", "", "| Query | Runs | Note |", "|---|---|---|")
        yield from (f"| `{_cell(sql)}` | {result.outcome} | {_note(result)} |" for sql, result in results.items())


def _count(results: Iterable[Result]) -> str:
    counts = Counter(result.outcome for result in results)
    named = {
        Outcome.RIGHT: "run and answer as DataFusion does",
        Outcome.REFUSED: "are refused",
        Outcome.UNWRITTEN: "DataFusion itself does not run or write",
        Outcome.WRONG: "answer otherwise",
    }
    return "; ".join(f"{counts[outcome]} {text}" for outcome, text in named.items() if counts[outcome]) + "."


def _note(result: Result) -> str:
    text = _cell(result.note.partition("; did you mean")[0])
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ").replace("`", "'")


def main(arguments: list[str]) -> None:
    """Write the page to the given path, by default to docs/producers.md in the current folder."""
    Path(arguments[0] if arguments else PATH).write_text(page(*outcomes()), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
