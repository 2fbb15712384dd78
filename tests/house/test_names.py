"""Variables, fields, functions and modules are called what they hold or do, not by a word that would fit any."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from .modules import TOP, modules, parsed

VAGUE: Final = frozenset({"found", "each", "made", "given", "place", "places", "told"})
VAGUE_ENDING: Final = "_told"
"""Such as `_told`: an error is reported, a message is named. A test's name is a sentence, which may have the word."""
VAGUE_WORD: Final = re.compile(rf"\b({'|'.join(VAGUE)})\b|{VAGUE_ENDING}\b")
"""A file whose code is without it has no such name."""
PROSE: Final = re.compile(
    r"""(\"{3}|'{3})(?:\\.|(?!\1).)*\1|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'|#[^\n]*""", re.DOTALL
)
"""Texts and comments, which have such words often; to parse all files for them would take ten seconds."""

REPLACED: Final = frozenset(
    {"Board", "Box", "Crew", "Directory", "Known", "Laid", "Lane", "Reach", "Surroundings", "Tally", "Ways", "Weigh"}
    | {"Workbench", "Workshop"}
)
"""Classes that have the field's words now: an old word for something new would be read as the old thing."""
REPLACED_WORD: Final = re.compile(rf"\bclass\W+({'|'.join(REPLACED)})\b")
"""Only a file with it has such a class, and a docstring may have it, too."""

BESIDE: Final = ("tests", "benchmarks", "development", "examples")
"""The folders of code beside the packages."""

ON_THE_WIRE: Final = "the field of the message, and of what users read, has this name"

ALLOWED: Final = {
    ("proto/errors.py", "place"): ON_THE_WIRE,
    ("proto/statistics.py", "place"): ON_THE_WIRE,
}


def named(tree: ast.AST) -> Iterator[tuple[str, int]]:
    """Each name that an assignment, a loop, a parameter, a field, a pattern or a definition binds, with its line."""
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()) | ast.arg(arg=name):
                yield name, node.lineno
            case ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)) | ast.ExceptHandler(name=str(name)):
                yield name, node.lineno
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield name, node.lineno


def files() -> Iterator[Path]:
    yield from (module.path for module in modules().values() if not module.generated)
    for folder in BESIDE:
        yield from sorted((TOP / folder).rglob("*.py"))


def test_no_variable_has_a_name_that_would_fit_any_other() -> None:
    vague = {
        (path.relative_to(TOP).as_posix(), name): line
        for path in files()
        if VAGUE_WORD.search(PROSE.sub("''", path.read_text()))
        for name, line in named(parsed(path))
        if name in VAGUE or (name.endswith(VAGUE_ENDING) and not name.startswith("test_"))
    }
    wrong = [f"{path}, line {line}: {name}" for (path, name), line in vague.items() if (path, name) not in ALLOWED]
    assert not wrong, "say what it is (split, batch, operator, plan_path, position):\n" + "\n".join(sorted(wrong))
    assert vague.keys() == ALLOWED.keys()


def test_no_class_has_a_name_that_was_replaced() -> None:
    classes = [
        node.name
        for path in files()
        if REPLACED_WORD.search(path.read_text())
        for node in ast.walk(parsed(path))
        if isinstance(node, ast.ClassDef)
    ]
    assert REPLACED.isdisjoint(classes)


def test_no_module_has_such_a_name() -> None:
    assert [path.relative_to(TOP).as_posix() for path in files() if path.stem in VAGUE] == []


def test_every_folder_of_code_is_seen() -> None:
    seen = {path.relative_to(TOP).parts[0] for path in files()}
    assert seen >= {"proto", "operators", "planner", "executor", "server", "clients", *BESIDE}


def test_every_kind_of_name_is_seen() -> None:
    source = """
class C:
    field: int
def f(parameter, *rest, only, **others):
    assigned = self.attribute = [x for element in rest]
    for loop in rest:
        with rest as entered:
            (walrus := lambda inner: inner)
    match rest:
        case [first, *starred] as whole:
            pass
    try:
        pass
    except E as error:
        pass
"""
    assert {name for name, _ in named(ast.parse(source))} == {
        *("C", "field", "f", "parameter", "rest", "only", "others", "assigned", "attribute", "element", "loop"),
        *("entered", "walrus", "inner", "first", "starred", "whole", "error"),
    }
