"""A few of the runs that `make resident` makes: wide rows take no more than the task's limit and 256 MiB."""

from __future__ import annotations

import sys
import typing
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import pytest

import tidegate
from tidegate.planner import ir
from tidegate.planner.decode import decode_plan
from tidegate.planner.prepare import prepare
from tidegate.proto.values import TaskOptions

from ..searching import in_search
from .plan_relations import plan_bytes, relations
from .resident import ELSE, MIB, Taken, batches, is_broken, process_bytes, resident
from .resident_epoch import PassedOn
from .resident_kinds import KINDS, SCHEMA, WIDTHS, Kind

LIMIT = 64 * MIB
RUNS = (
    *(("100 KB", kind) for kind in ("read", "arrow in one batch", "csv", "json", "as-of join", "join")),
    *(("100 KB", kind) for kind in ("sort", "sort by the text", "greatest by each key", "loop that joins texts")),
    *(("1 KB", kind) for kind in ("union", "node that makes texts", "few texts that grow", "lateral join")),
    *(("10 MB", kind) for kind in ("lengths in order", "texts that grow in a join")),
    *(("100 KB", kind) for kind in ("window over the text", "distinct", "except", "continuous groups")),
    *(("1 KB", kind) for kind in ("groups of texts", "continuous count", "continuous join")),
    *(("8 B", kind) for kind in ("filter", "count by each key", "continuous filter")),
)
SEARCHED = (
    ("100 KB", "limit"),
    ("1 KB", "sort by the text"),
    ("1 KB", "window"),
    ("1 KB", "lateral mark"),
    ("100 KB", "lateral mark that may be null"),
    ("8 B", "sort"),
    ("100 KB", "intersect"),
)
"""Of other widths, or of another operation that runs as one of `RUNS` does."""

WITHOUT_A_KIND: Final[Mapping[type[ir.Relation], str]] = {
    ir.Values: "reads nothing",
    ir.LocalFiles: "is read as a fed source is",
    ir.Exchange: "is made on several channels",
    ir.FinalAggregate: "is made of aggregates on several channels",
    ir.FinalSlidingAggregate: "is made of sliding windows on several channels",
    ir.FinalDenseSlices: "is made of tumbling windows on several channels",
    ir.IndexTable: "is what look-ups read",
    ir.LoopInput: "is the engine's name for what a loop reads",
}
"""Relations that no kind has, and why."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the files of rows, most of which are for several runs."""
    return tmp_path_factory.mktemp("rows")


@pytest.mark.skipif(sys.platform != "linux", reason="the system's count is Linux's")
@pytest.mark.parametrize(("width", "kind"), [*RUNS, *in_search(*SEARCHED)])
def test_wide_rows_take_no_more_than_the_limit_and_256_mib(folder: Path, width: str, kind: str) -> None:
    taken = resident(kind, WIDTHS[width], folder, limit=LIMIT, size=200 * MIB)
    assert not is_broken(kind, WIDTHS[width], taken, LIMIT), f"{taken.peak >> 20} MiB, {taken.rows} rows, {taken.error}"


@pytest.mark.skipif(sys.platform != "linux", reason="the system's count is Linux's")
@pytest.mark.parametrize("width", ["1 KB", "100 KB", *in_search("10 MB")])
def test_state_that_fits_is_not_in_memory_several_times(folder: Path, width: str) -> None:
    """Although one epoch touches every key, whose rows are read again."""
    limit = 512 * MIB
    taken = resident("continuous first texts", WIDTHS[width], folder, limit=limit, size=200 * MIB)
    assert taken.rows == 7
    assert taken.peak <= limit + ELSE, f"{taken.peak >> 20} MiB"


@pytest.mark.skipif(sys.platform != "linux", reason="the system's count is Linux's")
@pytest.mark.parametrize("kind", ["continuous window over the text", *in_search("continuous window")])
def test_windows_that_fit_are_not_in_memory_several_times(folder: Path, kind: str) -> None:
    """Their state has each row with its answer, and each merge of its runs copies both."""
    limit = 256 * MIB
    taken = resident(kind, 1_000, folder, limit=limit, size=30 * MIB)
    assert taken.rows > 30_000
    assert taken.peak <= limit + ELSE, f"{taken.peak >> 20} MiB"


