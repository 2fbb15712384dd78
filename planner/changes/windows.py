"""Windows on changes: computed around the changed rows if functions and frames reach no further, else over the touched
partitions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ...operators.changes.window import NUMBERS, WindowReach
from .. import ir
from ..analysis.structure import Structure
from ..functions.templates.window_functions import RANKING
from ..ir.arrow_types import arrow_schema, sql_type
from ..ir.building import columns, project
from ..ir.visit import is_column, with_positions
from .change_nodes import ChangeNode, WindowNode
from .orders import direction_of
from .reaches import Reaching, reaching
from .rendering import NUMBER, leaf, render
from .rowwise import compute, select


def lower_window(relation: ir.Window, node: ChangeNode) -> ChangeNode:
    """The windows. Calls with the same partitions and the same order are one operator; later operators see its columns
    behind the row's. Calls whose answers change for fewer rows come first.
    """
    schema = relation.input.schema
    done: list[int] = []
    for calls in _groups(relation.calls):
        node = _windows(relation, schema, node, [relation.calls[at] for at in calls])
        schema = (*schema, *(relation.calls[at].type for at in calls))
        done += calls
    width = len(relation.input.schema)
    positions = {at: width + number for number, at in enumerate(done)}
    wanted = (*range(width), *(positions[at] for at in range(len(relation.calls))))
    return select(node, wanted, relation.schema, relation.plan_path)


def _groups(calls: tuple[ir.WindowCall, ...]) -> list[list[int]]:
    structure = Structure()
    groups: dict[object, list[int]] = {}
    for at, call in enumerate(calls):
        partitions = tuple(structure.number(partition) for partition in call.partitions)
        sorts = tuple((structure.number(sort.expression), sort.direction) for sort in call.sorts)
        groups.setdefault((partitions, sorts), []).append(at)
    return sorted(groups.values(), key=lambda group: max(reaching(calls[at]).distance for at in group))


def _windows(relation: ir.Window, schema: ir.Schema, node: ChangeNode, calls: list[ir.WindowCall]) -> ChangeNode:
    """One window operator. Its input has the partition's columns, the row's other columns, and the sort columns; above
    it the columns return to their old positions.
    """
    near = [reaching(call) for call in calls]
    keys, sorts = calls[0].partitions, calls[0].sorts
    wide: list[ir.Expression] = list(keys)
    positions = {key.index: at for at, key in enumerate(keys) if is_column(key)}
    for column in columns(schema):
        if column.index not in positions:
            positions[column.index] = len(wide)
            wide.append(column)
    orders = []
    for sort in sorts:
        if is_column(sort.expression):
            at = positions[sort.expression.index]
        else:
            at = len(wide)
            wide.append(sort.expression)
        orders.append(direction_of(at, sort.direction))
    types = tuple(expression.type for expression in wide)
    moved = [_moved(call, positions) for call in calls]
    carried = tuple(at for at, reach in enumerate(near) if reach.carry is not None)
    answers = tuple(call.type for call in calls)
    windowed = WindowNode(
        input=compute(node, schema, tuple(wide), relation.plan_path),
        keys=len(keys),
        orders=tuple(orders),
        reach=WindowReach(
            whole=any(reach.whole for reach in near),
            before=max(reach.before for reach in near),
            after=max(reach.after for reach in near),
            counted=any(reach.counted for reach in near),
            carried=carried,
            peers=any(reach.peers for reach in near),
        ),
        sql=_statement(types, moved, near, relation.plan_path),
        schema=arrow_schema((*types, *answers)),
        plan_path=relation.plan_path,
    )
    wanted = (*(positions[at] for at in range(len(schema))), *range(len(types), len(types) + len(calls)))
    return select(windowed, wanted, (*schema, *answers), relation.plan_path)


def _moved(call: ir.WindowCall, positions: dict[int, int]) -> ir.WindowCall:
    """The call over rows whose columns have moved."""
    position_of = positions.__getitem__
    arguments = tuple(
        argument if isinstance(argument, str) else with_positions(argument, position_of) for argument in call.arguments
    )
    sorts = tuple(replace(sort, expression=with_positions(sort.expression, position_of)) for sort in call.sorts)
    return replace(call, arguments=arguments, sorts=sorts)


def _over(
    call: ir.WindowCall, reach: Reaching, partition: ir.Field, position: ir.Field, peers: ir.Field
) -> ir.WindowCall:
    """The call over rows in order: by their positions, or by their peers, unless the frame is one of values."""
    by_value = call.bounds is ir.BoundsKind.RANGE and any(bound.offset for bound in (call.lower, call.upper))
    if by_value and call.function.name not in RANKING:
        return replace(call, partitions=(partition,))
    sort = ir.SortKey(expression=peers if reach.peers else position, direction=ir.Direction.ASC_NULLS_LAST)
    bounds = call.bounds if reach.peers else ir.BoundsKind.ROWS
    return replace(call, partitions=(partition,), sorts=(sort,), bounds=bounds)


def _statement(types: ir.Schema, calls: list[ir.WindowCall], near: Sequence[Reaching], plan_path: str) -> str:
    """The SQL of the calls over rows with known positions and peers, each with its carried answer."""
    base = leaf((*types, *[NUMBER] * len(NUMBERS), *_carried_types(calls, near)), plan_path)
    fields = columns(base.schema)
    position, peers, partition, before = fields[len(types) : len(types) + len(NUMBERS)]
    carried = fields[len(types) + len(NUMBERS) :]
    over = tuple(_over(call, reach, partition, position, peers) for call, reach in zip(calls, near, strict=True))
    windows = ir.Window(
        input=base, calls=over, schema=(*base.schema, *(call.type for call in calls)), plan_path=plan_path
    )
    wanted = (*columns(windows.schema)[len(base.schema) :], position, before, *carried)
    rows = project(windows, wanted)
    bases = iter(f"b{at}" for at in range(len(carried)))
    answers = [
        f"CAST({reach.going_on(f'a{at}', None if reach.carry is None else next(bases))} AS {sql_type(call.type)})"
        for at, (call, reach) in enumerate(zip(calls, near, strict=True))
    ]
    names = [*(f"a{at}" for at in range(len(calls))), "position", "before", *(f"b{at}" for at in range(len(carried)))]
    return f"SELECT {', '.join(answers)}, position FROM ({render(rows, [base])}) AS answers({', '.join(names)})"


def _carried_types(calls: list[ir.WindowCall], near: Sequence[Reaching]) -> ir.Schema:
    return tuple(call.type for call, reach in zip(calls, near, strict=True) if reach.carry is not None)
