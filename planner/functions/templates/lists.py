"""Lists and sets. A function argument is a DuckDB lambda."""

from __future__ import annotations

from typing import Final

from ...ir import types as t
from .named_values import let
from .use import Entry, Table, Template, Use


def _sort(use: Use) -> str:
    direction, _, nulls = use.choices["direction"].partition("_")
    return f"list_sort({use.arguments[0]}, '{direction}', '{nulls.replace('_', ' ')}')"


def _quantified(decided: str, otherwise: str) -> Template:
    """A quantifier over a list: true or false as soon as one element decides, else null if one element is unknown."""

    def template(use: Use) -> str:
        def answered(answers: str) -> str:
            unknown = f"len(list_filter({answers}, lambda answer: answer IS NULL)) > 0"
            return (
                f"CASE WHEN {answers} IS NULL THEN NULL WHEN list_contains({answers}, {decided}) THEN {decided}"
                f" WHEN {unknown} THEN NULL ELSE {otherwise} END"
            )

        return let(f"list_transform({', '.join(use.arguments)})", answered)

    return template


def _index_in(use: Use) -> str:
    """The index of an item. DuckDB's NaN equals itself, so the option `nan_equality` needs a test."""
    needle, haystack = use.arguments

    def index(v: str) -> str:
        absent = f"{v} IS NULL"
        if use.choices["nan_equality"] == "NAN_IS_NOT_NAN" and isinstance(use.type(0), t.Float):
            absent = f"{absent} OR isnan({v})"
        return f"CASE WHEN {absent} THEN NULL ELSE nullif(coalesce(list_position({haystack}, {v}), 0), 0) - 1 END"

    return use.cast(let(needle, index))


_DIRECTIONS: Final = ("ASC_NULLS_LAST", "ASC_NULLS_FIRST", "DESC_NULLS_LAST", "DESC_NULLS_FIRST")

TABLE: Final[Table] = {
    ("list", "transform"): Entry(lambda use: f"list_transform({', '.join(use.arguments)})"),
    ("list", "filter"): Entry(lambda use: f"list_filter({', '.join(use.arguments)})"),
    ("list", "cardinality"): Entry(lambda use: use.cast(f"len({use.arguments[0]})")),
    ("list", "sort"): Entry(_sort, {"direction": _DIRECTIONS}),
    ("list", "any_match"): Entry(_quantified("true", "false")),
    ("list", "all_match"): Entry(_quantified("false", "true")),
    ("set", "index_in"): Entry(_index_in, {"nan_equality": ("NAN_IS_NAN", "NAN_IS_NOT_NAN")}),
}
