"""The operators on changes whose state nothing bounds."""

from __future__ import annotations

from collections.abc import Collection, Generator, Iterator

from ..changes.change_nodes import ChangeNode, FinalAsOfNode, FinalCountsNode, SourceNode, inputs_of, nodes_of
from ..changes.event_time.kept_state import state_of
from ..ir.walk import unroll


def unbounded(root: ChangeNode, fed: Collection[str]) -> Iterator[str]:
    """A warning for each place in the plan with operators over these sources that keep something for ever."""
    growing: dict[ChangeNode, bool] = {}

    def step(node: ChangeNode) -> Generator[ChangeNode, bool, bool]:
        """Tests whether an operator reads a source that goes on."""
        if node not in growing:
            grows = isinstance(node, SourceNode) and node.source in fed
            for child in inputs_of(node):
                grows |= yield child
            growing[node] = grows
        return growing[node]

    unroll(step, root)
    warned: dict[str, dict[str, None]] = {}
    for node in nodes_of(root):
        state = state_of(node)
        if state is None or state.bound is not None or not growing[node] or isinstance(node, FinalCountsNode):
            continue
        if isinstance(node, FinalAsOfNode):
            yield (
                f"{node.plan_path}: the task keeps the latest right row of each key for ever: this state grows with "
                "the number of keys. With a tolerance, the task lets go of the rows that can no longer match"
            )
        else:
            warned.setdefault(node.plan_path, {})[state.keeps] = None
    for plan_path, kept in warned.items():
        keeps = ", and ".join(kept)
        yield (
            f"{plan_path}: the task keeps {keeps} for ever, because no watermark says which of them are never "
            "needed again: group and join by a time of final windows, or of rows on time"
        )
