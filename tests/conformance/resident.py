"""Resident memory by the system's count, for each kind of operator and rows of 8 B to 10 MB.

A task may take its `memory_limit` and 256 MiB for all else: the interpreter, libraries, and rows on their way. Each run
is a child process, which prints the most that was resident. An epoch gives its rows, or it fails with the error that
its kind allows, and must not take more either. Run as a program it prints a table of all of them: `make resident`, for
an hour.
"""

from __future__ import annotations

import argparse
import base64
import json
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeAlias

import datafusion
import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.json
import pyarrow.orc
import pyarrow.parquet as pq
from datafusion.substrait import Serde

from .. import forked
from ..executor import plans
from ..loops.queries import Looped
from ..loops.queries import Query as LoopQuery
from ..on_channels import on_channels

MIB: Final = 1 << 20
ELSE: Final = 256 * MIB
"""What a process may take besides its task's limit."""
LAYOUTS_WITH_A_PROCESS: Final = ("orc",)
"""Formats that a process beside this one decodes, which may take `process_bytes` more."""
WIDTHS: Final[Mapping[str, int]] = {"8 B": 8, "1 KB": 1_000, "100 KB": 100_000, "10 MB": 10_000_000}
SCHEMA: Final = pa.schema([("k", pa.int64()), ("g", pa.int64()), ("t", pa.string())])
"""`k` is the row's number, `g` one of seven, `t` a text of the width."""
SOURCES: Final = ("l", "r")
FED: Final = "lr"
SECONDS: Final = 600
"""Of a run on a machine that does nothing else."""
Refused: TypeAlias = Mapping[str, str | tuple[str, ...]]
READERS: Final[Mapping[str, tuple[float, float]]] = {"fast": (0.0, 0.0), "slow": (3.0, 0.01)}
"""Seconds that a reader is away behind its first batch, and behind each other one."""


@dataclass(frozen=True, kw_only=True)
class Kind:
    """A plan over `l`, and `r`, which has a fifth of its rows; or the SQL of a graph's node over `l`. `refused` are the
    reasons by which an epoch may fail at a width, because so much does not go to disk; all rows come at other widths.
    """

    plan: Callable[[], bytes | str]
    is_node: bool = False
    fed: str = "l"
    layout: str = "parquet"
    refused: Refused = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)


def refused(reason: str | tuple[str, ...], *widths: str) -> Refused:
    """The reason or reasons at these widths, or at every width."""
    return dict.fromkeys(widths or WIDTHS, reason)


STATE: Final = refused("STATE_TOO_LARGE")
STATEMENT: Final = refused(("STATE_TOO_LARGE", "MEMORY_LIMIT"))
"""A statement over a large partition may need more than a quarter of the limit."""
LOOP: Final = refused("MEMORY_LIMIT")
LONG_ROW: Final = refused("ROW_TOO_LARGE", "10 MB")
"""What an expression makes of a row may have an eighth of the limit."""
GROWN: Final = {**LOOP, **refused(("ROW_TOO_LARGE", "MEMORY_LIMIT"), "10 MB")}
"""Where a row fits, DuckDB may still have to hold too many: it keeps the texts that its statement makes itself."""
MANY: Final = refused("MEMORY_LIMIT", "8 B")
"""DuckDB does not join eleven million rows with two million in 64 MiB where both sides bring texts."""
LONG_LINE: Final = refused("ROW_TOO_LARGE", "10 MB")
"""A line of text may have a sixteenth of the limit, and at least 4 MiB."""


def sql(text: str, fed: str = "l", layout: str = "parquet", refused: Refused | None = None, **options: Any) -> Kind:
    return Kind(plan=lambda: planned(text), fed=fed, layout=layout, refused=refused or {}, options=options)


def by_hand(relation: Callable[[], object], width: int, fed: str = "l") -> Kind:
    return Kind(plan=lambda: str(plans.plan(relation(), *(f"c{at}" for at in range(width))).json), fed=fed)


