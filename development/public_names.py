"""The public names of the package, with the source code of each."""

from __future__ import annotations

import ast
import importlib
import inspect
import itertools
import sys
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from types import ModuleType
from typing import Any, Final, is_typeddict

from google.protobuf.message import Message

MODULES: Final = (
    "tidegate",
    "tidegate.graph",
    "tidegate.training",
    "tidegate.spark",
    "tidegate.testing",
    "tidegate.windows",
    "tidegate.plans",
    "tidegate.relations",
    "tidegate.training.torch",
)

NEEDS_MORE: Final = {"tidegate.training.torch.Dataset": "_LoaderDataset"}
"""Names that are there only with a library which is no dependency, and the classes that have their documentation."""

INTERNAL: Final = {
    "Case": ("before",),
    "Client": ("service", "access"),
    "Epoch": ("asked", "finish", "hand_out", "take", "took", "untouched"),
    "Task": ("access", "moved", "read_on", "service"),
    "TaskGraph": ("add_map", "value"),
}
"""Members without an underscore that are for the rest of the package, not for its users."""


@dataclass(frozen=True, kw_only=True)
class PublicName:
    """A name that a public module exports: a class, a function or a value."""

    module: str
    name: str
    value: Any

    @property
    def path(self) -> str:
        return f"{self.module}.{self.name}"

    @property
    def docstring(self) -> str:
        if (inspect.isclass(self.value) or inspect.isfunction(self.value)) and not self.is_message:
            return _docstring(self.value)
        return self._docstring_of_value()

    @property
    def is_message(self) -> bool:
        """Whether it is a message of the wire."""
        return inspect.isclass(self.value) and issubclass(self.value, Message)

    @property
    def signature(self) -> str:
        if self.is_message:
            return f"{self.name}(*, {', '.join(field.name for field in self.value.DESCRIPTOR.fields)})"
        if inspect.isclass(self.value):
            return _class(self.name, self.value)
        if inspect.isfunction(self.value):
            return _function(self.value)
        return f"{self.name} = {self.value!r}" if isinstance(self.value, str) else self.name

    @property
    def members(self) -> list[Member]:
        """The public methods and properties of a class, in the order in which they are defined."""
        if not inspect.isclass(self.value) or self.is_message or issubclass(self.value, BaseException):
            return []
        members_by_name = {}
        for base in reversed(self.value.__mro__):
            if base.__module__.startswith("tidegate"):
                for name, member in vars(base).items():
                    if _is_public(self.name, name, member):
                        members_by_name[name] = Member(name=name, value=member)
        return list(members_by_name.values())

    def _docstring_of_value(self) -> str:
        """The string below the assignment of the value, in the module that assigns it."""
        modules = [module for path, module in sorted(sys.modules.items()) if path.startswith("tidegate.")]
        defining = (module for module in modules if vars(module).get(self.name) is self.value)
        return next(filter(None, (_docstring_below(self.name, module) for module in defining)), "")


@dataclass(frozen=True, kw_only=True)
class Member:
    """A method or a property of a class."""

    name: str
    value: Any

    @property
    def docstring(self) -> str:
        return inspect.getdoc(self.value) or ""

    @property
    def signature(self) -> str:
        value = self.value
        return _function(value.fget if isinstance(value, property) else getattr(value, "__func__", value))


@cache
def public_names() -> tuple[PublicName, ...]:
    """Every public name once, where it is exported first."""
    return tuple(_public_names())


def _public_names() -> Iterator[PublicName]:
    seen: list[Any] = []
    for path in MODULES:
        module = importlib.import_module(path)
        for name in module.__all__:
            value = getattr(module, NEEDS_MORE.get(f"{path}.{name}", name))
            if not any(value is other for other in seen):
                seen.append(value)
                yield PublicName(module=path, name=name, value=value)


