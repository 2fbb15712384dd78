"""The least cost to reach each city: a loop in which a lower cost replaces a higher one.

In each round the body extends every path that it has by one road, and keeps the least cost for each city. SQL's
recursion cannot express this, because it never takes a row back.
"""

from __future__ import annotations

import pyarrow as pa
from substrait.algebra_pb2 import JoinRel, SetRel
from substrait.builders import plan as p
from substrait.builders.extended_expression import aggregate_function, column, scalar_function
from substrait.builders.type import i64, named_struct, string, struct
from substrait.extension_registry import ExtensionRegistry

import tidegate
from tidegate.plans import Plan, iterate

ROADS = pa.table(
    {
        "from": ["Cork", "Cork", "Ghent", "Porto", "Porto", "Turin"],
        "to": ["Ghent", "Porto", "Turin", "Turin", "Ghent", "Cork"],
        "cost": [9, 2, 4, 8, 3, 1],
    }
)
START = pa.table({"city": ["Cork"], "cost": [0]})


def main() -> None:
    with tidegate.local() as client, client.create_task(costs()) as task:
        epoch = task.run_epoch({"roads": ROADS, "start": START})
        for row in epoch.table().to_pylist():
            print("{city}: {cost}".format(**row))


def costs() -> Plan:
    text, number = string(nullable=False), i64(nullable=False)
    roads = p.read_named_table(
        "roads", named_struct(["from", "to", "cost"], struct([text, text, number], nullable=False))
    )
    start = p.read_named_table("start", named_struct(["city", "cost"], struct([text, number], nullable=False)))

    def cheapest(paths: p.UnboundPlan) -> p.UnboundPlan:
        onward = p.join(paths, roads, _call("comparison", "equal", column(0), column(2)), JoinRel.JOIN_TYPE_INNER)
        further = p.select(onward, [column(3), _call("arithmetic", "add", column(1), column(4))])
        every = p.set([start, further], SetRel.SET_OP_UNION_ALL)
        least = aggregate_function(
            "extension:io.substrait:functions_arithmetic", "min", expressions=[column(1)], alias="cost"
        )
        return p.aggregate(every, [column(0)], [least])

    row = named_struct(["city", "cost"], struct([text, i64()], nullable=False))
    plan: Plan = iterate("costs", None, cheapest, schema=row)(ExtensionRegistry(load_default_extensions=True))
    return plan


def _call(kind: str, name: str, *arguments: object) -> object:
    return scalar_function(f"extension:io.substrait:functions_{kind}", name, expressions=arguments)


if __name__ == "__main__":
    main()
