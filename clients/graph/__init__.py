"""Builds graphs of your operators with `tidegate.TaskGraph`; `tidegate.local()` runs them."""

from __future__ import annotations

from ..partitions import SPREAD
from ..proto.graph import Executor, Graph, Spread
from .builder import TaskGraph
from .stream import Result, Stream

__all__ = ["SPREAD", "Executor", "Graph", "Result", "Spread", "Stream", "TaskGraph"]
