"""Writes `docs/api.md` from docstrings and `.proto` files: ``python -m development.api_page``."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from .public_names import MODULES, Member, PublicName, public_names
from .wire import wire

PAGE: Final = Path(__file__).parent.parent / "docs" / "api.md"

HEAD: Final = """\
# API

Every public name with an example, then every message of the wire. `make api` writes this page from the docstrings and
the `.proto` files; change those, not this page. [Tasks and barriers](tasks-and-barriers.md) tells how the parts work
together.

Each example begins anew with these names:

| Name | Value |
|---|---|
| `pa`, `pc`, `pathlib`, `tidegate` | modules: `import pyarrow as pa`, `import pyarrow.compute as pc`, ... |
| `plan` | the plan of the [README](../README.md): the total `amount` of each `item` of the source `sales` |
| `above` | the plan of the query `SELECT item, amount FROM sales WHERE amount > $1`, by DataFusion |
| `monday`, `tuesday` | tables with the columns `item` and `amount`, also as `monday.parquet` and `tuesday.parquet` |
| `sales.parquet` | the rows of `monday` |
| `samples`, `samples_plan` | a table with the column `n`, from 0 to 9, and a plan that reads the source `samples` |
| `client`, `task` | `tidegate.local()`, `client.create_task(plan)` |
| `graph` | a `tidegate.TaskGraph` with the same result as `plan` for `sales.parquet` |
| `address`, `guarded` | the addresses of two servers; the second asks for a token |
| `Count` | the executor in the example of [`Executor`](#tidegateexecutor) |
| `RunningTotal`, `numbers` | the operator and the table in [Add an operator](add-an-operator.md) |
| `session`, `data_frame` | a Spark session, and a DataFrame with the rows of `monday` |
| `folder` | the folder of the files above, which is the current one |
"""

TITLES: Final = {
    "tidegate": "Clients, tasks and results",
    "tidegate.graph": "Graphs of your operators",
    "tidegate.training": "Training data",
    "tidegate.spark": "Spark",
    "tidegate.testing": "Checks of operators",
    "tidegate.windows": "Windows of time",
    "tidegate.plans": "Plans and loops",
    "tidegate.relations": "Relations that Substrait lacks",
    "tidegate.training.torch": "Training data for PyTorch",
}


def page() -> str:
    """The text of the page."""
    parts = [HEAD.rstrip()]
    for module in MODULES:
        parts.append(f"## `{module}`: {TITLES[module][0].lower()}{TITLES[module][1:]}")
        for name in public_names():
            if name.module == module:
                parts += _name(name)
    parts += ["## The wire", wire()]
    return "\n\n".join(parts) + "\n"


def _name(name: PublicName) -> Iterator[str]:
    yield f"### `{name.path}`"
    yield _code(name.signature)
    yield _markdown(name.docstring)
    if name.is_message:
        yield f"Its fields: [message `{name.name}`](#message-{name.name.lower()})."
    for member in name.members:
        yield from _member(name, member)


def _member(owner: PublicName, member: Member) -> Iterator[str]:
    yield f"#### `{owner.name}.{member.name}`"
    if not isinstance(member.value, property):
        yield _code(member.signature)
    if member.docstring:
        yield _markdown(member.docstring)


def _code(text: str) -> str:
    return f"```python\n{text}\n```"


def _markdown(docstring: str) -> str:
    """The docstring, with its examples as blocks of code."""
    blocks: list[str] = []
    for paragraph in re.split(r"\n\s*\n", docstring):
        if paragraph.startswith(">>>"):
            blocks.append(f"```pycon\n{paragraph}\n```")
        else:
            blocks.append(paragraph)
    return "\n\n".join(blocks)


def main() -> int:
    PAGE.write_text(page(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
