"""Case `checks`: the share of the check of rows from outside in reading files, by format, script and length of texts.

Each contender reads a column of text from a file by the scan that tasks use: as it is, and with nothing checked. Files
of Parquet with few values are read as dictionaries only by the first. Times are those of all threads of this process;
ORC, which other processes decode, has the time that passes instead.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Final
from unittest import mock

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.json
import pyarrow.parquet as pq
from pyarrow import orc

from tidegate.operators.core.column import Column
from tidegate.operators.sources.formats import text_blocks
from tidegate.operators.sources.formats.parquet_widths import Widths
from tidegate.operators.sources.scan import Scan
from tidegate.operators.sources.split_pieces import expand, open_pieces
from tidegate.proto.arrow import validation
from tidegate.proto.values import FileSplit

from .data_files import whole
from .measure import Runs, Spread, interleave
from .report import Report, Target, spread_text
from .settings import Settings

CHECKED, UNCHECKED = "checked", "unchecked"
SCRIPTS: Final = {
    "ASCII": "abcdefghijklmnopqrst uvwxyz",
    "Latin": "abcdefghijklmnopqrst éüñß",
    "Cyrillic": "абвгдежзийклмнопрст уфхцчш",
    "Chinese": "漢字仮名交文中国日本東京大阪、。",
    "emoji": "😀😃😄😁😆😅🚀☕",
    "mixed": "the слово 漢字 mot café 😀 ",
}
SIZES: Final = (10, 100, 1_000)
_FEW_VALUES: Final = 200
_COLUMNS: Final = [Column(name="s", type=pa.string(), nullable=True)]
_PROMISED: Final = 1.05
_SHORT: Final = 100
"""Reading longer values is little more than a copy."""


def _arrow(path: Path, table: pa.Table) -> None:
    with pa.ipc.new_file(path, table.schema) as writer:
        writer.write_table(table, max_chunksize=65_536)


def _json(path: Path, table: pa.Table) -> None:
    path.write_text("".join(f'{{"s": "{text}"}}\n' for text in table["s"].to_pylist()))


FORMATS: Final[dict[str, tuple[str, bool, Callable[[Path, pa.Table], None]]]] = {
    "Parquet, 200 values": ("parquet", True, lambda path, table: pq.write_table(table, path)),
    "Parquet": ("parquet", False, lambda path, table: pq.write_table(table, path)),
    "Arrow": ("arrow", False, _arrow),
    "ORC": ("orc", False, lambda path, table: orc.write_table(table, path)),
    "CSV": ("csv", False, lambda path, table: pa.csv.write_csv(table, path)),
    "JSON": ("json", False, _json),
}
"""How each kind of file is written: its ending, and whether texts stand in many rows."""


def run(settings: Settings) -> Report:
    folder = settings.data / "checks"
    folder.mkdir(parents=True, exist_ok=True)
    ratios: dict[tuple[str, str, int], Spread] = {}
    notes: list[str] = []
    for name in FORMATS:
        for script in settings.checked_scripts:
            for size in SIZES:
                runs = compared(file_of(folder, name, script, size, settings.checked_bytes), settings.rounds)
                ratio = runs.ratio(CHECKED, UNCHECKED)
                notes += [
                    f"{name}, {script}, {size} bytes, {contender}: {why}" for contender, why in runs.left_out.items()
                ]
                if ratio is not None:
                    ratios[name, script, size] = ratio
    return report(settings, ratios, notes)


def file_of(folder: Path, name: str, script: str, size: int, total: int) -> Path:
    """A file with about `total` bytes of texts of about `size` bytes."""
    ending, is_repeated, write = FORMATS[name]
    kind = f"{ending}{'-few' if is_repeated else ''}-{script}-{size}-{total}"
    return whole(
        folder / f"{kind}.{ending}", lambda path: write(path, texts(script, size, total, is_repeated=is_repeated))
    )


def texts(script: str, size: int, total: int, *, is_repeated: bool) -> pa.Table:
    characters = SCRIPTS[script]
    length = max(size * len(characters) // len(characters.encode()), 1)
    rows = max(total // size, 1)
    drawn = "".join(random.Random(7).choices(characters.replace(" ", "") + " ", k=rows + length))
    starts = np.random.default_rng(7).integers(0, rows, rows)
    if is_repeated:
        starts = starts[:_FEW_VALUES][starts % min(_FEW_VALUES, rows)]
    return pa.table({"s": pa.array([drawn[start : start + length].replace(" ", "_") for start in starts.tolist()])})


def compared(path: Path, rounds: int) -> Runs:
    """The seconds of a reading with the check and without."""
    seconds: dict[str, list[float]] = {CHECKED: [], UNCHECKED: []}
    clock = time.perf_counter if path.suffix == ".orc" else time.process_time

    def timed(name: str) -> None:
        with ExitStack() as stack:
            if name == UNCHECKED:
                stack.enter_context(nothing_checked())
            start = clock()
            rows = read(path)
            seconds[name].append(clock() - start)
        if not rows:
            raise ValueError(f"{path} has no rows")

    runs = interleave({name: partial(timed, name) for name in seconds}, rounds)
    return Runs({name: tuple(seconds[name][1:]) for name in runs.seconds}, runs.left_out, runs.stopped)


def read(path: Path) -> int:
    scan = Scan("t", _COLUMNS)
    scan.assign("t", open_pieces(expand(FileSplit(str(path)), [str(path.parent)], "split 1 of 't'"), _COLUMNS))
    return sum(batch.num_rows for batch in scan.run(()))


@contextmanager
def nothing_checked() -> Iterator[None]:
    """No text is checked, and none is read as a dictionary."""
    with (
        mock.patch.object(validation, "_check", return_value=None),
        mock.patch.object(text_blocks, "is_utf8", return_value=True),
        mock.patch.object(Widths, "dictionaries", return_value={}),
    ):
        yield


def report(settings: Settings, ratios: dict[tuple[str, str, int], Spread], notes: list[str]) -> Report:
    def cell(name: str, script: str, size: int) -> str:
        ratio = ratios.get((name, script, size))
        return "-" if ratio is None else spread_text(ratio)

    scripts = settings.checked_scripts
    promised = [("Parquet, 200 values", script) for script in scripts]
    promised += [("Parquet", script) for script in scripts if script == "ASCII"]
    return Report(
        case="checks",
        title=f"Reading {settings.checked_bytes / 1e6:g} MB of text with the check of its rows, over reading without",
        header=["", *(f"{size:,} bytes" for size in SIZES)],
        rows=[
            [f"{name}, {script}", *(cell(name, script, size) for size in SIZES)]
            for name in FORMATS
            for script in scripts
        ],
        targets=[
            Target(f"{name}, {script}, {size:,} bytes", ratios.get((name, script, size)), _PROMISED)
            for name, script in promised
            for size in SIZES
            if size <= _SHORT
        ],
        notes=notes,
        figures={"ratios": {", ".join(map(str, key)): ratio for key, ratio in ratios.items()}},
    )
