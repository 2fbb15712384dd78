"""A plan that reads `_split` and `_row` tells of each row in which split and in which row of its file it was."""

from __future__ import annotations

import json
from itertools import pairwise, product
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.orc as orc
import pyarrow.parquet as pq
import pytest
import substrait.dataframe as sub

import tidegate
from tidegate.client import Client
from tidegate.training import Loader, Shuffle

from ...searching import one_of_each

COLUMNS = {"n": sub.i64, "_split": sub.i64, "_row": sub.i64}


def plan(*, filtered: bool = False) -> bytes:
    """All rows with their numbers, or those whose n ends with 3. DuckDB computes the second part's expressions."""
    samples = sub.read_named_table("samples", COLUMNS)
    if filtered:
        samples = samples.filter(sub.col("n") % 10 == 3).select(
            (sub.col("n") + 0).alias("n"), sub.col("_split"), sub.col("_row")
        )
    return bytes(samples.to_plan().SerializeToString())


def write(file: Path, rows: pa.Table) -> None:
    match file.suffix:
        case ".parquet":
            pq.write_table(rows, file, row_group_size=60_000)
        case ".arrow":
            feather.write_feather(rows, str(file), compression="uncompressed", chunksize=60_000)
        case ".orc":
            orc.write_table(rows, file)
        case ".csv":
            file.write_text("n\n" + "".join(f"{n}\n" for n in rows["n"].to_pylist()))
        case ".json":
            file.write_text("".join(json.dumps({"n": n}) + "\n" for n in rows["n"].to_pylist()))


def numbered(batches: Any) -> list[tuple[int, int, int]]:
    return [
        row
        for batch in batches
        for row in zip(*(batch[name].tolist() for name in ("n", "_split", "_row")), strict=True)
    ]


@pytest.mark.parametrize(
    ("ending", "filtered"), one_of_each(product(["parquet", "arrow", "orc", "csv", "json"], [False, True]))
)
def test_every_row_has_the_numbers_of_its_split_and_of_its_row_in_the_file(
    client: Client, tmp_path: Path, ending: str, filtered: bool
) -> None:
    sizes, expected, split = [130_000, 5], set(), 0
    for file, rows in enumerate(sizes):
        write(tmp_path / f"{file}.{ending}", pa.table({"n": range(file * 1_000_000, file * 1_000_000 + rows)}))
        cuts = [0, 60_000, rows] if ending in ("parquet", "arrow") and rows > 100_000 else [0, rows]
        for first, end in pairwise(cuts):
            expected |= {(file * 1_000_000 + row, split, row) for row in range(first, end)}
            split += 1
    if filtered:
        expected = {row for row in expected if row[0] % 10 == 3}
    loader = Loader(client, plan(filtered=filtered), {"samples": tmp_path}, batch_size=50_000, shuffle=Shuffle(3))
    read = numbered(loader)
    assert len(read) == len(expected)
    assert set(read) == expected


def test_rows_of_tables_and_parts_of_files_have_numbers_too(client: Client, tmp_path: Path) -> None:
    write(tmp_path / "a.parquet", pa.table({"n": range(100)}))
    data = [
        pa.table({"n": range(500, 500 + 70_000)}),
        tidegate.FileSplit(tmp_path / "a.parquet", rows=(20, 30)),  # type: ignore[arg-type] # a path will do
        pa.table({"n": [1, 2]}),
    ]
    loader = Loader(client, plan(), {"samples": data}, batch_size=1_000, shuffle=None)
    expected = [(500 + row, int(row >= 65_536), row) for row in range(70_000)]
    expected += [(row, 2, row) for row in range(20, 30)] + [(1, 3, 0), (2, 3, 1)]
    assert numbered(loader) == expected


def test_columns_of_the_data_come_before_the_numbers(local_client: Client, tmp_path: Path) -> None:
    own = pa.table({"n": [1, 2], "_split": [70, 80], "_row": [7, 8]})
    write(tmp_path / "a.parquet", own)
    for data in (own, tmp_path):
        assert numbered(Loader(local_client, plan(), {"samples": data}, batch_size=2)) == [(1, 70, 7), (2, 80, 8)]


def test_a_split_without_a_number_has_no_such_columns(local_client: Client, tmp_path: Path) -> None:
    write(tmp_path / "a.parquet", pa.table({"n": [1, 2]}))
    with local_client.create_task(plan()) as task, pytest.raises(tidegate.TaskFailed, match="_split"):
        task.run_epoch({"samples": str(tmp_path / "a.parquet")}).table()
    with local_client.create_task(plan()) as task:
        split = tidegate.FileSplit(str(tmp_path / "a.parquet"), number=9)
        assert task.run_epoch({"samples": split}).table()["_split"].to_pylist() == [9, 9]


def test_numbers_of_another_type_are_refused(local_client: Client) -> None:
    samples = sub.read_named_table("samples", {"n": sub.i64, "_row": sub.string}).to_plan()
    with local_client.create_task(samples) as task, pytest.raises(tidegate.TidegateError, match="_row"):
        task.run_epoch({"samples": pa.table({"n": [1]})}).table()


@pytest.mark.parametrize("number", [-1, 2**63, "1", True])
def test_a_number_that_makes_no_sense_is_refused(local_client: Client, number: Any) -> None:
    with local_client.create_task(plan()) as task, pytest.raises(tidegate.InvalidRequest, match="number="):
        task.add_split("samples", tidegate.FileSplit("a.parquet", number=number))


def test_a_result_with_these_columns_leaves_no_room_for_provenance(local_client: Client) -> None:
    loader = Loader(local_client, plan(), {"samples": pa.table({"n": [1]})}, batch_size=1, provenance=True)
    with pytest.raises(tidegate.InvalidRequest, match="leave provenance out"):
        next(iter(loader))
