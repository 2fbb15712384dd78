"""The tasks that run while their server is killed: plans of each kind, and what they are fed."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

import numpy as np
import pyarrow as pa
import substrait.dataframe as sub

import tidegate
from tidegate import windows

from ..continuous.histories import planned
from ..executor import plans
from ..executor.test_loops import PLAN as PATHS
from ..executor.test_write import writing
from .points import CHECKPOINTS, FREED_FILES, LARGE_SPLITS, LOADING, LOOPS, WRITES, Point

Splits: TypeAlias = Mapping[str, Sequence[object]]
"""The splits of each source in one epoch."""
There: TypeAlias = dict[str, list[tuple[int, ...]]]
"""The rows of each source that changes."""
MakeEpoch: TypeAlias = Callable[[random.Random, There], Splits]

T: Final = pa.schema({"k": pa.int64(), "v": pa.int64()})
U: Final = pa.schema({"k": pa.int64(), "w": pa.int64()})
EVENTS: Final = pa.schema({"at": pa.int64(), "k": pa.int64()})
EDGES: Final = pa.schema({"a": pa.int64(), "b": pa.int64()})
WRITTEN: Final = "written"
"""The table that a plan writes."""
WAYS: Final = ("splits", "transactions", "late splits", "files", "uploads", "whole epochs")
"""How a client feeds a task."""

_LARGE: Final = 5_000
"""The rows of a split that is kept in a file, not in the journal."""
_HUGE: Final = (70_000, 70_000, 150_000, 400_000)
"""The rows of splits of 1 to 6 MB. Once one is acknowledged, its file is written over."""
_KEYS: Final = 40
_NODES: Final = 12
_TOO_LARGE: Final = 1 << 62
_CONTINUOUS: Final = {"mode": "continuous"}
_STATE: Final = (*CHECKPOINTS, *LOADING)
_READ_T, _READ_U = plans.read("t", "k", "v"), plans.read("u", "k", "w")
_SORTED_T, _SORTED_U = plans.declared(_READ_T, 0), plans.declared(_READ_U, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A kind of task. `epoch` makes the splits of an epoch, and notes the rows that are there behind it."""

    name: str
    plan: object
    epoch: MakeEpoch
    options: Mapping[str, object] = field(default_factory=dict)
    points: Sequence[Point] = ()
    """Points that this case alone comes to."""
    ways: Sequence[str] = WAYS
    tables: MakeEpoch = field(default=lambda _luck, _there: {})
    """Makes its static tables, of a split each."""

    @property
    def ordered(self) -> bool:
        """True if its rows have an order."""
        return self.options.get("determinism") != "relaxed"


def of_u(luck: random.Random, _: There) -> Splits:
    return {"u": [numbers(luck, luck.choice((30, _LARGE)), U)]}


