"""Estimates and rewrites know every test and search of texts, under whatever name a producer's plan has it."""

from __future__ import annotations

import re

from tidegate.planner.analysis.selective_tests import SEARCHING, SELECTIVE
from tidegate.planner.functions import registry

TEXTS = {"functions_string", "functions_text"}


def test_every_test_of_a_text_picks_few_rows() -> None:
    tests = {
        function.name
        for function in registry.everything()
        if function.file in TEXTS and function.result.strip().rstrip("?").lower() == "boolean"
    }
    assert tests - SELECTIVE == set()
    assert "like_escaped" in tests


def test_every_pattern_is_searched_for() -> None:
    patterns = {
        function.name
        for function in registry.everything()
        if function.file in TEXTS and re.match("like|regexp", function.name)
    }
    assert patterns - SEARCHING == set()
    assert "like_escaped" in patterns


def test_each_name_is_a_function() -> None:
    assert (SELECTIVE | SEARCHING) - {function.name for function in registry.everything()} == set()
