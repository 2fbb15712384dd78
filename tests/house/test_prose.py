"""Docstrings of modules and public classes begin with a noun phrase or an imperative, not with a clause."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from .modules import TOP, parsed

PACKAGES: Final = ("operators", "proto", "planner", "executor", "server", "clients")

COVERED: Final = (*PACKAGES, "tests", "benchmarks", "development", "examples")

_CLAUSES: Final = frozenset({"what", "who", "whose", "whether", "how", "those", "where", "which", "when"})


def _generated(path: Path) -> bool:
    return path.stem.endswith(("_pb2", "_pb2_grpc"))


def _docstrings(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """(name, docstring) of the module and of its public classes, at any depth."""
    for node in _statements(tree):
        if isinstance(node, ast.Module) or (isinstance(node, ast.ClassDef) and not node.name.startswith("_")):
            text = ast.get_docstring(node)
            if text:
                yield getattr(node, "name", "module"), text


def _statements(node: ast.AST) -> Iterator[ast.AST]:
    """The node and all statements inside: expressions, which are most of a tree, have no classes."""
    yield node
    for block in ("body", "orelse", "finalbody", "handlers", "cases"):
        inner = getattr(node, block, ())
        for statement in inner if isinstance(inner, list) else ():
            yield from _statements(statement)


def _begins_with_a_clause(text: str) -> bool:
    return text.split(maxsplit=1)[0].strip("`*:,.").lower() in _CLAUSES


def test_docstrings_of_modules_and_public_classes_do_not_begin_with_a_clause() -> None:
    checked = 0
    wrong = []
    for package in COVERED:
        for path in sorted((TOP / package).rglob("*.py")):
            if _generated(path):
                continue
            for name, text in _docstrings(parsed(path)):
                checked += 1
                if _begins_with_a_clause(text):
                    wrong.append(f"{path.relative_to(TOP)}: {name}: {text.splitlines()[0]}")
    assert checked > 100 * len(PACKAGES)
    assert not wrong, "begin with a noun phrase or an imperative:\n" + "\n".join(wrong)


def test_classes_are_seen_at_any_depth() -> None:
    source = """
'''of the module'''
class A:
    class B: "of B"
    def f():
        match x:
            case 1:
                class C: "of C"
        try: pass
        except E:
            class D: "of D"
        else:
            class _Private: "of it"
"""
    assert dict(_docstrings(ast.parse(source))) == {"module": "of the module", "B": "of B", "C": "of C", "D": "of D"}


def test_a_clause_is_told_from_a_noun_phrase() -> None:
    assert _begins_with_a_clause("What a writer does.")
    assert _begins_with_a_clause("Whether\nrows match.")
    assert not _begins_with_a_clause("Whole rows of a file.")
