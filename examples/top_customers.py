"""A live view of the three customers with the largest orders, kept up to date as orders come, change and go.

::

    SELECT customer, sum(amount) AS amount FROM orders GROUP BY customer ORDER BY amount DESC LIMIT 3

Each epoch gives only its changes. The reader adds them up.
"""

from __future__ import annotations

from collections import Counter

import pyarrow as pa
import substrait.dataframe as sub

import tidegate

DAYS = [
    [("ann", 30, "insert"), ("bob", 20, "insert"), ("cid", 10, "insert"), ("dot", 5, "insert")],
    [("dot", 40, "insert"), ("ann", 30, "update_preimage"), ("ann", 25, "update_postimage")],
    [("dot", 40, "delete")],
]


def main() -> None:
    view: Counter[tuple[str, int]] = Counter()
    with tidegate.local() as client, client.create_task(top_customers(), mode="continuous") as task:
        for orders in DAYS:
            epoch = task.run_epoch({"orders": tidegate.Changes(table(orders), "change")})
            print(f"day {epoch.number}")
            for row in epoch.table().to_pylist():
                print("  {_weight:+} {customer} {amount}".format(**row))
                view[row["customer"], row["amount"]] += row["_weight"]
    print("now:", ", ".join(f"{customer} {amount}" for (customer, amount), there in sorted(view.items()) if there))


def table(orders: list[tuple[str, int, str]]) -> pa.Table:
    customers, amounts, changes = zip(*orders, strict=True)
    return pa.table({"customer": customers, "amount": amounts, "change": changes})


def top_customers() -> bytes:
    orders = sub.read_named_table("orders", {"customer": sub.string, "amount": sub.i64})
    totals = orders.group_by("customer").agg(sub.f.sum(sub.col("amount")).alias("amount"))
    return bytes(totals.sort("amount", descending=True).limit(3).to_plan().SerializeToString())


if __name__ == "__main__":
    main()
