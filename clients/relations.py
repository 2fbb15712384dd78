"""Relations that Substrait has no message for, as messages to put into plans.

Such a relation is the `detail` of an extension relation: `rel.extension_single.detail.Pack(Unnest(columns=[1]))`, or
`rel.extension_multi.detail.Pack(IndexLookupJoin(...))`. `tidegate.plans.iterate` is an easier way to make loops, and
`tidegate.windows` an easier way to make windows.
"""

from __future__ import annotations

from .proto.tidegate.v1 import relations_pb2

__all__ = [
    "AsOfJoin",
    "DeclaredOrder",
    "Final",
    "IndexLookupJoin",
    "IntervalJoin",
    "IterationReferenceReadRelation",
    "IterationRelation",
    "LateRows",
    "PackLists",
    "RowCount",
    "Span",
    "Unnest",
    "UserOperator",
    "Watermark",
    "WindowAggregate",
]

AsOfJoin = relations_pb2.AsOfJoin
"""Each row with the latest row of another input that is not later, in an `ExtensionMultiRel` of two inputs.
`tidegate.windows.as_of_join` writes it.

>>> from tidegate.relations import AsOfJoin, Span
>>> AsOfJoin(type=AsOfJoin.TYPE_LEFT, tolerance=Span(units=10)).tolerance.units
10
"""

DeclaredOrder = relations_pb2.DeclaredOrder
"""The declaration that a source's rows are sorted, in an `ExtensionSingleRel` over the read. Tidegate checks it.

>>> from substrait.algebra_pb2 import Rel
>>> from tidegate.relations import DeclaredOrder
>>> ordered, read = Rel(), samples_plan.relations[0].root.input
>>> ordered.extension_single.input.CopyFrom(read)
>>> by_n = DeclaredOrder.Key(column=0, direction=DeclaredOrder.DIRECTION_ASC_NULLS_LAST)
>>> ordered.extension_single.detail.Pack(DeclaredOrder(keys=[by_n]))
>>> read.CopyFrom(ordered)
>>> client.query(samples_plan, {"samples": samples}).num_rows
10
>>> client.query(samples_plan, {"samples": samples.take([1, 0])})
Traceback (most recent call last):
...
tidegate.proto.errors.TaskFailed: ...
"""

Final = relations_pb2.Final
"""The choice of a `WindowAggregate` to give each window once, when the watermark has reached its end.

>>> from tidegate.relations import Final, Span
>>> Final(lateness=Span(units=10)).lateness.units
10
"""

IndexLookupJoin = relations_pb2.IndexLookupJoin
"""A join that looks up the keys of its first input in an index of its second, in an `ExtensionMultiRel`.

>>> import substrait.dataframe as sub
>>> from substrait.algebra_pb2 import Rel
>>> from tidegate.relations import IndexLookupJoin
>>> prices = sub.read_named_table("prices", {"n": sub.i64, "price": sub.i64}).to_plan()
>>> root, lookup = samples_plan.relations[0].root, Rel()
>>> lookup.extension_multi.inputs.extend([root.input, prices.relations[0].root.input])
>>> same = IndexLookupJoin.Key(left=0, right=0)
>>> lookup.extension_multi.detail.Pack(IndexLookupJoin(keys=[same], type=IndexLookupJoin.TYPE_INNER))
>>> root.input.CopyFrom(lookup)
>>> root.names.extend(["found", "price"])
>>> table = pa.table({"n": [3], "price": [70]})
>>> client.query(samples_plan, {"samples": samples}, tables={"prices": table}).to_pylist()
[{'n': 3, 'found': 3, 'price': 70}]
"""

IntervalJoin = relations_pb2.IntervalJoin
"""The pairs of rows whose times are near each other, in an `ExtensionMultiRel` of two inputs.
`tidegate.windows.interval_join` writes it.

>>> from tidegate.relations import IntervalJoin, Span
>>> IntervalJoin(type=IntervalJoin.TYPE_LEFT, after=Span(units=10)).after.units
10
"""

IterationReferenceReadRelation = relations_pb2.IterationReferenceReadRelation
"""The rows that come back to a loop's body, in an `ExtensionLeafRel`. `tidegate.plans.iterate` writes it.

>>> from tidegate.relations import IterationReferenceReadRelation
>>> IterationReferenceReadRelation(iteration_name="paths", output_length=2).iteration_name
'paths'
"""

