"""Settings of Sphinx, which makes a site of the pages as they are. A link that leads nowhere fails it."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from sphinx.application import Sphinx

TOP: Final = Path(__file__).resolve().parents[2]

project = "Tidegate"
release = tomllib.loads((TOP / "pyproject.toml").read_text())["project"]["version"]
extensions = ["myst_parser"]
include_patterns = ["*.md", "docs/**"]
root_doc = "README"
html_theme = "alabaster"
html_theme_options = {"page_width": "70em", "sidebar_collapse": True}
html_show_copyright = False
html_show_sourcelink = False
myst_heading_anchors = 4
nitpicky = True
suppress_warnings = ["misc.highlighting_failure"]  # consoles and output are not always a language

SECTIONS: Final = {
    "Use it": (
        "tasks-and-barriers",
        "reading-results",
        "options",
        "files",
        "continuous",
        "checkpoints",
        "durability",
        "training",
        "plans-and-coverage",
        "loops",
        "windows",
        "task-graphs",
        "task-graph-nodes",
        "task-graph-examples",
        "spark",
        "spark-executor",
    ),
    "Run it": ("operations", "monitoring", "sizing", "security", "attacks", "operators-in-plans", "compatibility"),
    "Look it up": ("reasons", "api", "coverage", "official-cases", "producers", "datafusion-functions", "glossary"),
    "Work on it": ("where-to-change", "architecture", "channels", "exchanges", "add-a-relation", "add-an-operator"),
}


def _add_navigation(_: Sphinx, page: str, source: list[str]) -> None:
    """Give the first page the sections of the sidebar; the page itself has its links in tables."""
    if page == root_doc:
        for title, pages in SECTIONS.items():
            source[0] += _toctree(title, [f"docs/{page_name}" for page_name in pages])
        operators = sorted(operator_page.stem for operator_page in (TOP / "docs" / "operators").glob("*.md"))
        source[0] += _toctree("Operators", [f"docs/operators/{operator}" for operator in operators])
        source[0] += _toctree("The project", ["CHANGELOG", "CONTRIBUTING", "SECURITY"])
    source[0] = re.sub(r"^```(\w+) .*$", r"```\1", source[0], flags=re.MULTILINE)  # `python runnable` is Python


def _toctree(title: str, pages: list[str]) -> str:
    return "\n\n" + "\n".join(("```{toctree}", ":hidden:", f":caption: {title}", "", *pages, "```")) + "\n"


def setup(app: Sphinx) -> None:
    app.connect("source-read", _add_navigation)
