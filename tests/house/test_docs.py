"""The documents tell the truth: examples run and print what they show, links lead somewhere."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from .markdown import Example, documents, examples, links
from .modules import TOP

DOCUMENTS = documents()
EXAMPLES = [example for document in DOCUMENTS for example in examples(document)]


def name(document: Path) -> str:
    return document.relative_to(TOP).as_posix()


@pytest.mark.parametrize("example", EXAMPLES, ids=str)
def test_an_example_in_a_document_runs_and_prints_what_it_shows(example: Example, tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", example.code], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    if example.output is not None:
        assert done.stdout.rstrip() == example.output.rstrip()


@pytest.mark.parametrize("document", DOCUMENTS, ids=name)
def test_links_inside_the_project_lead_somewhere(document: Path) -> None:
    assert [target for target in links(document) if not (document.parent / target).exists()] == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=name)
def test_make_targets_that_a_document_names_exist(document: Path) -> None:
    targets = set(re.findall(r"^([a-z]+):", (TOP / "Makefile").read_text(), re.MULTILINE))
    assert set(re.findall(r"`make ([a-z]+)`", document.read_text())) <= targets


@pytest.mark.parametrize("document", DOCUMENTS, ids=name)
def test_modules_that_a_document_names_exist(document: Path) -> None:
    named = re.findall(
        r"`((?:proto|operators|planner|executor|server|clients|benchmarks|tests)/[\w/.]*)`", document.read_text()
    )
    assert [path for path in named if not (TOP / path).exists()] == []


def test_the_readme_is_short_and_has_an_example_with_its_output() -> None:
    readme = TOP / "README.md"
    assert len(readme.read_text().splitlines()) <= 120
    assert any(example.output for example in examples(readme))