def continuous(text: str, fed: str = "l") -> Kind:
    """A continuous task. Its state may be too large at every width."""
    return sql(text, fed, mode="continuous", refused=STATE)


def loop(body: str, schema: pa.Schema, refused: Refused = LOOP, **options: Any) -> Kind:
    query = {"x": Looped(body, columns=schema)}
    return Kind(plan=lambda: _looped(query), refused=refused, options=options)


def node(statement: str, refused: Refused | None = None) -> Kind:
    return Kind(plan=lambda: statement, is_node=True, refused=refused or {})


READ: Final = "SELECT k, g, t FROM l"
TIMES: Final = "(60000 / character_length(t) + 1)"
LONG: Final = f"repeat(t, {TIMES})"
"""A text of at least 60,000 bytes."""
LOOPED: Final = pa.schema([("k", pa.int64()), ("t", pa.string())])
COPIES: Final = "select distinct k, t from (select k, t from l union all select x.k, x.t from x where x.k < 0)"
JOINS: Final = "select distinct k, t from (select k, t from l union all select x.k, x.t || x.t as t from x)"
DOUBLED: Final = "||".join(["t"] * 64)
KINDS: Final[Mapping[str, Kind]] = {
    "read": sql(READ),
    "filter": sql(f"{READ} WHERE k >= 3"),
    "project": sql("SELECT k, t || 'x' AS t FROM l"),
    "limit": sql(f"{READ} LIMIT 1000"),
    "sort": sql(f"{READ} ORDER BY k DESC"),
    "sort by the text": sql(f"{READ} ORDER BY t"),
    "top rows": sql(f"{READ} ORDER BY k DESC LIMIT 10"),
    "window": sql("SELECT k, t, row_number() OVER (PARTITION BY g ORDER BY k DESC) AS n FROM l"),
    "window over the text": sql("SELECT k, lag(t) OVER (PARTITION BY g ORDER BY k) AS p FROM l"),
    "count by key": sql("SELECT g, count(t) AS n FROM l GROUP BY g"),
    "count by each key": sql("SELECT k, count(t) AS n FROM l GROUP BY k"),
    "greatest by key": sql("SELECT g, max(t) AS t FROM l GROUP BY g"),
    "greatest by each key": sql("SELECT k, max(t) AS t FROM l GROUP BY k"),
    "groups of texts": sql("SELECT t, count(k) AS n FROM l GROUP BY t"),
    "distinct": sql("SELECT DISTINCT g, t FROM l"),
    "union all": sql(f"{READ} UNION ALL SELECT k, g, t FROM r", FED),
    "union": sql("SELECT k, t FROM l UNION SELECT k, t FROM r", FED),
    "except": sql("SELECT k, t FROM l EXCEPT SELECT k, t FROM r", FED, refused=MANY),
    "intersect": sql("SELECT k, t FROM l INTERSECT SELECT k, t FROM r", FED),
    "join": sql("SELECT l.k, l.t, r.g FROM l JOIN r ON l.k = r.k", FED),
    "join with texts on both sides": sql("SELECT l.k, l.t, r.t AS u FROM l JOIN r ON l.k = r.k", FED, refused=MANY),
    "left join": sql("SELECT l.k, l.t, r.t AS u FROM l LEFT JOIN r ON l.k = r.k", FED),
    "full join": sql("SELECT l.k, l.t, r.t AS u FROM l FULL JOIN r ON l.k = r.k", FED),
    "join on the text": sql("SELECT l.k, r.k AS m FROM l JOIN r ON l.t = r.t", FED, refused=MANY),
    "semi join": sql(f"{READ} WHERE k IN (SELECT k FROM r WHERE g < 5)", FED),
    "cross join": sql("SELECT l.k, l.t, r.s FROM l CROSS JOIN (SELECT max(k) AS s FROM r) AS r", FED),
    "sort on two channels": sql(f"{READ} ORDER BY k DESC", **on_channels(2)),
    "join on two channels": sql("SELECT l.k, l.t, r.g FROM l JOIN r ON l.k = r.k", FED, **on_channels(2)),
    "groups on two channels": sql("SELECT k, max(t) AS t FROM l GROUP BY k", **on_channels(2)),
    "filter on two channels": sql(f"{READ} WHERE k >= 3", **on_channels(2)),
    "merge join": by_hand(
        lambda: plans.merged(*(plans.declared(_read(source), 0) for source in SOURCES), len(SCHEMA)),
        2 * len(SCHEMA),
        FED,
    ),
    "streaming aggregate": by_hand(lambda: plans.summed(plans.declared(_read("l"), 0)), 2),
    "relaxed filter": sql(f"{READ} WHERE k >= 3", determinism="relaxed"),
    "relaxed sort": sql(f"{READ} ORDER BY k DESC", determinism="relaxed"),
    "continuous filter": sql(f"{READ} WHERE k >= 3", mode="continuous", refused=STATE),
    "continuous groups": sql("SELECT g, max(t) AS t FROM l GROUP BY g", mode="continuous", refused=STATE),
    "continuous project": sql(
        "SELECT k, t || t AS t FROM l", mode="continuous", refused={**STATE, **refused(STATEMENT["10 MB"], "10 MB")}
    ),
    "continuous first texts": sql("SELECT g, first_value(t) AS t FROM l GROUP BY g", mode="continuous", refused=STATE),
    "continuous count": sql(
        "SELECT g, count(k) AS n FROM l GROUP BY g", mode="continuous", refused=refused("STATE_TOO_LARGE", "8 B")
    ),
    "continuous window": sql(
        "SELECT k, g, t, max(t) OVER (PARTITION BY g) AS m FROM l", mode="continuous", refused=STATEMENT
    ),
    "continuous window over the text": sql(
        "SELECT k, g, t, lag(t) OVER (PARTITION BY g ORDER BY k) AS p FROM l", mode="continuous", refused=STATEMENT
    ),
    "continuous greatest by each key": continuous("SELECT k, max(t) AS t FROM l GROUP BY k"),
    "continuous groups of texts": continuous("SELECT t, count(k) AS n FROM l GROUP BY t"),
    "continuous distinct": continuous("SELECT DISTINCT g, t FROM l"),
    "continuous union all": continuous(f"{READ} UNION ALL SELECT k, g, t FROM r", fed=FED),
    "continuous union": continuous("SELECT k, t FROM l UNION SELECT k, t FROM r", fed=FED),
    "continuous except": continuous("SELECT k, t FROM l EXCEPT SELECT k, t FROM r", fed=FED),
    "continuous intersect": continuous("SELECT k, t FROM l INTERSECT SELECT k, t FROM r", fed=FED),
    "continuous top rows": continuous(f"{READ} ORDER BY k DESC LIMIT 10"),
    "continuous sort": continuous(f"{READ} ORDER BY t LIMIT 100000000"),
    "continuous limit": continuous(f"{READ} ORDER BY t LIMIT 1000"),
    "continuous top rows by key": continuous(
        "SELECT k, t FROM (SELECT k, t, row_number() OVER (PARTITION BY g ORDER BY t) AS n FROM l) AS x WHERE n <= 2"
    ),
    "continuous join": continuous("SELECT l.k, l.t, r.g FROM l JOIN r ON l.k = r.k", fed=FED),
    "continuous join of few keys": continuous("SELECT l.k, l.t, r.t AS u FROM l JOIN r ON l.g = r.g", fed=FED),
    "continuous join with texts on both sides": continuous(
        "SELECT l.k, l.t, r.t AS u FROM l JOIN r ON l.k = r.k", fed=FED
    ),
    "continuous join on the text": continuous("SELECT l.k, r.k AS m FROM l JOIN r ON l.t = r.t", fed=FED),
    "continuous left join": continuous("SELECT l.k, l.t, r.t AS u FROM l LEFT JOIN r ON l.k = r.k", fed=FED),
    "continuous full join": continuous("SELECT l.k, l.t, r.t AS u FROM l FULL JOIN r ON l.k = r.k", fed=FED),
    "continuous semi join": continuous(f"{READ} WHERE k IN (SELECT k FROM r WHERE g < 5)", fed=FED),
    "continuous anti join": continuous(f"{READ} WHERE NOT EXISTS (SELECT 1 FROM r WHERE r.k = l.k)", fed=FED),
    "continuous cross join": continuous(
        "SELECT l.k, l.t, r.s FROM l CROSS JOIN (SELECT max(k) AS s FROM r) AS r", fed=FED
    ),
    "continuous loop that copies texts": loop(COPIES, LOOPED, STATE, mode="continuous"),
    "continuous loop that joins texts": loop(JOINS, LOOPED, STATE, mode="continuous"),
    "loop that copies texts": loop(COPIES, LOOPED),
    "loop that joins texts": loop(JOINS, LOOPED),
    "lengths in order": sql("SELECT k, character_length(t) AS n FROM l WHERE k >= 3 ORDER BY n"),
    "texts that grow": sql(f"SELECT k, {LONG} AS t FROM l WHERE k < 2500", layout="arrow", refused=LONG_ROW),
    "texts that grow in files": sql(f"SELECT k, {LONG} AS t FROM l WHERE k < 2500", refused=GROWN),
    "texts that grow in a sort": sql(f"SELECT k, {LONG} AS t FROM l WHERE k < 2500 ORDER BY t", refused=GROWN),
    "texts that grow in groups": sql(
        f"SELECT t, count(*) AS n FROM (SELECT {LONG} AS t FROM l WHERE k < 2500) AS x GROUP BY t", refused=GROWN
    ),
    "texts that grow in a join": sql(
        "SELECT l.k, repeat(l.t, 30000 / character_length(r.t) + 1) AS t FROM l JOIN r ON l.k = r.k WHERE l.k < 2500",
        FED,
        refused=GROWN,
    ),
    "few texts that grow": sql(
        "SELECT repeat(l.t, 300000 / character_length(l.t) + 1) AS t, r.s FROM l "
        "CROSS JOIN (SELECT max(k) AS s FROM r) AS r WHERE l.k % 100 = 0 AND l.k < 250000",
        FED,
        "arrow",
        refused=LONG_ROW,
    ),
    "texts that double": sql(
        f"SELECT k, {DOUBLED} AS t FROM l WHERE k < 2500",
        refused={**LOOP, **refused("ROW_TOO_LARGE", "100 KB", "10 MB")},
    ),
    "lists that grow": sql(f"SELECT k, array_repeat(k, {TIMES}) AS t FROM l WHERE k < 2500", refused=GROWN),
    "texts in one": sql("SELECT g, string_agg(t, ',') AS t FROM l GROUP BY g", refused=LOOP),
    "continuous texts that grow": sql(
        f"SELECT k, {LONG} AS t FROM l WHERE k < 2500",
        mode="continuous",
        refused={**STATE, **refused("MEMORY_LIMIT", "8 B", "1 KB")},
    ),
    "node that passes texts on": node(f"{READ} WHERE k >= 3"),
    "node that makes texts": node(f"SELECT k, {'||'.join('t' * 8)} AS t FROM l", refused=LONG_ROW),
    "node that takes texts apart": node(
        "SELECT k, list_transform(string_split(t, 'a'), lambda x: upper(x)) AS t FROM l", refused=LONG_ROW
    ),
    "arrow": sql(f"{READ} WHERE k >= 3", layout="arrow"),
    "arrow in one batch": sql(f"{READ} WHERE k >= 3", layout="arrow in one batch"),
    "arrow stream in one batch": sql(f"{READ} WHERE k >= 3", layout="arrow stream in one batch"),
    "parquet as pyarrow writes it": sql(f"{READ} WHERE k >= 3", layout="parquet as pyarrow writes it"),
    "csv": sql(f"{READ} WHERE k >= 3", layout="csv", refused=LONG_LINE),
    "json": sql(f"{READ} WHERE k >= 3", layout="json", refused=LONG_LINE),
    "orc": sql(f"{READ} WHERE k >= 3", layout="orc"),
}


