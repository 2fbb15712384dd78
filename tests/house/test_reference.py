"""Lists in the documents are those of the code: options with their defaults, refusals with their reasons."""

from __future__ import annotations

import ast
import dataclasses
import enum
import re
import subprocess
import sys
from collections.abc import Iterator

from tidegate.planner.decode.encoding import limits
from tidegate.proto import errors
from tidegate.proto.values import GIB, MIB, TaskOptions

from .modules import TOP, modules
from .reasons import constants, given_reasons, listed

REFUSALS = {error.__name__: error.default_reason for error in errors.RequestError.__subclasses__()}


def section(page: str, title: str) -> str:
    text = (TOP / "docs" / page).read_text()
    heading = re.search(rf"^## {title}\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
    assert heading is not None, f"{page} has no section {title!r}"
    return heading.group(1)


def rows(page: str, title: str) -> Iterator[list[str]]:
    for line in section(page, title).splitlines():
        if line.startswith("| `"):
            yield [cell.strip() for cell in line.strip("|").split(" | ")]


def shown(value: object) -> str:
    match value:
        case enum.Enum():
            return f"`{value.value}`"
        case int() if value and value % GIB == 0:
            return f"{value // GIB} GiB"
        case int() if value and value % MIB == 0:
            return f"{value // MIB} MiB"
        case ():
            return "none"
        case int():
            return f"{value:,}"
        case float():
            return f"{value:g}"
        case _:
            return str(value)


def refusals() -> Iterator[tuple[str, str]]:
    """(reason, error) of every refusal that the code can raise."""
    yield limits.REASON, errors.PlanError.__name__
    for module in modules().values():
        for node in ast.walk(module.tree):
            match node:
                case ast.Call(func=ast.Name(id=name)) if name in REFUSALS:
                    reasons = [keyword.value for keyword in node.keywords if keyword.arg == "reason"]
                    if not reasons:
                        yield REFUSALS[name], name
                    for reason in reasons:
                        if isinstance(reason, ast.Constant):
                            yield str(reason.value), name


def test_the_options_are_those_of_a_task_with_their_defaults() -> None:
    listed = {row[0].strip("`"): row[1] for row in rows("options.md", "Options")}
    assert listed == {field.name: shown(field.default) for field in dataclasses.fields(TaskOptions)}


def errors_of(title: str) -> set[tuple[str, str]]:
    """(reason, error) of each row of a section of reasons.md."""
    return {
        (reason, error)
        for reasons, classes, *_ in rows("reasons.md", title)
        for reason in re.findall(r"`(\w+)`", reasons)
        for error in re.findall(r"`(\w+)`", classes)
    }


def test_every_refusal_is_listed_with_its_reason_and_error() -> None:
    """Errors of the same classes also end epochs. A reason is listed where it is a refusal, a failure, or both."""
    failures = {(reason, error) for reason, error in errors_of("Failures") if error in REFUSALS}
    assert errors_of("Refusals") | failures == set(refusals())


def test_every_reason_that_the_code_gives_is_in_a_table_of_the_pages() -> None:
    assert sorted((use.reason, use.where) for use in given_reasons() if use.reason not in listed()) == []


def test_every_reason_in_a_table_is_in_the_code() -> None:
    assert {reason: page for reason, page in listed().items() if reason not in constants()} == {}


def test_reasons_are_found_however_the_code_gives_them() -> None:
    """One test, because the name of one for each reason would have Spark's process read the whole code for its own."""
    ways = {"EPOCH_SECONDS", "LOOP_ROWS", "CIRCLE", "PLAN_TOO_LARGE", "BAD_BOUND", "SPLIT_UNREADABLE", "SPARK_FAILED"}
    assert ways - {use.reason for use in given_reasons()} == set()


def test_the_limits_of_plans_are_in_the_operations_page_in_their_order() -> None:
    page = (TOP / "docs" / "operations.md").read_text()
    table = page.partition("| In one plan | At most |")[2].partition("\n\n")[0]
    assert re.findall(r"^\| \w.*? \| ([\d,]+) \|", table, re.MULTILINE) == [
        f"{limit.most:,}" for limit in limits.LIMITS
    ]


def test_every_option_of_serve_is_in_the_operations_page() -> None:
    shown = subprocess.run(
        [sys.executable, "-m", "tidegate.server.cli", "serve", "--help"], capture_output=True, text=True, check=True
    )
    options = set(re.findall(r"^ +(?:-\w, )?(--[a-z-]+)", shown.stdout, re.MULTILINE)) - {"--help"}
    page = (TOP / "docs" / "operations.md").read_text()
    assert {option for option in options if f"`{option}" not in page} == set()
