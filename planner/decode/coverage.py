"""The coverage page: everything that Substrait defines, with a yes or a refusal. `python -m` writes docs/coverage.md.

Every row comes from the descriptors, the official extensions, and the registries that decode and bind by them. So the
page cannot claim more than the code does.
"""

from __future__ import annotations

import itertools
import sys
import textwrap
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ..functions import coverage_rows, own_extensions
from . import expressions, relations
from . import literal_values as literals
from .declarations import declared_types as types
from .encoding.message_classes import pool
from .encoding.restored import RESTORED
from .relations import extension, write
from .relations.reads import local_files, read

_WIDTH: Final = 120
_UNCHECKED: Final = "the length of text from a source is not checked"


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A row of the table. `note` gives the reason for a refusal, or a remark for the reader."""

    name: str
    supported: bool
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """A part of the page: a title and a table."""

    title: str
    rows: tuple[Row, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Oneof:
    """A choice that Substrait defines, and the registries that together must cover the choice."""

    title: str
    message: str
    oneof: str
    handled: Collection[str]
    refused: Mapping[str, str]
    notes: Mapping[str, str]

    @property
    def defined(self) -> tuple[str, ...]:
        fields = pool().descriptor(self.message).oneofs_by_name[self.oneof].fields
        return tuple(field.name for field in fields)


ONEOFS: Final = (
    Oneof(
        title="Relations",
        message="substrait.Rel",
        oneof="rel_type",
        handled=relations.CONVERTERS,
        refused=relations.REFUSED,
        notes={
            "exchange": "rows pass unchanged; Tidegate itself decides where to exchange rows",
            "hash_join": "keys compared by EQ, IS_NOT_DISTINCT_FROM or a function; old left_keys and right_keys too",
            "merge_join": "as hash_join",
            "fetch": "numbers (old) or expressions",
            "aggregate": "grouping sets; old and new encodings; only whole aggregations, no intermediate phases",
            "sort": "by expression and direction; no comparison functions",
            "top_n": "with or without ties",
            "reference": "a common subtree is decoded once",
            "write": "at the plan's root; CTAS and INSERT into named tables, which are folders of files",
            **{kind: ", ".join(f"`{name}`" for name in known) for kind, known in extension.CONVERTERS.items()},
        },
    ),
    Oneof(
        title="Reads",
        message="substrait.ReadRel",
        oneof="read_type",
        handled=read.CONVERTERS,
        refused=read.REFUSED,
        notes={
            "virtual_table": "literals (old) or expressions",
            "named_table": "a source of that name; the parts of the name are joined by dots",
        },
    ),
    Oneof(
        title="Tables that are written",
        message="substrait.WriteRel",
        oneof="write_type",
        handled=write.TABLES,
        refused=write.REFUSED_TABLES,
        notes={"named_table": "a folder, each part of the name inside the one before"},
    ),
    Oneof(
        title="File formats",
        message="substrait.ReadRel.LocalFiles.FileOrFiles",
        oneof="file_format",
        handled=local_files.FORMATS,
        refused=local_files.REFUSED_FORMATS,
        notes={"text": "CSV: comma, double quotes, one header line"},
    ),
    Oneof(
        title="Expressions",
        message="substrait.Expression",
        oneof="rex_type",
        handled=expressions.CONVERTERS,
        refused=expressions.REFUSED,
        notes={
            "selection": "columns, outer columns, lambda parameters, and steps into structs, lists and maps; no masks",
            "window_function": "in projections; bounds that are literals",
            "lambda": "as an argument of a function",
            "dynamic_parameter": "with the value that is given with the plan, or that its parameter_bindings have",
            "subquery": "scalar, IN, EXISTS, UNIQUE, ANY and ALL",
        },
    ),
    Oneof(
        title="Types",
        message="substrait.Type",
        oneof="kind",
        handled=types.CONVERTERS,
        refused=types.REFUSED,
        notes={
            "user_defined": "u8, u16, u32 and u64",
            "fixed_char": f"a cast cuts text to the length, or pads it with blanks; {_UNCHECKED}",
            "varchar": f"a cast cuts text to the length; {_UNCHECKED}",
            "timestamp": "as precision_timestamp, precision 6",
            "timestamp_tz": "as precision_timestamp_tz, precision 6",
            "time": "as precision_time, precision 6",
        },
    ),
    Oneof(
        title="Literals",
        message="substrait.Expression.Literal",
        oneof="literal_type",
        handled=literals.CONVERTERS,
        refused=literals.REFUSED,
        notes={
            "old_precision_timestamp": "precision_timestamp as a plain number of microseconds",
            "old_precision_timestamp_tz": "precision_timestamp_tz as a plain number of microseconds",
        },
    ),
)


def section(oneof: Oneof) -> Section:
    """The rows of one choice, in Substrait's order. A row that Substrait has removed says so."""
    old = {field.name for field in RESTORED if field.message == oneof.message}

    def row(name: str) -> Row:
        supported = name in oneof.handled
        note = oneof.notes.get(name, "") if supported else oneof.refused[name]
        if supported and name in old:
            note = f"removed from Substrait, still read; {note}".removesuffix("; ")
        return Row(name=name, supported=supported, note=note)

    return Section(title=oneof.title, rows=tuple(map(row, oneof.defined)))


def functions_section() -> Iterator[str]:
    """A table for each extension, with a row for each function."""
    own = [f"`{name}`" for name in own_extensions()]
    text = (
        f"The functions of Substrait's official extensions, and of Tidegate's own: {', '.join(own[:-1])} and {own[-1]}."
        " A note lists the refused values of options. A plan that names such a value runs if it also names one that "
        "Tidegate can honour."
    )
    yield from ("", "## Functions", "", *textwrap.wrap(text, _WIDTH, break_on_hyphens=False))
    for file, rows in itertools.groupby(coverage_rows(), key=lambda row: row.file):
        yield from ("", f"### {file}", "", "| Function | Kind | Runs | Note |", "|---|---|---|---|")
        for row in rows:
            refused = ", ".join(f"`{option}`" for option in row.refused_options)
            notes = "; ".join(part for part in (row.note, refused and f"refused: {refused}") if part)
            yield f"| `{row.name}` | {row.kind} | {'yes' if row.supported else 'refused'} | {notes} |"


def document(sections: Iterable[Section]) -> str:
    """The sections as a page."""
    lines = [
        "# Coverage",
        "",
        "This page says for everything that Substrait defines whether Tidegate runs it. A plan with a refused part has",
        "a problem, with the name of the part and its place. `tidegate validate PLAN` lists the problems of a plan.",
        "",
        "[Official cases](official-cases.md) says which of the cases that Substrait publishes for its functions have",
        "another answer here, and why.",
        "",
        "The page is made by `python -m tidegate.planner.decode.coverage` from the code that decodes plans and binds",
        "functions.",
    ]
    for chapter in sections:
        lines += ["", f"## {chapter.title}", "", "| Name | Runs | Note |", "|---|---|---|"]
        lines += [f"| `{row.name}` | {'yes' if row.supported else 'refused'} | {row.note} |" for row in chapter.rows]
    return "\n".join(lines) + "\n"


def page() -> str:
    """The text of docs/coverage.md."""
    return document(map(section, ONEOFS)) + "\n".join(functions_section()) + "\n"


def main(arguments: list[str]) -> None:
    """Write the page to the given path, by default to docs/coverage.md in the current folder."""
    Path(arguments[0] if arguments else "docs/coverage.md").write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
