"""Tidegate's client: submit a Substrait plan once, feed it splits, read Arrow results epoch by epoch.

::

    import tidegate

    with tidegate.connect("host:50051") as client, client.create_task(plan) as task:
        epoch = task.run_epoch({"lineitem": "part-0.parquet"})
        print(epoch.number, epoch.table())

`tidegate.local()` is the same without a server. Names are loaded when they are first used, so that importing this
package costs next to nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from .client import Client as Client
    from .connecting import connect as connect
    from .connecting import local as local
    from .epoch import Epoch as Epoch
    from .graph import SPREAD as SPREAD
    from .graph import TaskGraph as TaskGraph
    from .plans import with_parameters as with_parameters
    from .proto.dataset import Dataset as Dataset
    from .proto.dataset import Hashed as Hashed
    from .proto.dataset import KeyedDataset as KeyedDataset
    from .proto.dataset import Ranged as Ranged
    from .proto.errors import CheckpointError as CheckpointError
    from .proto.errors import EpochError as EpochError
    from .proto.errors import ExecutionError as ExecutionError
    from .proto.errors import Exhausted as Exhausted
    from .proto.errors import Forbidden as Forbidden
    from .proto.errors import InternalError as InternalError
    from .proto.errors import InvalidRequest as InvalidRequest
    from .proto.errors import NodeError as NodeError
    from .proto.errors import NotFound as NotFound
    from .proto.errors import OutOfRange as OutOfRange
    from .proto.errors import PlanError as PlanError
    from .proto.errors import Problem as Problem
    from .proto.errors import Refused as Refused
    from .proto.errors import RequestError as RequestError
    from .proto.errors import SplitError as SplitError
    from .proto.errors import TaskCancelled as TaskCancelled
    from .proto.errors import TaskFailed as TaskFailed
    from .proto.errors import TidegateError as TidegateError
    from .proto.errors import TransientError as TransientError
    from .proto.errors import Unauthenticated as Unauthenticated
    from .proto.errors import Unavailable as Unavailable
    from .proto.graph import Executor as Executor
    from .proto.operator_registration import UserOperator as UserOperator
    from .proto.statistics import EpochStatistics as EpochStatistics
    from .proto.statistics import SourceProgress as SourceProgress
    from .proto.statistics import Statistics as Statistics
    from .proto.values import Barrier as Barrier
    from .proto.values import Blocked as Blocked
    from .proto.values import BlockedState as BlockedState
    from .proto.values import Checkpoint as Checkpoint
    from .proto.values import Committed as Committed
    from .proto.values import Cursor as Cursor
    from .proto.values import Data as Data
    from .proto.values import FileSplit as FileSplit
    from .proto.values import Finished as Finished
    from .proto.values import FoundFile as FoundFile
    from .proto.values import MissingColumns as MissingColumns
    from .proto.values import TaskInfo as TaskInfo
    from .proto.values import TaskPhase as TaskPhase
    from .proto.values import Transacted as Transacted
    from .proto.version import __version__ as __version__
    from .registering import user_operator as user_operator
    from .run_progress import GraphProgress as GraphProgress
    from .splits import Changes as Changes
    from .splits import MissingAsNull as MissingAsNull
    from .splits import upload as upload
    from .task import Task as Task
    from .task_options import Options as Options

_NAMES: Final = {
    "connecting": ("connect", "local"),
    "client": ("Client",),
    "task": ("Task",),
    "task_options": ("Options",),
    "epoch": ("Epoch",),
    "splits": ("Changes", "MissingAsNull", "upload"),
    "graph": ("TaskGraph", "SPREAD"),
    "run_progress": ("GraphProgress",),
    "registering": ("user_operator",),
    "plans": ("with_parameters",),
    "proto.dataset": ("Dataset", "KeyedDataset", "Hashed", "Ranged"),
    "proto.graph": ("Executor",),
    "proto.operator_registration": ("UserOperator",),
    "proto.values": (
        "FileSplit",
        "Checkpoint",
        "Committed",
        "Cursor",
        "Data",
        "Blocked",
        "BlockedState",
        "Barrier",
        "Finished",
        "FoundFile",
        "MissingColumns",
        "TaskInfo",
        "TaskPhase",
        "Transacted",
    ),
    "proto.statistics": ("Statistics", "SourceProgress", "EpochStatistics"),
    "proto.version": ("__version__",),
    "proto.errors": (
        "TidegateError",
        "PlanError",
        "Problem",
        "RequestError",
        "InvalidRequest",
        "NotFound",
        "Refused",
        "OutOfRange",
        "Exhausted",
        "Forbidden",
        "SplitError",
        "CheckpointError",
        "ExecutionError",
        "NodeError",
        "TransientError",
        "EpochError",
        "TaskFailed",
        "TaskCancelled",
        "Unauthenticated",
        "Unavailable",
        "InternalError",
    ),
}
_MODULES: Final = {name: module for module, names in _NAMES.items() for name in names}

__all__ = list(_MODULES)


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f".{_MODULES[name]}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULES})