@pytest.mark.skipif(sys.platform != "linux", reason="the system's count is Linux's")
@pytest.mark.parametrize(
    ("kind", "width", "error"), [("continuous window", "1 KB", "STATE_TOO_LARGE"), ("continuous groups", "8 B", "")]
)
def test_state_near_the_limit_is_put_together_within_it(folder: Path, kind: str, width: str, error: str) -> None:
    """One epoch of 36 MB: its window needs more than the limit, which is noticed in time; its groups just fit."""
    limit = 128 * MIB
    taken = resident(kind, WIDTHS[width], folder, limit=limit, size=36 * MIB)
    assert taken.error[: len("STATE_TOO_LARGE")] == error
    assert taken.peak <= limit + ELSE, f"{taken.peak >> 20} MiB"


@pytest.mark.skipif(sys.platform != "linux", reason="the system's count is Linux's")
@pytest.mark.parametrize(
    ("kind", "width", "error"),
    [
        ("continuous filter", "100 KB", ""),
        ("continuous groups", "10 MB", "STATE_TOO_LARGE"),
        *in_search(("continuous window", "100 KB", "STATE_TOO_LARGE")),
    ],
)
def test_wide_state_beyond_the_limit_is_refused_in_time(folder: Path, kind: str, width: str, error: str) -> None:
    """Changes that fit are not copied as a whole, and state that does not fit is refused before it is put together."""
    limit = 256 * MIB
    taken = resident(kind, WIDTHS[width], folder, limit=limit, size=150 * MIB)
    assert taken.error[: len("STATE_TOO_LARGE")] == error
    assert taken.peak <= limit + ELSE, f"{taken.peak >> 20} MiB"


@pytest.mark.skipif(sys.platform != "linux", reason="the system's count is Linux's")
def test_changes_that_fit_are_not_in_memory_several_times(folder: Path) -> None:
    """Rows of 2 MB, which the epoch gives out in order."""
    limit = 128 * MIB
    taken = resident("continuous project", 1_000_000, folder, limit=limit, size=36 * MIB)
    assert taken.rows == 37
    assert taken.peak <= limit + ELSE, f"{taken.peak >> 20} MiB"


@pytest.mark.parametrize(
    ("kind", "taken", "expected"),
    [
        ("sort", Taken(1, 10, 0, ""), False),
        ("sort", Taken(1, 0, 0, ""), True),
        ("sort", Taken(1, 0, 0, "MEMORY_LIMIT: ..."), True),
        ("sort", Taken(LIMIT + ELSE + 1, 10, 0, ""), True),
        ("csv", Taken(1, 0, 0, "ROW_TOO_LARGE: ..."), True),
        ("continuous join", Taken(1, 0, 0, "STATE_TOO_LARGE: ..."), False),
        ("continuous join", Taken(LIMIT + ELSE + 1, 0, 0, "STATE_TOO_LARGE: ..."), True),
        ("continuous join", Taken(1, 0, 0, "MEMORY_LIMIT: ..."), True),
        ("orc", Taken(LIMIT + ELSE + process_bytes(LIMIT), 10, 0, ""), False),
        ("orc", Taken(LIMIT + ELSE + process_bytes(LIMIT) + 1, 10, 0, ""), True),
    ],
)
def test_a_run_is_broken_where_it_takes_more_or_fails_otherwise_than_its_kind_may(
    kind: str, taken: Taken, expected: bool
) -> None:
    assert is_broken(kind, WIDTHS["1 KB"], taken, LIMIT) == expected


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_has_a_plan(kind: str) -> None:
    assert KINDS[kind].plan()


def test_every_kind_of_relation_is_in_the_plan_of_a_kind() -> None:
    kinds = set(typing.get_args(ir.Relation))
    assert kinds - {relation for kind in KINDS.values() for relation in of_kind(kind)} == WITHOUT_A_KIND.keys()


def of_kind(kind: Kind) -> set[type[ir.Relation]]:
    """The relations that the plan names, and those that it is run as."""
    if kind.is_node:
        return set()
    decoded = decode_plan(plan_bytes(kind.plan()), {"passed on": tidegate.user_operator(PassedOn)})
    prepared = prepare(decoded, TaskOptions(mode=kind.options.get("mode", "per_epoch")), kind.bound)
    return {*relations(decoded.plan), *relations(prepared.plan)}


@pytest.mark.parametrize("width", [8, 1_000])
def test_no_two_texts_are_alike(width: int) -> None:
    texts = [text for batch in batches(width, 200_000, 10_000) for text in batch["t"].to_pylist()]
    assert len(set(texts)) == len(texts) > 100
    assert {len(text) for text in texts} == {width}
    assert next(batches(width, 200_000)).schema == SCHEMA
