"""Producers' deviations from Substrait."""

from __future__ import annotations

import enum
from dataclasses import dataclass, replace
from typing import Final

from ..encoding.message_nodes import Message


class SetIndex(enum.Enum):
    """The column of an aggregate with several grouping sets that tells the sets apart."""

    LAST = "the set's number, behind the measures: Substrait's layout"
    ABSENT = "no column"
    MASK = "between keys and measures, a bit for each key: DataFusion's layout"


class Expansion(enum.Enum):
    """The columns of an expansion. Substrait's texts disagree about input columns beyond the expansion's fields."""

    FIELDS = "the fields, and the duplicate's number: the specification's layout"
    COLUMNS = "the fields, the input's columns beyond them, and the duplicate's number: the layout of algebra.proto"
    ALONE = "the fields: the layout of substrait-java"


@dataclass(frozen=True, slots=True, kw_only=True)
class Habits:
    """The deviations of one producer, as far as they change the meaning of a plan."""

    project_replaces: bool = False
    """A projection without an emit gives its expressions alone, without its input's columns before them."""

    output_types_wrong: bool = False
    """The result types declared for functions mean nothing: DuckDB declares a comparison of dates a date, and ibis
    declares a product of decimals as wide as its factors, which would round the product.
    """

    unsigned_variation: int = 0
    """The undeclared type variation that makes an integer unsigned; 0 for none."""

    undeclared_variations: tuple[int, ...] = ()
    """The type variations that the producer uses and does not declare. They are other layouts in memory, such as views
    of texts, or `unsigned_variation`.
    """

    outer_references_lost: bool = False
    """A subquery's references to the row around it are written as references to its own row."""

    not_like_is_not_equal: bool = False
    """NOT LIKE is written as `not_equal`, just as `<>` is: only the pattern tells which operator is meant."""

    union_is_union_all: bool = False
    """UNION is written as UNION ALL, and nothing tells them apart."""

    floats_of_integers: tuple[str, ...] = ()
    """The functions that are functions of integers in the plan, and of floats to their producer: the
    declared type tells.
    """

    has_constant_or_null: bool = False
    """A plan may have `constant_or_null`: the first argument, or null if any other one is."""

    exists_is_in: bool = False
    """EXISTS and IN are written as one mark join, NOT EXISTS and NOT IN as one anti join, though they treat nulls
    differently.
    """

    set_index: SetIndex = SetIndex.LAST

    set_index_unsure: bool = False
    """Releases of the producer differ in `set_index`, and do not say which one they follow."""

    expansion: Expansion = Expansion.FIELDS

    dialect: str = ""
    """The producer whose meaning functions and casts have, where it is not Substrait's; empty for none."""

    row_counts_wrap: bool = False
    """Numbers of rows are unsigned, written as signed ones: the sum of the largest limit and an offset is negative."""

    zero_count_absent: bool = False
    """A fetch without a count asks for no rows: the count is a zero, which protobuf did not write then."""

    offset_alone_counts_zero: bool = False
    """An offset without a limit is written with a limit of 0 rows."""

    rows_are_single_expressions: bool = False
    """In one release `VirtualTable.expressions` held expressions at the field number that now holds rows of
    expressions.
    """


_PRODUCERS: Final = {
    "duckdb": Habits(
        project_replaces=True,
        output_types_wrong=True,
        not_like_is_not_equal=True,
        union_is_union_all=True,
        floats_of_integers=("avg",),
        has_constant_or_null=True,
        dialect="duckdb",
    ),
    "datafusion": Habits(
        unsigned_variation=1,
        undeclared_variations=(1, 2),
        exists_is_in=True,
        row_counts_wrap=True,
        set_index=SetIndex.MASK,
        dialect="datafusion",
    ),
    "isthmus": Habits(set_index_unsure=True, expansion=Expansion.ALONE),
    "substrait-java": Habits(set_index_unsure=True, expansion=Expansion.ALONE),
    "ibis-substrait": Habits(
        outer_references_lost=True,
        output_types_wrong=True,
        floats_of_integers=("avg", "divide"),
        offset_alone_counts_zero=True,
        dialect="ibis-substrait",
    ),
}
_COUNT_HAS_PRESENCE: Final = (0, 63)
_ROWS_WERE_EXPRESSIONS: Final = (0, 58)


def candidates(plan: Message) -> tuple[Habits, ...]:
    """The ways to read a plan, the likeliest first. If there are several, the columns that the plan refers to and the
    number of the root's names decide.

    DuckDB's projections replace their input. If a release of DuckDB writes projections as everybody does, its plans fit
    the root's names the other way. Isthmus, and plans without a producer, have the number of a grouping set or lack it.
    An expansion with fewer fields than its input has columns may pass the others on.
    """
    producer = plan.version.producer.lower()
    version = (plan.version.major_number, plan.version.minor_number)
    habits = replace(
        next(
            (habits for name, habits in _PRODUCERS.items() if producer.startswith(name)),
            Habits(set_index_unsure=not producer),
        ),
        zero_count_absent=(0, 0) < version < _COUNT_HAS_PRESENCE,
        rows_are_single_expressions=version == _ROWS_WERE_EXPRESSIONS,
    )
    if habits.project_replaces:
        return habits, replace(habits, project_replaces=False)
    passing = replace(habits, expansion=Expansion.COLUMNS)
    if habits.set_index is SetIndex.MASK:
        return habits, passing
    return habits, replace(habits, set_index=SetIndex.ABSENT), passing
