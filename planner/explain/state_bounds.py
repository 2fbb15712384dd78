"""The operators on changes whose state nothing bounds."""

from __future__ import annotations

from collections.abc import Collection, Generator, Iterator

from ..changes.change_nodes import ChangeNode, FinalCountsNode, SourceNode, inputs_of, nodes_of
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
        if state is not None and state.bound is None and growing[node] and not isinstance(node, FinalCountsNode):
            warned.setdefault(node.plan_path, {})[state.keeps] = None
    for plan_path, kept in warned.items():
        keeps = ", and ".join(kept)
        yield (
            f"{plan_path}: the task keeps {keeps} for ever, because no watermark says which of them are never "
            "needed again: group and join by a time of final windows, or of rows on time"
        )
