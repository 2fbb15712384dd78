"""Numbers of requests: each has a range, and one outside of it is refused by its name."""

from __future__ import annotations

import pytest
from google.protobuf.descriptor import Descriptor, FieldDescriptor

from tidegate.proto.encoding.number_ranges import LARGEST, RANGES, check_request
from tidegate.proto.errors import InvalidRequest
from tidegate.proto.tidegate.v1 import plans_pb2
from tidegate.proto.tidegate.v1 import tasks_pb2 as pb

INPUTS = [
    method.input_type
    for file in (pb.DESCRIPTOR, plans_pb2.DESCRIPTOR)
    for service in file.services_by_name.values()
    for method in service.methods
]
OTHERS = (FieldDescriptor.CPPTYPE_BOOL, FieldDescriptor.CPPTYPE_ENUM, FieldDescriptor.CPPTYPE_STRING)


def numbers(message: Descriptor) -> set[str]:
    """Names of the fields with numbers in a message and all inside it; of a map, its own."""
    names = set()
    for field in message.fields:
        inner = field.message_type
        if inner is None:
            names |= set() if field.cpp_type in OTHERS else {field.name}
        else:
            names |= {field.name if name in ("key", "value") else name for name in numbers(inner)}
    return names


def test_every_number_of_every_request_has_a_range_and_no_range_is_left_over() -> None:
    assert set().union(*map(numbers, [*INPUTS, pb.FlightTicket.DESCRIPTOR])) == set(RANGES)


def split(**file: object) -> pb.Split:
    return pb.Split(file=pb.FileSplit(path="f", **file))


@pytest.mark.parametrize(
    ("request_message", "said"),
    [
        (pb.AddSplitRequest(sequence=LARGEST + 1), "sequence=9223372036854775808 must be a split's number"),
        (pb.AddSplitsRequest(splits=[pb.SplitOfSource(sequence=2**64 - 1)]), "sequence=18446744073709551615"),
        (pb.AddSplitsRequest(barrier=pb.Seal(through={"a": 2**64 - 1})), r"through\['a'\]=18446744073709551615"),
        (pb.AddSplitsRequest(read=pb.Read(acknowledge=pb.Cursor(row=2**63))), "row=9223372036854775808"),
        (pb.AddSplitsRequest(splits=[pb.SplitOfSource(split=split(end_row=2**63))]), "end_row=9223372036854775808"),
        (pb.AddSplitsRequest(transaction=pb.Transaction(version=2**63)), "version=9223372036854775808"),
        (pb.CreateTaskRequest(options=pb.TaskOptions(idle_seconds=1e10)), "idle_seconds=10000000000.0"),
        (pb.CreateTaskRequest(options=pb.TaskOptions(idle_seconds=float("nan"))), "idle_seconds=nan"),
        (pb.CreateTaskRequest(options=pb.TaskOptions(channels=1025)), "channels=1025 must be a number of channels"),
        (pb.CreateTaskRequest(tables={"t": pb.Table(splits=[split(first_row=2**63)])}), "first_row="),
        (plans_pb2.ExplainRequest(rows={"l": 2**63}), r"rows\['l'\]=9223372036854775808 must be a number of rows"),
    ],
)
def test_a_number_out_of_its_range_is_refused_wherever_it_stands(request_message: object, said: str) -> None:
    with pytest.raises(InvalidRequest, match=said):
        check_request(request_message)


def test_what_is_left_out_is_in_order() -> None:
    for message in (pb.CreateTaskRequest(options=pb.TaskOptions()), pb.NextRequest(), pb.RequestBarrierRequest()):
        check_request(message)