def _is_public(owner: str, name: str, member: object) -> bool:
    is_code = isinstance(member, property | classmethod | staticmethod) or inspect.isfunction(member)
    return is_code and not name.startswith("_") and name not in INTERNAL.get(owner, ())


def _docstring(value: Any) -> str:
    """The value's own docstring: dataclasses without one are given their signature by Python."""
    text = _definition(value).body[0]
    return inspect.getdoc(value) or "" if isinstance(text, ast.Expr) else ""


def _docstring_below(name: str, module: ModuleType) -> str:
    """The string below the assignment of a value."""
    for statement, after in itertools.pairwise(_body(module)):
        targets = statement.targets if isinstance(statement, ast.Assign) else [getattr(statement, "target", None)]
        if any(isinstance(target, ast.Name) and target.id == name for target in targets):
            match after:
                case ast.Expr(value=ast.Constant(value=str(text))):
                    return inspect.cleandoc(text)
    return ""


@cache
def _body(module: ModuleType) -> list[ast.stmt]:
    return ast.parse(inspect.getsource(module)).body


@cache
def _definition(value: Any) -> Any:
    return ast.parse(textwrap.dedent(inspect.getsource(value))).body[0]


LONGEST: Final = 100


def _function(function: Any) -> str:
    definition = _definition(function)
    arguments = [_argument(part) for part in _arguments(definition.args)]
    returns = f" -> {ast.unparse(definition.returns)}" if definition.returns is not None else ""
    line = f"{definition.name}({', '.join(arguments)}){returns}"
    if len(line) <= LONGEST:
        return line
    return f"{definition.name}(\n" + "".join(f"    {argument},\n" for argument in arguments) + f"){returns}"


def _arguments(arguments: ast.arguments) -> Iterator[tuple[str, ast.arg | None, ast.expr | None]]:
    """The prefix, the argument and the default of each; a bare `*` has no argument."""
    plain = [*arguments.posonlyargs, *arguments.args]
    defaults = [None] * (len(plain) - len(arguments.defaults)) + list(arguments.defaults)
    for argument, default in zip(plain, defaults, strict=True):
        if argument.arg not in ("self", "cls"):
            yield "", argument, default
    if arguments.vararg is not None or arguments.kwonlyargs:
        yield "*", arguments.vararg, None
    for argument, keyword_default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
        yield "", argument, keyword_default
    if arguments.kwarg is not None:
        yield "**", arguments.kwarg, None


def _argument(part: tuple[str, ast.arg | None, ast.expr | None]) -> str:
    prefix, argument, default = part
    text = prefix if argument is None else prefix + ast.unparse(argument)
    return text if default is None else f"{text} = {ast.unparse(default)}"


def _class(name: str, value: type) -> str:
    """The class with its fields or choices, as its source declares them."""
    bases = [base.__name__ for base in value.__bases__ if base.__module__ not in ("builtins", "typing", "abc", "enum")]
    if issubclass(value, Exception) and not bases:
        bases = ["Exception"]
    head = f"class {name}({', '.join(bases)})" if bases else f"class {name}"
    definitions = [_definition(part) for part in (*_shared(value), value)]
    fields = [f"    {field}" for part in definitions for field in _fields(part) if not issubclass(value, Exception)]
    return "\n".join([f"{head}:", *fields]) if fields else head


def _shared(value: type) -> Iterator[type]:
    """The dictionaries that a typed dictionary extends. They are no bases of the class that Python makes."""
    for name in _definition(value).bases if is_typeddict(value) else ():
        base = getattr(sys.modules[value.__module__], name.id)
        if is_typeddict(base):
            yield from (*_shared(base), base)


def _fields(definition: ast.ClassDef) -> Iterator[str]:
    for statement in definition.body:
        match statement:
            case ast.AnnAssign(target=ast.Name(id=name)) if not name.startswith("_"):
                yield ast.unparse(statement)
            case ast.Assign(targets=[ast.Name(id=name)]) if not name.startswith("_"):
                yield ast.unparse(statement)
