"""A SQL query, built with substrait-python, explained, and run once.

::

    SELECT city, count(*) AS orders, sum(amount) AS amount
    FROM orders JOIN customers ON customer = id
    WHERE amount >= 20
    GROUP BY city
    HAVING count(*) > 1
    ORDER BY amount DESC
"""

from __future__ import annotations

import pyarrow as pa
import substrait.dataframe as sub

import tidegate

CUSTOMERS = pa.table({"id": [1, 2, 3, 4], "city": ["Cork", "Ghent", "Cork", "Porto"]})
ORDERS = pa.table({"customer": [1, 1, 2, 3, 3, 4, 2, 2], "amount": [30, 5, 45, 60, 20, 80, 10, 25]})


def main() -> None:
    plan = big_orders_per_city()
    with tidegate.local() as client:
        print(client.explain(plan).text)
        answer = client.query(plan, {"orders": ORDERS, "customers": CUSTOMERS})
    for row in answer.to_pylist():
        print("{city:<8}{orders:>4}{amount:>6}".format(**row))


def big_orders_per_city() -> bytes:
    orders = sub.read_named_table("orders", {"customer": sub.i64, "amount": sub.i64})
    customers = sub.read_named_table("customers", {"id": sub.i64, "city": sub.string})
    plan = (
        orders.filter(sub.col("amount") >= 20)
        .join(customers, on=sub.col("customer") == sub.col("id"), how="inner")
        .group_by("city")
        .agg(sub.f.count(sub.col("amount")).alias("orders"), sub.f.sum(sub.col("amount")).alias("amount"))
        .filter(sub.col("orders") > 1)
        .sort("amount", descending=True)
        .to_plan()
    )
    return bytes(plan.SerializeToString())


if __name__ == "__main__":
    main()
