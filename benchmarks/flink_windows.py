"""Aggregates events by windows of a minute with PyFlink's SQL whenever it is asked on standard input, and answers with
the number of windows.

`python flink_windows.py FOLDER`, where the folder has events.csv. It needs apache-flink, and Java. The events are in
memory as Arrow batches of 10,000, and Flink's own operators read them: no function in Python is in the way. About a
second of each run is the start of a Flink job.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Any

import pandas as pd
from pyflink.datastream import StreamExecutionEnvironment
from pyflink.table import DataTypes, Schema, StreamTableEnvironment

BATCH = 10_000
COLUMNS = DataTypes.ROW(
    [
        DataTypes.FIELD("ms", DataTypes.BIGINT(nullable=False)),
        DataTypes.FIELD("k", DataTypes.BIGINT(nullable=False)),
        DataTypes.FIELD("v", DataTypes.BIGINT(nullable=False)),
    ]
)
"""Milliseconds, because a stream of such batches does not take times."""
WINDOW = "begins TIMESTAMP(3), k BIGINT, s BIGINT, n BIGINT"
FILES = "'connector' = 'filesystem', 'path' = 'file://{folder}/windows', 'format' = 'csv'"
WINDOWS = """
    SELECT window_start, k, SUM(v) AS s, COUNT(*) AS n
    FROM TABLE(TUMBLE(TABLE events, DESCRIPTOR(t), INTERVAL '1' MINUTE))
    GROUP BY window_start, window_end, k
"""


def main() -> None:
    folder = Path(sys.argv[1])
    events = pd.read_csv(folder / "events.csv", names=["ms", "k", "v"])
    events["ms"] //= 1_000
    tables = StreamTableEnvironment.create(StreamExecutionEnvironment.get_execution_environment())
    tables.get_config().set("parallelism.default", "2")
    rows = tables.from_pandas(events, COLUMNS, splits_num=-(-len(events) // BATCH))
    timed = Schema.new_builder().column_by_expression("t", "TO_TIMESTAMP_LTZ(ms, 3)")
    for name in ("ms", "k", "v"):
        timed.column(name, "BIGINT NOT NULL")
    tables.create_temporary_view("events", tables.to_data_stream(rows), timed.watermark("t", "t").build())
    tables.execute_sql(f"CREATE TEMPORARY TABLE windows ({WINDOW}) WITH ({FILES.format(folder=folder)})")
    print("ready", flush=True)
    for _ in sys.stdin:
        print(windows(tables, folder / "windows"), flush=True)


def windows(tables: Any, folder: Path) -> int:
    """The number of lines that Flink writes. To hand them to Python would take Flink several times as long."""
    tables.execute_sql(f"INSERT INTO windows {WINDOWS}").wait()
    count = sum(len(file.read_bytes().splitlines()) for file in folder.iterdir())
    shutil.rmtree(folder)
    return count


if __name__ == "__main__":
    main()
