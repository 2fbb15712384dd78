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
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.json
import pyarrow.orc
import pyarrow.parquet as pq

from .. import forked
from .resident_kinds import KINDS, SCHEMA, WIDTHS

MIB: Final = 1 << 20
ELSE: Final = 256 * MIB
"""What a process may take besides its task's limit."""
LAYOUTS_WITH_A_PROCESS: Final = ("orc",)
"""Formats that a process beside this one decodes, which may take `process_bytes` more."""
SECONDS: Final = 600
"""Of a run on a machine that does nothing else."""
READERS: Final[Mapping[str, tuple[float, float]]] = {"fast": (0.0, 0.0), "slow": (3.0, 0.01)}
"""Seconds that a reader is away behind its first batch, and behind each other one."""


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
        "bound": asked.bound,
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
