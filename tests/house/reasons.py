"""The reasons of errors, read from the code that gives them and from the tables that list them."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache

from tidegate.proto import errors

from .modules import TOP, modules


def _is_error(candidate: object) -> bool:
    return (
        isinstance(candidate, type)
        and issubclass(candidate, errors.TidegateError)
        and candidate is not errors.PlanError
    )


_REASON = re.compile(r"[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)*")
_CODED = re.compile(r"`([^`]+)`")

DEFAULTS = {member.__name__: member.default_reason for member in vars(errors).values() if _is_error(member)}
"""Of each error that is raised without a reason of its own."""


@dataclass(frozen=True)
class ReasonUse:
    """A reason, and where the code gives it."""

    reason: str
    where: str


@cache
def given_reasons() -> frozenset[ReasonUse]:
    """Every constant that becomes the `reason` of something: as a keyword, a default, or an argument in its place."""
    trees = {module: module.tree for module in modules().values()}
    takers = _takers(trees.values())
    reasons = set()
    for module, tree in trees.items():
        names = _named(tree)
        for node in ast.walk(tree):
            for value in _values(node, takers):
                for reason in _reasons(value, names):
                    reasons.add(ReasonUse(reason, f"{module.path.relative_to(TOP)}:{getattr(node, 'lineno', 0)}"))
    return frozenset(reasons)


def _takers(trees: Iterable[ast.Module]) -> dict[str, int]:
    """Functions that take a `reason` by place: at which one, `self` left out."""
    positions = {}
    for tree in trees:
        for node in ast.walk(tree):
            match node:
                case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                    names = [argument.arg for argument in node.args.args if argument.arg != "self"]
                    if "reason" in names:
                        positions[name] = names.index("reason")
                case ast.ClassDef(name=name, body=body) if (maker := _maker(body)) is not None:
                    names = [argument.arg for argument in maker.args.args[1:]]
                    if "reason" in names:
                        positions[name] = names.index("reason")
                case ast.ClassDef(name=name, body=body) if _is_dataclass(node):
                    fields = [statement.target for statement in body if isinstance(statement, ast.AnnAssign)]
                    names = [target.id for target in fields if isinstance(target, ast.Name)]
                    if "reason" in names:
                        positions[name] = names.index("reason")
                case _:
                    pass
    return positions


def _maker(body: Sequence[ast.stmt]) -> ast.FunctionDef | None:
    return next(
        (statement for statement in body if isinstance(statement, ast.FunctionDef) and statement.name == "__init__"),
        None,
    )


def _is_dataclass(node: ast.ClassDef) -> bool:
    return any("dataclass" in ast.unparse(decorator) for decorator in node.decorator_list)


def _values(node: ast.AST, takers: dict[str, int]) -> Iterator[ast.expr]:
    match node:
        case ast.Call():
            yield from (keyword.value for keyword in node.keywords if keyword.arg == "reason")
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            at = takers.get(name)
            if at is not None and at < len(node.args):
                yield node.args[at]
            if name in DEFAULTS and not any(keyword.arg == "reason" for keyword in node.keywords):
                yield ast.Constant(DEFAULTS[name])
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            names = [argument.arg for argument in node.args.args][::-1]
            yield from (
                default_value
                for name, default_value in zip(names, node.args.defaults[::-1], strict=False)
                if name == "reason"
            )
            for argument, default in zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True):
                if argument.arg == "reason" and default is not None:
                    yield default
        case ast.AnnAssign(target=ast.Name(id="reason"), value=ast.expr() as value):
            yield value
        case _:
            pass


def _named(tree: ast.Module) -> dict[str, ast.expr]:
    """The module's own names for values."""
    values_by_name: dict[str, ast.expr] = {}
    for node in tree.body:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                values_by_name[name] = value
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
                values_by_name[name] = value
            case _:
                pass
    return values_by_name


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
    pages_by_reason = {}
    for page in sorted((TOP / "docs").rglob("*.md")):
        for line in _rows_of_reasons(page.read_text()):
            for code in _CODED.findall(line.strip("|").split(" | ")[0]):
                if _REASON.fullmatch(code):
                    pages_by_reason[code] = str(page.relative_to(TOP))
    return pages_by_reason


def _rows_of_reasons(text: str) -> Iterator[str]:
    inside = False
    for line in text.splitlines():
        if line.startswith("| Reason"):
            inside = True
        elif not line.startswith("|"):
            inside = False
        elif inside:
            yield line