IterationRelation = relations_pb2.IterationRelation
"""A loop, in an `ExtensionMultiRel` of its body and of what enters. `tidegate.plans.iterate` writes it.

>>> from tidegate.relations import IterationRelation
>>> IterationRelation(iteration_name="paths", max_rounds=10, at_limit=IterationRelation.AT_LIMIT_RETURN).max_rounds
10
"""

LateRows = relations_pb2.LateRows
"""The rows that come too late for final windows, in an `ExtensionSingleRel`. `tidegate.windows.late_rows` writes it.

>>> from tidegate.relations import LateRows, Span
>>> LateRows(time=0, size=Span(units=10)).size.units
10
"""

PackLists = relations_pb2.PackLists
"""Rows of one length, filled with the lists of a column, in an `ExtensionSingleRel`. `tidegate.training.pack_lists`
writes it.

>>> from tidegate.relations import PackLists
>>> PackLists(column=1, length=2048, window_rows=4096).length
2048
"""

RowCount = relations_pb2.RowCount
"""Windows of a number of rows, in place of a length of time. `tidegate.windows.count` writes it.

>>> from tidegate.relations import RowCount
>>> RowCount(size=100, slide=10).slide
10
"""

Span = relations_pb2.Span
"""A length of time, as the size, slide, offset or gap of windows. For nanoseconds, which a `timedelta` does not hold.

>>> import substrait.dataframe as sub
>>> from tidegate import windows
>>> from tidegate.relations import Span
>>> ticks = sub.read_named_table("ticks", {"at": sub.precision_timestamp(9)})
>>> often = windows.tumbling(ticks, "at", Span(nanoseconds=500), measures=[sub.f.count().alias("ticks")])
>>> table = pa.table({"at": pa.array([3, 499, 500], pa.timestamp("ns"))})
>>> client.query(often.sort("window_start").to_plan(), {"ticks": table}).column("ticks").to_pylist()
[2, 1]
"""

Unnest = relations_pb2.Unnest
"""Each row once for every item of its lists, in an `ExtensionSingleRel`.

>>> import substrait.dataframe as sub
>>> from substrait.algebra_pb2 import Rel
>>> from tidegate.relations import Unnest
>>> orders = sub.read_named_table("orders", {"id": sub.i64, "parts": sub.list_(sub.string())}).to_plan()
>>> root, unnest = orders.relations[0].root, Rel()
>>> unnest.extension_single.input.CopyFrom(root.input)
>>> unnest.extension_single.detail.Pack(Unnest(columns=[1], ordinality=True))
>>> root.input.CopyFrom(unnest)
>>> root.names.extend(["part", "number"])
>>> table = pa.table({"id": [7], "parts": [["cup", "lid"]]})
>>> client.query(orders, {"orders": table}).select(["id", "part", "number"]).to_pylist()
[{'id': 7, 'part': 'cup', 'number': 1}, {'id': 7, 'part': 'lid', 'number': 2}]
"""

UserOperator = relations_pb2.UserOperator
"""An operator that the service's owner has registered (`tidegate.user_operator`), by its name.

>>> from tidegate.relations import UserOperator
>>> sessions = UserOperator(name="sessions")
>>> sessions.options.update({"gap": 30})
>>> sessions.options["gap"]
30.0
"""

Watermark = relations_pb2.Watermark
"""The declaration of a source's watermark, in an `ExtensionSingleRel` over the read. `tidegate.windows.watermark`
writes it.

>>> from tidegate.relations import Span, Watermark
>>> Watermark(time=0, delay=Span(units=5), idle_epochs=3).idle_epochs
3
"""

WindowAggregate = relations_pb2.WindowAggregate
"""Rows aggregated by windows of time and keys, in an `ExtensionSingleRel`. `tidegate.windows` writes it.

>>> from substrait.algebra_pb2 import AggregateRel
>>> from tidegate.relations import Span, WindowAggregate
>>> WindowAggregate(time=0, size=Span(units=10), aggregate=AggregateRel().SerializeToString()).size.units
10
"""
