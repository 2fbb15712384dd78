"""Describes a relation in a few words, as `explain` shows it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from .. import ir
from ..choose.sliding_operators import without_numbers
from ..ir import types as t


def described(relation: ir.Relation) -> str:  # noqa: C901 (a line per relation)
    """The relation's work in a few words, without its inputs."""
    match relation:
        case ir.Read():
            return f"read {relation.source} ({', '.join(relation.names)}){_declared(relation)}"
        case ir.LocalFiles():
            return f"local files {relation.source} ({', '.join(relation.names)}){_declared(relation)}"
        case ir.Values():
            return f"values, {len(relation.rows)} rows"
        case ir.Project():
            return f"project, {len(relation.expressions)} columns"
        case ir.Sort():
            return f"sort, {len(relation.keys)} keys"
        case ir.TopN():
            return f"top-n{' with ties' if relation.ties else ''}, {len(relation.keys)} keys"
        case ir.Aggregate():
            functions = _functions(relation.measures)
            sets = f" in {len(relation.grouping_sets)} grouping sets" if len(relation.grouping_sets) > 1 else ""
            windows = " by windows of time" if any(map(_numbers_windows, relation.keys)) else ""
            return f"aggregate{windows}, {len(relation.keys)} keys{sets}" + (f": {functions}" if functions else "")
        case ir.SlidingAggregate() | ir.FinalSlidingAggregate() | ir.SlidingWindows():
            count = relation.keys if isinstance(relation.keys, int) else len(relation.keys)
            spans = f"windows of {relation.length} slices, {relation.step} apart"
            return f"{relation.traits.name}, {spans}, {count} keys: {_functions(relation.measures)}{_cost(relation)}"
        case ir.Join() | ir.LateralJoin():
            lateral = "lateral " if isinstance(relation, ir.LateralJoin) else ""
            return f"{lateral}join, {relation.type.value}"
        case ir.Set():
            return f"set, {relation.operation.value} of {len(relation.inputs)}"
        case ir.Window():
            return f"window: {', '.join(call.function.name for call in relation.calls)}"
        case ir.Expand():
            why = f": {relation.why}" if relation.why else ""
            return f"expand, {len(relation.alternatives)} alternatives{why}"
        case ir.Iterate() | ir.Recursion():
            entering = "" if relation.input is None else ", with an input"
            fast = ", one recursive statement" if isinstance(relation, ir.Recursion) else ""
            return f"loop {relation.name!r}{fast}{entering}"
        case ir.Rounds():
            return f"loop {relation.iterate.name!r}, round by round: {relation.why}"
        case ir.LoopInput():
            return f"input {relation.port} of the loop"
        case ir.Reference():
            return f"what came back to loop {relation.name!r}"
        case ir.Unnest():
            marks = [text for text, holds in (("outer", relation.outer), ("ordinality", relation.ordinality)) if holds]
            return ", ".join(["unnest", *marks, f"{len(relation.lists)} lists"])
        case ir.PackLists():
            return f"packing into rows of {relation.length} items, first fit within {relation.window_rows} rows"
        case ir.IndexLookup():
            return f"look-up, {relation.type.value}, {len(relation.keys)} keys, {relation.index.kind} index"
        case ir.MergeJoin():
            keys = ", ".join(f"{key.left} = {key.right} {key.direction.value}" for key in relation.keys)
            more = " and a condition" if relation.condition is not None else ""
            left, right = relation.why
            return f"merge join, {relation.type.value}, by columns {keys}{more}; left {left}, right {right}"
        case ir.AsOfMergeJoin():
            keys = "".join(f", {one.index} = {other.index - len(relation.left.schema)}" for one, other in relation.keys)
            most = "" if relation.tolerance is None else f", at most {relation.tolerance} earlier"
            return f"as-of merge join, {relation.type.value}{keys}{most}"
        case ir.StreamingAggregate():
            functions = _functions(relation.measures)
            return f"streaming aggregate, {len(relation.keys)} keys: {functions or 'none'}; {relation.why}"
        case ir.User():
            return f"user operator {relation.name!r}: {', '.join(_streams(relation))}"
        case ir.IndexTable():
            return f"table of an index ({', '.join(relation.names)})"
        case ir.Shared():
            return f"shared {relation.ordinal}"
        case ir.DenseSlices():
            windows = ", whole windows" if relation.whole else ""
            numbered = sum(not isinstance(key.type, t.Integer) for key in relation.keys)
            kind = f"keys, {numbered} numbered" if numbered else "keys of whole numbers"
            return f"dense slices{windows}, {len(relation.keys)} {kind}: {_functions(relation.measures)}"
        case ir.PartialAggregate():
            return f"partial aggregate, {len(relation.keys)} keys: {_functions(relation.measures)}"
        case ir.FinalAggregate():
            return f"final aggregate, {relation.keys} keys: {_functions(relation.measures)}"
        case ir.FinalDenseSlices():
            return f"final dense slices, {relation.keys} keys: {_functions(relation.measures)}"
        case ir.Exchange():
            return f"exchange, {relation.routing.value}"
        case _:
            return relation.traits.name


def _cost(relation: ir.SlidingAggregate | ir.FinalSlidingAggregate | ir.SlidingWindows) -> str:
    """The cost of a window, as it depends on the number of its slices."""
    if isinstance(relation, ir.SlidingWindows):
        return "; each window at the same cost"
    reason = without_numbers(relation)
    return "" if reason is None else f"; {reason}, so each window costs the logarithm of its slices"


def _streams(relation: ir.User) -> Iterator[str]:
    for at, stream in enumerate(relation.streams):
        dealing = None if relation.dealing is None else relation.dealing[at]
        route = "to one channel" if dealing is None else dealing.routing.value
        keys = "" if dealing is None or not dealing.keys else f" of columns {', '.join(map(str, dealing.keys))}"
        after = f" after {', '.join(stream.after)}" if stream.after else ""
        yield f"{stream.name} {route}{keys}{after}"


def _numbers_windows(key: ir.Expression) -> bool:
    return isinstance(key, ir.Call) and key.function.name in ("time_slice", "calendar_slice")


def _declared(relation: ir.Read | ir.LocalFiles) -> str:
    keys = (f"{relation.names[key.column]} {key.direction.value}" for key in relation.order)
    return f", declared to be sorted by {', '.join(keys)}" if relation.order else ""


def _functions(measures: Sequence[ir.Measure]) -> str:
    return ", ".join(measure.function.name for measure in measures)
