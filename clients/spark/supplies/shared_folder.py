"""A folder that driver, executors and service share: rows that Spark writes there, and checks that everyone sees them.

On another machine the same path is another folder. Spark writes there without an error, and the driver finds nothing.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import DataFrame

from ...proto.arrow.parquet_footer import Footer, read_footer
from ...proto.errors import InvalidRequest, NotFound
from ...task import Task
from ..data_frames import is_classic, runs_here, settings
from .staged_transactions import Manifest, User, service_name, transaction_name

#: The session's settings that change how values are stored. The files must not depend on them.
_WRITING: Final = {
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.parquet.writeLegacyFormat": "false",
    "spark.sql.parquet.datetimeRebaseModeInWrite": "CORRECTED",
}
_PROBE_ROWS: Final = 1024
"""Spark spreads them over all of its cores."""

_checked: set[tuple[str, Path, str]] = set()
"""The folders and services that a Spark application was checked with. A stream has a session object for each batch."""


def write_rows(rows: DataFrame, folder: Path, *, by: str | None = None) -> int:
    """Have Spark write the rows as Parquet files; the number of rows that its tasks wrote.

    The folder is one of local file systems, whatever the default file system of Spark's is.
    """
    counted, count = _counted(rows)
    writer = counted.write.mode("error").option("compression", "zstd")
    writer = writer.option("mapreduce.fileoutputcommitter.marksuccessfuljobs", "true")
    if by is not None:
        writer = writer.partitionBy(by)
    with settings(rows.sparkSession, _WRITING):
        writer.parquet(f"file://{folder}")
    return int(count.get["rows"])


def _counted(rows: DataFrame) -> tuple[DataFrame, Any]:
    """The rows, and an observation of their number, which Spark makes while it writes them."""
    if is_classic(rows.sparkSession):
        from pyspark.sql import Observation, functions
    else:
        from pyspark.sql.connect import functions
        from pyspark.sql.connect.observation import Observation
    count = Observation()
    return rows.observe(count, functions.count(functions.lit(1)).alias("rows")), count


def footer(path: Path) -> Footer:
    with pa.OSFile(str(path)) as file:
        return read_footer(file)


def check_complete(folder: Path, wrote: int, rows: int) -> None:
    """Check that the files of a folder have as many rows as Spark wrote there."""
    if not (folder / "_SUCCESS").is_file():
        raise _not_shared(folder, f"Spark wrote {wrote:,} rows there, and the driver finds no {folder / '_SUCCESS'}")
    if rows != wrote:
        raise _not_shared(folder, f"Spark wrote {wrote:,} rows there, and the driver finds {rows:,} of them")


def check_shared(frame: DataFrame, task: Task, source: str, root: Path) -> None:
    """Check, once for an application, that driver and service see what executors write below `root`.

    Executors that join later are not seen here: `check_complete` counts what they wrote.
    """
    session, service = frame.sparkSession, service_name(task)
    if task.address is None and runs_here(session):
        return
    application = session.sparkContext.applicationId if is_classic(session) else session.session_id
    if (application, root, service) in _checked:
        return
    probe = root / f"probe-{transaction_name(None)}"
    probe.mkdir(parents=True)
    try:
        Manifest(transaction=probe.name, users=(User(service=service, task=task.id, epoch=None),)).write(probe)
        wrote = write_rows(session.range(_PROBE_ROWS), probe / "rows")
        files = sorted((probe / "rows").glob("part-*.parquet"))
        check_complete(probe / "rows", wrote, sum(group.rows for file in files for group in footer(file).groups))
        try:
            task.find_files(source, files[0])
        except NotFound as unseen:
            raise _not_shared(probe, f"the driver sees {files[0]}, and the service does not: {unseen}") from unseen
    finally:
        shutil.rmtree(probe, ignore_errors=True)
    _checked.add((application, root, service))


def _not_shared(folder: Path, why: str) -> InvalidRequest:
    return InvalidRequest(
        f"the staging folder {folder.parent} is not one folder for driver, executors and service: {why}; name one that "
        "all of them see under this path, with staging= or in the setting spark.tidegate.staging; nothing was fed",
        reason="STAGING_FOLDER",
    )
