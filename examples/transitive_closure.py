"""All trips between cities, over any number of flights: a loop, run once for each day's flights.

In SQL::

    WITH RECURSIVE trips AS (
      SELECT origin, destination FROM flights
      UNION
      SELECT trips.origin, flights.destination FROM trips JOIN flights ON trips.destination = flights.origin)
    SELECT * FROM trips
"""

from __future__ import annotations

import pyarrow as pa
from substrait.algebra_pb2 import JoinRel
from substrait.builders import plan as p
from substrait.builders.extended_expression import column, scalar_function
from substrait.builders.type import named_struct, string, struct
from substrait.extension_registry import ExtensionRegistry

import tidegate
from tidegate.plans import Plan, iterate

DAYS = [
    pa.table({"origin": ["Cork", "Ghent", "Porto"], "destination": ["Ghent", "Porto", "Cork"]}),
    pa.table({"origin": ["Cork", "Ghent"], "destination": ["Ghent", "Porto"]}),
]


def main() -> None:
    with tidegate.local() as client, client.create_task(trips()) as task:
        for flights in DAYS:
            epoch = task.run_epoch({"flights": flights})
            print(f"day {epoch.number}: {flights.num_rows} flights, {epoch.table().num_rows} trips")
            for row in epoch.table().to_pylist():
                print("  {origin} to {destination}".format(**row))


def trips() -> Plan:
    both = struct([string(nullable=False), string(nullable=False)], nullable=False)
    flights = p.read_named_table("flights", named_struct(["origin", "destination"], both))

    def one_flight_more(trip: p.UnboundPlan) -> p.UnboundPlan:
        equal = scalar_function(
            "extension:io.substrait:functions_comparison", "equal", expressions=[column(1), column(2)]
        )
        return p.select(p.join(trip, flights, equal, JoinRel.JOIN_TYPE_INNER), [column(0), column(3)])

    loop = iterate("trips", flights, one_flight_more, distinct=True)
    plan: Plan = loop(ExtensionRegistry(load_default_extensions=True))
    return plan


if __name__ == "__main__":
    main()
