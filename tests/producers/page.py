"""Writes docs/producers.md and docs/datafusion-functions.md: what becomes of the plans of other producers.

`python -m tests.producers.page` writes both again.
"""

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
LISTS: Final = Path("docs") / "datafusion-functions.md"
_LONGEST: Final = 160
_VERSION: Final = datafusion.__version__.partition(".")[0]
_HEAD: Final = """\
# Producers

Use this page if another program writes your plans. It says where Tidegate reads a plan otherwise than Substrait says,
where plans do not mean what their SQL means, and which functions and queries of DataFusion do not run.
[Coverage](coverage.md) lists what Substrait itself defines.

```python runnable
import datafusion
import pyarrow as pa
from datafusion.substrait import Serde

import tidegate

orders = pa.table({"item": ["tea", "cup", "tea"], "price": [3, 8, 4]})
context = datafusion.SessionContext()
context.register_record_batches("orders", [orders.to_batches()])
plan = bytes(Serde.serialize_bytes("SELECT item, sum(price) AS total FROM orders GROUP BY item ORDER BY item", context))

with tidegate.local() as client:
    print(client.query(plan, {"orders": orders}).to_pylist())
```

```text output
[{'item': 'cup', 'total': 8}, {'item': 'tea', 'total': 7}]
```

Tested: the TPC-H plans of DataFusion (22), DuckDB 1.1.3's extension (15, it writes no others), ibis-substrait 4.0.1
(20) and substrait-python (22), and all 99 queries of TPC-DS by DataFusion. All run.

## What a name means

A plan that takes a function from an extension means that extension's function. Some producers write a name without an
extension, and mean their own function of that name. So Tidegate looks at the field `producer` of the plan's `version`.
It knows names that begin with `datafusion`, `duckdb`, `ibis-substrait`, `isthmus` or `substrait-java`, in upper or
lower case, and runs the producer's function. Tidegate reads a plan without such a name as Substrait says. In the rows
with "with an extension, too", the producer names Substrait's extension, and means its own function all the same.

| Producer | Written | Meant |
|---|---|---|
| DataFusion | `concat`, `greatest`, `least` | nulls are left out |
| DataFusion | `like`, `ilike` | a backslash makes the next character literal, unless the query names another escape |
| DataFusion | `logb` | the base comes second |
| DataFusion | `initcap` | every run of letters and digits is a word |
| DataFusion | `substring` | a start below 1 is a position before the text, and the length counts from there: `substring('abc', -1, 3)` is `a` |
| DataFusion | `upper`, `lower` | `ß` becomes `SS`, a `Σ` at the end of a word `ς`, and so on |
| DataFusion | `/` of decimals | four decimal places more than the dividend; further places are cut off, not rounded |
| DataFusion | `avg` of decimals | four decimal places more than the argument; further places are cut off |
| DataFusion | `median` of decimals | as many decimal places as the argument; further places are cut off |
| DataFusion | `date_part('epoch', x)` | seconds with their fraction |
| DataFusion | `regexp_replace` | the first match is replaced, with the flag `g` every match |
| DataFusion | the pattern and the new text of `regexp_*`, `~` | [as Rust reads them](#datafusions-patterns) |
| DataFusion | `corr` | null where it is not defined |
| DataFusion | `<<`, `>>` | the number of places counts modulo the integer's width (8, 16, 32 or 64): `1 << 65` is 2 |
| DataFusion | `sqrt` | an error for a number below 0 |
| DataFusion | `cardinality` of lists of lists | the number of elements of the innermost lists |
| DataFusion | a cast of a float or decimal to an integer | the fraction is cut off |
| DataFusion | a cast of a date or a timestamp to text | ISO 8601, with a `T`, and with a `Z` after an instant. Years before 0 and after 9999 have a sign: `+10000-01-01` |
| DataFusion | a date plus or minus an interval | a time of the interval is cut to whole days, towards 0: a date less 25 hours is the day before |
| DataFusion | a cast of a timestamp to fewer places | the places are cut off, towards 1970 |
| DataFusion | a cast of a timestamp or a time to a time of fewer places | the places are cut off, towards midnight |
| DataFusion | a cast of a float to text | as Rust writes it: `1e20`, `1e-7`, `NaN` |
| DataFusion | a cast of a double to a float of 32 bits | infinite, where the value is too large |
| DataFusion | a cast of a text to another type | fails for texts that DuckDB would read: `1.5` as an integer, `1e3` as a decimal, `2024-1-2` as a timestamp. A timestamp with an offset is taken to UTC. A text that is an integer, cast to a time of day, counts the type's least unit from midnight: nanoseconds in `CAST('5' AS TIME)`, seconds in `arrow_cast('5', 'Time32(Second)')` |
| DuckDB's extension | `concat`, `greatest`, `least` | nulls are left out |
| DuckDB's extension | `subtract` of one value | the value with the other sign |
| DuckDB's extension | `corr`, with an extension, too | null where it is not defined |
| ibis-substrait | `substring`, with an extension, too | positions count from 0; one below 0 counts back from the text's end |
| Isthmus, substrait-java | an expansion (`ExpandRel`) | only its fields, without the number of the duplicate |
| plans that name no producer, such as those of substrait-python | an expansion with fewer fields than its input has columns | the fields, then the number of the duplicate. If this does not fit the relations above, the input's other columns come before the number. The plan gets a warning in both cases |
| DataFusion | `GROUPING SETS`, `CUBE`, `ROLLUP` | the result has one more column, between keys and measures: an integer with one bit for each key. DataFusion writes `GROUPING SETS ((x))` as it writes `GROUP BY x`, but only the first has this column. Tidegate sees from the columns of the projection above which of the two the SQL had |
| Isthmus (Substrait's producer in Java), substrait-java, and plans that name no producer | several grouping sets | some of these plans count on a column with the set's number, some do not. Tidegate takes the reading whose columns fit the relations above. If both readings fit, it refuses the plan (`AMBIGUOUS_GROUPING`) |

## DataFusion's patterns

DataFusion's patterns are those of Rust's `regex`. DuckDB's engine, RE2, has the same syntax, but gives some of it
another meaning. Tidegate rewrites constant patterns, so that they mean the same:

| In a pattern | Tidegate |
|---|---|
| `\\d`, `\\w`, `\\s` and their opposites | match all letters and digits of Unicode, as in Rust |
| `\\b`, `\\B` | runs for texts without letters beyond ASCII; a text with such letters is an error |
| a class in a class, `&&`, `--`, `~~`, the flags `x`, `u`, `R` and `U`, `\\<`, `\\>` | refused |
| `$1`, `${1}`, `$name`, `$$` and `\\1` in the new text of a replacement | rewritten for RE2, for the first nine groups; refused for a reference to a later group |
| a group that may match nothing or an empty text, in `regexp_match` | refused, because DuckDB gives the same answer for both |

Tidegate cannot rewrite a pattern that comes from a column. If such a pattern has one of these signs, every text that is
not ASCII is an error: `\\d`, `\\w`, `\\s` and their opposites, `\\b`, `\\B`, `\\u`, `\\U`, `&&`, `--`, `~~`, and the flags
`x`, `u`, `R` and `U`. A new text from a column must not have a `$`.

## Where DataFusion's answer is another

For a few values Tidegate does not give DataFusion's answer:

| What | DataFusion | Tidegate |
|---|---|---|
| integers that overflow in `+`, `-`, `*` and negation; sums and decimals that overflow | wraps around, or gives more digits than the type has | an error |
| a product of more than 18 digits (at least 10^12), if the types of both decimals have at most 18 digits each, and at most six decimal places together | the product | an error; cast one of them to a decimal of 19 digits or more |
| `<`, `<=`, `>`, `>=`, `greatest` and `least` of lists or structs with nulls inside; sorting by them, or `array_sort` of them, with `ASC NULLS FIRST` or `DESC NULLS LAST` | takes a null inside for the least value | an error |
| a cast of a list, struct or map whose elements DataFusion casts otherwise than DuckDB, such as floats to integers | casts the elements | refused (`BAD_CAST`) |
| -0.0 and 0.0 in lists, `ORDER BY`, `PARTITION BY`, `CASE x WHEN`, `nullif` and `count(DISTINCT x)` | are different | are equal |
| NaN whose sign bit is set | is less than all numbers, and another value than NaN | is NaN |
| `min` and `max` of floats by groups | leave most NaN out; an infinity of 32 bits is the largest float | NaN is the greatest value; an infinity is itself |
| `date_part` of a moment outside of the years -262143 to 262142 | null | the part |
| a frame that moves away from an infinity or NaN | keeps NaN | has the value of its own rows |
| `approx_median`, `approx_percentile_cont`; `percentile_cont` between two values | approximate; four or five digits | exact |
| `date_bin` of a moment outside of the years 1677 to 2262 | null | the bin, or an error |
| `date_bin` with a negative stride | bins that are cut towards the origin | refused (`UNSUPPORTED_FUNCTION`) where the stride is a constant, else an error |
| a negative length in `substr` and `lpad`, a start of -2^63 in `substr`, 0 raised to a negative power | an error | an empty text; infinity |
| functions of floats of 32 bits, such as `cot`, `sinh` and `radians` | computed in 32 bits | computed in 64 bits: the last digits may differ |
| `round` and `trunc`, to decimal places, of floats near the largest | infinity | the float |
| `corr` of infinities and NaN | null or NaN, and not the same with and without GROUP BY | null |
| `array_position` and `array_positions` of a null in a list of lists | finds empty lists, and no nulls | finds nulls |
| `array_replace`, `array_replace_all` and `array_replace_n` of a null in a list of lists by a list without nulls | takes empty lists for nulls | refused (`NO_MATCHING_FUNCTION`) |
| a text that is cast to a time of day, and has AM or PM, or the second 60, or is an integer below 0 or beyond the day | a time | an error; null of `TRY_CAST` |

## What a plan lacks

Some producers do not write what Substrait asks for. Tidegate reads their plans so:

| Producer | Its plans | Read as |
|---|---|---|
| DuckDB's extension | a projection gives only its expressions. Substrait has the input's columns before them | only the expressions, if the plan's references and the number of its result's names fit that; else as Substrait has it |
| DuckDB's extension | NOT LIKE is `not_equal` | NOT LIKE for [some texts](#what-plans-lose) |
| DuckDB's extension | UNION is UNION ALL | UNION ALL, with a warning |
| DuckDB's extension, ibis-substrait | declared result types are wrong | the types that Substrait's rules give |
| ibis-substrait | the division of two integers is written as integer division, but declared as a float | a division of floats |
| DuckDB's extension, ibis-substrait | the average of integers is written as Substrait's, which is an integer, but declared as a float | an average of floats |
| DuckDB's extension | a null has no type | a null of the type that its context gives. The context is a cast, a condition, the other branches of a condition, the other values of an `IN`, a table's column, or the other arguments of a function that takes all arguments as one type. Without such a context the plan is refused (`MISSING`): in `SELECT NULL`, and in `SELECT a + NULL`, which DuckDB writes in the same way |
| DuckDB's extension | `constant_or_null`, a function of DuckDB's optimizer | its first argument, or null if another one is null |
| ibis-substrait | the branches of a condition are integers of several widths | integers of the widest |
| ibis-substrait | a subquery's references to the outer query's row are written as references to its own row | [as written](#what-plans-lose). If only the outer query's row has such a column: as a reference to that row, with a warning |
| ibis-substrait | an offset without a limit is written with a limit of 0 rows | all rows after the offset, with a warning. `limit(0, offset=n)` is the same plan |
| DataFusion | EXISTS and IN are written as the same join | that join, with a warning where EXISTS and IN treat a null differently ([which](#what-plans-lose)) |
| DataFusion | unsigned integers are written as signed ones, with a mark (a type variation) that the plan does not declare | unsigned integers |
| DataFusion, DuckDB's extension | a decimal of 38 places beside an integer, or beside a decimal with more digits in front of the point, is compared as `decimal(38, 38)`: the plan has the casts | as written: a value of 1 or more is an error, as it is in DataFusion. Without the casts Tidegate compares [such decimals](plans-and-coverage.md) |
| DataFusion | the sum of a very large limit and an offset is a negative number of rows | all rows |
| pyarrow (Acero) | `if_else` with a condition that is null, where pyarrow gives null; `is_in` of a null, where pyarrow gives false | as written: the value of the else, and null |
| every plan that states a version of Substrait below 0.63 | a limit of 0 rows looks like a limit without a number | a limit of 0 rows |

## What plans lose

Seven plans of ibis-substrait do not mean the same as their SQL, because the producer lost a part of the meaning.
Tidegate runs these plans as they are written. The tests compare their rows with those of an SQL that says what the plan
says:

| Plan | The plan says |
|---|---|
| `ibis/q02` | the minimum is of all parts, not of the outer query's part: ps_partkey is compared with itself |
| `ibis/q04` | EXISTS asks for any line item, not for one of the outer order: l_orderkey is compared with itself |
| `ibis/q07` | columns 44 and 45 (key and name of the customer's nation) are written as 0 and 1 (key and name of the supplier). So the plan joins c_nationkey with s_suppkey, and gives s_name as the customer's nation |
| `ibis/q11` | the fraction 0.0001 is cast to decimal(38, 2), where it is 0.00 |
| `ibis/q20` | the sum is not of the outer part and supplier: l_partkey is compared with l_orderkey, l_suppkey with l_partkey |
| `ibis/q21` | EXISTS asks for any order, and compares l_suppkey with l_quantity |
| `ibis/q22` | EXISTS compares o_custkey with o_orderkey, not with the outer customer's key |

Sometimes Tidegate has to guess what a plan means. One case needs care. It comes only in plans of DuckDB's extension,
which writes both `<>` and NOT LIKE as `not_equal`. If the text that is compared has a `%` at its start or its end, and
another one between other characters, Tidegate runs NOT LIKE, and warns with the plan path. `%special%requests%` and
`%a%b` are such texts; `%abc%` and `a%b` are not. If you mean such a text literally, Tidegate misreads it. It reads
every other `not_equal` as written.

Other plans lose a part of their query, too. Nothing in the plan tells, so there is no warning:

| Producer | Query | The plan says |
|---|---|---|
| ibis-substrait | `order_by` of a column with nulls, which ibis sorts last | nulls first |
| ibis-substrait | a subquery's reference to the outer query's row, where its own row has such a column | a reference to its own row |
| pyarrow | a cast of floats or decimals to integers with `safe=False`, which cuts fractions off and wraps | a cast, which rounds and fails |
| pyarrow | a comparison with NaN, which is false | a comparison in which NaN is the greatest value |
| pyarrow | a cast of a float or a timestamp to a text | a cast: `2.0`, not `2`; no zeros behind the last digit of a second |
| DuckDB's extension | `FILTER` of an aggregate | the aggregate without it |
| DuckDB's extension | `GROUPING SETS`, `CUBE`, `ROLLUP` | one grouping by all keys |
| DuckDB's extension | `EXCEPT ALL` of rows with copies | a difference without copies |
| DuckDB's extension | `TRY_CAST` | `CAST` |
| DuckDB's extension | a constant timestamp | its text |
| DuckDB's extension | an interval of more than 35 minutes, or of months and days together | another interval |

Three functions of DuckDB's extension are Substrait's, and have another answer for a few values: `reverse` takes a
letter and its combining mark apart, `sign` of NaN is NaN, and `round` to tens keeps infinities and NaN.

DataFusion loses the meaning of some SQL operations before it writes a plan. Tidegate runs these plans as written, too:

| SQL | DataFusion's plan says |
|---|---|
| `INTERSECT ALL`, `EXCEPT ALL` | a semi or an anti join. These keep, or drop, all copies of a row if the other side has one copy; SQL counts the copies. DataFusion's own answer is that of the semi or anti join, not SQL's |
| `... OR NOT EXISTS (...)`, `... OR x NOT IN (...)` | the same [mark join](glossary.md#from-a-plan-to-work) for both. Tidegate reads it as `NOT IN`: an equality in the join's condition is the comparison of `NOT IN`, and the rest is the subquery's own condition. So an outer row is lost, though SQL may keep it, if the condition is true for no inner row, and the equality is null for one. This can happen to `NOT EXISTS`, and to `NOT IN` over a subquery that itself compares a column with the outer row by `=`. The plan gets a warning. DataFusion itself keeps every row that has no match, also where SQL's `NOT IN` is null |
| `NOT IN (...)` as a filter | the anti join of `NOT EXISTS`. It keeps a row whose own value is null, and keeps rows even if one of the values in the list is null; SQL keeps neither. The plan gets a warning if the condition of an anti join may be null. A correct `NOT EXISTS` gets this warning, too |
| a column of instants of a time zone other than UTC | instants without their zone. `date_part`, `date_trunc`, `to_local_time`, casts to dates and texts, and intervals of days and months are those of UTC; there is no warning |
| `IGNORE NULLS` of an aggregate or of a window function; `FILTER`, `DISTINCT`, or a `RANGE` bound that is an interval, of a window function | the call without it. No field of the plan tells that the SQL had it, so there is no warning. The list below has such queries: they run "as written" |

Six plans that DuckDB wrote (3, 5, 7, 8, 10 and 18) have the filter `o_custkey <= 7499`: the largest key in the data
that DuckDB had. On larger data they return only rows of those customers.
"""  # noqa: E501 - a row of a table is one line


