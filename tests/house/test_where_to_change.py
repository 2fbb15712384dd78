"""The page that says where to change what is true: its files and names exist, and every room is on it."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Final, NamedTuple

from .modules import TOP, modules

PAGE: Final = TOP / "docs" / "where-to-change.md"
ROW: Final = re.compile(r"^\| (?P<question>.+) \| `(?P<file>[^`|]+)` \| `(?P<name>[^`|]+)` \|$")
HEAD: Final = "| To change | Open | Look for |\n|---|---|---|"
BESIDE: Final = re.compile(r"`([a-z_]+\.py)`")
"""A file that a question names: it stands beside the row's own."""

WITHOUT_ROWS: Final = {"executor": "it has no files of its own", "proto/tidegate": "it has generated code alone"}
"""Rooms that have no row, and why."""


class Row(NamedTuple):
    question: str
    file: str
    name: str


def rows(page: str) -> list[Row]:
    return [Row(**matched.groupdict()) for line in page.splitlines() if (matched := ROW.match(line))]


def names_in(path: Path) -> set[str]:
    """The names that a file defines, and the words that it gives as texts of their own, such as reasons."""
    text = path.read_text()
    if path.suffix == ".proto":
        return set(re.findall(r"^\s*(?:message|service|enum|rpc) (\w+)", text, re.MULTILINE))
    names = set()
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                names.add(name)
            case ast.Name(id=name, ctx=ast.Store()) | ast.Constant(value=str(name)):
                names.add(name)
    return names


def wrong(row: Row) -> str | None:
    """The mistake of a row, if it has one."""
    path = TOP / row.file
    if not path.is_file():
        return f"{row.file} does not exist: {row.question}"
    if row.name not in names_in(path):
        return f"{row.file} does not define {row.name}: {row.question}"
    missing = [name for name in BESIDE.findall(row.question) if not (path.parent / name).is_file()]
    return f"{missing[0]} is not beside {row.file}: {row.question}" if missing else None


def test_every_file_and_name_of_the_page_is_there() -> None:
    assert [mistake for row in rows(PAGE.read_text()) if (mistake := wrong(row))] == []


def test_every_line_of_a_table_is_a_question_with_one_file_and_one_name() -> None:
    tables = [block for block in PAGE.read_text().split("\n\n") if block.startswith("|")]
    assert all(table.startswith(HEAD) for table in tables)
    lines = [line for table in tables for line in table.removeprefix(HEAD).split("\n") if line]
    assert [line for line in lines if not ROW.match(line)] == []
    questions = [row.question for row in rows(PAGE.read_text())]
    assert len(questions) == len(set(questions)) == len(lines)


def test_every_room_is_on_the_page() -> None:
    rooms = {
        module.path.parent.relative_to(TOP).as_posix()
        for module in modules().values()
        if module.path.name == "__init__.py" and not module.generated
    }
    listed = {Path(row.file).parent.as_posix() for row in rows(PAGE.read_text())}
    assert rooms - listed == WITHOUT_ROWS.keys()


def test_a_mistake_on_the_page_is_seen() -> None:
    assert wrong(Row("which channel a row goes to", "executor/exchange/routing.py", "HashRouting")) is None
    assert wrong(Row("a refusal", "executor/tasks/add_splits.py", "SEQUENCE_REUSED")) is None
    assert wrong(Row("a call", "proto/tidegate/v1/tasks.proto", "RequestBarrier")) is None
    assert "does not exist" in (wrong(Row("rows", "executor/exchange/router.py", "HashRouting")) or "")
    assert "does not define" in (wrong(Row("rows", "executor/exchange/routing.py", "hash")) or "")
    assert "is not beside" in (wrong(Row("rows; see `lanes.py`", "executor/exchange/routing.py", "HashRouting")) or "")
    assert rows("| a row | `a/b.py` and `c.py` | `name` |") == []
