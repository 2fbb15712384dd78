"""Lists in the documents are those of the code: options with their defaults, refusals with their reasons."""

from __future__ import annotations

import argparse
import ast
import dataclasses
import enum
import re
import subprocess
import sys
from collections.abc import Iterator
from typing import Any, cast

import pytest

from tidegate.executor.ledger.epoch import FIRST
from tidegate.executor.ledger.ledger import Ledger
from tidegate.executor.runtime.ceilings import most_splits
from tidegate.executor.runtime.scheduler import LONG_NS
from tidegate.executor.service.static_uploads import KEPT_SECONDS
from tidegate.executor.tasks.task_uploads import FILE_BYTES
from tidegate.operators.sources.listing import BOUNDS
from tidegate.planner.decode.encoding import limits
from tidegate.planner.sql import correlated_subqueries
from tidegate.proto import errors
from tidegate.proto.values import GIB, MIB, TaskOptions
from tidegate.server.calls.arrivals import IDLE_FEEDS, SLOW_AT_ONCE, SOON
from tidegate.server.calls.call_bounds import CallBounds
from tidegate.server.calls.given_places import MOST, MOST_OF_PRINCIPAL, PATIENCE
from tidegate.server.calls.request_reading import MOST_PARTS, REQUEST_SECONDS, SMALL
from tidegate.server.cli.serve_options import add_options
from tidegate.server.endpoints.stream_threads import StreamThreads
from tidegate.server.endpoints.upload_endpoint import AT_ONCE, CHUNK_SECONDS
from tidegate.server.serving import LARGEST_AT_ONCE, _options
from tidegate.server.setup.settings import Settings

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
        case bool():
            return str(value).lower()
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


OF_CALLS = ("max_message_bytes", "max_calls", "streams_per_principal", "connections_per_peer", "flight_streams")
OF_A_TASK = ("memory_limit", "queue_bytes", "output_bytes", "spill_quota", "write_quota", "max_pending_epochs")


def plain(default: object) -> str:
    """A default, written as the command line has it."""
    return shown(default).replace(",", "").replace(" ", "")


@pytest.mark.parametrize("name", [*OF_CALLS, *OF_A_TASK])
def test_the_help_of_the_server_has_the_defaults_of_the_code(name: str) -> None:
    parser = argparse.ArgumentParser()
    add_options(parser)
    (option,) = (action for action in parser._actions if action.dest == name)
    default = getattr(Settings() if name in OF_CALLS else TaskOptions(), name)
    assert f"default: {plain(default)}" in (option.help or "")


def test_the_limits_of_calls_have_the_defaults_of_the_code() -> None:
    listed = {cells[0].strip("`"): cells[1] for cells in rows("operations.md", "Serving") if len(cells) == 3}
    for name in OF_CALLS:
        default = getattr(Settings(), name)
        assert listed[f"--{name.replace('_', '-')}"].replace(" ", "") == plain(default)


def test_the_page_on_security_has_the_defaults_of_the_code() -> None:
    table = section("security.md", "What one caller can take from others")
    listed = [[first, *rest] for first, rest in cells(table).items() if any("`--" in cell for cell in rest)]
    of = {name: row[-1] for row in listed for name in re.findall(r"--([a-z-]+)", row[1])}
    of_a_task = {name: shown(getattr(TaskOptions(), name)) for name in OF_A_TASK}
    assert of["memory-limit"] == ", ".join(of_a_task[n] for n in ("memory_limit", "queue_bytes", "output_bytes"))
    assert of["write-quota"] == ", ".join(
        shown(getattr(TaskOptions(), name)) for name in ("spill_quota", "write_quota")
    )
    for name in ("max_calls", "streams_per_principal", "flight_streams"):
        assert of[name.replace("_", "-")] == str(getattr(Settings(), name))
    at_once = LARGEST_AT_ONCE * Settings().max_message_bytes // MIB
    assert of["max-message-bytes"] in (f"{at_once} MiB", "fixed")
    assert of["idle-seconds"] == "a day"


def cells(table: str) -> dict[str, list[str]]:
    """The cells of each row of a table, by the row's first cell."""
    split = ([cell.strip() for cell in line.strip("|").split(" | ")] for line in table.splitlines() if line[:2] == "| ")
    return {first: rest for first, *rest in split}


def in_ledger(queue_bytes: int) -> int:
    """The number of epochs of a task that may be sealed and not acknowledged."""
    return Ledger((), max_pending_epochs=8, start=FIRST, most_splits=most_splits(queue_bytes))._most_epochs


def of_principal(bound: object, name: str) -> int:
    """The number that a bound has for each principal."""
    left: int = getattr(bound, name).left("a principal")
    return left


