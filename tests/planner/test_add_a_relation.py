"""A toy relation is added to a copy of the project through the files alone that `docs/add-a-relation.md` lists."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from ..house.modules import TOP
from .decode.plans import I64, plan, table

PAGE = TOP / "docs" / "add-a-relation.md"
PACKAGES = {"clients": "", "proto": "proto", "operators": "operators", "planner": "planner", "executor": "executor"}

RELATION = '''

@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Twice(Node):
    """Each row of the input twice."""

    input: Relation
    schema: Schema
    plan_path: str
    parts: ClassVar = Parts(inputs=("input",))
    traits: ClassVar = table.Traits({row})
'''
CONVERTER = """
from ... import ir
from .. import poison


def convert_twice(decoder, message, plan_path, outer):
    below = yield from decoder.relation(message.view_definition, plan_path / "view_definition", outer)
    if below is poison.RELATION:
        return below
    return ir.Twice(input=below, schema=below.schema, plan_path=str(plan_path))
"""
SELECT = """
from ..table import select_list


def select_twice(relation, table):
    return f"SELECT {select_list(table.columns)} FROM {table.item} CROSS JOIN range(2)"
"""
OPERATOR = """
from contextlib import closing

from .core.operator import Operator


class Twice(Operator):
    def __init__(self, schema):
        self.schema = schema

    def run(self, inputs):
        with closing(inputs[0]) as rows:
            for batch in rows:
                yield batch
                yield batch
"""
NODE = """@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TwiceNode:
    input: PhysicalNode
    schema: pa.Schema
    size_class: int
    plan_path: str


"""
MADE = """        case ir.Twice():
            from ..physical.pipelines import TwiceNode
            schema = arrow_schema(relation.schema)
            return TwiceNode(input=inputs[0], schema=schema, size_class=1, plan_path=relation.plan_path)
"""
BUILT = """        case TwiceNode():
            return Made(node, Twice(node.schema), factory.meter("Twice", node.plan_path), inputs(node))
"""

DECODED = {
    "planner/decode/relations/<name>.py": CONVERTER,
    "planner/decode/relations/__init__.py": [
        ("CONVERTERS: Final", "from .twice import convert_twice\n\n"),
        ('    "read": convert_read', '    "ddl": convert_twice,\n'),
        ('ddl": "tables', "no_"),
    ],
}
"""The toy takes the place of `DdlRel` on the wire, which is no longer refused: the rows of its view, twice."""

WITH_SQL = {
    "planner/ir/relations.py": RELATION.format(
        row='"twice", False, "more", "none", "passed", "input", "as input", "one place", "recomputed"'
    ),
    "planner/ir/__init__.py": [
        ("    Values,\n    Window,\n)", "    Twice,\n"),
        ("    | Operated\n", "    | Twice\n"),
    ],
    **DECODED,
    "planner/sql/relations/<name>.py": SELECT,
    "planner/sql/select_statement.py": [
        ("from .relations.values", "from .relations.twice import select_twice\n"),
        ("    | ir.FinalAggregate\n)", "    | ir.Twice\n"),
        (
            "            case ir.Filter():",
            "            case ir.Twice():\n                return select_twice(relation, tables[0])\n",
        ),
    ],
}
WITH_AN_OPERATOR = {
    "planner/ir/planned.py": RELATION.format(
        row='"twice", False, "more", "none", "passed", "input", "never", "one place", "never"'
    ),
    "planner/ir/__init__.py": [
        ("    Unnest,\n    User,\n)", "    Twice,\n"),
        ("    | Unnest\n    | IndexLookup", "    | Twice\n"),
    ],
    **DECODED,
    "operators/<name>.py": OPERATOR,
    "planner/physical/pipelines.py": [
        ("OperatorNode: TypeAlias", NODE),
        ("    UnnestNode\n", "    TwiceNode\n    | "),
        ("        case UnnestNode() | Lookup", "        case TwiceNode():\n            return (node.input,)\n"),
    ],
    "planner/cut/operated.py": [("        case ir.Unnest():", MADE)],
    "executor/pipelines/build_operators.py": [
        (
            "from ...planner.ir",
            "from ...operators.twice import Twice\nfrom ...planner.physical.pipelines import TwiceNode\n",
        ),
        ("        case UnnestNode():", BUILT),
    ],
}


def listed(section: str) -> set[str]:
    """The files in the table of a section of the page."""
    [text] = re.findall(rf"^## {section}\n(.*?)^## ", PAGE.read_text() + "\n## ", re.MULTILINE | re.DOTALL)
    return set(re.findall(r"^\| `([^`]+)` \|", text, re.MULTILINE))


def copied(package: Path, edits: dict[str, str | list[tuple[str, str]]]) -> None:
    for folder, name in PACKAGES.items():
        shutil.copytree(TOP / folder, package / name, dirs_exist_ok=True)
    for file, edit in edits.items():
        path = package / file.replace("<name>", "twice")
        text = path.read_text() if path.exists() else "from __future__ import annotations\n"
        if isinstance(edit, str):
            text += edit
        else:
            for before, new in edit:
                assert text.count(before) == 1, f"{file} has no place {before!r}"
                text = text.replace(before, new + before)
        path.write_text(text)


RUN = """
import sys, pyarrow as pa, tidegate
rows = pa.table({"a": pa.array([3, 1, 2], pa.int64())}, schema=pa.schema([pa.field("a", pa.int64(), False)]))
with tidegate.local() as client:
    for channels in (1, 2):
        with client.create_task(sys.argv[1], channels=channels) as task:
            print(sorted(task.run_epoch({"t": rows}).table().column("a").to_pylist()))
    print(client.explain(sys.argv[1]).text)
"""


@pytest.mark.parametrize(
    ("section", "edits"),
    [("A relation that SQL expresses", WITH_SQL), ("A relation with an operator", WITH_AN_OPERATOR)],
    ids=["SQL", "operator"],
)
def test_a_relation_is_added_through_the_listed_files_alone(
    section: str, edits: dict[str, str | list[tuple[str, str]]], tmp_path: Path
) -> None:
    assert set(edits) == listed(section)
    assert len(edits) <= 8
    copied(tmp_path / "tidegate", edits)
    twice = json.dumps(plan({"ddl": {"viewDefinition": table(I64)}}, ["a"]))
    ran = subprocess.run(
        [sys.executable, "-c", RUN, twice],
        env={"PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ran.stdout.splitlines()[:2] == ["[1, 1, 2, 2, 3, 3]"] * 2, ran.stderr
    assert "twice" in ran.stdout