def events(luck: random.Random, there: There) -> Splits:
    """Rows of an epoch at about its time. Some are late."""
    times = there.setdefault("events", [])
    rows = [(luck.randint(-40, 40) + 60 * (len(times) // 100), luck.randrange(5)) for _ in range(100)]
    times += rows
    return {"events": [pa.table(list(zip(*rows, strict=True)), schema=EVENTS)]}


def some_overflow(luck: random.Random, there: There) -> Splits:
    """Rows of which about every third epoch has one that cannot be doubled."""
    splits = [*of_t(luck, there)["t"]]
    if luck.random() < 0.35:
        splits.append(pa.table([[1], [_TOO_LARGE]], schema=T))
    return {"t": splits}


def numbers(luck: random.Random, rows: int, schema: pa.Schema, *, ordered: bool = False) -> pa.Table:
    keys = [luck.randrange(_KEYS) for _ in range(rows)]
    return pa.table([sorted(keys) if ordered else keys, [luck.randrange(1_000) for _ in range(rows)]], schema=schema)


def of_t(luck: random.Random, _: There) -> Splits:
    return {"t": [numbers(luck, luck.choice((1, 20, 300, _LARGE)), T) for _ in range(luck.randint(1, 3))]}


def huge(luck: random.Random, _: There) -> Splits:
    rows = luck.choice(_HUGE)
    dice = np.random.default_rng(luck.getrandbits(32))
    return {"t": [pa.table([dice.integers(_KEYS, size=rows), dice.integers(1_000, size=rows)], schema=T)]}


def of_both(luck: random.Random, _: There) -> Splits:
    return {"t": [numbers(luck, luck.choice((20, _LARGE)), T)], "u": [numbers(luck, 30, U)] * luck.randint(1, 2)}


def in_order(luck: random.Random, _: There) -> Splits:
    return {"t": [numbers(luck, 400, T, ordered=True)], "u": [numbers(luck, 60, U, ordered=True)]}


def of_edges(luck: random.Random, _: There) -> Splits:
    rows = [edge(luck) for _ in range(20)]
    return {"edges": [pa.table(list(zip(*rows, strict=True)), schema=EDGES)]}


def pair(luck: random.Random) -> tuple[int, ...]:
    return luck.randrange(_KEYS), luck.randrange(1_000)


def edge(luck: random.Random) -> tuple[int, ...]:
    return luck.randrange(_NODES), luck.randrange(_NODES)


def changes(source: str, schema: pa.Schema, rows: int, row: Callable[[random.Random], tuple[int, ...]]) -> MakeEpoch:
    """Epochs in which rows of a source come, and rows that are there go."""

    def epoch(luck: random.Random, there: There) -> Splits:
        kept = there.setdefault(source, [])
        gone = [kept.pop(luck.randrange(len(kept))) for _ in range(min(len(kept), luck.randint(0, rows // 2)))]
        come = [row(luck) for _ in range(luck.randint(1, rows))]
        kept += come
        changed = [(*one, -1) for one in gone] + [(*one, 1) for one in come]
        table = pa.table([pa.array(column) for column in zip(*changed, strict=True)], [*schema.names, "change"])
        return {source: [tidegate.Changes(table, "change")]}

    return epoch


def both_change(luck: random.Random, there: There) -> Splits:
    return {**t_changes(luck, there), **u_changes(luck, there)}


t_changes: Final = changes("t", T, 200, pair)
u_changes: Final = changes("u", U, 20, pair)


def late() -> bytes:
    """Final windows, which come once; the rows that are late for them are written into a table."""
    source = sub.read_named_table("events", {"at": sub.i64, "k": sub.i64})
    events_so_far = windows.watermark(source, "at", 10)
    measures = [sub.f.count().alias("n"), sub.f.max(sub.col("at")).alias("last")]
    rows = windows.sliding(events_so_far, "at", 20, 10, keys=["k"], measures=measures, final=True)
    late_rows = windows.late_rows(events_so_far, "at", size=20, slide=10)
    plan = windows.with_tables(rows, late_rows.write_named_table([WRITTEN], op="insert")).to_plan()
    return bytes(plan.SerializeToString())


def written_windows() -> bytes:
    """Final windows that are written into a table."""
    source = sub.read_named_table("events", {"at": sub.i64, "k": sub.i64})
    events_so_far = windows.watermark(source, "at", 10)
    measures = [sub.f.count().alias("n")]
    rows = windows.tumbling(events_so_far, "at", 10, keys=["k"], measures=measures, final=True)
    return bytes(rows.write_named_table([WRITTEN], op="insert").to_plan().SerializeToString())


def sessions() -> bytes:
    """Sessions that come once, when the watermark has passed them."""
    source = sub.read_named_table("events", {"at": sub.i64, "k": sub.i64})
    events_so_far = windows.watermark(source, "at", 10)
    measures = [sub.f.count(sub.col("k")).alias("n")]
    plan = windows.session(events_so_far, "at", 7, keys=["k"], measures=measures, final=True, lateness=5).to_plan()
    return bytes(plan.SerializeToString())


def sql(text: str) -> bytes:
    return planned(text, {"t": T})


SUMS: Final = plans.plan(plans.summed(_READ_T), "k", "total")
JOIN: Final = plans.plan(plans.joined(_READ_T, _READ_U, 2), "k", "v", "l", "w")
WRITE: Final = writing(plans.filtered(_READ_T, 1, 100), output="OUTPUT_MODE_NO_OUTPUT", namedTable={"names": [WRITTEN]})
CASES: Final = (
    Case(name="filter", plan=plans.plan(plans.filtered(_READ_T, 1, 100), "k", "v"), epoch=of_t, points=LARGE_SPLITS),
    Case(
        name="huge splits",
        plan=plans.plan(plans.filtered(_READ_T, 1, 990), "k", "v"),
        epoch=huge,
        ways=[way for way in WAYS if way not in ("files", "uploads")],
        points=(*LARGE_SPLITS, *FREED_FILES),
    ),
    Case(name="aggregate", plan=SUMS, epoch=of_t, points=LARGE_SPLITS),
    Case(name="join", plan=JOIN, epoch=of_both, points=LARGE_SPLITS),
    Case(name="merge join", plan=plans.plan(plans.merged(_SORTED_T, _SORTED_U, 2), "k", "v", "l", "w"), epoch=in_order),
    Case(
        name="window",
        plan=sql("SELECT k, v, sum(v) OVER (PARTITION BY k ORDER BY v) FROM t"),
        epoch=of_t,
        points=LARGE_SPLITS,
    ),
    Case(name="write", plan=WRITE, epoch=of_t, points=WRITES),
    Case(name="relaxed", plan=SUMS, epoch=of_t, options={"determinism": "relaxed"}),
    Case(name="loop", plan=PATHS, epoch=of_edges, options={"loops": "general"}, points=LOOPS),
    Case(name="aggregate of changes", plan=SUMS, epoch=t_changes, options=_CONTINUOUS, points=_STATE),
    Case(name="join of changes", plan=JOIN, epoch=both_change, options=_CONTINUOUS, points=_STATE),
    Case(
        name="window of changes",
        plan=sql("SELECT k, v, rank() OVER (PARTITION BY k ORDER BY v) FROM t"),
        epoch=t_changes,
        options=_CONTINUOUS,
        points=_STATE,
    ),
    Case(
        name="top of changes",
        plan=sql("SELECT k, v FROM t ORDER BY v, k LIMIT 20"),
        epoch=t_changes,
        options=_CONTINUOUS,
        points=_STATE,
    ),
    Case(
        name="loop of changes",
        plan=PATHS,
        epoch=changes("edges", EDGES, 8, edge),
        options=_CONTINUOUS,
        points=(*_STATE, *LOOPS),
    ),
    Case(name="final sessions", plan=sessions(), epoch=events, options=_CONTINUOUS, points=_STATE),
    Case(
        name="final windows and a table of late rows",
        plan=late(),
        epoch=events,
        options=_CONTINUOUS,
        points=(*_STATE, *WRITES),
    ),
    Case(
        name="written final windows",
        plan=written_windows(),
        epoch=events,
        options=_CONTINUOUS,
        points=(*_STATE, *WRITES),
    ),
    Case(name="join with a table", plan=JOIN, epoch=t_changes, tables=of_u, options=_CONTINUOUS, points=_STATE),
    Case(
        name="skipped epochs",
        plan=plans.plan(plans.doubled(_READ_T, 2), "k", "v"),
        epoch=some_overflow,
        options={"on_error": "skip_epoch"},
        points=LARGE_SPLITS,
    ),
)
