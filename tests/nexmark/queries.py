"""Nexmark's queries 0 to 8 and 11 to 20: each as SQL for DuckDB, and as a plan.

Queries without windows are planned by DataFusion from the same SQL. Query 12 counts by event time, where the original
counts by the clock. Queries of windows have a second plan, whose windows come once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

import substrait.dataframe as sub

from tidegate import windows

TEN, TWO, TICK = timedelta(seconds=10), timedelta(seconds=2), timedelta(milliseconds=1)
DELAY: Final = timedelta(seconds=3)
"""No row comes later than this behind later ones."""

_TIME: Final = sub.precision_timestamp(3)
_STREAMS: Final = {
    "person": {"id": sub.i64, "name": sub.string, "email": sub.string, "city": sub.string, "state": sub.string}
    | {"date_time": _TIME},
    "auction": {"id": sub.i64, "item_name": sub.string, "initial_bid": sub.i64, "reserve": sub.i64}
    | {"date_time": _TIME, "expires": _TIME, "seller": sub.i64, "category": sub.i64},
    "bid": {"auction": sub.i64, "bidder": sub.i64, "price": sub.i64, "channel": sub.string, "url": sub.string}
    | {"date_time": _TIME, "extra": sub.string},
}


@dataclass(frozen=True)
class Query:
    """A query. `plan` is made with `final` windows or without; None if DataFusion plans the SQL."""

    sql: str
    plan: Callable[[bool], Any] | None = None


def stream(name: str) -> Any:
    return windows.watermark(sub.read_named_table(name, _STREAMS[name]), "date_time", DELAY)


def hot_items(final: bool) -> Any:
    """Query 5: the auctions with the most bids of each window."""
    count = [sub.f.count().alias("num")]
    counts = windows.sliding(stream("bid"), "date_time", TEN, TWO, keys=["auction"], measures=count, final=final)
    most = counts.group_by("window_start").agg(sub.f.max(sub.col("num")).alias("most"))
    most = most.rename({"window_start": "start"})
    joined = counts.join(most, (sub.col("window_start") == sub.col("start")) & (sub.col("num") == sub.col("most")))
    return joined.select("window_start", "auction", "num").to_plan()


def highest_bids(final: bool) -> Any:
    """Query 7: the bids of each window's highest price."""
    highest = windows.tumbling(
        stream("bid"), "date_time", TEN, measures=[sub.f.max(sub.col("price")).alias("highest")], final=final
    )
    joined = windows.interval_join(
        highest,
        stream("bid"),
        ("window_start", "date_time"),
        after=TEN - TICK,
        keys=[("highest", "price")],
        final=final,
        lateness=TEN if final else None,
    )
    return joined.select("window_start", "auction", "price", "bidder").to_plan()


def new_sellers(final: bool) -> Any:
    """Query 8: the persons with an auction in the window in which they came."""
    people = windows.tumbling(stream("person"), "date_time", TEN, keys=["id", "name"], final=final)
    sellers = windows.tumbling(stream("auction"), "date_time", TEN, keys=["seller"], final=final)
    joined = windows.interval_join(people, sellers, "window_start", keys=[("id", "seller")], final=final)
    return joined.to_plan()


def sessions(final: bool) -> Any:
    """Query 11: the bids of each visit of a bidder."""
    count = [sub.f.count().alias("bids")]
    return windows.session(stream("bid"), "date_time", TEN, keys=["bidder"], measures=count, final=final).to_plan()


def per_bidder(final: bool) -> Any:
    """Query 12: the bids of each bidder and window."""
    count = [sub.f.count().alias("bids")]
    return windows.tumbling(stream("bid"), "date_time", TEN, keys=["bidder"], measures=count, final=final).to_plan()


_WINNING = """
    SELECT a.id, a.category, a.seller, max(b.price) AS final, max(b.date_time) AS closed
    FROM auction a JOIN bid b ON a.id = b.auction
    WHERE b.date_time >= a.date_time AND b.date_time <= a.expires
    GROUP BY a.id, a.category, a.seller
"""
_BANDS = """
    count(*) AS total, count(*) FILTER (WHERE price < 10000) AS rank1,
    count(*) FILTER (WHERE price >= 10000 AND price < 1000000) AS rank2,
    count(*) FILTER (WHERE price >= 1000000) AS rank3
"""
_DIFFERENT = """
    count(DISTINCT bidder) AS bidders,
    count(DISTINCT CASE WHEN price < 10000 THEN bidder END) AS bidders1,
    count(DISTINCT CASE WHEN price >= 1000000 THEN bidder END) AS bidders3,
    count(DISTINCT auction) AS auctions,
    count(DISTINCT CASE WHEN price < 10000 THEN auction END) AS auctions1
"""
_SLIDING = """
    SELECT time_bucket(INTERVAL 2 SECOND, date_time) - i * INTERVAL 2 SECOND AS start, auction, count(*) AS num
    FROM bid, range(5) AS _(i) GROUP BY ALL
"""
_SESSIONS = """
    SELECT bidder, date_time, sum(new) OVER (PARTITION BY bidder ORDER BY date_time RANGE UNBOUNDED PRECEDING) AS number
    FROM (
        SELECT bidder, date_time,
            CASE WHEN date_time - lag(date_time) OVER w < INTERVAL 10 SECOND THEN 0 ELSE 1 END AS new
        FROM bid WINDOW w AS (PARTITION BY bidder ORDER BY date_time)
    )
"""
_BUCKET = "time_bucket(INTERVAL 10 SECOND, date_time)"

