"""The limits on a plan's size: one table of limits, and the refusal of a plan beyond a limit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from ....proto.errors import PlanError, Problem
from ...ir import MOST_SHARED

REASON: Final = "PLAN_TOO_LARGE"


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """A limit: at most `most` of `what`. `instead` advises the author of a larger plan."""

    what: str
    most: int
    instead: str

    def message(self, count: int | None = None) -> str:
        """A sentence for a plan that has `count` of `what`, or, without `count`, more than `most`."""
        amount = f"more than {self.most:,}" if count is None else f"{count:,}"
        return f"the plan has {amount} {self.what}; at most {self.most:,} are allowed: {self.instead}"

    def refuse(self, count: int | None = None) -> PlanError:
        return PlanError(Problem(place="", reason=REASON, message=self.message(count)))


BYTES: Final = Limit(what="bytes", most=16 << 20, instead="put data in splits or tables")
PARTS: Final = Limit(
    what="fields and values in its messages",
    most=1_000_000,
    instead="declare only what the plan uses, and put data in splits or tables",
)
NODES: Final = Limit(
    what="relations and expressions", most=20_000, instead="split the plan into several plans, or put data in tables"
)
RELATIONS: Final = Limit(
    what="relations", most=2_500, instead="split the plan into several plans, or put the rows of several tables in one"
)
"""A relation takes ten times as long to plan as an expression, and DuckDB takes the second power of those in one
statement: 3 s for a sort over a union of 1,600.
"""
LITERALS: Final = Limit(
    what="literals", most=100_000, instead="bind a table in place of a list of literals, and join with it"
)
COLUMNS: Final = Limit(
    what="columns in one schema",
    most=10_000,
    instead="keep columns of one type in a list, or in rows of a key and a value",
)
ALL_COLUMNS: Final = Limit(
    what="columns in all of its relations together",
    most=100_000,
    instead="drop unused columns before relations are joined or projected",
)
FIELDS: Final = Limit(
    what="fields inside of the types of one row",
    most=100_000,
    instead="choose the fields that are needed before structs are put into structs",
)
DEPTH: Final = Limit(
    what="relations and expressions nested in one another",
    most=10_000,
    instead="write long chains as one relation or one call of many arguments",
)
GROUPING: Final = Limit(
    what="keys of an aggregate times its grouping sets",
    most=1_000_000,
    instead="group by fewer sets at a time",
)
"""Each set has a row, at least, and each row has a column for each key."""
SUBTREES: Final = Limit(
    what="common subtrees, which its references read",
    most=MOST_SHARED,
    instead="write the cheap subtrees, and those read once, at the place of their reference",
)
SUBQUERIES: Final = Limit(
    what="subqueries",
    most=100,
    instead="join with what they read, or split the plan into several plans",
)
"""DuckDB takes the third power of their number to plan them: 2 s for 200 in one filter."""
LAMBDAS: Final = Limit(
    what="lambdas in the bodies of one another",
    most=5,
    instead="compute the inner lists in a relation of their own",
)
"""The time and memory of DuckDB to plan what is inside double with each: 5,000 sums take 0.5 GB in one and 2.9 GB in
eight.
"""
MULTISET_INPUTS: Final = Limit(
    what="inputs of set operations on multisets",
    most=600,
    instead="unite the inputs with UNION ALL and aggregate, or split the plan into several plans",
)
"""DuckDB takes more than the second power of their number to plan them: 2 s for 600, and 9 s for 1,200."""
WINDOW_ORDERS: Final = Limit(
    what="orders and partitions of its window functions",
    most=200,
    instead="give window functions the same order and partition, or split the plan into several plans",
)
"""DuckDB sorts the rows once for each of them, and carries the results of those before: an epoch takes the second power
of their number in time and memory, also for few rows. 0.5 s for 200, and 12 s for 800.
"""
REPEATS: Final = Limit(
    what="parts that are written once and used several times (type aliases, parameters, detached expressions, bodies "
    "of loops), counted at each use",
    most=20_000,
    instead="compute what is repeated once, in a relation of its own",
)
REPEATED_BYTES: Final = Limit(
    what="bytes of parts that are written once and used several times, counted at each use",
    most=16 << 20,
    instead="put long values in tables",
)
BRACKETS: Final = Limit(
    what="objects and lists nested in one another in its JSON",
    most=100_000,
    instead="a plan of 10,000 nested relations and expressions has fewer",
)

LIMITS: Final = (
    *(BYTES, PARTS, NODES, RELATIONS, LITERALS, COLUMNS, ALL_COLUMNS, FIELDS, DEPTH, GROUPING),
    *(SUBTREES, SUBQUERIES, LAMBDAS, MULTISET_INPUTS, WINDOW_ORDERS, REPEATS, REPEATED_BYTES, BRACKETS),
)


def least() -> int:
    """The bytes of a plan that is within all limits on the parts of its messages: each part takes a byte or more."""
    return min(limit.most for limit in (PARTS, NODES, RELATIONS, LITERALS, COLUMNS, DEPTH))
