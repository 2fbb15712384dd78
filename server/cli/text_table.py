"""A table on the terminal: columns of the width of their longest cell."""

from __future__ import annotations

from collections.abc import Sequence


def text_table(rows: Sequence[Sequence[str]]) -> str:
    rows = [[_printable(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in rows)
    return "\n".join(line.rstrip() for line in lines)


def _printable(cell: str) -> str:
    """The text with escapes in place of control characters, which a terminal would obey."""
    if cell.isprintable():
        return cell
    return "".join(character if character.isprintable() else ascii(character)[1:-1] for character in cell)
