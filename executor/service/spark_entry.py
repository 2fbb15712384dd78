"""The service's entry to Spark, loaded when the first task asks for it."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...operators.core.piece import Piece
from ...operators.duckdb.instances import InstanceSettings
from ...operators.indexes.sql import Database
from ...planner.graph.prepare_graph import PreparedGraph
from ...planner.prepare import Prepared
from ...proto.errors import InvalidRequest
from ...proto.graph import Graph
from ...proto.spark_frames import FedFrame, Resulting
from ...proto.values import TaskOptions
from ..api.computation import RowEffect
from ..plans.cluster import MakeCluster

if TYPE_CHECKING:
    from ..spark.sessions import Sessions


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkPlace:
    """A service's own Spark: its master, if any, and the service's folder in one that it and all executors see."""

    master: str = ""
    staging: Path | None = None


class SparkTasks:
    """Tasks on Spark: their sessions, and what makes their clusters."""

    def __init__(self, spark_place: SparkPlace) -> None:
        self._place = spark_place
        self._sessions: Sessions | None = None
        self._lock = threading.Lock()

    def adopt(self, session: object) -> str:
        return self._loaded().adopt(session)

    def cores(self, name: str, *, start: bool) -> int | None:
        """The cores of the Spark of this name; None where it does not run and is not to `start`."""
        return self._loaded().cores(name, start=start)

    def cluster(
        self,
        options: TaskOptions,
        settings: InstanceSettings,
        tables: Mapping[str, Sequence[Piece]],
        databases: Mapping[str, Database],
        folder: Path,
        effect: RowEffect | None,
    ) -> MakeCluster:
        """Makes the cluster of a task. The task's rows go through `effect`.

        Without a staging folder of the service, it stages files in the task's own `folder`.
        """
        from ..spark.make_cluster import cluster_of_plan

        session = self._loaded().open(options.spark)
        return cluster_of_plan(session, options, settings, tables, databases, folder, self._place.staging, effect)

    def over_frames(
        self,
        session: Any,
        prepared: Prepared,
        options: TaskOptions,
        settings: InstanceSettings,
        databases: Mapping[str, Database],
        frames: Mapping[str, FedFrame],
        files: Mapping[str, Sequence[Piece]],
        resulting: Resulting,
        folder: Path,
    ) -> object:
        """The plan over DataFrames as a DataFrame of the session."""
        self._loaded()
        from ..spark import plan_frames
        from ..spark.make_cluster import place_for_staging

        plan = plan_frames.PlanOverFrames(
            prepared=prepared, options=options, settings=settings, databases=databases, frames=frames, files=files
        )
        return plan_frames.frame_of_plan(
            session, plan, resulting, lambda opened: place_for_staging(opened, options, folder, self._place.staging)
        )

    def graph(
        self,
        prepared: PreparedGraph,
        options: TaskOptions,
        settings: InstanceSettings,
        tables: Mapping[str, Sequence[Piece]],
        folder: Path,
        effect: RowEffect | None,
    ) -> tuple[PreparedGraph, MakeCluster]:
        """The graph as it runs on Spark, and what makes its cluster. The graph's rows go through `effect`."""
        self.check_code(prepared.graph)
        from ..spark.make_cluster import cluster_of_graph

        session = self._loaded().open(options.spark)
        return cluster_of_graph(session, prepared, options, settings, tables, folder, self._place.staging, effect)

    def check_code(self, graph: Graph) -> None:
        """Raise `PlanError` if user code of the graph cannot travel."""
        self._loaded()
        from ..spark.graphs import check_code

        check_code(graph)

    def close(self) -> None:
        with self._lock:
            sessions, self._sessions = self._sessions, None
        if sessions is not None:
            sessions.close()

    def _loaded(self) -> Sessions:
        with self._lock:
            if self._sessions is None:
                try:
                    from ..spark.sessions import Sessions
                except ImportError as error:
                    raise InvalidRequest(
                        'executor="spark" needs Spark: pip install "tidegate[spark]"', reason="NO_SPARK"
                    ) from error
                self._sessions = Sessions(self._place.master)
            return self._sessions
