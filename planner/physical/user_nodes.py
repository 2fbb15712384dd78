"""Physical nodes of user code: the nodes of graphs, and the operators that plans name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import pyarrow as pa

from ...operators.user.user import UserStream
from ...proto.graph import BatchFunction, Executor, IterableSource

if TYPE_CHECKING:
    from .pipelines import PhysicalNode


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class UserNode:
    """A user's executor over the nodes that it reads, each as the stream at its position in `streams`. Errors call it
    `name`.
    """

    name: str
    inputs: tuple[PhysicalNode, ...]
    streams: tuple[UserStream, ...]
    make: Callable[[], Executor]
    schema: pa.Schema
    size_class: int
    plan_path: str


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class BatchFunctionNode:
    """A user's function over the input's batches."""

    input: PhysicalNode
    function: BatchFunction
    stride: int
    schema: pa.Schema
    size_class: int
    plan_path: str


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class UnionNode:
    """The inputs' rows, one input after the other."""

    inputs: tuple[PhysicalNode, ...]
    schema: pa.Schema
    size_class: int
    plan_path: str


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class IterateNode:
    """The rows of an iterable that the graph's author gave."""

    source: IterableSource
    schema: pa.Schema
    size_class: int
    plan_path: str


UserOperatorNode: TypeAlias = UserNode | BatchFunctionNode | UnionNode | IterateNode
