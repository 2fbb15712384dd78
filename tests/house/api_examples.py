"""The examples of public names, and the names that they begin with."""

from __future__ import annotations

import ast
import contextlib
import doctest
import pathlib
import re
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import substrait.dataframe as sub
from datafusion import SessionContext
from datafusion.substrait import Serde

import tidegate
from development.public_names import PublicName, public_names
from tidegate.executor.service.plan_engine import PlanEngine
from tidegate.server.access.tokens import Tokens

from ..server.running import manager, served
from .markdown import examples as runnable
from .modules import TOP

FLAGS: Final = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


@cache
def examples() -> Mapping[str, str]:
    """The docstrings that have examples, of public names and of their members, by their paths."""
    texts = {}
    for name in public_names():
        texts[name.path] = name.docstring
        texts.update({f"{name.path}.{member.name}": member.docstring for member in name.members})
    return {path: text for path, text in texts.items() if ">>> " in text}


def without_examples() -> list[str]:
    return [name.path for name in public_names() if not re.search(r"^>>> ", name.docstring, re.MULTILINE)]


def of_spark(path: str) -> bool:
    return path.startswith("tidegate.spark.")


class Beginning:
    """The names that an example begins with, each made when the example uses it."""

    def __init__(self, folder: Path, stack: contextlib.ExitStack, **extra_names: object) -> None:
        self._folder = folder
        self._stack = stack
        self._names: dict[str, Any] = {
            "tidegate": tidegate,
            "pa": pa,
            "pc": pc,
            "pathlib": pathlib,
            "folder": folder,
            **extra_names,
        }
        self._makers: dict[str, Callable[[], object]] = {
            "monday": lambda: pa.table({"item": ["tea", "cup", "tea"], "amount": [3, 8, 4]}),
            "tuesday": lambda: pa.table({"item": ["cup"], "amount": [9]}),
            "plan": _plan,
            "above": _above,
            "samples": lambda: pa.table({"n": range(10)}),
            "samples_plan": lambda: sub.read_named_table("samples", {"n": sub.i64}).to_plan(),
            "client": lambda: stack.enter_context(tidegate.local()),
            "task": lambda: self["client"].create_task(self["plan"]),
            "graph": self._graph,
            "address": self._server,
            "guarded": lambda: self._server(tokens=self._tokens()),
            "Count": lambda: _count(self),
            "RunningTotal": lambda: _of_page("RunningTotal"),
            "numbers": lambda: pa.table({"n": pa.array([1, None, 2, 5], pa.int64())}),
            "data_frame": lambda: self["session"].read.parquet(str(folder / "monday.parquet")),
        }
        for file, table in (("sales", "monday"), ("monday", "monday"), ("tuesday", "tuesday")):
            pq.write_table(self[table], folder / f"{file}.parquet")

    def __getitem__(self, name: str) -> Any:
        if name not in self._names:
            self._names[name] = self._makers[name]()
        return self._names[name]

    def used_by(self, text: str) -> Mapping[str, Any]:
        """The names that occur in the code of an example."""
        code = "".join(example.source for example in doctest.DocTestParser().get_examples(text))
        words = {node.id for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Name)}
        return {name: self[name] for name in (*self._names, *self._makers) if name in words}

    def _graph(self) -> tidegate.TaskGraph:
        graph = tidegate.TaskGraph()
        totals = graph.aggregate("totals", graph.read_parquet("sales.parquet"), ["item"], {"total": ("sum", "amount")})
        graph.collect(graph.sort("sorted", totals, ["item"]))
        return graph

    def _server(self, **settings: object) -> str:
        spill = self._folder / "server"
        spill.mkdir(exist_ok=True)
        backend = self._stack.enter_context(manager(PlanEngine(["/"], spill), principals="tokens" in settings))
        return self._stack.enter_context(served(backend, **settings))

    def _tokens(self) -> Tokens:
        file = self._folder / "tokens"
        file.write_text(f"alice {'a' * 40}\n")
        file.chmod(0o600)
        return Tokens(file)


def _plan() -> bytes:
    """The plan of the README."""
    sales = sub.read_named_table("sales", {"item": sub.string, "amount": sub.i64})
    totals = sales.group_by("item").agg(sub.f.sum(sub.col("amount")).alias("total")).sort("item")
    return bytes(totals.to_plan().SerializeToString())


def _above() -> bytes:
    """The plan of a query with a parameter, by DataFusion."""
    context: Any = SessionContext()
    context.register_record_batches("sales", [pa.table({"item": ["tea"], "amount": [3]}).to_batches()])
    return bytes(Serde.serialize_bytes("SELECT item, amount FROM sales WHERE amount > $1", context))


def _count(beginning: Beginning) -> Any:
    names = {"pa": pa, "tidegate": tidegate, "monday": beginning["monday"]}
    text = examples()["tidegate.Executor"]
    [definition] = [
        example.source for example in doctest.DocTestParser().get_examples(text) if "class Count" in example.source
    ]
    exec(definition, names)
    return names["Count"]


def _of_page(name: str) -> Any:
    """A definition in the first example of the page for authors of operators."""
    module = ModuleType("page")
    example = next(runnable(TOP / "docs" / "add-an-operator.md"))
    exec(compile(example.code, str(example), "exec"), module.__dict__)
    return getattr(module, name)


def run(path: str, folder: Path, **extra_names: object) -> None:
    """Run the example of a name in a folder. Raises what went wrong, as doctest tells it."""
    text = examples()[path]
    with contextlib.ExitStack() as stack, contextlib.chdir(folder):
        names = dict(Beginning(folder, stack, **extra_names).used_by(text))
        test = doctest.DocTestParser().get_doctest(text, names, path, None, None)
        failures: list[str] = []
        runner = doctest.DocTestRunner(verbose=False, optionflags=FLAGS)
        runner.run(test, out=failures.append, clear_globs=False)
        for value in test.globs.values():
            if isinstance(value, tidegate.Client | tidegate.Dataset):
                value.close()
        assert not failures, "".join(failures)


__all__ = ["PublicName", "examples", "of_spark", "run", "without_examples"]
