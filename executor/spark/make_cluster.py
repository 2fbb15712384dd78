"""Makes the cluster of a task: a session, a staging place, and the setting that the stages of the task share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from ...operators.core.piece import Piece
from ...operators.duckdb.instances import InstanceSettings
from ...operators.indexes.sql import Database
from ...planner.graph.prepare_graph import PreparedGraph
from ...proto.errors import InvalidRequest
from ...proto.graph import DatasetSource
from ...proto.values import TaskOptions
from ..api.computation import RowEffect
from ..graph.statements import with_node_named
from ..plans.cluster import MakeCluster
from .effects import effect_of
from .epoch_stages import Setting
from .executors import check_settings, check_staging
from .graphs import staged_iterables
from .linked_files import LinkedFiles
from .sessions import Session
from .spark_cluster import SparkCluster
from .staging import StagingPlace


def cluster_of_plan(
    session: Session,
    options: TaskOptions,
    settings: InstanceSettings,
    tables: Mapping[str, Sequence[Piece]],
    databases: Mapping[str, Database],
    folder: Path,
    staging: Path | None,
    effect: RowEffect | None,
) -> MakeCluster:
    staging_place = place_for_staging(session, options, folder, staging)
    setting = Setting(
        task=folder.name,
        options=options,
        settings=replace(settings, roots=(*settings.roots, str(staging_place.folder))),
        tables=tables,
        databases=databases,
        effect=effect_of(effect, None),
    )
    return lambda inputs: SparkCluster(session, staging_place, setting, inputs)


def cluster_of_graph(
    session: Session,
    prepared: PreparedGraph,
    options: TaskOptions,
    settings: InstanceSettings,
    tables: Mapping[str, Sequence[Piece]],
    folder: Path,
    staging: Path | None,
    effect: RowEffect | None,
) -> tuple[PreparedGraph, MakeCluster]:
    """The graph as it runs on Spark, and the cluster that runs it."""
    staging_place = place_for_staging(session, options, folder, staging)
    parent = None if staging is None else staging.parent  # a Dataset may outlive the service
    linked = LinkedFiles(staging_place)
    all_tables = dict(tables)
    for node in prepared.nodes:
        if isinstance(node, DatasetSource):
            partitions = zip(tables[node.name], node.dataset.partition_files(), strict=True)
            all_tables[node.name] = tuple(linked.standing_for(piece, paths) for piece, paths in partitions)
    there, iterables = staged_iterables(prepared, staging_place.folder / "iterables", options)
    setting = Setting(
        task=folder.name,
        options=options,
        settings=replace(settings, roots=(*settings.roots, str(staging_place.folder))),
        tables=all_tables,
        databases={},
        watched=with_node_named,
        linked=linked,
        iterables=tuple(iterables),
        effect=effect_of(effect, parent),
    )
    return there, lambda inputs: SparkCluster(session, staging_place, setting, inputs)


def place_for_staging(session: Session, options: TaskOptions, folder: Path, staging: Path | None) -> StagingPlace:
    """The staging place of a task. Raises `InvalidRequest` if the application's executors cannot run the task."""
    with session.answering():
        _check_application(session, options, folder, staging)
    return StagingPlace(folder / "spark" if staging is None else staging / folder.name)


def _check_application(session: Session, options: TaskOptions, folder: Path, staging: Path | None) -> None:
    check_settings(session.setting, options)
    if staging is None and not session.is_local(folder):
        raise InvalidRequest(
            f"Spark at {session.master} has processes that do not see this machine's files: give the service a folder "
            "that the service and all executors see (tidegate serve --spark-staging DIR, "
            "tidegate.local(spark_staging=DIR))",
            reason="NO_STAGING",
        )
    if staging is not None:
        check_staging(session, staging)
