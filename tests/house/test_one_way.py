"""Things that are done in one way: operators are asked by their interface, and one module quotes SQL."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from typing import Final

from .modules import TOP, Module, modules

OWN: Final = tuple(module for module in modules().values() if not module.generated)
BASES: Final = {"Operator", "ChangeOperator"}
AS_EFFECTS: Final = {("executor/spark/effects.py", "AdoptingWrite")}
"""An effect of a task, which Spark has in another form for each kind, and no step of a pipeline."""

QUOTING: Final = "operators/core/quoting.py"
DOUBLED: Final = re.compile(r"""replace\((?:"'", "''"|'"', '""')\)""")
"""The doubling of a quote, which makes a text or a name of SQL."""


def folder(module: Module) -> str:
    return module.path.relative_to(TOP).parts[0]


@cache
def operators() -> frozenset[str]:
    """The classes of operators, by the names of their bases: a base has to be known before its subclasses are."""
    bases = {
        node.name: {base.id for of in node.bases for base in ast.walk(of) if isinstance(base, ast.Name)}
        for module in OWN
        if folder(module) == "operators"
        for node in ast.walk(module.tree)
        if isinstance(node, ast.ClassDef)
    }
    known = set(BASES)
    while more := {name for name, of in bases.items() if of & known} - known:
        known |= more
    return frozenset(known - BASES)


def classes_asked_for(tree: ast.AST) -> Iterator[tuple[str, int]]:
    """The classes in `isinstance` and in patterns, with their lines."""
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Name(id="isinstance"), args=[_, classes]):
                yield from ((name.id, node.lineno) for name in ast.walk(classes) if isinstance(name, ast.Name))
            case ast.MatchClass(cls=ast.Name(id=name)):
                yield name, node.lineno


def operators_in(tree: ast.AST) -> set[str]:
    """The names under which a file imports operators. The planner has relations of the same names."""
    return {
        alias.asname or alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("operators.")
        for alias in node.names
        if alias.name in operators()
    }


def test_the_executor_asks_operators_by_their_interface() -> None:
    asked = {
        (module.path.relative_to(TOP).as_posix(), name): line
        for module in OWN
        if folder(module) == "executor"
        for name, line in classes_asked_for(module.tree)
        if name in operators_in(module.tree)
    }
    assert [
        f"{path}, line {line}: {name}" for (path, name), line in asked.items() if (path, name) not in AS_EFFECTS
    ] == []
    assert asked.keys() == AS_EFFECTS


def test_operators_are_known_and_questions_for_a_class_are_seen() -> None:
    assert {"Fragment", "Scan", "MergeJoin", "AdoptingWrite", "Join", "FinalSessions"} <= operators()
    assert operators_in(ast.parse("from ...operators.scan import Scan as S, files\nfrom ..ir import Join")) == {"S"}
    source = "isinstance(x, (Scan, Write))\nmatch x:\n    case Fragment(schema=s):\n        pass\n"
    assert dict(classes_asked_for(ast.parse(source))) == {"Scan": 1, "Write": 1, "Fragment": 3}


def test_one_module_quotes_names_and_texts_of_sql() -> None:
    quoting = {module.path.relative_to(TOP).as_posix() for module in OWN if DOUBLED.search(module.path.read_text())}
    assert quoting == {QUOTING}
