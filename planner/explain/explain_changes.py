"""A plan as a continuous task, explained: its operators, and what each one's work follows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias, assert_never

import pyarrow as pa

from ...operators.changes.event_time.interval_closing import IntervalClosing
from ...operators.changes.event_time.window_closing import (
    AnyClosing,
    CalendarClosing,
    CountClosing,
    SessionClosing,
    WindowClosing,
)
from ...operators.changes.group import Count, Extreme, GroupMeasure, Sum
from ...operators.changes.network.network_graph import KeptState
from ...operators.changes.top import Counting
from ...operators.changes.window import WindowReach
from ...proto.values import Explanation, TaskOptions
from .. import ir
from ..changes.change_nodes import (
    MARK,
    BackNode,
    ChangeNode,
    ComputeNode,
    ConstantNode,
    DifferenceNode,
    DistinctOrSetOpNode,
    FinalAsOfNode,
    FinalCountsNode,
    FinalMatchesNode,
    FinalSessionsNode,
    FinalWindowsNode,
    GroupNode,
    JoinNode,
    LoopNode,
    OnlyOneNode,
    OnTimeNode,
    OutputsNode,
    RecomputeNode,
    RegroupNode,
    SelectNode,
    SourceNode,
    TopNode,
    WindowNode,
    inputs_of,
    nodes_of,
)
from ..changes.event_time.kept_state import state_of, state_of_source
from ..physical.sources import PlannedSource
from .explain_operators import marks, write_json
from .explanation_text import explanation

_PROMISE: Final = (
    "each epoch gives how the result has changed since the one before it, one row for each that has, in canonical order"
)


Called: TypeAlias = Mapping[str, str]

_SOURCES: Final[Called] = {}

States: TypeAlias = Mapping[str, KeptState]

_STATES: Final[States] = {}


def explain(
    root: ChangeNode,
    sources: Sequence[PlannedSource],
    schema: pa.Schema,
    options: TaskOptions,
    warnings: Sequence[str],
    writes: Sequence[ir.Write | None],
) -> Explanation:
    """The explanation of a plan over changes. `writes` are that of the result, or None, and those of side tables."""
    write, *side_tables = (write and write_json(write) for write in writes)
    states = {source.name: state_of_source(source.event_time) for source in sources}
    return explanation(
        {
            "mode": options.mode.value,
            "determinism": options.determinism.value,
            "promise": _PROMISE,
            "channels": options.channels,
            "columns": _fields(schema),
            "writes": write,
            "side_tables": side_tables,
            "sources": [
                {
                    "name": source.name,
                    "kind": "static" if source.static else "fed",
                    "columns": [{"name": c.name, "type": str(c.type), "nullable": c.nullable} for c in source.columns],
                    "reads": list(source.plan_paths),
                    "files": [item.path for item in source.items],
                }
                for source in sources
            ],
            "operators": operators_json(root, channels=options.channels, states=states),
            "warnings": list(warnings),
        }
    )


def operators_json(
    root: ChangeNode, called: Called = _SOURCES, *, channels: int | None = None, states: States = _STATES
) -> list[dict[str, Any]]:
    """Every operator once, numbered from 1, the root's number. `called` names the sources that are not the plan's.
    Pipelines end in a task of so many `channels`; a loop's operators have no channels of their own. `states` are those
    of the plan's sources.
    """
    numbers = {node: number for number, node in enumerate(nodes_of(root), 1)}
    ends = _ends(root, channels) if channels is not None else ()
    return [_operator(node, numbers, called, states, ends=node in ends) for node in numbers]


def _ends(root: ChangeNode, channels: int) -> frozenset[ChangeNode]:
    """The operators that end a pipeline: their rows are the result, or go to the channel of their
    key.
    """
    by_key = nodes_of(root) if channels > 1 else ()
    return frozenset((root, *(child for node in by_key if takes_by_key(node) for child in inputs_of(node))))


def takes_by_key(node: ChangeNode) -> bool:
    """Tests whether an operator takes rows at the channel of their key, so that an exchange stands before it. The
    slices of final windows are already there.
    """
    match node:
        case FinalWindowsNode(input=GroupNode()):
            return False
        case JoinNode() | OnlyOneNode():
            return True
        case _:
            return _blocks(node)


def _blocks(node: ChangeNode) -> bool:
    """Tests whether an operator decides only when all changes of its time have come."""
    grouped = DistinctOrSetOpNode | GroupNode | TopNode | RegroupNode | WindowNode | RecomputeNode
    final = FinalWindowsNode | FinalSessionsNode | FinalCountsNode | FinalMatchesNode | FinalAsOfNode
    return isinstance(node, grouped | final)


def _operator(
    node: ChangeNode, numbers: Mapping[ChangeNode, int], called: Called, states: States, *, ends: bool
) -> dict[str, Any]:
    how, why = _work(node)
    state = states.get(node.source) if isinstance(node, SourceNode) else state_of(node)
    return {
        "number": numbers[node],
        "operator": f"{_name(node, called)}{_kept_by_floor(node)}",
        "incremental": how != "everything",
        "work": how,
        "why": why,
        "keeps": "" if state is None else state.keeps,
        "bound": None if state is None else state.bound,
        "columns": _fields(node.schema),
        "inputs": [numbers[child] for child in inputs_of(node)],
        "place": node.plan_path,
        **marks(ends=ends, blocks=_blocks(node)),
    }


def _kept_by_floor(node: ChangeNode) -> str:
    """The end of the name of an operator that lets rows go by the floor of a column."""
    if getattr(node, "floor", None) is None and getattr(node, "floors", None) is None:
        return ""
    return f", {_kept(node)}"


def _kept(node: ChangeNode) -> str:
    """The state of an operator that has a bound, in words."""
    state = state_of(node)
    return "" if state is None else f"keeps {state.keeps} {state.bound}"


def _fields(schema: pa.Schema) -> list[dict[str, Any]]:
    return [{"name": field.name, "type": str(field.type), "nullable": field.nullable} for field in schema]


def _work(node: ChangeNode) -> tuple[str, str]:
    """The extent of an operator's work, and the reason if it is more than the change."""
    match node:
        case RegroupNode():
            return "touched keys", "touched keys are computed again from their rows"
        case WindowNode(reach=WindowReach(whole=True)):
            return "touched keys", "touched partitions are computed again from their rows"
        case FinalCountsNode():
            return "touched keys", "open windows of touched keys are counted again"
        case RecomputeNode():
            return "everything", node.why
        case _:
            return "change", ""


