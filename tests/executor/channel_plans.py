"""Physical plans written by hand, with channels and exchanges, as an engine that runs them."""

from __future__ import annotations

import contextlib
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from tests.adding import add_splits
from tidegate.executor.plans.dataflow import PlanComputation, instance_settings
from tidegate.executor.runtime.batch_store import SpillSpace
from tidegate.executor.runtime.scheduler import Scheduler
from tidegate.executor.runtime.side_threads import SideThreads
from tidegate.executor.service.manager import TaskManager
from tidegate.operators.arrays.digest import RowDigest
from tidegate.operators.arrays.ordering import Order
from tidegate.operators.core.column import Column
from tidegate.operators.duckdb.instances import Instance, InstancePool, InstanceSettings
from tidegate.operators.duckdb.loop_resources import never
from tidegate.planner.physical.pipelines import (
    Exchange,
    FileInput,
    FragmentNode,
    KeptNode,
    PhysicalPlan,
    Pipeline,
    ReceiveNode,
    Routing,
    ScanNode,
    Shape,
    Start,
    StreamInput,
)
from tidegate.planner.physical.sources import PlannedSource
from tidegate.proto.values import Barrier, Cursor, Data, FileSplit, InlineSplit, PlanBytes, Split, TaskOptions

Node = ScanNode | FragmentNode | KeptNode | ReceiveNode
PLAN = PlanBytes(binary=b"by hand")
ROWS = pa.schema([("k", pa.int64()), ("v", pa.int64())])
COLUMNS = tuple(Column(name=field.name, type=field.type, nullable=True) for field in ROWS)
_LARGE = 10_000_000


def scan(source: str, *, whole: bool = False) -> ScanNode:
    """A source of rows (k, v)."""
    return ScanNode(
        source=source, columns=COLUMNS, schema=ROWS, size_class=_LARGE, plan_path=f"scan {source}", whole=whole
    )


def files(source: str, relation: str, *, whole: bool = False) -> FileInput:
    return FileInput(source=source, relation=relation, columns=COLUMNS, plan_path=f"files {source}", whole=whole)


def fragment(
    sql: str, *inputs: Node | FileInput, schema: pa.Schema = ROWS, plan_path: str = "", size_class: int = _LARGE
) -> FragmentNode:
    """`sql` calls the nodes in0, in1, ..."""
    nodes = [node for node in inputs if not isinstance(node, FileInput)]
    return FragmentNode(
        sql=sql,
        streams=tuple(StreamInput(node=node, relation=f"in{at}", replayed=False) for at, node in enumerate(nodes)),
        files=tuple(file for file in inputs if isinstance(file, FileInput)),
        context=(),
        schema=schema,
        size_class=size_class,
        row_wise=False,
        plan_path=plan_path or sql,
        relations=1,
    )


def exchange(
    number: int,
    routing: Routing,
    consumers: int,
    *,
    schema: pa.Schema = ROWS,
    keys: tuple[int, ...] = (0,),
    order: tuple[Order, ...] = (),
) -> Exchange:
    return Exchange(number=number, routing=routing, schema=schema, consumers=consumers, keys=keys, order=order)


def receive(source: Exchange) -> ReceiveNode:
    plan_path = f"exchange {source.number}"
    return ReceiveNode(
        exchange=source.number, schema=source.schema, size_class=_LARGE, rows=_LARGE, plan_path=plan_path
    )


def pipeline(
    root: Node,
    *sources: str,
    channels: int = 1,
    into: Sequence[Exchange] = (),
    start: Start = Start.SEAL,
    weight: int = 1,
) -> Pipeline:
    return Pipeline(root=root, sources=sources, start=start, channels=channels, weight=weight, into=tuple(into))


def plan(*pipelines: Pipeline) -> PhysicalPlan:
    return PhysicalPlan(pipelines=pipelines, kept=())


@dataclass(frozen=True)
class ByHand:
    """Stands for a prepared plan."""

    plan: PhysicalPlan
    warnings: tuple[str, ...] = ()

    @property
    def schema(self) -> pa.Schema:
        return next(pipeline.root.schema for pipeline in self.plan.pipelines if not pipeline.into)

    @property
    def sources(self) -> tuple[PlannedSource, ...]:
        names = dict.fromkeys(source for pipeline in self.plan.pipelines for source in pipeline.sources)
        return tuple(PlannedSource(name=name, columns=COLUMNS, static=False) for name in names)

    def relevant(self, shape: Shape) -> Shape:
        return {}

    def physical(self, shape: Shape, without: Container[str] = ()) -> PhysicalPlan:
        return self.plan


