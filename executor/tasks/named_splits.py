"""The splits whose rows failed, for the message of an epoch's error."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ...proto.errors import TidegateError
from ..api.errors_of_rows import caused_by_rows, located
from ..ledger.split_book import AcceptedSplit


def with_splits(
    error: TidegateError, splits: Mapping[str, Sequence[AcceptedSplit]], tables: frozenset[str]
) -> TidegateError:
    """The error with the splits and tables that the failed operator's rows come from, where rows caused it."""
    if not caused_by_rows(error):
        return error
    read = list(_read(error.sources or (), splits, tables))
    if not read:
        return error
    [(source, numbers), *more] = read
    if not more:
        return located(error, f"{numbers} of {source}" if numbers else source)
    return located(error, "rows of " + ", ".join(f"{name} ({its})" if its else name for name, its in read))


def _read(
    names: Sequence[str], splits: Mapping[str, Sequence[AcceptedSplit]], tables: frozenset[str]
) -> Iterator[tuple[str, str]]:
    """Each source that has rows in the epoch, and the numbers of its splits; a table has none."""
    for name in names:
        if name in tables:
            yield f"table {name!r}", ""
        elif numbers := [split.sequence for split in splits.get(name, ())]:
            first, last = numbers[0], numbers[-1]
            yield f"source {name!r}", f"split {first}" if first == last else f"splits {first} to {last}"
