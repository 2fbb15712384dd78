"""The client: makes tasks from plans, runs single queries, and describes plans."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Unpack

import pyarrow as pa

from .closing import Closing
from .numbers import not_negative
from .plans import Plan, bound
from .proto.arrow.arrow_streams import with_a_stream
from .proto.dataset import Dataset, Hashed, Keyed, Ranged
from .proto.errors import InvalidRequest, Problem
from .proto.graph import Graph, GraphBuilder, RowBatches
from .proto.service import Service
from .proto.source_names import check_fed
from .proto.values import Capabilities, Checkpoint, Cursor, ExecutorKind, Explanation, PlanBytes, Split, TaskInfo
from .run_progress import ShowProgress, watched
from .splits import SplitLike, by_source, split
from .task import Task, access_of
from .task_options import ChosenOptions, Options, chosen
from .transport.sending import Sending

if TYPE_CHECKING:
    from .transport.access import Access

_UNFED: Final = "give the source splits, or an empty list if it has no rows"


class Client(Closing):
    """A client of a service, in this process or over gRPC. Made by `tidegate.connect` and `tidegate.local`.

    A client is a context manager, which calls `close`.

    >>> with tidegate.local() as client:
    ...     table = client.query(plan, {"sales": "sales.parquet"})
    >>> table.num_rows
    2

    The methods that take `options` take those of a task, by name; options that are not given are the service's to
    choose.

    | Options | Values |
    |---|---|
    | `mode` | `"per_epoch"` or `"continuous"` |
    | `determinism` | `"strict"` or `"relaxed"` |
    | `channels` | a number, or `"auto"` |
    | `on_error` | `"fail"` or `"skip_epoch"` |
    | `spill` | `"auto"`, `"ordered"` or `"error"` |
    | `loops` | `"auto"` or `"general"` |
    | `max_pending_epochs` | a number |
    | `time_zone` | a name |
    | `memory_limit`, `slot_memory`, `queue_bytes`, `output_bytes`, `spill_quota`, `write_quota` | bytes |
    | `idle_seconds`, `loop_seconds`, `epoch_seconds`, `parallel_threshold_seconds` | seconds |
    | `loop_rows` | rows |
    | `broadcast` | sources to broadcast |
    | `missing_columns` | `"error"` or `"null"` |
    | `write_format` | `"parquet"`, `"arrow"` or `"csv"` |
    | `durability` | `"auto"`, or `"none"`: the task ends with its service |
    | `checkpoint_epochs`, `checkpoint_seconds` | epochs and seconds between the checkpoints of a durable task |
    | `retries` | how often a channel that failed of something transient is made anew in an epoch |
    | `executor` | `"local"`, or `"spark"`: the task's channels are Spark tasks |
    | `spark` | with `executor="spark"`: your session, or a master's address |
    | `spark_threshold_bytes` | bytes: with `executor="spark"`, the service runs epochs with fewer bytes itself |

    A master's address is `"local[2]"`, `"spark://..."` or `"sc://..."`. A server has its own Spark, and refuses
    the option `spark`.
    """

    def __init__(self, service: Service) -> None:
        self._service = service

    @property
    def service(self) -> Service:
        """The service behind this client, in this process or over gRPC."""
        return self._service

    @property
    def access(self) -> Access | None:
        """The access to the server for other processes; None if the service is in this process."""
        return access_of(self._service)

    @property
    def address(self) -> str | None:
        """HOST:PORT of the server; None if the service is in this process."""
        return self._service.address

    def create_task(
        self,
        plan: Plan | GraphBuilder | Graph,
        *,
        tables: Mapping[str, SplitLike | Sequence[SplitLike]] | None = None,
        parameters: Mapping[int, object] | None = None,
        restore: str | None = None,
        **options: Unpack[Options],
    ) -> Task:
        """Submit a plan once, and get the task that runs it. `tables` are static sources: whole in every epoch.

        `parameters` are values for the plan's dynamic parameters, by their numbers, as in `with_parameters`.

        A plan is `bytes` (protobuf), `str` (JSON), a `pathlib.Path` (a file of this machine) or a Substrait message.

        With the id of a checkpoint to `restore` (`Epoch.checkpoint`), the task goes on after that epoch: its next
        epoch has the next number, and so have its sources' next splits. Plan, parameters, tables and options have to be
        those of the task that the checkpoint was taken of.

        A graph of your operators runs as a plan does, in this process: its fed sources take splits, and an epoch has
        the rows of its result. A graph takes no `tables`, `parameters` or `restore`.

        >>> with client.create_task(plan, channels=2) as task:
        ...     print(task.run_epoch({"sales": "sales.parquet"}).table().num_rows)
        2
        """
        if isinstance(plan, GraphBuilder | Graph):
            if not (tables is None and parameters is None and restore is None):
                raise InvalidRequest(
                    "a graph has no tables (its nodes read files, iterables and Datasets), no parameters and no "
                    "checkpoints (its executors keep nothing across a barrier): leave tables, parameters and restore "
                    "out",
                    reason="GRAPH_OPTION",
                )
            return Task(self._service, self._service.graphs.create_task(_graph(plan), self._chosen(options)))
        return Task(self._service, self._create(bound(plan, parameters), tables, options, restore))

    def checkpoints(self, task: str) -> Sequence[Checkpoint]:
        """The checkpoints of the task of this id, by their epochs. The task itself may be gone."""
        return self._service.list_checkpoints(task)

    def query(
        self,
        plan: Plan,
        splits: Mapping[str, SplitLike | Sequence[SplitLike]] | None = None,
        *,
        tables: Mapping[str, SplitLike | Sequence[SplitLike]] | None = None,
        parameters: Mapping[int, object] | None = None,
        progress: ShowProgress = False,
        **options: Unpack[Options],
    ) -> pa.Table:
        """Run a plan once: one task, one epoch, its rows. Relaxed by default; strict with `executor="spark"`.

        Every source needs splits, or an empty list of them: a source without an entry is an error. `tables` and
        `parameters` are those of `create_task`.

        `progress=True` writes a line to standard error that says how much of the inputs is read. On a terminal the line
        is rewritten in its place; elsewhere a new one is written now and then. A function for `progress` is called as
        in `run_graph`.

        >>> client.query(plan, {"sales": monday}).column("total").to_pylist()
        [8, 7]
        """
        relaxed = {} if options.get("executor") in ("spark", ExecutorKind.SPARK) else {"determinism": "relaxed"}
        info = self._create(bound(plan, parameters), tables, {**relaxed, "durability": "none", **options})
        with Task(self._service, info, eager=True, hold_bytes=math.inf) as task:
            check_fed(task.sources.values(), by_source(splits or {}), _UNFED)
            with watched(progress, task.statistics, anywhere=True):
                return task.run_epoch(splits or {}).table()

    def run_graph(
        self,
        graph: GraphBuilder | Graph,
        splits: Mapping[str, SplitLike | Sequence[SplitLike]] | None = None,
        *,
        keyed: Keyed | None = None,
        progress: ShowProgress = False,
        **options: Unpack[Options],
    ) -> Dataset:
        """Run a graph once: one epoch, kept as a Dataset, which outlives the graph and the client.

        Strict by default, as tasks.

        With `keyed=tidegate.Hashed(("k",))` or `tidegate.Ranged("k")` the result is a `KeyedDataset`, which looks rows
        up. `progress` is a function that gets a `GraphProgress` every 0.2 seconds and at the end, or True for a line on
        a terminal.

        >>> with client.run_graph(graph) as dataset:
        ...     print(dataset.table().to_pylist())
        [{'item': 'cup', 'total': 8}, {'item': 'tea', 'total': 7}]
        """
        graphs = self._service.graphs
        info = graphs.create_task(_graph(graph), self._chosen(options), keep=True, keyed=_keyed(keyed))
        with Task(self._service, info, eager=True) as task:
            check_fed(task.sources.values(), by_source(splits or {}), _UNFED)
            with watched(progress, task.statistics):
                number = task.run_epoch(splits or {}).number
            return graphs.take(info.id, number)

    def dataset(self, rows: Any, *, keyed: Keyed | None = None) -> Dataset:
        """A Dataset of Arrow data: a table, an epoch, or any object with the Arrow C stream protocol.

        `keyed` as in `run_graph`.

        >>> client.dataset(monday).rows
        3
        """
        if not hasattr(rows, "__arrow_c_stream__"):
            raise InvalidRequest(
                f"a Dataset must be made from Arrow data (anything with __arrow_c_stream__), not {type(rows).__name__}",
                reason="NOT_ROWS",
            )
        reader = pa.RecordBatchReader.from_stream(with_a_stream(rows))
        return self._service.graphs.keep(RowBatches(schema=reader.schema, batches=reader), _keyed(keyed))

    def task(self, id: str, *, cursor: Cursor | None = None) -> Task:  # noqa: A002 (what a task's handle is called)
        """Attach to a task again, at `cursor`, or after everything that was acknowledged.

        >>> client.task(task.id).schema.names
        ['item', 'total']
        """
        if not isinstance(id, str):
            raise InvalidRequest(f"a task's id must be text, as in Task.id and `tidegate tasks`, not {id!r}")
        return Task(self._service, self._service.get_task(id), cursor)

    def tasks(self) -> Sequence[TaskInfo]:
        """Every task of the service; of the caller, if the service tells callers apart.

        >>> task.id in [info.id for info in client.tasks()]
        True
        """
        return self._service.list_tasks()

    def validate(
        self, plan: Plan, *, parameters: Mapping[int, object] | None = None, **options: Unpack[Options]
    ) -> Sequence[Problem]:
        """Every problem of a plan, with its plan path; empty if a task with these options runs the plan.

        >>> client.validate(plan)
        ()
        >>> [problem.reason for problem in client.validate(b"no plan")]
        ['MALFORMED']
        """
        return self._service.validate(bound(plan, parameters), self._chosen(options))[0]

    def warnings(
        self, plan: Plan, *, parameters: Mapping[int, object] | None = None, **options: Unpack[Options]
    ) -> Sequence[str]:
        """Warnings of planning, which are not errors."""
        return self._service.validate(bound(plan, parameters), self._chosen(options))[1]

    def explain(
        self,
        plan: Plan | GraphBuilder | Graph,
        *,
        static_sources: Iterable[str] = (),
        rows: Mapping[str, int] | None = None,
        parameters: Mapping[int, object] | None = None,
        **options: Unpack[Options],
    ) -> Explanation:
        """Relations, pipelines and fragments of a plan: `.text` for people, `.json` for programs.

        A graph has its pipelines.

        With several channels, the explanation shows the distribution over them for sources with so many `rows`; 10
        million if nothing is said. With `executor="spark"` it shows which pipelines are which stage of Spark's, and
        what goes between them.

        >>> print(client.explain(plan).text.splitlines()[-1].strip())
        read sales (item, amount)  [relations[0].root.input.sort.input.aggregate.input.read.named_table]
        """
        if isinstance(plan, GraphBuilder | Graph):
            return self._service.graphs.explain(_graph(plan), chosen(options))
        for source, count in (rows or {}).items():
            not_negative(f"rows of source {source!r}", count)
        return self._service.explain(bound(plan, parameters), self._chosen(options), tuple(static_sources), rows)

    def capabilities(self) -> Capabilities:
        """The capabilities of the service: its version, a Substrait dialect document, its engines' versions."""
        return self._service.capabilities()

    def close(self) -> None:
        """Close the connection. A local service ends with its tasks; a server's tasks go on."""
        self._service.close()

    def _create(
        self,
        plan: PlanBytes,
        tables: Mapping[str, SplitLike | Sequence[SplitLike]] | None,
        options: Mapping[str, object],
        restore: str | None = None,
    ) -> TaskInfo:
        wanted = self._chosen(options)
        if restore is not None and not (isinstance(restore, str) and restore):
            raise InvalidRequest(f"restore must be a checkpoint's id, not {restore!r}", reason="CHECKPOINT_ID")
        several = by_source(tables or {})
        fed = [(name, data) for name, some in several.items() for data in some]
        with Sending(self._service) as send:

            def create(splits: Sequence[Split]) -> TaskInfo:
                to_bind: dict[str, list[Split]] = {name: [] for name in several}
                for (name, _), built in zip(fed, splits, strict=True):
                    to_bind[name].append(built)
                return self._service.create_task(plan, wanted, to_bind, restore=restore or "")

            return send.call([split(data, send) for _, data in fed], create)

    def _chosen(self, options: Mapping[str, object]) -> ChosenOptions:
        """The options, with the name that the service has for the caller's Spark session."""
        match options.get("spark"):
            case None:
                return chosen({name: value for name, value in options.items() if name != "spark"})
            case str():
                return chosen(options)
            case session:
                return chosen({**options, "spark": self._service.adopt_spark(session)})


def _keyed(keyed: Keyed | None) -> Keyed | None:
    if keyed is not None and not isinstance(keyed, Hashed | Ranged):
        raise InvalidRequest(
            f'keyed must be tidegate.Hashed(("k",)) or tidegate.Ranged("k"), not {keyed!r}', reason="DATASET_KEY"
        )
    return keyed


def _graph(graph: GraphBuilder | Graph) -> Graph:
    if not isinstance(graph, GraphBuilder | Graph):
        raise InvalidRequest(f"a graph must be a tidegate.TaskGraph, not {type(graph).__name__}", reason="NOT_A_GRAPH")
    return graph.value if isinstance(graph, GraphBuilder) else graph
