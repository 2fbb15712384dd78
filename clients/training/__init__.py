"""Feeds training jobs: shuffled batches that resume at any row, on any number of ranks."""

from __future__ import annotations

from .batch import Batch, Position
from .batch_columns import Ragged
from .loader import Loader
from .loader_state import CheckedState
from .loader_statistics import LoaderStatistics, SkippedSplit
from .mixture import Mixture
from .order.shuffle import Shuffle
from .packing import Pack, pack_lists

__all__ = [
    "Batch",
    "CheckedState",
    "Loader",
    "LoaderStatistics",
    "Mixture",
    "Pack",
    "Position",
    "Ragged",
    "Shuffle",
    "SkippedSplit",
    "pack_lists",
]
