"""Starts a process that decodes ORC, without pandas: `python -m tidegate.operators.sources.orc_start`.

Arrow loads pandas where it is installed, which takes longer than all else that such a process loads.
"""

from __future__ import annotations

import importlib
import sys


class WithoutPandas:
    """Finds no pandas, ahead of the finders of Python."""

    @staticmethod
    def find_spec(name: str, path: object, target: object = None) -> None:  # noqa: ARG004 (Python calls it so)
        if name == "pandas":
            raise ModuleNotFoundError("a process that decodes ORC has no use for pandas", name=name)


def main() -> None:
    sys.meta_path.insert(0, WithoutPandas)
    importlib.import_module(".formats.orc_process", __package__).main()


if __name__ == "__main__":
    main()
