"""Permissions with nested groups: a loop over memberships, joined with the grants.

Groups may contain one another in a circle. The loop ends all the same, because it adds only new memberships.
"""

from __future__ import annotations

import pyarrow as pa
from substrait.algebra_pb2 import JoinRel
from substrait.builders import plan as p
from substrait.builders.extended_expression import UnboundExtendedExpression, column, scalar_function
from substrait.builders.type import named_struct, string, struct
from substrait.extension_registry import ExtensionRegistry

import tidegate
from tidegate.plans import Plan, iterate

MEMBERSHIPS = pa.table(
    {
        "member": ["ada", "bert", "authors", "editors", "staff"],
        "group": ["authors", "editors", "staff", "staff", "editors"],  # staff and editors contain each other
    }
)
GRANTS = pa.table({"group": ["authors", "editors", "staff"], "document": ["drafts", "proofs", "handbook"]})
ASKED = pa.table({"who": ["ada", "bert", "carl"], "what": ["proofs", "drafts", "handbook"]})


def main() -> None:
    with tidegate.local() as client:
        allowed = client.query(permissions(), {"memberships": MEMBERSHIPS, "grants": GRANTS}).to_pylist()
    known = {(row["member"], row["document"]) for row in allowed}
    for who, what in zip(*(asked_column.to_pylist() for asked_column in ASKED.columns), strict=True):
        print(f"{who} may {'' if (who, what) in known else 'not '}read the {what}")


def permissions() -> Plan:
    memberships = p.read_named_table("memberships", columns("member", "group"))
    grants = p.read_named_table("grants", columns("group", "document"))

    def in_the_groups_of_its_groups(belongs: p.UnboundPlan) -> p.UnboundPlan:
        joined = p.join(belongs, memberships, equal(1, 2), JoinRel.JOIN_TYPE_INNER)
        return p.select(joined, [column(0), column(3)])

    belongs = iterate("belongs", memberships, in_the_groups_of_its_groups, distinct=True)
    granted = p.join(belongs, grants, equal(1, 2), JoinRel.JOIN_TYPE_INNER)
    plan: Plan = p.select(granted, [column(0), column(3)])(ExtensionRegistry(load_default_extensions=True))
    return plan


def columns(*names: str) -> object:
    return named_struct(names, struct([string(nullable=False) for _ in names], nullable=False))


def equal(one: int, other: int) -> UnboundExtendedExpression:
    both = [column(one), column(other)]
    return scalar_function("extension:io.substrait:functions_comparison", "equal", expressions=both)


if __name__ == "__main__":
    main()