class WatchedPool(InstancePool):
    """A pool that knows the instances that were `taken`, in order, and those that are `out`: none of an idle task."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.taken: list[Instance] = []
        self.out: list[Instance] = []

    def take(self, settings: InstanceSettings) -> Instance:
        instance = super().take(settings)
        self.taken.append(instance)
        self.out.append(instance)
        return instance

    def give_back(self, instance: Instance) -> None:
        self.out.remove(instance)
        super().give_back(instance)

    def retire(self, instance: Instance) -> None:
        self.out.remove(instance)
        super().retire(instance)


class Engine:
    """Every task it makes runs this plan."""

    def __init__(self, plan: PhysicalPlan, folder: Path) -> None:
        self.plan = plan
        self.pool = WatchedPool(folder / "duckdb")
        self.folder = folder
        self.computations: list[PlanComputation] = []

    def prepare(
        self,
        plan: PlanBytes,
        options: TaskOptions,
        tables: Mapping[str, Sequence[Split]],
        space: SpillSpace,
        scheduler: Scheduler,
    ) -> PlanComputation:
        roots = (str(self.folder),)
        self.computations.append(
            PlanComputation(
                ByHand(self.plan),
                options,
                pool=self.pool,
                settings=instance_settings(options, roots),
                roots=roots,
                space=space,
                scheduler=scheduler,
                side="here",
                tables={},
                databases={},
                lookups=SideThreads(),
                readers=SideThreads(),
                later=never,
            )
        )
        return self.computations[-1]

    def close(self) -> None:
        self.pool.close()


class Running:
    """A task of a plan written by hand, in a service of its own."""

    def __init__(self, manager: TaskManager, engine: Engine, **options: object) -> None:
        self.manager = manager
        self.engine = engine
        self.id = manager.create_task(PLAN, TaskOptions(**options), {}).id
        self.computation = engine.computations[-1]

    def seal(self, **splits: Split | Sequence[Split]) -> int:
        numbered_splits = [
            (source, split, None)
            for source, some in splits.items()
            for split in ([some] if isinstance(some, FileSplit | InlineSplit) else some)
        ]
        _, epoch = add_splits(self.manager, self.id, numbered_splits, barrier=True)
        assert epoch is not None
        return epoch

    def batches(self, epoch: int) -> Iterator[pa.RecordBatch]:
        row = 0
        while True:
            for frame in self.manager.next(self.id, Cursor(epoch, row), acknowledge=Cursor(epoch, row), wait=120.0):
                match frame:
                    case Data():
                        row += frame.rows
                        yield from frame.batches
                    case Barrier():
                        return
                    case _:
                        raise AssertionError(frame)

    def run(self, **splits: Split | Sequence[Split]) -> list[tuple[object, ...]]:
        """An epoch's rows."""
        rows: list[tuple[object, ...]] = []
        for batch in self.batches(self.seal(**splits)):
            rows += zip(*(column.to_pylist() for column in batch.columns), strict=True)
        return rows

    def digest(self, **splits: Split | Sequence[Split]) -> str:
        rows = RowDigest(self.computation.schema)
        for batch in self.batches(self.seal(**splits)):
            rows.update(batch)
        return rows.hexdigest()

    def operators(self) -> dict[str, object]:
        """Statistics by place."""
        return {operator.place: operator for operator in self.manager.get_task(self.id).statistics.operators}


@contextlib.contextmanager
def running(
    physical_plan: PhysicalPlan,
    folder: Path,
    *,
    threads: int = 2,
    **options: object,
) -> Iterator[Running]:
    manager = TaskManager(engine := Engine(physical_plan, folder), folder=folder / "service", threads=threads)
    try:
        yield Running(manager, engine, **options)
    finally:
        manager.close()


def inline(keys: Sequence[int], values: Sequence[int] | None = None, *, batch_rows: int = 1 << 20) -> InlineSplit:
    column = pa.array(keys, pa.int64())
    table = pa.table([column, pa.array(values, pa.int64()) if values else column], schema=ROWS)
    return InlineSplit(schema=ROWS, batches=tuple(table.to_batches(batch_rows)))


