"""The extension files, official and of our own, as implementations. A function is read when a plan first uses its name.

Parsing all files takes a tenth of a second, so their texts are cut into functions (a millisecond), and only those that
plans use are parsed, once. `substrait.extension_registry` parses all files, and each type in them with ANTLR,
before it answers the first question: 1.2 s, seven times as long as to parse all files here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, Final

import substrait_extensions
import yaml

from ..ir import Function, FunctionKind
from .patterns import Pattern, parse

_SHORT: Final[dict[str, str]] = {
    "boolean": "bool",
    "string": "str",
    "binary": "vbin",
    "timestamp": "ts",
    "timestamp_tz": "tstz",
    "interval_year": "iyear",
    "interval_day": "iday",
    "interval_compound": "icompound",
    "fixedchar": "fchar",
    "varchar": "vchar",
    "fixedbinary": "fbin",
    "decimal": "dec",
    "precision_time": "pt",
    "precision_timestamp": "pts",
    "precision_timestamp_tz": "ptstz",
}
_PIECE: Final = re.compile(r"\n(?=  -\s|\S)")
"""The end of the line before a function in an extension file, or before a heading: functions are list items two spaces
in.
"""
_NAME: Final = re.compile(r"^(?:  -|   ) name: *[\"']?(\w+)", re.MULTILINE)
"""A function's own name, not one of its arguments'."""
_PREFIX: Final = "extension:io.substrait:"
_OUR_PREFIX: Final = "extension:io.tidegate:"
_KINDS: Final[dict[str, FunctionKind]] = {f"{kind.value}_functions": kind for kind in FunctionKind}


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """A parameter. `pattern` is None for an enum argument, which takes one of `values`."""

    name: str
    pattern: Pattern | None
    values: tuple[str, ...] = ()

    def __str__(self) -> str:
        return short_name(self.pattern) if self.pattern else "|".join(self.values)


@dataclass(frozen=True, slots=True, kw_only=True)
class Implementation:
    """One overload. `file` is its extension file's name without `.yaml`; `result` the program of its result type."""

    file: str
    name: str
    kind: FunctionKind
    parameters: tuple[Parameter, ...]
    variadic_minimum: int | None
    nullability: str
    result: str
    function: Function
    options: Mapping[str, tuple[str, ...]] = field(default_factory=dict, hash=False)

    @property
    def urn(self) -> str:
        return self.function.urn

    @property
    def signature(self) -> str:
        """The compound name: `add:i64_i64`, `extract:req_date`, `count:`."""
        return self.function.signature

    def takes(self, count: int) -> bool:
        """Tests whether the implementation takes `count` arguments."""
        if self.variadic_minimum is None:
            return count == len(self.parameters)
        return count >= len(self.parameters) - 1 + self.variadic_minimum

    def parameter(self, index: int) -> Parameter:
        """The parameter of argument `index`. The last parameter repeats if the implementation is variadic."""
        return self.parameters[min(index, len(self.parameters) - 1)]


def urn(file: str) -> str:
    """An extension file's URN, from its name without `.yaml`."""
    return (_OUR_PREFIX if file in _ours() else _PREFIX) + file


def short_name(pattern: Pattern) -> str:
    """A type's name in compound names."""
    return "any" if pattern.is_any else _SHORT.get(pattern.name, pattern.name)


@lru_cache(maxsize=1)
def _texts() -> Mapping[str, str]:
    """The texts of all extension files. Our own files, with functions that the official files lack, come last."""
    return {**_in_folder(Path(substrait_extensions.__path__[0], "extensions")), **_ours()}


def own_extensions() -> tuple[str, ...]:
    """The names of our own extension files."""
    return tuple(_ours())


@lru_cache(maxsize=1)
def _ours() -> Mapping[str, str]:
    return _in_folder(Path(__file__).parent / "extensions")


def _in_folder(folder: Path) -> Mapping[str, str]:
    return {
        file.stem: file.read_text(encoding="utf-8")
        for file in sorted(folder.glob("*.yaml"))
        if not file.name.startswith("simple_")
    }


