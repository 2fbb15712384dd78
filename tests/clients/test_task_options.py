"""The options of a task, as a type checker knows them, are those that a task has."""

from __future__ import annotations

import enum
import subprocess
import sys
from dataclasses import fields
from pathlib import Path
from typing import Literal, get_args, get_origin, get_type_hints

import pytest

import tidegate
from tidegate.operators.writing.formats import WRITE_FORMATS
from tidegate.proto.values import TaskOptions
from tidegate.task_options import Options

TYPES = get_type_hints(Options)


def literals(option: str) -> set[str]:
    kinds = get_args(TYPES[option]) if get_origin(TYPES[option]) is not Literal else (TYPES[option],)
    return {text for kind in kinds if get_origin(kind) is Literal for text in get_args(kind)}


def test_every_option_of_a_task_has_a_type() -> None:
    assert set(TYPES) == {field.name for field in fields(TaskOptions)}


OWN = get_type_hints(TaskOptions)
CHOICES = [name for name, type_ in OWN.items() if isinstance(type_, type) and issubclass(type_, enum.Enum)]


@pytest.mark.parametrize("option", CHOICES)
def test_a_choice_is_known_by_its_values(option: str) -> None:
    assert literals(option) == {member.value for member in OWN[option]}


def test_a_format_of_written_files_is_known_by_its_name() -> None:
    assert literals("write_format") == set(WRITE_FORMATS)


def test_the_package_tells_its_version() -> None:
    shown = subprocess.run(
        [sys.executable, "-m", "tidegate.server.cli", "--version"], capture_output=True, text=True, check=True
    )
    assert shown.stdout == f"tidegate {tidegate.__version__}\n"
    assert tidegate.__version__ in (Path(__file__).parents[2] / "pyproject.toml").read_text()
