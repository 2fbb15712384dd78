"""Variables, parameters and fields are called what they hold, not by a word that would fit any of them."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Final

from .modules import modules

VAGUE: Final = frozenset({"found", "each", "made", "given", "place", "places", "told"})

ON_THE_WIRE: Final = "the field of the message, and of what users read, has this name"

ALLOWED: Final = {
    ("tidegate.proto.errors", "place"): ON_THE_WIRE,
    ("tidegate.proto.statistics", "place"): ON_THE_WIRE,
}


def named(tree: ast.AST) -> Iterator[tuple[str, int]]:
    """Each name that an assignment, a loop, a parameter, a field or a pattern binds, with its line."""
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()) | ast.arg(arg=name):
                yield name, node.lineno
            case ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)) | ast.ExceptHandler(name=str(name)):
                yield name, node.lineno


def test_no_variable_has_a_name_that_would_fit_any_other() -> None:
    vague = {
        (module.name, name): line
        for module in modules().values()
        if not module.generated
        for name, line in named(module.tree)
        if name in VAGUE
    }
    wrong = [
        f"{module}, line {line}: {name}" for (module, name), line in vague.items() if (module, name) not in ALLOWED
    ]
    assert not wrong, "say what it is (split, batch, operator, plan_path, position):\n" + "\n".join(sorted(wrong))
    assert vague.keys() == ALLOWED.keys()


def test_every_kind_of_variable_is_seen() -> None:
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
        *("field", "parameter", "rest", "only", "others", "assigned", "attribute", "element", "loop", "entered"),
        *("walrus", "inner", "first", "starred", "whole", "error"),
    }