_NOT_RUN: Final = """\
Tidegate runs every other function and query of [the list](datafusion-functions.md), and gives DataFusion's answer.

| Runs | Meaning |
|---|---|
| refused | Tidegate refuses the plan |
| not written | DataFusion writes no plan |
| as written | DataFusion's plan lacks a part of the query. Tidegate runs the plan without this part, so the result is not that of the SQL |

| Instead of | Write |
|---|---|
| `random`, `uuid` | a column that you feed: a strict task has to give the same rows on every run |
| `unnest` | the relation [`Unnest`](plans-and-coverage.md#custom-relations) |
| `WITH RECURSIVE` | a [loop](loops.md), with substrait's builders |
| `SELECT NULL` | `CAST(NULL AS BIGINT)`, or another type |
| `CAST(i AS TIMESTAMP)` of an integer, `CAST(ts AS BIGINT)` of a timestamp | `to_timestamp_seconds(i)`; `to_unixtime(ts)`, which gives seconds |
| `to_unixtime` and `to_timestamp_seconds` of texts | the functions of a timestamp: `to_unixtime(to_timestamp(s))` |
| `date_part` of a difference of timestamps | a difference of `date_part('epoch', ...)` of each |
| `digest` with a hash of the BLAKE family | `digest` with `sha256`, or another hash of SHA-2 |
| `HAVING grouping(x) = 0` with one grouping set | nothing: it is always 0 |
| `x % y` of floats | `x - y * trunc(x / y)` |
| `md5`, `sha224`, `sha256`, `sha384`, `sha512` and `digest` of binary values | a hash of a text |
| `regexp_instr` with more than a text and a pattern | `regexp_instr(substr(x, n), pattern)` for a position `n` |
| `to_char` with a directive such as `%C`, `%e` or `%P` | a directive that the message of the refusal lists |
| arithmetic on timestamps in nanoseconds, and `to_char` of them. DataFusion's literals are such timestamps | `arrow_cast(x, 'Timestamp(Microsecond, None)')` first |
| `min(x)`, `max(x)` of lists | `first_value(x ORDER BY x)`, `first_value(x ORDER BY x DESC)`, where no list has a null inside |
| `IGNORE NULLS` of an aggregate | `FILTER (WHERE x IS NOT NULL)` |

`i64?` in a note is an `i64` that may be null."""  # noqa: E501 - a row of a table is one line

