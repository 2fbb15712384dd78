"""The state of a planned loop, a function of its input alone: after any history, that of a fresh loop."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np
import pytest

from tidegate.operators.changes.network.network import Network
from tidegate.operators.changes.values.change import Change
from tidegate.planner.decode.whole_plan import decode_plan
from tidegate.proto.values import PlanBytes

from ..loops.queries import QUERIES, SCHEMAS, history
from ..operators.changes.network.running import kept
from .histories import Changed, Row, table
from .network import bare


def run(network: Network, entries: Sequence[tuple[str, Sequence[str]]], changed: Mapping[str, Changed]) -> None:
    for port, (source, columns) in enumerate(entries):
        rows = table([row for row, _ in changed[source]], SCHEMAS[source]).select(columns).combine_chunks()
        weights = np.array([weight for _, weight in changed[source]], dtype=np.int64)
        for batch in rows.to_batches():
            network.feed(port, 0, Change.of_batch(batch, weights))
    network.end()
    assert network.run()
    network.take()


@pytest.mark.parametrize("name", QUERIES)
def test_state_after_a_history_is_that_of_the_same_input_at_once(name: str) -> None:
    plan = decode_plan(PlanBytes(binary=QUERIES[name].plan())).plan
    channels = 1 + len(name) % 3
    for seed in range(2):
        network, entries = bare(plan, channels)
        there: dict[str, Counter[Row]] = {source: Counter() for source in SCHEMAS}
        for changed in history(seed):
            run(network, entries, changed)
            for source, rows in changed.items():
                for row, weight in rows:
                    there[source][row] += weight
        fresh, _ = bare(plan, channels)
        run(fresh, entries, {source: [row for row in rows.items() if row[1]] for source, rows in there.items()})
        assert kept(network) == kept(fresh)
