"""Facts about the rows of a plan's result, by the plan's explanation."""

from __future__ import annotations

import json

from ...proto.values import Explanation


def is_row_wise(explanation: Explanation) -> bool:
    """True if every row of the result comes from one row of the input, so that channels do not show in the order."""
    return all(pipeline["start"] == "piece" for pipeline in json.loads(explanation.json)["pipelines"])


def keeps_rows(explanation: Explanation) -> bool:
    """True if the result has a row for each row of the input, so that a split's size is the number of its rows."""
    fragments = [part for pipeline in json.loads(explanation.json)["pipelines"] for part in pipeline["fragments"]]
    relations = [relation["relation"] for fragment in fragments for relation in fragment["relations"]]
    return is_row_wise(explanation) and all(relation.startswith(("read ", "project")) for relation in relations)