_LISTS_HEAD: Final = """\
This page lists functions and queries of DataFusion, and whether Tidegate runs them. DataFusion ran each of them and
wrote it as a plan. Tidegate ran the plan. Then the values, types and nulls of both answers were compared.
[Producers](producers.md) lists what does not run, and what to write instead.

| Runs | Meaning |
|---|---|
| yes | Tidegate and DataFusion give the same answer |
| refused | Tidegate refuses the plan, for the reason in the note |
| as written | DataFusion's plan lacks a part of the query. Tidegate runs the plan, and gives what DataFusion gives when it reads the plan back |
| not written | DataFusion itself does not run the query, or cannot write it as a plan |
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


def pages(functions: Mapping[Call, Result], features: Mapping[str, Mapping[str, Result]]) -> Mapping[Path, str]:
    """The texts of docs/producers.md, and of the page with every function and query."""
    heading = f"# Functions and queries of DataFusion {_VERSION}"
    texts = {
        PATH: (_HEAD, *_what_does_not_run(functions, features)),
        LISTS: (heading, "", _LISTS_HEAD, *_all(functions, features)),
    }
    return {path: "\n".join(lines) + "\n" for path, lines in texts.items()}


def _what_does_not_run(functions: Mapping[Call, Result], features: Mapping[str, Mapping[str, Result]]) -> Iterator[str]:
    heading = f"## Functions and queries of DataFusion {_VERSION} that do not run, or mean something else"
    yield from (heading, "", _NOT_RUN, "")
    yield from ("| Function or query | Runs | Note |", "|---|---|---|")
    queries = (item for chapter in features.values() for item in chapter.items())
    for sql, result in (*((call.sql, result) for call, result in functions.items()), *queries):
        if result.outcome is not Outcome.RIGHT:
            yield _row(sql, result)


def _all(functions: Mapping[Call, Result], features: Mapping[str, Mapping[str, Result]]) -> Iterator[str]:
    yield from ("## Functions", "", "The functions of DataFusion's own list. " + _count(functions.values()), "")
    yield from ("| Function | Kind | Runs | Note |", "|---|---|---|---|")
    for call, result in functions.items():
        yield f"| `{_cell(call.sql)}` | {call.kind} | {result.outcome} | {_note(result)} |"
    yield from ("", "## Queries", "")
    yield _count(result for chapter in features.values() for result in chapter.values())
    for chapter, results in features.items():
        yield from ("", f"### {chapter.capitalize()}", "", "| Query | Runs | Note |", "|---|---|---|")
        yield from (_row(sql, result) for sql, result in results.items())


def _row(sql: str, result: Result) -> str:
    return f"| `{_cell(sql)}` | {result.outcome} | {_note(result)} |"


def _count(results: Iterable[Result]) -> str:
    counts = Counter(result.outcome for result in results)
    return f"Runs: {', '.join(f'{outcome} {counts[outcome]}' for outcome in Outcome if counts[outcome])}."


def _note(result: Result) -> str:
    text = _cell(result.note.partition("; did you mean")[0])
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ").replace("`", "'")


def main(arguments: list[str]) -> None:
    """Write the pages below the given folder, by default the current one."""
    for path, text in pages(*outcomes()).items():
        (Path(*arguments) / path).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
