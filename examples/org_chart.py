"""All people below the head of a company, with their levels: a loop that counts its rounds.

In SQL::

    WITH RECURSIVE chart AS (
      SELECT name, 0 AS level FROM people WHERE manager = 'nobody'
      UNION
      SELECT people.name, chart.level + 1 FROM chart JOIN people ON people.manager = chart.name)
    SELECT * FROM chart
"""

from __future__ import annotations

import pyarrow as pa
from substrait.algebra_pb2 import JoinRel
from substrait.builders import plan as p
from substrait.builders.extended_expression import column, literal, scalar_function
from substrait.builders.type import i64, named_struct, string, struct
from substrait.extension_registry import ExtensionRegistry

import tidegate
from tidegate.plans import Plan, iterate

PEOPLE = pa.table(
    {
        "name": ["Ada", "Bo", "Cy", "Di", "Ed", "Fay"],
        "manager": ["nobody", "Ada", "Ada", "Bo", "Di", "Cy"],
    }
)
MOVED = pa.table(
    {
        "name": ["Ada", "Bo", "Cy", "Di", "Ed", "Fay"],
        "manager": ["nobody", "Ada", "Bo", "Ada", "Di", "Cy"],
    }
)


def main() -> None:
    with tidegate.local() as client, client.create_task(chart()) as task:
        for people in (PEOPLE, MOVED):
            epoch = task.run_epoch({"people": people})
            print(f"chart {epoch.number}")
            for person in sorted(epoch.table().to_pylist(), key=lambda row: (row["level"], row["name"])):
                print("  " * (person["level"] + 1) + person["name"])


def chart() -> Plan:
    text, number = string(nullable=False), i64(nullable=False)
    people = p.read_named_table("people", named_struct(["name", "manager"], struct([text, text], nullable=False)))
    head = p.filter(people, _call("comparison", "equal", column("manager"), literal("nobody", text)))
    seed = p.select(head, [column("name"), literal(0, number, "level")])

    def one_level_down(above: p.UnboundPlan) -> p.UnboundPlan:
        below = p.join(above, people, _call("comparison", "equal", column(0), column(3)), JoinRel.JOIN_TYPE_INNER)
        return p.select(below, [column(2), _call("arithmetic", "add", column(1), literal(1, number))])

    plan: Plan = iterate("chart", seed, one_level_down, distinct=True)(ExtensionRegistry(load_default_extensions=True))
    return plan


def _call(kind: str, name: str, *arguments: object) -> object:
    return scalar_function(f"extension:io.substrait:functions_{kind}", name, expressions=arguments)


if __name__ == "__main__":
    main()
