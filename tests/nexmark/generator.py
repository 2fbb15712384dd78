"""Nexmark's stream of an auction house: persons, auctions and bids, always the same for a seed.

Of 50 events one is a person, three are auctions and 46 are bids. Events come a few milliseconds after each other, and a
row may come `late` milliseconds behind its place. Most bids are for a few hot auctions, by a few hot bidders.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, Final

import pyarrow as pa

NAMES: Final = ("Peter", "Paul", "Luke", "John", "Saul", "Vicky", "Kate", "Julie", "Sarah")
STATES: Final = ("AZ", "CA", "ID", "OR", "WA", "WY")
CITIES: Final = ("Phoenix", "Los Angeles", "San Francisco", "Boise", "Portland", "Bend", "Redmond", "Seattle", "Kent")
CHANNELS: Final = ("Google", "Facebook", "Baidu", "Apple")
START: Final = 1_436_918_400_000
"""The millisecond of the first event, in 2015."""

_FIRST_ID: Final = 1_000
_TIME: Final = pa.timestamp("ms")
SCHEMAS: Final = {
    "person": pa.schema(
        {"id": pa.int64(), "name": pa.string(), "email": pa.string(), "city": pa.string(), "state": pa.string()}
        | {"date_time": _TIME}
    ),
    "auction": pa.schema(
        {"id": pa.int64(), "item_name": pa.string(), "initial_bid": pa.int64(), "reserve": pa.int64()}
        | {"date_time": _TIME, "expires": _TIME, "seller": pa.int64(), "category": pa.int64()}
    ),
    "bid": pa.schema(
        {"auction": pa.int64(), "bidder": pa.int64(), "price": pa.int64(), "channel": pa.string(), "url": pa.string()}
        | {"date_time": _TIME, "extra": pa.string()}
    ),
}


@dataclass(frozen=True)
class Event:
    """An event: its stream, and its row."""

    stream: str
    row: Sequence[Any]


def generated(count: int, *, seed: int = 1, late: int = 0, step: int = 100) -> list[Event]:
    """So many events in the order in which they come. Each event's time is up to `step` ms behind the one before."""
    random = Random(seed)
    now, people, auctions = START, _FIRST_ID, _FIRST_ID
    events: list[tuple[int, Event]] = []
    for number in range(count):
        now += random.randrange(step + 1)
        match number % 50:
            case 0:
                row = _person(random, people, now)
                people += 1
                event = Event("person", row)
            case 1 | 2 | 3:
                event = Event("auction", _auction(random, auctions, now, people))
                auctions += 1
            case _:
                event = Event("bid", _bid(random, now, people, auctions))
        events.append((now + random.randrange(late + 1), event))
    return [event for _, event in sorted(events, key=lambda pair: pair[0])]


def tables(events: Sequence[Event]) -> dict[str, pa.Table]:
    """The rows of each stream."""
    rows: dict[str, list[Sequence[Any]]] = {stream: [] for stream in SCHEMAS}
    for event in events:
        rows[event.stream].append(event.row)
    return {
        stream: pa.table(
            [pa.array(column, field.type) for column, field in zip(zip(*some, strict=True), schema, strict=True)]
            if some
            else [[] for _ in schema],
            schema=schema,
        )
        for stream, some in rows.items()
        for schema in [SCHEMAS[stream]]
    }


def _person(random: Random, number: int, now: int) -> Sequence[Any]:
    name = f"{random.choice(NAMES)} {random.choice('ABCDE')}."
    email = f"{random.randrange(10**6):06x}@{random.randrange(10**4):04x}.com"
    return number, name, email, random.choice(CITIES), random.choice(STATES), now


def _auction(random: Random, number: int, now: int, people: int) -> Sequence[Any]:
    first = _price(random)
    seller = people - 1 if random.randrange(4) else random.randrange(_FIRST_ID, people)
    expires = now + random.randrange(1, 20_000)
    return number, f"item {number}", first, first + _price(random), now, expires, seller, 10 + random.randrange(5)


def _bid(random: Random, now: int, people: int, auctions: int) -> Sequence[Any]:
    hot = random.randrange(2)
    auction = (auctions - 1) // 10 * 10 if hot else random.randrange(_FIRST_ID, auctions)
    bidder = (people - 1) // 5 * 5 if random.randrange(4) else random.randrange(_FIRST_ID, people)
    channel = random.choice(CHANNELS) if random.randrange(2) else f"channel-{random.randrange(20)}"
    query = f"&channel_id={random.randrange(1_000)}" if random.randrange(10) else ""
    url = f"https://www.nexmark.com/{random.choice('abc')}/{random.choice('xyz')}/item.htm?query=1{query}"
    extra = "".join(random.choice("abc de") for _ in range(random.randrange(8)))
    return max(auction, _FIRST_ID), max(bidder, _FIRST_ID), _price(random), channel, url, now, extra


def _price(random: Random) -> int:
    return round(10 ** (random.random() * 6) * 100)
