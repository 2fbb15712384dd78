"""The traits of each kind of relation: planner passes ask for a trait, and know no list of kinds.

A kind has two attributes. `parts` names its fields with relations and expressions. `traits` is a row of the table
below. A kind without one of the two, or a row without one of its columns, is a type error.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """The fields of a kind that have parts of the plan, in order: `inputs` the relations that it reads, `expressions`
    the expressions that it evaluates. `columns` come before `expressions`, and must stay whole columns.
    """

    inputs: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    expressions: tuple[str, ...] = ()


Own = Literal["own"]
"""The pass has a case for the kind."""

Never = Literal["never"]
"""The pass never meets the kind."""


@dataclass(frozen=True, slots=True)
class Traits:
    """A row of the table.

    | Trait | Meaning |
    |---|---|
    | `name` | The kind, in the words of `explain`. |
    | `row_wise` | Every row comes from one row of an input, in order. A leaf's rows are such rows. |
    | `takes` | Its input, as a part of a statement: asked, no further than its rows are asked for; more, as one side |
    | | of a join; all, before its first row. |
    | `order` | The order of its rows: none, or the first input's, kept column by column. |
    | `columns` | The origin of its columns: computed by its expressions; passed, the inputs' columns first; sides, |
    | | both inputs' columns one after the other; or computed from all columns of the inputs. |
    | `rows` | The estimate of its rows: the first input's. |
    | `loose` | Its order changes with the order in which DuckDB's joins give rows: never; always; as its input, or if |
    | | its expressions join; grouped, if the same rows come out for any order of the input. |
    | `distribution` | Its place on channels: row by row, where its input is; one place, alone or whole on each. |
    | `changes` | Its form on changes: recomputed from all rows of its inputs. |
    """

    name: str
    row_wise: bool
    takes: Literal["asked", "more", "all"]
    order: Literal["none", "kept"] | Own
    columns: Literal["computed", "passed", "sides", "all"] | Never
    rows: Literal["input"] | Own | Never
    loose: Literal["never", "as input", "grouped", "always"]
    distribution: Literal["row by row", "one place"] | Own | Never
    changes: Literal["recomputed"] | Own | Never


# fmt: off
T, F = True, False
#                                      row-wise takes   order   columns     rows     loose       distribution  changes
READ: Final = Traits("read",                 T, "asked", "own",  "computed", "own",   "never",    "own",        "own")
VALUES: Final = Traits("values",             T, "asked", "none", "computed", "own",   "never",    "own",        "own")
FILTER: Final = Traits("filter",             T, "asked", "kept", "passed",   "own",   "as input", "row by row", "own")
PROJECT: Final = Traits("project",           T, "asked", "own",  "computed", "input", "as input", "row by row", "own")
EXPAND: Final = Traits("expand",             T, "asked", "none", "computed", "own",   "as input", "row by row", "own")
FETCH: Final = Traits("fetch",               F, "more",  "kept", "passed",   "own",   "never",    "own",        "own")
SORT: Final = Traits("sort",                 F, "all",   "own",  "passed",   "input", "never",    "own",        "own")
TOP_N: Final = Traits("top-n",               F, "all",   "own",  "passed",   "own",   "never",    "own",        "own")
AGGREGATE: Final = Traits("aggregate",       F, "all",   "none", "computed", "own",   "grouped",  "own",        "own")
PARTIAL: Final = Traits("partial aggregate", F, "all",   "none", "never",    "input", "grouped",  "never",      "never")
FINAL: Final = Traits("final aggregate",     F, "all",   "none", "never",    "input", "grouped",  "never",      "never")
SLIDING: Final = Traits(
                 "sliding aggregate",   F, "all",   "none", "computed", "own",   "grouped",  "own",        "own")
FINAL_SLIDING: Final = Traits(
                 "final sliding aggregate", F, "all", "none", "never",  "input", "grouped",  "never",      "never")
TIME_WINDOWS: Final = Traits(
                 "windows of time",     F, "all",   "none", "computed", "never", "never",    "never",      "own")
LATE_ROWS: Final = Traits("late rows",       F, "all",   "none", "passed",   "never", "never",    "never",      "own")
INTERVAL_JOIN: Final = Traits(
                 "interval join",       F, "more",  "none", "sides",    "never", "never",    "never",      "own")
AS_OF_JOIN: Final = Traits("as-of join",     F, "more",  "none", "all",      "never", "never",    "never",      "own")
JOIN: Final = Traits("join",                 F, "more",  "none", "sides",    "own",   "always",   "own",        "own")
LATERAL: Final = Traits("lateral join",      F, "more",  "none", "sides",    "input", "always",   "own",        "never")
CROSS: Final = Traits("cross",               F, "more",  "none", "sides",    "own",   "always",   "own",        "own")
UNION_ALL: Final = Traits("set",             T, "asked", "none", "passed",   "own",   "as input", "own",        "own")
UNION: Final = Traits("set",                 F, "all",   "none", "all",      "own",   "grouped",  "own",        "own")
SET: Final = Traits("set",                   F, "all",   "none", "all",      "own",   "always",   "own",        "own")
WINDOW: Final = Traits("window",             F, "all",   "none", "passed",   "input", "never",    "own",        "own")
SHARED: Final = Traits("shared",             F, "more",  "none", "computed", "never", "never",    "never",      "never")
EXCHANGE: Final = Traits("exchange",         F, "more",  "none", "never",    "input", "never",    "never",      "never")
# Loops
ITERATE: Final = Traits("loop",              F, "more",  "none", "all",      "input", "never",    "never",      "own")
REFERENCE: Final = Traits("reference",       F, "more",  "none", "computed", "never", "never",    "never",      "own")
LOOP_INPUT: Final = Traits("loop input",     F, "more",  "none", "never",    "never", "never",    "never",      "own")
RECURSION: Final = Traits(
                 "recursive statement", F, "all",   "own",  "never",    "input", "never",    "never",      "recomputed")
ROUNDS: Final = Traits("loop in rounds",     F, "more",  "own",  "never",    "input", "never",    "never",      "never")
# Relations with an operator of their own
UNNEST: Final = Traits("unnest",             T, "asked", "own",  "computed", "input", "never",    "row by row", "own")
PACK_LISTS: Final = Traits("packing",        F, "more",  "none", "all",      "input", "never",    "one place",  "own")
INDEX_TABLE: Final = Traits("index table",   F, "more",  "none", "computed", "never", "never",    "never",      "own")
INDEX_LOOKUP: Final = Traits("look-up",      T, "asked", "kept", "sides",    "input", "never",    "row by row", "own")
MERGE_JOIN: Final = Traits("merge join",     F, "asked", "own",  "never",    "own",   "never",    "own",        "own")
AS_OF_MERGE_JOIN: Final = Traits(
                 "as-of merge join",    F, "asked", "none", "sides",    "input", "never",    "own",        "never")
STREAMING: Final = Traits(
                 "streaming aggregate", F, "asked", "own",  "never",    "own",   "never",    "own",        "own")
SLIDING_WINDOWS: Final = Traits(
                 "sliding windows",     F, "all",   "none", "never",    "input", "never",    "never",      "never")
DENSE_SLICES: Final = Traits(
                 "dense slices",        F, "all",   "none", "never",    "input", "never",    "never",      "never")
FINAL_DENSE_SLICES: Final = Traits(
                 "final dense slices",  F, "all",   "none", "never",    "input", "never",    "never",      "never")
USER: Final = Traits("user operator",        F, "more",  "none", "all",      "input", "never",    "own",        "own")
# fmt: on