def planned(text: str) -> bytes:
    return planned_over(SCHEMA, text)


def planned_over(schema: pa.Schema, text: str) -> bytes:
    """DataFusion's plan of a query over sources of this schema."""
    session = datafusion.SessionContext()
    for name in SOURCES:
        session.register_record_batches(name, [[pa.RecordBatch.from_pylist([], schema)]])
    return bytes(Serde.serialize_bytes(text, session))


def _read(source: str) -> dict[str, object]:
    relation = plans.read(source, *SCHEMA.names)
    text = {"string": {"nullability": "NULLABILITY_NULLABLE"}}
    relation["read"]["baseSchema"]["struct"]["types"][-1] = text  # type: ignore[index]
    return relation


def _looped(loops: Mapping[str, Looped]) -> bytes:
    return LoopQuery(loops, "select k, t from x").plan(schemas=dict.fromkeys(SOURCES, SCHEMA))


# --- rows --------------------------------------------------------------------------------------------------------


def batches(width: int, size: int, batch_bytes: int = 4 * MIB) -> Iterator[pa.RecordBatch]:
    """`size` bytes of rows, about `each` of them at once. No two texts are alike."""
    noise = np.random.default_rng(width).integers(97, 123, batch_bytes + 2 * width, np.uint8)
    rows, step = max(size // (width + 16), 4), max(batch_bytes // (width + 16), 1)
    for first in range(0, rows, step):
        count = min(step, rows - first)
        data = noise[first % width : first % width + count * width].copy()
        digits = np.char.zfill(np.arange(first, first + count).astype("S8"), 8)
        data.reshape(count, width)[:, :8] = digits.view(np.uint8).reshape(count, 8)
        offsets = np.arange(0, count * width + 1, width, np.int32)
        texts = pa.StringArray.from_buffers(count, pa.py_buffer(offsets), pa.py_buffer(data))
        numbers = np.arange(first, first + count)
        yield pa.record_batch([pa.array(numbers), pa.array(numbers % 7), texts], schema=SCHEMA)


def written(folder: Path, layout: str, width: int, size: int) -> str:
    """The folder's file of such rows, made if it is not there."""
    path = folder / f"{layout.replace(' ', '-')}-{width}-{size}.{layout.split(maxsplit=1)[0]}"
    if path.exists():
        return str(path)
    batch_iterator = batches(width, size)
    match layout:
        case "arrow" | "arrow stream":
            new = pa.ipc.new_file if layout == "arrow" else pa.ipc.new_stream
            with new(path, SCHEMA) as sink:
                for batch in batch_iterator:
                    sink.write_batch(batch)
        case "arrow in one batch" | "arrow stream in one batch":
            new = pa.ipc.new_file if layout == "arrow in one batch" else pa.ipc.new_stream
            with new(path, SCHEMA) as sink:
                sink.write_batch(pa.Table.from_batches(batch_iterator).combine_chunks().to_batches()[0])
        case "csv":
            with pa.csv.CSVWriter(path, SCHEMA) as sink:
                for batch in batch_iterator:
                    sink.write_batch(batch)
        case "json":
            with path.open("w") as text:
                text.writelines(json.dumps(row) + "\n" for batch in batch_iterator for row in batch.to_pylist())
        case "orc":
            with pa.orc.ORCWriter(path, compression="uncompressed") as sink:
                for batch in batch_iterator:
                    sink.write(pa.Table.from_batches([batch]))
        case _:
            # A page is read as a whole, and pyarrow looks at its size only after so many rows.
            at_once = {"write_batch_size": max(1, MIB // (width + 16))} if layout == "parquet" else {}
            with pq.ParquetWriter(path, SCHEMA, compression="none", use_dictionary=False, **at_once) as sink:
                for batch in batch_iterator:
                    sink.write_batch(batch, row_group_size=64 * MIB // (width + 16) + 1)
    return str(path)


# --- runs --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Taken:
    """The cost of a run: the most bytes resident, its rows, the bytes that spilled, and the reason if it failed."""

    peak: int
    rows: int
    spilled: int
    error: str


def resident(
    kind: str,
    width: int,
    folder: Path,
    *,
    limit: int,
    size: int,
    reader: str = "fast",
    seconds: int = SECONDS,
    **options: object,
) -> Taken:
    """One run in a child process, over `size` bytes of rows, of at most so many seconds."""
    asked = KINDS[kind]
    files = {name: written(folder, asked.layout, width, size if name == "l" else size // 5) for name in asked.fed}
    plan = asked.plan()
    epoch = {
        "plan": plan if isinstance(plan, str) else base64.b64encode(plan).decode(),
        "is_text": isinstance(plan, str),
        "is_node": asked.is_node,
        "files": files,
        "options": {"memory_limit": limit, "output_bytes": 8 * MIB, "queue_bytes": 8 * MIB, **asked.options, **options},
        "reader": READERS[reader],
    }
    done = forked.run(f"{__package__}.resident_epoch", stdin=json.dumps(epoch), seconds=seconds)
    if done.returncode:
        raise RuntimeError(f"{kind} of rows of {width} bytes: {done.stderr}")
    return Taken(*json.loads(done.stdout))


def is_broken(kind: str, width: int, taken: Taken, limit: int) -> bool:
    """True where the run took more than it may, or failed otherwise than its kind may."""
    reasons = next((reasons for name, reasons in KINDS[kind].refused.items() if WIDTHS[name] == width), ())
    right = taken.error.startswith(reasons) if taken.error and reasons else not taken.error and taken.rows > 0
    return taken.peak > allowed(KINDS[kind].layout, limit) or not right


def allowed(layout: str, limit: int) -> int:
    """What a task of this limit may take that reads files of this layout."""
    return limit + ELSE + (process_bytes(limit) if layout in LAYOUTS_WITH_A_PROCESS else 0)


def process_bytes(limit: int) -> int:
    """What a process that decodes files may take for a task of this limit."""
    return 60 * MIB + max(limit // 4, 128 * MIB)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kind", action="append", help="only these", choices=list(KINDS))
    parser.add_argument("--width", action="append", help="only these", choices=list(WIDTHS))
    parser.add_argument("--limit", type=int, default=64, help="MiB")
    parser.add_argument("--size", type=int, default=256, help="MiB of rows")
    parser.add_argument("--reader", default="fast", choices=list(READERS))
    parser.add_argument("--seconds", type=int, default=SECONDS, help="the most for one run; more beside other work")
    parser.add_argument("--relaxed", action="store_true", help="relaxed tasks, of the kinds without options")
    parser.add_argument("--folder", type=Path, help="where the files of rows are kept")
    asked = parser.parse_args(arguments)
    limit = asked.limit * MIB
    broken = 0
    with tempfile.TemporaryDirectory() as temporary:
        folder = asked.folder or Path(temporary)
        how: dict[str, Any] = {"determinism": "relaxed"} if asked.relaxed else {}
        how |= {"limit": limit, "size": asked.size * MIB, "reader": asked.reader, "seconds": asked.seconds}
        for kind in asked.kind or [name for name, kind in KINDS.items() if not (asked.relaxed and kind.options)]:
            for width in asked.width or WIDTHS:
                taken = resident(kind, WIDTHS[width], folder, **how)
                is_wrong = is_broken(kind, WIDTHS[width], taken, limit)
                broken += is_wrong
                spilled = f"{taken.spilled >> 20} MiB spilled"
                print(
                    f"{kind:30}{width:>7}{taken.peak >> 20:7} MiB{taken.rows:10} rows {spilled:18}"
                    f"{'BROKEN ' * is_wrong}{taken.error[:160]}",
                    flush=True,
                )
    return min(broken, 1)


if __name__ == "__main__":
    sys.exit(main())
