"""The schemas of the sources whose rows are there when a plan is read, for reads that declare no types."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from ...operators.sources.split_pieces import expand, open_pieces
from ...planner import ir
from ...proto.current_call import elsewhere
from ...proto.values import FileSplit, InlineSplit, Split, as_format


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SourceSchemas:
    """The schemas of a task's tables, and of files that its plan names. The first split of each counts. A file that a
    plan names several times is opened once, and has the same schema each time.
    """

    tables: Mapping[str, Sequence[Split]]
    roots: Sequence[str]
    side: str
    _known: dict[FileSplit, pa.Schema | None] = field(default_factory=dict, init=False, repr=False)

    def table(self, name: str) -> pa.Schema | None:
        """The schema of the table of this name, or of the one whose name differs by case alone."""
        alike = [name] if name in self.tables else [own for own in self.tables if own.casefold() == name.casefold()]
        match [split for own in alike for split in self.tables[own]] if len(alike) == 1 else []:
            case [InlineSplit(schema=schema), *_]:
                return schema
            case [FileSplit() as split, *_]:
                return self._of_file(split, f"table {name!r}")
            case _:
                return None

    def files(self, items: Sequence[ir.FileItem]) -> pa.Schema | None:
        """The schema of the first of some files."""
        named = (FileSplit(path=item.path, format=as_format(item.format)) for item in items[:1])
        return next((self._of_file(split, f"file {split.path!r}") for split in named), None)

    def _of_file(self, split: FileSplit, origin: str) -> pa.Schema | None:
        if split not in self._known:
            with elsewhere():
                pieces = expand(split, self.roots, origin, side=self.side)
                self._known[split] = open_pieces(pieces[:1])[0].schema if pieces else None
        return self._known[split]