def test_the_page_on_security_has_the_bounds_of_the_code_that_no_option_changes() -> None:
    rows_of_page = cells(section("security.md", "What one caller can take from others"))
    queue_bytes, settings = TaskOptions().queue_bytes, Settings()
    streams = StreamThreads(cast("Any", None), settings.flight_streams, cast("Any", None), principals=True)
    said: dict[str, tuple[str, ...]] = {
        "threads": (f"more than {LONG_NS // 10**6} ms",),
        "uploads of a principal": (f"{AT_ONCE} under way", {60.0: "after a minute"}[CHUNK_SECONDS]),
        "uploads of a principal that no task has taken yet": ({600.0: "within ten minutes"}[KEPT_SECONDS],),
        "files of uploads": (f"at least {FILE_BYTES >> 10} KiB",),
        "calls": ({3072: "three quarters of"}[of_principal(CallBounds(4096), "_calls")],),
        "threads of calls": (),
        "calls that wait for slow folders or files, each with a thread of its own": (
            f"{MOST_OF_PRINCIPAL} of a principal, {MOST} of all",
            f"ended for {PATIENCE:g} s",
        ),
        "requests of a principal that have come whole and have no answer yet": (f"{LARGEST_AT_ONCE} times",),
        "answers of a principal that are not sent, because its clients do not read them": (f"{LARGEST_AT_ONCE} times",),
        f"slow requests of a principal (not complete after {SOON:g} s)": (f"{SLOW_AT_ONCE}, each",),
        "`Feed` calls of a principal that wait for their client": (f"{IDLE_FEEDS}, each",),
        "a request on its way": (f"within {REQUEST_SECONDS:g} s",),
        "Flight streams": ({32: "at most half"}[of_principal(streams, "_of_principal")],),
        "number of a task's waiting splits": (f"/ {queue_bytes // most_splits(queue_bytes)},", f"{most_splits(1):,}"),
        "epochs of a task that are sealed and not acknowledged": (
            f"/ {queue_bytes // in_ledger(queue_bytes):,},",
            f"at least {in_ledger(1)}",
        ),
    }
    assert [(name, words) for name, all_ in said.items() for words in all_ if words not in rows_of_page[name][0]] == []
    assert {name for name, row in rows_of_page.items() if row[-1] == "fixed"} - said.keys() == set()
    defaults = {"number of a task's waiting splits": most_splits, list(said)[-1]: in_ledger}
    assert all(rows_of_page[name][-1] == f"{count(queue_bytes):,}" for name, count in defaults.items())


def test_the_limits_of_requests_and_connections_are_those_of_the_code() -> None:
    page = (TOP / "docs" / "operations.md").read_text()
    limits_of_page = cells(page.partition("**Of requests and connections.**")[2].partition("**Of plans.**")[0])
    options = dict(_options())
    listing = f"{BOUNDS.files:,} files in {BOUNDS.folders:,} folders, {BOUNDS.depth} levels deep, {BOUNDS.seconds:g} s"
    said = {
        "a request with neither": f"{SMALL >> 10} KiB",
        "any other request": f"{MOST_PARTS:,} fields",
        "a connection without calls": f"{options['grpc.max_connection_idle_ms'] // 60_000} minutes",
        "a connection in which nothing comes for a minute": f"{options['grpc.keepalive_timeout_ms'] // 1000} s",
        "the arrival of a request": f"{REQUEST_SECONDS:g} s",
        "(T) calls of a principal, until": {3072: "three quarters of"}[of_principal(CallBounds(4096), "_calls")],
        "(T) requests of a principal that are slow": f"{SLOW_AT_ONCE}",
        "(T) [`Feed`]": f"{IDLE_FEEDS}",
        "(T) bytes of a principal's requests": f"{LARGEST_AT_ONCE} times",
        "(T) bytes of a principal's answers": f"{LARGEST_AT_ONCE} times",
        "(T) calls of a principal that wait for slow": f"{MOST_OF_PRINCIPAL}",
        "calls of all callers together that wait": f"{MOST}",
        "(A) uploads of a principal under way": f"{AT_ONCE}",
        "time in which no data of an upload comes": f"{CHUNK_SECONDS:g} s",
        "one folder or pattern": listing,
    }
    for name, words in said.items():
        (bound,) = (row[0] for first, row in limits_of_page.items() if first.startswith(name))
        assert any(part.startswith(words) for part in bound.split(", and "))
    assert (options["grpc.keepalive_time_ms"], SOON) == (60_000, 0.25)


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
    of_columns = ", ".join(f"{correlated_subqueries.most(width)} for {width:,}" for width in (1, 100, 1_000, 2_000))
    assert f"| {of_columns.replace('for 1,', 'for 1 column,', 1)} |" in table


def test_the_shares_of_memory_are_those_of_the_code() -> None:
    table = section("sizing.md", "Memory").partition("| Share |")[2].partition("\n\n")[0]
    shares = re.findall(r"^\| (?:1/|by weight )(\d+) \|.*\| `(\w+)` in `([\w/.]+)` \|$", table, re.MULTILINE)
    assert len(shares) == table.count("\n") - 1 > 10
    assert {(path, name, assigned_number(path, name)) for _, name, path in shares} == {
        (path, name, int(number)) for number, name, path in shares
    }


def assigned_number(path: str, name: str) -> object:
    """The number that a module gives to one of its names."""
    for node in ast.parse((TOP / path).read_text()).body:
        match node:
            case (
                ast.Assign(targets=[ast.Name(id=assigned)], value=ast.Constant(value=number))
                | ast.AnnAssign(target=ast.Name(id=assigned), value=ast.Constant(value=number))
            ) if assigned == name:
                return number
    return None


def test_every_option_of_serve_is_in_the_operations_page() -> None:
    shown = subprocess.run(
        [sys.executable, "-m", "tidegate.server.cli", "serve", "--help"], capture_output=True, text=True, check=True
    )
    options = set(re.findall(r"^ +(?:-\w, )?(--[a-z-]+)", shown.stdout, re.MULTILINE)) - {"--help"}
    page = (TOP / "docs" / "operations.md").read_text()
    assert {option for option in options if f"`{option}" not in page} == set()
