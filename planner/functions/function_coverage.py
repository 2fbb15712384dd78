"""The coverage of all extensions' functions, for the documentation: made from the table, so it cannot be stale."""

from __future__ import annotations

from dataclasses import dataclass

from . import registry
from .templates import entry, refusal


@dataclass(frozen=True, slots=True, kw_only=True)
class CoverageRow:
    """One function's coverage. `note` is the reason if the function is refused, else a remark on it. `refused_options`
    are `option=VALUE` for the values that Tidegate cannot honour.
    """

    file: str
    kind: str
    name: str
    supported: bool
    refused_options: tuple[str, ...] = ()
    note: str = ""


def coverage_rows() -> tuple[CoverageRow, ...]:
    """One row for each function, by file, kind and name."""
    options: dict[tuple[str, str, str], dict[str, None]] = {}
    rows: dict[tuple[str, str, str], CoverageRow] = {}
    for implementation in registry.everything():
        key = (implementation.file, implementation.kind.value, implementation.name)
        file, kind, name = key
        table_entry = entry(implementation.kind, file, name)
        if table_entry is None:
            rows[key] = CoverageRow(file=file, kind=kind, name=name, supported=False, note=refusal(file, name))
            continue
        refused = options.setdefault(key, {})
        for option, values in implementation.options.items():
            refused.update((f"{option}={v}", None) for v in values if v not in table_entry.options.get(option, ()))
        rows[key] = CoverageRow(
            file=file, kind=kind, name=name, supported=True, refused_options=tuple(refused), note=table_entry.note
        )
    return tuple(rows[key] for key in sorted(rows))
