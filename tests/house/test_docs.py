"""The documents tell the truth: examples run and print what they show, links lead somewhere."""

from __future__ import annotations

import ast
import re
import sys
from functools import cache
from pathlib import Path
from types import ModuleType

import pytest

from development.site.conf import SECTIONS
from tidegate.operators.core.operator import Operator
from tidegate.operators.user.batch_function import BatchFunctionOperator
from tidegate.operators.user.iterate import Iterate
from tidegate.operators.user.union import Union
from tidegate.operators.write import AdoptingWrite

from ..operators.test_confluence import operators
from . import glossary
from .markdown import BLOCK, Example, anchors, documents, examples, links, links_to_headings
from .modules import TOP

DOCUMENTS = documents()
EXAMPLES = [example for document in DOCUMENTS for example in examples(document)]


def name(document: Path) -> str:
    return document.relative_to(TOP).as_posix()


@pytest.mark.parametrize("example", EXAMPLES, ids=str)
def test_an_example_in_a_document_runs_and_prints_what_it_shows(
    example: Example, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    module = ModuleType("__main__")
    monkeypatch.setitem(sys.modules, "__main__", module)
    exec(compile(example.code, str(example), "exec"), module.__dict__)
    printed = capsys.readouterr().out
    if example.output is not None:
        assert printed.rstrip() == example.output.rstrip()


@pytest.mark.parametrize("document", [page for page in DOCUMENTS if page.name != "api.md"], ids=name)
def test_all_programs_of_a_document_are_python(document: Path) -> None:
    """The page of the interface shows signatures, too."""
    for block in BLOCK.finditer(document.read_text()):
        if block.group(1).split()[:1] == ["python"]:
            ast.parse(block.group(2))


@pytest.mark.parametrize("document", [page for page in DOCUMENTS if "spawn" in page.read_text()], ids=name)
def test_programs_of_a_document_that_start_processes_guard_their_main_part(document: Path) -> None:
    """A process that is not a fork imports the program again, and would start processes of its own."""
    programs = [block.group(2) for block in BLOCK.finditer(document.read_text()) if block.group(1).startswith("python")]
    spawning = [program for program in programs if re.search(r"""["'](spawn|forkserver)["']""", program)]
    assert [program for program in spawning if 'if __name__ == "__main__":' not in program] == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=name)
def test_what_a_document_shows_of_an_example_is_what_it_says(document: Path) -> None:
    for of, code in re.findall(r"^```python of (\S+)\n(.*?)^```$", document.read_text(), re.MULTILINE | re.DOTALL):
        for part in code.split("\n\n\n"):
            assert part.strip() in (TOP / of).read_text()


@pytest.mark.parametrize("document", DOCUMENTS, ids=name)
def test_links_inside_the_project_lead_somewhere(document: Path) -> None:
    assert [target for target in links(document) if not (document.parent / target).exists()] == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=name)
def test_links_to_a_heading_lead_to_a_heading(document: Path) -> None:
    assert [(page.name, anchor) for page, anchor in links_to_headings(document) if anchor not in anchors(page)] == []


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


#: The operators of graphs of a user's own, which have a document together.
OF_GRAPHS = {BatchFunctionOperator, Iterate, Union}

#: The operators that are a form of another one, whose document has them.
FORMS = {AdoptingWrite}


@pytest.mark.parametrize("operator", sorted(operators() - OF_GRAPHS - FORMS, key=lambda class_: class_.__name__))
def test_an_operator_has_a_page_that_states_its_contract(operator: type[Operator]) -> None:
    page = "-".join(re.findall("[A-Z][a-z]*", operator.__name__)).lower() + ".md"
    folder = TOP / "docs" / "operators"
    assert f"({page})" in (folder / "README.md").read_text()
    stated = set(re.findall(r"^\| ([A-Z][\w -]*) \|", (folder / page).read_text(), re.MULTILINE))
    assert {"Order", "Nulls", "Empty input", "Memory", "Barrier"} <= stated


@pytest.mark.parametrize("page", sorted((TOP / "docs").glob("*.md")), ids=name)
def test_a_page_is_in_the_sidebar_of_the_site_and_other_pages_link_to_it(page: Path) -> None:
    assert page.stem in [stem for stems in SECTIONS.values() for stem in stems]
    linking = [document for document in DOCUMENTS if document != page and page in linked_pages(document)]
    assert linking, f"a reader cannot get to {name(page)}: link to it from README.md"


@cache
def linked_pages(document: Path) -> set[Path]:
    return {(document.parent / target).resolve() for target in links(document)}


def test_the_readme_is_short_and_has_an_example_with_its_output() -> None:
    readme = TOP / "README.md"
    assert len(readme.read_text().splitlines()) <= 120
    assert any(example.output for example in examples(readme))


#: The headings of sections that say what does not work.
AT_THE_END = (
    "Limits",
    "Limits and refusals",
    "Refusals",
    "What is refused",
    "What does not hold",
    "Errors",
    "Problems",
)

#: Pages that are lists, examples or descriptions of the code.
WITHOUT_LIMITS = frozenset(
    [
        *("api", "architecture", "attacks", "coverage", "datafusion-functions", "glossary", "official-cases"),
        *("producers", "reasons"),
        *("task-graph-examples", "where-to-change"),
    ]
)


@pytest.mark.parametrize("page", sorted((TOP / "docs").glob("*.md")), ids=name)
def test_a_page_ends_with_what_does_not_work(page: Path) -> None:
    last = re.findall(r"^## (.*)$", page.read_text(), re.MULTILINE)[-1:]
    assert page.stem in WITHOUT_LIMITS or (set(last) <= set(AT_THE_END) and last)


PAGES = sorted([*(TOP / "docs").glob("*.md"), *(TOP / "docs" / "operators").glob("*.md")])
GENERATED = frozenset(["api", "coverage", "datafusion-functions", "official-cases", "producers"])


@pytest.mark.parametrize("page", [page for page in PAGES if page.stem not in GENERATED | {"glossary"}], ids=name)
def test_a_word_of_the_glossary_is_linked_from_every_page_that_uses_it(page: Path) -> None:
    text = page.read_text()
    used = [term for term in glossary.TERMS if glossary.prose_use(text, term) and not glossary.is_linked(text, term)]
    assert not used, (
        f"link these words to their section of docs/glossary.md, where {name(page)} first uses them: {used}"
    )


def test_the_words_that_pages_link_are_in_the_glossary_under_their_headings() -> None:
    assert glossary.defined() == glossary.defined() | glossary.TERMS
