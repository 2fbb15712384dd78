"""A kind of relation that lacks a trait, or a pass that lacks a kind of its own, is known before anything runs."""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import fields
from pathlib import Path
from typing import get_args

import pytest

from tidegate.planner import ir
from tidegate.planner.ir import traits
from tidegate.planner.ir.traits import Traits

from ..house.modules import TOP
from .test_add_a_relation import copied

OWN = {"order": ir.OwnOrder, "rows": ir.OwnRows, "distribution": ir.OwnDistribution, "changes": ir.OwnChanges}
TRAITS = [field.name for field in fields(Traits)]
BARE = """

@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Bare(Node):
    schema: Schema
    plan_path: str


"""
WITHOUT_A_CASE = {
    "planner/choose/sortedness.py": "case ir.Unnest():",
    "planner/distribution/relation_estimates.py": "case ir.Expand():",
    "planner/distribution/distribute.py": "case ir.Set():",
    "planner/changes/lower_changes.py": "case ir.Cross():",
}


def traits_of(kind: type[ir.Relation]) -> Traits:
    return traits.SET if kind is ir.Set else kind.traits  # type: ignore[return-value]  # an operation has its own row


@pytest.mark.parametrize("trait", OWN)
def test_the_kinds_with_an_own_trait_are_those_that_the_pass_has_a_case_for(trait: str) -> None:
    own = {kind for kind in get_args(ir.Relation) if getattr(traits_of(kind), trait) == "own"}
    assert own == set(get_args(OWN[trait]))


def test_every_row_of_the_set_operations_has_the_same_own_traits() -> None:
    rows = {tuple(getattr(row, trait) for trait in OWN) for row in (traits.SET, traits.UNION, traits.UNION_ALL)}
    assert len(rows) == 1


def test_a_kind_that_lacks_a_trait_and_a_pass_that_lacks_a_kind_are_errors_of_mypy(tmp_path: Path) -> None:
    row = {trait: getattr(traits.FILTER, trait) for trait in TRAITS}
    lacking = [{name: value for name, value in row.items() if name != trait} for trait in TRAITS]
    calls = "".join(
        f"Traits({', '.join(f'{name}={value!r}' for name, value in others.items())})\n" for others in lacking
    )
    edits: dict[str, str | list[tuple[str, str]]] = {
        "planner/ir/relations.py": BARE + calls,
        "planner/ir/__init__.py": [
            ("    Values,\n    Window,\n)", "    Bare,\n"),
            ("    | Operated\n", "    | Bare\n"),
        ],
    }
    copied(tmp_path / "tidegate", edits)
    for file, case in WITHOUT_A_CASE.items():
        path = tmp_path / "tidegate" / file
        text, removed = re.subn(rf"^( *){re.escape(case)}\n(\1 .*\n)+", "", path.read_text(), flags=re.MULTILINE)
        assert removed == 1
        path.write_text(text)
    checked = _checked(tmp_path, ["planner/ir/relations.py", "planner/ir/tree.py", *WITHOUT_A_CASE])
    missing = set(re.findall(r'Missing positional argument "(\w+)" in call to "Traits"', checked.stdout))
    assert missing == set(TRAITS), checked.stdout + checked.stderr
    assert '"Bare" of' in checked.stdout
    for attribute in ("parts", "traits"):
        assert re.search(rf'Item "Bare" of .* has no attribute "{attribute}"', checked.stdout)
    for file in WITHOUT_A_CASE:
        assert re.search(rf'{file}:\d+: error: Argument 1 to "assert_never" has incompatible type', checked.stdout), (
            file
        )


def _checked(folder: Path, files: list[str]) -> subprocess.CompletedProcess[str]:
    """The types of these files. Of the others mypy reads no function's body: that takes most of its time."""
    config = (TOP / "pyproject.toml").read_text()
    modules = [f"tidegate.{file.removesuffix('.py').replace('/', '.')}" for file in files]
    for module, ignored in (('"tidegate.*"', "true"), (str(modules), "false")):
        config += f"\n[[tool.mypy.overrides]]\nmodule = {module}\nignore_errors = {ignored}\n"
    (folder / "pyproject.toml").write_text(config)
    command = [sys.executable, "-m", "mypy", "--cache-dir", "/dev/null", "-p", "tidegate.planner"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=240, check=False)
