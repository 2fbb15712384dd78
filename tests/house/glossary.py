"""Uses of the glossary's words on the pages, and the links from them."""

from __future__ import annotations

import re
from typing import Final

from .modules import TOP

CLIENT, PLAN, RUNNING = "In a client's program", "From a plan to work", "In a running task"

#: The words that no reader knows from elsewhere, or knows in another sense, with their sections. The glossary's other
#: words are those of every page, or words that pages use in their common senses, too.
TERMS: Final = {
    "principal": CLIENT,
    "feeder": CLIENT,
    "inline": CLIENT,
    "canonical order": CLIENT,
    "plan path": PLAN,
    "DuckDB": PLAN,
    "statement": PLAN,
    "fragment": PLAN,
    "kernel": PLAN,
    "row-wise": PLAN,
    "pipeline": PLAN,
    "exchange": PLAN,
    "physical node": PLAN,
    "mark join": PLAN,
    "single join": PLAN,
    "ordered form": PLAN,
    "morsel": PLAN,
    "parcel": PLAN,
    "lane": PLAN,
    "trait": PLAN,
    "ledger": RUNNING,
    "task state": RUNNING,
    "epoch loop": RUNNING,
    "epoch scheduler": RUNNING,
    "output log": RUNNING,
    "journal": RUNNING,
    "staging place": RUNNING,
    "kept bytes": RUNNING,
    "kept rows": RUNNING,
    "arrangement": RUNNING,
}

_NO_PROSE: Final = re.compile(r"^```.*?^```|^#.*?$|`[^`\n]*`|!?\[[^\]]*\]\([^)]*\)", re.MULTILINE | re.DOTALL)


def defined() -> dict[str, str]:
    """The words of the glossary, with their sections."""
    words, section = {}, ""
    for line in (TOP / "docs" / "glossary.md").read_text().splitlines():
        if line.startswith("## "):
            section = line.removeprefix("## ")
        elif line.startswith("| ") and not line.startswith("| Word"):
            words.update(dict.fromkeys(line.split(" | ")[0].removeprefix("| ").split(", "), section))
    return words


def prose_use(page: str, term: str) -> tuple[int, int] | None:
    """Where a page first uses a word outside of code, headings and links."""
    prose = _NO_PROSE.sub(lambda part: " " * len(part.group()), page)
    use = re.search(_pattern(term), prose, re.IGNORECASE)
    return None if use is None else use.span()


def is_linked(page: str, term: str) -> bool:
    """True if the word is a part of a link's text somewhere on the page."""
    return any(re.search(_pattern(term), text, re.IGNORECASE) for text in re.findall(r"\[([^\]]*)\]\(", page))


def _pattern(term: str) -> str:
    words = r"\s+".join(map(re.escape, term.split()))
    return rf"(?<![\w-]){words}s?(?![\w-])"
