"""Spark's daemon of Python workers, with what they import loaded before it forks, so that each of them starts at once.

Spark has a daemon for each kind of worker, and each step of a data source is a worker of its own, which would import
for one to two seconds. The sessions of other processes that tests start have Spark's own daemon.
"""

from __future__ import annotations

import sys
from importlib import import_module

from pyspark import daemon

if __name__ == "__main__":
    kind = sys.argv[1]
    import_module(kind)
    import_module("tidegate.spark.data_source.datasource")
    if kind == "pyspark.worker":
        import_module("tidegate.executor.spark.worker.worker")
    daemon.manager()
