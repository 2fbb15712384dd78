"""A first look at Tidegate: `make run`.

Starts a service, makes a small data set, submits one Substrait plan, feeds it three days of sales, seals each day with
a barrier, and prints each step.
"""

from __future__ import annotations

import hashlib
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import substrait.dataframe as sub

import tidegate

PRODUCTS = {"product": ["cup", "pot", "tea", "tray"], "category": ["china", "china", "drinks", "wood"]}
PRICES = {"cup": 8, "pot": 25, "tea": 4, "tray": 15}


def main() -> None:
    with tempfile.TemporaryDirectory() as folder, service(Path(folder)) as address:
        print(f"1. A Tidegate service runs in a process of its own and listens on {address}.")
        products, days = make_data(Path(folder))
        print(
            f"2. Made a data set: {len(days)} days of sales in {sum(map(len, days))} Parquet files, and the products."
        )
        plan = revenue_per_category()
        print(
            f"3. Wrote a plan with substrait-python, {len(plan)} bytes: sales joined with products, summed by category."
        )
        with tidegate.connect(address) as client:
            first = run(client, plan, products, days, show=True)
            second = run(client, plan, products, days, show=False)
        print("\n6. Ran it all again as a second task. Are the rows and their order the same, bit for bit?")
        print(f"   {'Yes' if first == second else 'No'}: SHA-256 {first[:16]} and {second[:16]}.")


def run(client: tidegate.Client, plan: bytes, products: Path, days: list[list[Path]], *, show: bool) -> str:
    """Run one task over all days, an epoch for each day, and return a digest of its rows."""
    say = print if show else lambda *_: None
    digest = hashlib.sha256()
    with client.create_task(plan, tables={"products": products}) as task:
        say("4. Submitted it once. It is a task now and stays compiled and warm. Its sources:")
        for source in task.sources.values():
            say(f"   - {source.name}: " + ("static, read whole in every epoch" if source.static else "fed with splits"))
        for day, files in enumerate(days, 1):
            for file in files:
                task.add_split("sales", file)
            number = task.request_barrier()
            say(f"\n   Day {day}: fed {len(files)} files; the barrier sealed them as epoch {number}. Its rows:")
            table = task.read_epoch()
            say(indented(table))
            digest.update(repr(table.to_pylist()).encode())
        task.no_more_splits()
        last = " and ".join(type(frame).__name__ for frame in task.next())
        say(f"\n5. Told the task that there are no more splits. The task answers: {last}.")
    return digest.hexdigest()


def revenue_per_category() -> bytes:
    sales = sub.read_named_table("sales", {"product": sub.string, "pieces": sub.i64, "price": sub.i64})
    products = sub.read_named_table("products", {"product_name": sub.string, "category": sub.string})
    plan = (
        sales.join(products, on=sub.col("product") == sub.col("product_name"), how="inner")
        .with_columns(revenue=sub.col("pieces") * sub.col("price"))
        .group_by("category")
        .agg(sub.f.sum(sub.col("pieces")).alias("pieces"), sub.f.sum(sub.col("revenue")).alias("revenue"))
        .sort("category")
        .to_plan()
    )
    return bytes(plan.SerializeToString())


def make_data(folder: Path) -> tuple[Path, list[list[Path]]]:
    """Write the products' file, and for each day the files of its sales."""
    products = folder / "products.parquet"
    pq.write_table(pa.table({"product_name": PRODUCTS["product"], "category": PRODUCTS["category"]}), products)
    days = []
    for day in range(1, 4):
        files = []
        for shop in range(1, 3):
            sold = [name for i, name in enumerate(PRICES) for _ in range((day * 7 + shop * 3 + i) % 5)]
            pieces = [1 + (i * day) % 4 for i in range(len(sold))]
            table = pa.table({"product": sold, "pieces": pieces, "price": [PRICES[name] for name in sold]})
            files.append(folder / f"sales-day{day}-shop{shop}.parquet")
            pq.write_table(table, files[-1])
        days.append(files)
    return products, days


@contextmanager
def service(folder: Path) -> Iterator[str]:
    """Start a server that may read files under `folder`, and give its address."""
    command = [sys.executable, "-m", "tidegate.server.cli", "serve", "--listen", "127.0.0.1:0", "--root", str(folder)]
    command += ["--log-level", "warning"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            ready = process.stdout.readline() if process.stdout is not None else ""
            address = re.search(r"\S+:\d+", ready)
            if address is None:
                sys.exit(f"the service did not start: {ready}")
            yield address.group()
        finally:
            process.terminate()


def indented(table: pa.Table) -> str:
    lines = ["".join(f"{name:>10}" for name in table.column_names)]
    lines += ["".join(f"{value:>10}" for value in row.values()) for row in table.to_pylist()]
    return "\n".join(f"     {line}" for line in lines)


if __name__ == "__main__":
    main()
