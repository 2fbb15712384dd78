"""The functions that estimates and rewrites go by: tests that pick few rows, and functions that search a text."""

from __future__ import annotations

from typing import Final

_TEXT_TESTS: Final = frozenset({"like", "like_escaped", "regexp_like", "starts_with", "ends_with", "contains"})

SELECTIVE: Final = _TEXT_TESTS | {"equal", "is_not_distinct_from"}
"""Tests that most rows fail. (`ir.OneOf` is another one, and no function.)"""

SEARCHING: Final = frozenset(
    {
        "like",
        "like_escaped",
        "contains",
        "strpos",
        "count_substring",
        "replace",
        "regexp_count",
        "regexp_count_substring",
        "regexp_instr",
        "regexp_like",
        "regexp_match",
        "regexp_match_substring",
        "regexp_match_substring_all",
        "regexp_replace",
        "regexp_replace_flagged",
        "regexp_string_split",
        "regexp_strpos",
    }
)
"""Functions that search all of a text for a pattern, which takes longer than other functions."""
