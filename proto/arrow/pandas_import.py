"""Keeps pyarrow from importing pandas: a process of Tidegate's own calls `leave_pandas_out()` at its start.

pyarrow imports pandas, where it is installed, when it first makes an array of Python values. That takes 0.3 seconds and
37 MiB of memory, and the engine has no use for it.
"""

from __future__ import annotations

import importlib.util
import sys
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Final

import pyarrow as pa

_PANDAS: Final = "pandas"


def leave_pandas_out() -> None:
    """Have pyarrow do without pandas until other code of this process imports it, and know pandas from then on.

    Until then, pyarrow behaves as it does where pandas is not installed.
    """
    if _PANDAS in sys.modules or any(isinstance(finder, _PandasFinder) for finder in sys.meta_path):
        return
    finder = _PandasFinder()
    sys.meta_path.insert(0, finder)
    pa.array([None])  # pyarrow looks for pandas here, and not again by itself
    finder.hides = False


class _PandasFinder:
    """Finds no pandas while it hides it. Later it tells pyarrow of pandas, once that is imported."""

    def __init__(self) -> None:
        self.hides = True

    def find_spec(self, name: str, path: object, target: object = None) -> ModuleSpec | None:  # noqa: ARG002
        if name != _PANDAS:
            return None
        if self.hides:
            raise ModuleNotFoundError("pyarrow does without pandas", name=name)
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.loader is not None:
            _tell_pyarrow(spec.loader)
        return spec


def _tell_pyarrow(loader: object) -> None:
    execute = loader.exec_module  # type: ignore[attr-defined]

    def exec_module(module: ModuleType) -> None:
        execute(module)
        pa.array([None]).to_pandas()  # a call that needs pandas makes pyarrow look for it again

    loader.exec_module = exec_module  # type: ignore[attr-defined]
