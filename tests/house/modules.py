"""The project's own modules, read from its folders."""

from __future__ import annotations

import ast
import gc
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

TOP = Path(__file__).resolve().parents[2]
SETTINGS = tomllib.loads((TOP / "pyproject.toml").read_text())
FOLDERS: dict[str, str] = SETTINGS["tool"]["setuptools"]["package-dir"]


@dataclass(frozen=True)
class Import:
    """`name` is what is imported, absolute; `own` says that it is one of the project's modules. An import inside of a
    function is not `at_import`, one for annotations alone is not `at_run`.
    """

    name: str
    line: int
    relative: bool
    at_import: bool
    at_run: bool

    @property
    def own(self) -> bool:
        return self.name.split(".")[0] == "tidegate"


@dataclass(frozen=True)
class Module:
    name: str
    path: Path

    @property
    def generated(self) -> bool:
        return self.name.startswith("tidegate.proto.tidegate.")

    @property
    def package(self) -> str:
        return self.name if self.path.name == "__init__.py" else self.name.rpartition(".")[0]

    @cached_property
    def tree(self) -> ast.Module:
        return parsed(self.path)

    @cached_property
    def imports(self) -> tuple[Import, ...]:
        return tuple(_imports(self, self.tree, late=False, run=True))


@cache
def parsed(path: Path) -> ast.Module:
    """The syntax of a file, which many tests look at. Garbage is not looked for meanwhile: there is none."""
    gc.disable()
    try:
        return ast.parse(path.read_text())
    finally:
        gc.enable()


@cache
def modules() -> dict[str, Module]:
    """Every Python module under the package folders, by its full name."""
    by_name = {}
    for package, folder in FOLDERS.items():
        for path in sorted((TOP / folder).rglob("*.py")):
            parts = path.relative_to(TOP / folder).with_suffix("").parts
            name = ".".join((package, *parts)).removesuffix(".__init__")
            by_name[name] = Module(name, path)
    return by_name


def _imports(module: Module, node: ast.AST, *, late: bool, run: bool) -> Iterator[Import]:
    for child in ast.iter_child_nodes(node):
        match child:
            case ast.Import(names=names):
                for alias in names:
                    yield Import(alias.name, child.lineno, relative=False, at_import=not late, at_run=run)
            case ast.ImportFrom(module=source, names=names, level=level):
                base = _absolute(module.package, source, level)
                for alias in names:
                    name = f"{base}.{alias.name}"
                    target = name if name in modules() else base
                    yield Import(target, child.lineno, relative=level > 0, at_import=not late, at_run=run)
            case ast.If(test=ast.Name(id="TYPE_CHECKING") | ast.Attribute(attr="TYPE_CHECKING")):
                yield from _imports(module, child, late=True, run=False)
            case _:
                inside = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
                yield from _imports(module, child, late=late or inside, run=run)


def _absolute(package: str, source: str | None, level: int) -> str:
    if level == 0:
        return source or ""
    base = package.rsplit(".", level - 1)[0] if level > 1 else package
    return f"{base}.{source}" if source else base
