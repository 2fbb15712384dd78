"""The project's documents: their code blocks and links."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from .modules import TOP

BLOCK = re.compile(r"^```([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)#\s]+)(#[^)\s]*)?\)")
LINK_TO_HEADING = re.compile(r"\]\(([^)#\s]*)#([^)\s]+)\)")
HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)


@dataclass(frozen=True)
class Example:
    """A block marked `python runnable`, and the `text output` block that follows it, if any."""

    document: str
    line: int
    code: str
    output: str | None

    def __str__(self) -> str:
        return f"{self.document}:{self.line}"


def documents() -> list[Path]:
    return [*sorted(TOP.glob("*.md")), *sorted((TOP / "docs").rglob("*.md"))]


def examples(document: Path) -> Iterator[Example]:
    text = document.read_text()
    blocks = list(BLOCK.finditer(text))
    for number, block in enumerate(blocks):
        if block.group(1).strip() == "python runnable":
            after = blocks[number + 1] if number + 1 < len(blocks) else None
            shown = after.group(2) if after is not None and after.group(1).strip() == "text output" else None
            line = text.count("\n", 0, block.start()) + 1
            yield Example(document.relative_to(TOP).as_posix(), line, block.group(2), shown)


def links(document: Path) -> Iterator[str]:
    """Targets inside the project."""
    for target, _ in LINK.findall(BLOCK.sub("", document.read_text())):
        if "://" not in target and not target.startswith("mailto:"):
            yield target


def links_to_headings(document: Path) -> Iterator[tuple[Path, str]]:
    """(page, anchor) of every link into a page of the project."""
    for target, anchor in LINK_TO_HEADING.findall(BLOCK.sub("", document.read_text())):
        if "://" not in target:
            yield (document.parent / target if target else document), anchor


def anchors(document: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub and the site make them."""
    titles = HEADING.findall(BLOCK.sub("", document.read_text()))
    return {re.sub(r"[^\w\- ]", "", title.lower()).strip().replace(" ", "-") for title in titles}
