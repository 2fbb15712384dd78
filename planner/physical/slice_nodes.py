"""The physical nodes of groups by slices, and of windows that are put together from slices."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import pyarrow as pa

from ...operators.slices.dense_slices import GroupsOfSlices
from ...operators.slices.sliding_windows import WindowsOfSlices

if TYPE_CHECKING:
    from .pipelines import PhysicalNode


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class DenseSlicesNode:
    """The input's rows, grouped by slice and keys."""

    input: PhysicalNode
    groups: GroupsOfSlices
    schema: pa.Schema
    size_class: int
    plan_path: str


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SlidingWindowsNode:
    """Windows of the input's slices."""

    input: PhysicalNode
    windows: WindowsOfSlices
    schema: pa.Schema
    size_class: int
    plan_path: str


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class DenseWindowsNode:
    """Windows of the input's rows, whose groups by slice and keys have the schema `states`."""

    input: PhysicalNode
    groups: GroupsOfSlices
    states: pa.Schema
    windows: WindowsOfSlices
    schema: pa.Schema
    size_class: int
    plan_path: str


SliceNode: TypeAlias = DenseSlicesNode | SlidingWindowsNode | DenseWindowsNode