def _name(node: ChangeNode, called: Called) -> str:  # noqa: C901 (a line per node)
    match node:
        case SourceNode(source=name) if name in called:
            return called[name]
        case SourceNode():
            columns = ("the watermark at the row" if column == MARK else column for column in node.columns)
            return f"source {node.source} ({', '.join(columns)})"
        case ConstantNode() | OutputsNode():
            return "constant rows" if isinstance(node, ConstantNode) else "the result, and rows of side tables"
        case SelectNode():
            return f"select, {len(node.columns)} columns" if len(node.inputs) == 1 else f"union of {len(node.inputs)}"
        case ComputeNode():
            return f"compute, {len(node.schema)} columns"
        case DifferenceNode():
            return "difference"
        case JoinNode():
            keys = ", ".join(f"c{key.left} = c{key.right}" for key in node.keys)
            more = " and a condition" if node.condition is not None else ""
            near = "" if node.closing is None else f", {_near(node.closing)}, keeps rows that can still match"
            return f"join on {keys or 'every pair'}{more}{near}"
        case OnlyOneNode():
            return "only one match"
        case DistinctOrSetOpNode():
            kept = "" if node.closing is None else f", {_ends_of(node.closing)}, keeps rows of open windows"
            return f"{node.weighing.value.replace('_', ' ')}, {len(node.inputs)} inputs{kept}"
        case GroupNode():
            measures = ", ".join(_measure(measure) for measure in node.measures)
            kept = ", for the slices of open windows" if node.closing is not None else ""
            return f"group by {len(node.key)} keys: {measures or 'nothing'}{kept}"
        case TopNode():
            ties = "" if node.counting is Counting.ROWS else f" by {node.counting.value.replace('_', ' ')}"
            return (
                f"first {node.count} rows{ties} after {node.offset}, {len(node.key)} keys, {len(node.orders)} sort keys"
            )
        case RegroupNode():
            return f"regroup by {len(node.key)} keys"
        case WindowNode():
            calls = len(node.schema) - len(node.input.schema)
            return f"{calls} windows by {node.keys} keys, {len(node.orders)} sort keys"
        case FinalAsOfNode() | FinalMatchesNode():
            return _name_of_final_join(node)
        case OnTimeNode() | FinalWindowsNode() | FinalSessionsNode() | FinalCountsNode():
            return _name_of_final(node)
        case RecomputeNode():
            return f"recompute, {len(node.inputs)} inputs"
        case BackNode():
            return f"what has come back in loop {node.loop}"
        case LoopNode():
            return f"loop {node.name}"
        case _:
            assert_never(node)