QUERIES: Final = {
    0: Query("SELECT auction, bidder, price, date_time, extra FROM bid"),
    1: Query("SELECT auction, bidder, CAST(0.908 AS DOUBLE) * price AS price, date_time, extra FROM bid"),
    2: Query("SELECT auction, price FROM bid WHERE auction % 123 = 0"),
    3: Query(
        "SELECT p.name, p.city, p.state, a.id FROM auction a JOIN person p ON a.seller = p.id"
        " WHERE a.category = 10 AND p.state IN ('OR', 'ID', 'CA')"
    ),
    4: Query(f"SELECT category, avg(final) AS mean FROM ({_WINNING}) q GROUP BY category"),
    5: Query(
        f"SELECT start, auction, num FROM ({_SLIDING}) QUALIFY num = max(num) OVER (PARTITION BY start)", hot_items
    ),
    6: Query(
        "SELECT seller, id, avg(final) OVER (PARTITION BY seller ORDER BY closed, id"
        f" ROWS BETWEEN 10 PRECEDING AND CURRENT ROW) AS mean FROM ({_WINNING}) q"
    ),
    7: Query(
        f"SELECT {_BUCKET} AS start, auction, price, bidder FROM bid"
        " QUALIFY price = max(price) OVER (PARTITION BY start)",
        highest_bids,
    ),
    8: Query(
        f"SELECT DISTINCT start, start + INTERVAL 10 SECOND, id, name, start, start + INTERVAL 10 SECOND, seller FROM"
        f" (SELECT id, name, {_BUCKET} AS start FROM person)"
        f" JOIN (SELECT seller, {_BUCKET} AS start FROM auction) USING (start) WHERE id = seller",
        new_sellers,
    ),
    11: Query(
        "SELECT min(date_time), max(date_time) + INTERVAL 10 SECOND, bidder, count(*)"
        f" FROM ({_SESSIONS}) GROUP BY bidder, number",
        sessions,
    ),
    12: Query(
        f"SELECT {_BUCKET} AS s, s + INTERVAL 10 SECOND, bidder, count(*) FROM bid GROUP BY s, bidder", per_bidder
    ),
    13: Query(
        "SELECT b.auction, b.bidder, b.price, b.date_time, s.text FROM bid b JOIN side s ON b.auction % 100 = s.number"
    ),
    14: Query(
        "SELECT auction, bidder, CAST(0.908 AS DOUBLE) * price AS price,"
        " CASE WHEN date_part('hour', date_time) >= 8 AND date_part('hour', date_time) <= 18 THEN 'day'"
        " WHEN date_part('hour', date_time) <= 6 OR date_part('hour', date_time) >= 20 THEN 'night'"
        " ELSE 'other' END AS t,"
        " date_time, extra, character_length(extra) - character_length(replace(extra, 'c', '')) AS cs FROM bid"
        " WHERE CAST(0.908 AS DOUBLE) * price > 1000000 AND CAST(0.908 AS DOUBLE) * price < 50000000"
    ),
    15: Query(f"SELECT CAST(date_time AS DATE) AS d, {_BANDS}, {_DIFFERENT} FROM bid GROUP BY CAST(date_time AS DATE)"),
    16: Query(
        f"SELECT channel, CAST(date_time AS DATE) AS d, max(date_time) AS latest, {_BANDS}, {_DIFFERENT} FROM bid"
        " GROUP BY channel, CAST(date_time AS DATE)"
    ),
    17: Query(
        f"SELECT auction, CAST(date_time AS DATE) AS d, {_BANDS}, min(price) AS least, max(price) AS greatest,"
        " avg(price) AS mean, CAST(sum(price) AS BIGINT) AS s FROM bid GROUP BY auction, CAST(date_time AS DATE)"
    ),
    18: Query(
        "SELECT auction, bidder, price, channel, url, date_time, extra FROM (SELECT *, row_number() OVER"
        " (PARTITION BY bidder, auction ORDER BY date_time DESC, price, url, extra, channel) AS n FROM bid) q"
        " WHERE n <= 1"
    ),
    19: Query(
        "SELECT * FROM (SELECT *, row_number() OVER (PARTITION BY auction"
        " ORDER BY price DESC, date_time, bidder, url, extra, channel) AS n FROM bid) q WHERE n <= 10"
    ),
    20: Query(
        "SELECT b.auction, b.bidder, b.price, b.url, b.date_time, a.item_name, a.reserve, a.seller"
        " FROM bid b JOIN auction a ON b.auction = a.id WHERE a.category = 10"
    ),
}
