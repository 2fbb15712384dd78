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

This page says how Tidegate reads the plans of other producers, and then which functions and queries of DataFusion it
runs. DataFusion ran each of these functions and queries and wrote it as a plan; Tidegate ran the plan. Then the values,
types and nulls of both answers were compared. [Coverage](coverage.md) lists what Substrait itself defines.

| Runs | Meaning |
|---|---|
| yes | Tidegate and DataFusion give the same answer |
| refused | Tidegate refuses the plan, for the reason in the note |
| as written | DataFusion's plan lacks a part of the query. Tidegate runs the plan, and gives what DataFusion gives when it reads the plan back |
| not written | DataFusion itself does not run the query, or cannot write it as a plan |

The page is made by `make producers`. The tests plan and run every function and query again.

## What a name means

A plan that takes a function from an extension means that extension's function. Some producers write a name without an
extension, and mean their own function of that name. A plan's `version` has the name of the program that wrote it. By
this name Tidegate recognises the producer, and then runs the producer's function:

| Producer | Written | Meant |
|---|---|---|
| DataFusion | `concat`, `greatest`, `least` | nulls are left out |
| DataFusion | `like`, `ilike` | a backslash makes the next character literal, unless the query names another escape |
| DataFusion | `logb` | the base comes second |
| DataFusion | `initcap` | every run of letters and digits is a word |
| DataFusion | `substring` | a start below 1 is a position before the text, and the length counts from there: `substring('abc', -1, 3)` is `a` |
| DataFusion | `upper`, `lower` | `ß` becomes `SS`, a `Σ` at the end of a word `ς`, and so on |
| DataFusion | `/`, `avg` and `median` of decimals | the result has four decimal places more than the argument (of `/`: than the dividend; of `median`: as many as the argument). Further places are cut off, not rounded |
| DataFusion | `date_part('epoch', x)` | seconds with their fraction |
| DataFusion | `regexp_replace` | the first match is replaced, with the flag `g` every match |
| DataFusion | the pattern and the new text of `regexp_*`, `~` | [as Rust reads them](#datafusions-patterns) |
| DataFusion | `corr` | null where it is not defined |
| DataFusion | a cast of a float or decimal to an integer | the fraction is cut off |
| DataFusion | a cast of a timestamp to text | ISO 8601, with a `T` |
| DataFusion | a cast of a timestamp to fewer places | the places are cut off, towards 1970 |
| DataFusion | a cast of a float to text | as Rust writes it: `1e20`, `1e-7`, `NaN` |
| DataFusion | a cast of a double to a float of 32 bits | infinite, where the value is too large |
| DataFusion | a cast of a text to another type | fails for texts that DuckDB would read: `1.5` as an integer, `1e3` as a decimal, `2024-1-2` as a timestamp. A timestamp with an offset is taken to UTC |
| DataFusion | several grouping sets | the result has one more column, between keys and measures: an integer with one bit for each key |
| Isthmus (Substrait's producer in Java), and plans without a producer's name | several grouping sets | some of these plans count on a column with the set's number, some do not. Tidegate takes the reading whose columns fit the relations above. If both readings fit, it refuses the plan (`AMBIGUOUS_GROUPING`) |

## DataFusion's patterns

DataFusion's patterns are those of Rust's `regex`. DuckDB's engine, RE2, has the same signs, but reads some of them
otherwise. Tidegate writes constant patterns anew, so that they mean the same:

| In a pattern | Tidegate |
|---|---|
| `\\d`, `\\w`, `\\s` and their opposites | they know all letters and digits, not only those of ASCII |
| `\\b`, `\\B` | runs for texts without letters beyond ASCII; a text with such letters is an error |
| a class in a class, `&&`, `--`, `~~`, the flags `x`, `u`, `R` and `U`, `\\<`, `\\>` | refused |
| `$1`, `${1}`, `$name`, `$$` and `\\1` in the new text of a replacement | written anew for RE2, for the first nine groups; refused for a reference to a later group |
| a group that `regexp_match` may leave out, or find empty | refused: DuckDB does not tell the two apart |

Tidegate does not write a pattern from a column anew. If such a pattern has `\\d`, `\\w`, `\\s` or one of their opposites,
`\\b`, `\\B`, `\\u`, `\\U`, `&&`, `--`, `~~`, or one of the flags `x`, `u`, `R` and `U`, each text that is not ASCII is an
error. A new text from a column must not have a `$`.

## What a plan lacks

Some producers leave out a part that Substrait asks for, or write another one. Tidegate reads these plans so:

| Producer | Its plans | Read as |
|---|---|---|
| DuckDB's extension | a projection stands for its expressions alone. Substrait has the input's columns before them | the expressions alone, if the plan's references and the number of its result's names fit that; else as Substrait has it |
| DuckDB's extension | NOT LIKE is `not_equal` | NOT LIKE for [some texts](plans-and-coverage.md#tpc-h) |
| DuckDB's extension | UNION is UNION ALL | UNION ALL, with a warning |
| DuckDB's extension, ibis-substrait | declared result types are wrong | the types that Substrait's rules give |
| ibis-substrait | the division of two integers is written as integer division, but declared as a float | a division of floats |
| DuckDB's extension, ibis-substrait | the average of integers is written as Substrait's, which is an integer, but declared as a float | an average of floats |
| DuckDB's extension | a null has no type, and is cast to one | a null of that type |
| DuckDB's extension | `constant_or_null`, a function of DuckDB's optimizer | its first argument, or null if another one is null |
| ibis-substrait | the branches of a condition are integers of several widths | integers of the widest |
| ibis-substrait | a subquery's references to the outer query's row are written as references to its own row | [as written](plans-and-coverage.md#tpc-h). If only the outer query's row has such a column: as a reference to that row, with a warning |
| DataFusion | EXISTS and IN are written as the same join | that join, with a warning where EXISTS and IN treat a null differently ([which](plans-and-coverage.md#tpc-h)) |
| DataFusion | unsigned integers are written as signed ones, with a mark (a type variation) that the plan does not declare | unsigned integers |
| DataFusion | the sum of a very large limit and an offset is a negative number of rows | all rows |
| pyarrow (Acero) | `if_else` with a condition that is null, where pyarrow gives null; `is_in` of a null, where pyarrow gives false | as written: the value of the else, and null |
| all, before Substrait 0.63 | a limit of 0 rows looks like a limit without a number | a limit of 0 rows |

The tests run the TPC-H plans of four producers: 22 of DataFusion, 15 of DuckDB's extension (it writes no others), 20 of
ibis-substrait and 22 of substrait-python. All 79 run. If you have run `make producers-venv`, which makes an environment
for ibis-substrait 4.0.1 and for DuckDB 1.1.3 with its extension, the tests also let these two write new plans, fixed and
random ones, run the plans, and compare the answers. Neither can be in one environment with Tidegate: ibis-substrait does
not import with today's substrait, and the extension is for DuckDB 1.1.3 alone.

`make producers-venv` also makes an environment with the tables and the 99 queries of TPC-DS, which come with a DuckDB
extension. The tests then let DataFusion plan each query, run the plan, and compare its rows with DuckDB's and its types
with DataFusion's. All 99 are right. Columns that are ratios of decimals are compared to a millionth: DataFusion divides
decimals to a fixed number of places, DuckDB divides them as floats.
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
    return f"Runs: {', '.join(f'{outcome} {counts[outcome]}' for outcome in Outcome if counts[outcome])}."


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
