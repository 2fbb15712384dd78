"""The reasons of errors, read from the code that gives them and from the tables that list them."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache

from tidegate.proto import errors

from .modules import TOP, modules


def _is_error(each: object) -> bool:
    return isinstance(each, type) and issubclass(each, errors.TidegateError) and each is not errors.PlanError


_REASON = re.compile(r"[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)*")
_CODED = re.compile(r"`([^`]+)`")

DEFAULTS = {each.__name__: each.default_reason for each in vars(errors).values() if _is_error(each)}
"""Of each error that is raised without a reason of its own."""


@dataclass(frozen=True)
class Given:
    """A reason, and where the code gives it."""

    reason: str
    where: str


@cache
def given() -> frozenset[Given]:
    """Every constant that becomes the `reason` of something: as a keyword, a default, or an argument in its place."""
    trees = {module: module.tree for module in modules().values()}
    takers = _takers(trees.values())
    found = set()
    for module, tree in trees.items():
        names = _named(tree)
        for node in ast.walk(tree):
            for value in _values(node, takers):
                for reason in _reasons(value, names):
                    found.add(Given(reason, f"{module.path.relative_to(TOP)}:{getattr(node, 'lineno', 0)}"))
    return frozenset(found)


def _takers(trees: Iterable[ast.Module]) -> dict[str, int]:
    """Functions that take a `reason` by place: at which one, `self` left out."""
    found = {}
    for tree in trees:
        for node in ast.walk(tree):
            match node:
                case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                    names = [each.arg for each in node.args.args if each.arg != "self"]
                    if "reason" in names:
                        found[name] = names.index("reason")
                case ast.ClassDef(name=name, body=body) if (made := _maker(body)) is not None:
                    names = [each.arg for each in made.args.args[1:]]
                    if "reason" in names:
                        found[name] = names.index("reason")
                case ast.ClassDef(name=name, body=body) if _is_dataclass(node):
                    fields = [each.target for each in body if isinstance(each, ast.AnnAssign)]
                    names = [each.id for each in fields if isinstance(each, ast.Name)]
                    if "reason" in names:
                        found[name] = names.index("reason")
                case _:
                    pass
    return found


def _maker(body: Sequence[ast.stmt]) -> ast.FunctionDef | None:
    return next((each for each in body if isinstance(each, ast.FunctionDef) and each.name == "__init__"), None)


def _is_dataclass(node: ast.ClassDef) -> bool:
    return any("dataclass" in ast.unparse(each) for each in node.decorator_list)


def _values(node: ast.AST, takers: dict[str, int]) -> Iterator[ast.expr]:
    match node:
        case ast.Call():
            yield from (each.value for each in node.keywords if each.arg == "reason")
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            at = takers.get(name)
            if at is not None and at < len(node.args):
                yield node.args[at]
            if name in DEFAULTS and not any(each.arg == "reason" for each in node.keywords):
                yield ast.Constant(DEFAULTS[name])
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            names = [each.arg for each in node.args.args][::-1]
            yield from (each for name, each in zip(names, node.args.defaults[::-1], strict=False) if name == "reason")
            for each, default in zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True):
                if each.arg == "reason" and default is not None:
                    yield default
        case ast.AnnAssign(target=ast.Name(id="reason"), value=ast.expr() as value):
            yield value
        case _:
            pass


def _named(tree: ast.Module) -> dict[str, ast.expr]:
    """The module's own names for values."""
    found: dict[str, ast.expr] = {}
    for node in tree.body:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                found[name] = value
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
                found[name] = value
            case _:
                pass
    return found


def _reasons(value: ast.expr, constants: dict[str, ast.expr]) -> Iterator[str]:
    match value:
        case ast.Constant(value=str(text)) if _REASON.fullmatch(text):
            yield text
        case ast.IfExp(body=one, orelse=other):
            yield from _reasons(one, constants)
            yield from _reasons(other, constants)
        case ast.Name(id=name) if name in constants:
            yield from _reasons(constants[name], constants)
        case _:
            pass


@cache
def constants() -> frozenset[str]:
    """Every text in the code that could be a reason."""
    trees = (module.tree for module in modules().values())
    values = (node.value for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Constant))
    return frozenset(value for value in values if isinstance(value, str) and _REASON.fullmatch(value))


@cache
def listed() -> dict[str, str]:
    """Every reason that a table of reasons lists, with the page that it is on."""
    found = {}
    for page in sorted((TOP / "docs").rglob("*.md")):
        for line in _rows_of_reasons(page.read_text()):
            for code in _CODED.findall(line.strip("|").split(" | ")[0]):
                if _REASON.fullmatch(code):
                    found[code] = str(page.relative_to(TOP))
    return found


def _rows_of_reasons(text: str) -> Iterator[str]:
    inside = False
    for line in text.splitlines():
        if line.startswith("| Reason"):
            inside = True
        elif not line.startswith("|"):
            inside = False
        elif inside:
            yield line
