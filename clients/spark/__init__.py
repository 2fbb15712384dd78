"""Feeds tasks from Spark, and reads results into Spark. Needs the extra: `pip install 'tidegate[spark]'`.

Names are loaded when they are first used, so that importing this package needs no Spark.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from .data_source.datasource import register as register
    from .feed_frames import feed as feed
    from .querying import query as query
    from .report import Bytes as Bytes
    from .report import Fed as Fed
    from .report import Order as Order
    from .report import Way as Way
    from .sql_queries import sql as sql
    from .streaming import stream as stream
    from .supplies.staged_transactions import sweep as sweep

_NAMES: Final = {
    "data_source.datasource": ("register",),
    "feed_frames": ("feed",),
    "querying": ("query",),
    "report": ("Bytes", "Fed", "Order", "Way"),
    "supplies.staged_transactions": ("sweep",),
    "sql_queries": ("sql",),
    "streaming": ("stream",),
}
_MODULES: Final = {name: module for module, names in _NAMES.items() for name in names}

__all__ = list(_MODULES)


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        module = importlib.import_module(f".{_MODULES[name]}", __name__)
    except ModuleNotFoundError as missing:
        if (missing.name or "").split(".")[0] != "pyspark":
            raise
        raise ModuleNotFoundError(
            f"tidegate.spark.{name} needs PySpark: pip install 'tidegate[spark]'", name="pyspark"
        ) from missing
    globals()[name] = value = getattr(module, name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULES})