def summed(channels: int) -> PhysicalPlan:
    """The sum of v by k: aggregated in part, exchanged by hash, aggregated to the end."""
    moved = exchange(0, Routing.HASH, channels)
    partial = fragment("SELECT c0, sum(c1)::BIGINT FROM in0 GROUP BY c0", scan("t"), plan_path="partial")
    final = fragment("SELECT c0, sum(c1)::BIGINT FROM in0 GROUP BY c0", receive(moved), plan_path="final")
    return plan(pipeline(partial, "t", channels=channels, into=[moved]), pipeline(final, channels=channels))


def sorted_by_key(channels: int) -> PhysicalPlan:
    """Each channel sorts its share; the result merges them."""
    order = (Order(column=0),)
    moved = exchange(0, Routing.GATHER, 1, order=order)
    one = fragment("SELECT c0, c1 FROM in0 ORDER BY c0, c1", scan("t"))
    return plan(pipeline(one, "t", channels=channels, into=[moved]), pipeline(receive(moved)))


def broadcast_join(channels: int) -> PhysicalPlan:
    """Rows of t with the rows of n of their key: n is filtered once, and given to all."""
    moved = exchange(0, Routing.BROADCAST, channels)
    small = fragment("SELECT c0, c1 FROM in0 WHERE c1 >= 0", scan("n"))
    joined = fragment("SELECT a.c0, a.c1 + b.c1 FROM in0 a JOIN in1 b ON a.c0 = b.c0", scan("t"), receive(moved))
    return plan(pipeline(small, "n", channels=channels, into=[moved]), pipeline(joined, "t", channels=channels))


def self_join(channels: int) -> PhysicalPlan:
    """Pairs of rows of t with one key: one side a share, the other side whole."""
    pairs = fragment("SELECT a.c1, b.c1 FROM in0 a JOIN in1 b ON a.c0 = b.c0", scan("t"), scan("t", whole=True))
    return plan(pipeline(pairs, "t", channels=channels))


def diamond(channels: int) -> PhysicalPlan:
    """Each row beside its key's sum: one pipeline feeds both sides of the join, one of them by way of another."""
    straight, around = exchange(0, Routing.HASH, channels), exchange(1, Routing.ROUND_ROBIN, channels)
    total = exchange(2, Routing.HASH, channels)
    top = fragment("SELECT c0, c1 FROM in0 WHERE c1 % 2 = 0", scan("t"))
    arm = fragment("SELECT c0, sum(c1)::BIGINT FROM in0 GROUP BY c0", receive(around))
    joined = fragment(
        "SELECT a.c0, b.s FROM in0 a JOIN (SELECT c0, sum(c1)::BIGINT AS s FROM in1 GROUP BY c0) b ON a.c0 = b.c0",
        receive(straight),
        receive(total),
    )
    return plan(
        pipeline(top, "t", channels=channels, into=[straight, around]),
        pipeline(arm, channels=channels, into=[total]),
        pipeline(joined, channels=channels),
    )


def three_deep(channels: int) -> PhysicalPlan:
    """Counts of counts of counts, an exchange between any two."""
    first = exchange(0, Routing.HASH, channels)
    second, third = (exchange(number, Routing.HASH, channels, keys=(1,)) for number in (1, 2))
    count = "SELECT c1, count(*)::BIGINT FROM in0 GROUP BY c1"
    return plan(
        pipeline(fragment("SELECT c0, c1 FROM in0", scan("t")), "t", channels=channels, into=[first]),
        pipeline(
            fragment("SELECT c0, count(*)::BIGINT FROM in0 GROUP BY c0", receive(first)),
            channels=channels,
            into=[second],
        ),
        pipeline(fragment(count, receive(second), plan_path="second"), channels=channels, into=[third]),
        pipeline(fragment(count, receive(third), plan_path="third"), channels=channels),
    )


def row_wise(channels: int) -> PhysicalPlan:
    """Rows that may start before the seal."""
    doubled = fragment("SELECT c0, c1 * 2 FROM in0", scan("t"))
    return plan(pipeline(doubled, "t", channels=channels, start=Start.PIECE))


def limited(channels: int, rows: int) -> PhysicalPlan:
    moved = exchange(0, Routing.GATHER, 1)
    return plan(
        pipeline(fragment("SELECT c0, c1 FROM in0", scan("t")), "t", channels=channels, into=[moved]),
        pipeline(fragment(f"SELECT c0, c1 FROM in0 LIMIT {rows}", receive(moved))),
    )
