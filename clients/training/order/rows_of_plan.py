"""Facts about the rows of a plan's input and result, by the plan's explanation."""

from __future__ import annotations

import json
from dataclasses import dataclass

from ...proto.values import Explanation


@dataclass(frozen=True, slots=True)
class PlanRows:
    """`row_wise`: every row of the result comes from one row of the input, so that channels do not show in the order.
    `keeps_rows`: there is a row for each row of the input. `reads` has the columns that the plan reads of sources that
    are fed.
    """

    row_wise: bool
    keeps_rows: bool
    reads: frozenset[str]


def rows_of_plan(explanation: Explanation) -> PlanRows:
    sources = json.loads(explanation.json)["sources"]
    reads = frozenset(column["name"] for source in sources if source["kind"] == "fed" for column in source["columns"])
    return PlanRows(_is_row_wise(explanation), _keeps_rows(explanation), reads)


def _is_row_wise(explanation: Explanation) -> bool:
    return all(pipeline["start"] == "piece" for pipeline in json.loads(explanation.json)["pipelines"])


def _keeps_rows(explanation: Explanation) -> bool:
    fragments = [part for pipeline in json.loads(explanation.json)["pipelines"] for part in pipeline["fragments"]]
    relations = [relation["relation"] for fragment in fragments for relation in fragment["relations"]]
    return _is_row_wise(explanation) and all(relation.startswith(("read ", "project")) for relation in relations)