@lru_cache(maxsize=1)
def _functions() -> Mapping[str, Mapping[tuple[FunctionKind, str], str]]:
    """The YAML of each function, by file, kind and name. One that refers to implementations of functions before it
    (`*these`) has these functions in front.
    """
    return {file: _cut(text) for file, text in _texts().items()}


def _cut(text: str) -> Mapping[tuple[FunctionKind, str], str]:
    functions: dict[tuple[FunctionKind, str], str] = {}
    kind: FunctionKind | None = None
    referred = ""
    for piece in _PIECE.split(text):
        if not piece.startswith(" "):
            kind = _KINDS.get(piece.partition(":")[0])
        elif kind is not None and (name := _NAME.search(piece)):
            whole = referred + piece if ": *" in piece else piece
            functions[kind, name[1]] = functions.get((kind, name[1]), "") + whole + "\n"
            if ": &" in piece:
                referred += piece + "\n"
    return functions


@cache
def _load(file: str, kind: FunctionKind, name: str) -> tuple[Implementation, ...]:
    loaded = _value(_Loader(_functions()[file][kind, name]).get_single_node())
    return tuple(
        _implementation(file, kind, name, entry)
        for function in loaded
        if function["name"] == name
        for entry in function["impls"]
    )


class _Loader(getattr(yaml, "CBaseLoader", yaml.BaseLoader)):  # type: ignore[misc]  # PyYAML is untyped
    """Reads YAML without asking which texts are numbers, which would take half of the time."""

    def resolve(self, kind: object, value: object, implicit: object) -> str:  # noqa: ARG002  # asked for every node
        return ""

    def descend_resolver(self, parent: object, index: object) -> None:
        pass

    def ascend_resolver(self) -> None:
        pass


def _value(node: yaml.Node) -> Any:
    """The texts, lists and mappings of a node. Recurses as deep as extension files nest."""
    match node:
        case yaml.SequenceNode():
            return [_value(item) for item in node.value]
        case yaml.MappingNode():
            return {key.value: _value(value) for key, value in node.value}
        case _:
            return node.value


def _implementation(file: str, kind: FunctionKind, name: str, entry: Mapping[str, Any]) -> Implementation:
    variadic = entry.get("variadic")
    parameters = tuple(
        Parameter(
            name=argument.get("name", ""),
            pattern=parse(argument["value"]) if "value" in argument else None,
            values=tuple(argument.get("options", ())),
        )
        for argument in entry.get("args") or ()
    )
    shorts = (short_name(parameter.pattern) if parameter.pattern else "req" for parameter in parameters)
    return Implementation(
        file=file,
        name=name,
        kind=kind,
        parameters=parameters,
        function=Function(urn=urn(file), name=name, signature=f"{name}:{'_'.join(shorts)}", kind=kind),
        variadic_minimum=int(variadic["min"]) if variadic else None,
        nullability=entry.get("nullability", "MIRROR").upper(),
        result=entry["return"],
        options={option: tuple(of["values"]) for option, of in (entry.get("options") or {}).items()},
    )


def files() -> tuple[str, ...]:
    """The extension files, without `.yaml`."""
    return tuple(_texts())


def implementations(kind: FunctionKind, name: str, file: str | None = None) -> tuple[Implementation, ...]:
    """The overloads of `name`, in one file or in all files. A window call may use aggregates too."""
    kinds = (kind, FunctionKind.AGGREGATE) if kind is FunctionKind.WINDOW else (kind,)
    return tuple(
        implementation
        for wanted in kinds
        for where, functions in _functions().items()
        if (wanted, name) in functions and (file is None or where == file)
        for implementation in _load(where, wanted, name)
    )


def names(kind: FunctionKind) -> frozenset[str]:
    """Every function name of this kind, for messages."""
    return frozenset(name for functions in _functions().values() for of, name in functions if of is kind)


def everything() -> Iterator[Implementation]:
    for file, functions in _functions().items():
        for kind, name in functions:
            yield from _load(file, kind, name)