def _name_of_final(node: OnTimeNode | FinalWindowsNode | FinalSessionsNode | FinalCountsNode) -> str:
    ends = _near(node.closing) if isinstance(node.closing, IntervalClosing) else _ends_of(node.closing)
    match node:
        case OnTimeNode(closing=IntervalClosing(lateness=lateness), beside=None, late=late):
            return f"{'late rows' if late else 'rows on time'}, lateness {lateness:,}"
        case OnTimeNode(late=late):
            return f"{'late rows' if late else 'rows on time'}, {ends}"
        case FinalWindowsNode():
            cost = "" if node.states is None else "; each window at the same cost"
            return f"final windows by {node.keys} keys, {ends}, {_kept(node)}{cost}"
        case FinalSessionsNode():
            cost = "each session at the same cost"
            return f"final sessions by {node.keys} keys, {ends}, {_kept(node)}; {cost}"
        case FinalCountsNode():
            return f"final windows of rows by {node.keys} keys, {ends}, keeps rows of windows that are not full"


def _name_of_final_join(node: FinalAsOfNode | FinalMatchesNode) -> str:
    if isinstance(node, FinalMatchesNode):
        which = "with" if node.matched else "without"
        return f"rows {which} a match, {_near(node.closing)}, keeps rows that can still match"
    keys = ", ".join(f"c{key.left} = c{key.right}" for key in node.keys)
    limit = "" if node.tolerance is None else f", at most {node.tolerance:,} earlier"
    late = f", lateness {node.closing.lateness:,}" if node.closing.lateness else ""
    return f"as-of join on {keys or 'every pair'}{limit}{late}, keeps open rows and the latest row of each key"


def _near(closing: IntervalClosing) -> str:
    """The distance of rows that match, in units of their time column."""
    late = f", lateness {closing.lateness:,}" if closing.lateness else ""
    return f"times {closing.before:,} before to {closing.after:,} after{late}"


def _ends_of(closing: AnyClosing) -> str:
    """The windows, in units of their time column."""
    late = f", lateness {closing.lateness:,}" if closing.lateness else ""
    match closing:
        case WindowClosing(size=size, slide=slide):
            return f"size {size:,}{f', slide {slide:,}' if slide != size else ''}{late}"
        case CalendarClosing(size=size, slide=slide, unit=unit, zone=zone):
            where = f" in {zone}" if zone else ""
            return f"size {size:,} {unit}{f', slide {slide:,}' if slide != size else ''}{where}{late}"
        case SessionClosing(gap=gap):
            return f"gap {gap:,}{late}"
        case CountClosing(size=size, slide=slide):
            return f"{size:,} rows{f', {slide:,} apart' if slide != size else ''}{late}"


def _measure(measure: GroupMeasure) -> str:
    match measure:
        case Count(column=None):
            return "count"
        case Count():
            return "count of values"
        case Sum():
            return "sum"
        case Extreme():
            return "greatest" if measure.greatest else "least"
        case _:
            assert_never(measure)
