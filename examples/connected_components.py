"""Groups of linked accounts: every account takes the least account number that it can reach, until none changes.

Links go both ways. In each round an account takes the least of its own number and its neighbours' numbers so far.
"""

from __future__ import annotations

import pyarrow as pa
from substrait.algebra_pb2 import JoinRel, SetRel
from substrait.builders import plan as p
from substrait.builders.extended_expression import aggregate_function, column, scalar_function
from substrait.builders.type import i64, named_struct, struct
from substrait.extension_registry import ExtensionRegistry

import tidegate
from tidegate.plans import Plan, iterate

LINKS = pa.table({"one": [11, 12, 14, 15], "other": [12, 13, 15, 16]})
ONE_MORE = pa.table({"one": [11, 12, 14, 15, 13], "other": [12, 13, 15, 16, 16]})


def main() -> None:
    with tidegate.local() as client, client.create_task(components(), channels=2) as task:
        for links in (LINKS, ONE_MORE):
            epoch = task.run_epoch({"links": links})
            groups: dict[int, list[str]] = {}
            for row in epoch.table().to_pylist():
                groups.setdefault(row["component"], []).append(str(row["account"]))
            print(f"{links.num_rows} links: " + " and ".join(", ".join(group) for group in groups.values()))


def components() -> Plan:
    number = i64(nullable=False)
    links = p.read_named_table("links", named_struct(["one", "other"], struct([number, number], nullable=False)))
    turned = p.select(links, [column(1), column(0)])
    both_ways = p.set([links, turned], SetRel.SET_OP_UNION_ALL)
    itself = p.select(both_ways, [column(0), column(0, alias="component")])

    def least(labels: p.UnboundPlan) -> p.UnboundPlan:
        met = p.join(labels, both_ways, _equal(column(0), column(2)), JoinRel.JOIN_TYPE_INNER)
        next_to = p.select(met, [column(3), column(1)])
        smallest = aggregate_function(
            "extension:io.substrait:functions_arithmetic", "min", expressions=[column(1)], alias="component"
        )
        return p.aggregate(p.set([itself, next_to], SetRel.SET_OP_UNION_ALL), [column(0)], [smallest])

    row = named_struct(["account", "component"], struct([number, i64()], nullable=False))
    plan: Plan = iterate("components", None, least, schema=row)(ExtensionRegistry(load_default_extensions=True))
    return plan


def _equal(left: object, right: object) -> object:
    return scalar_function("extension:io.substrait:functions_comparison", "equal", expressions=[left, right])


if __name__ == "__main__":
    main()
