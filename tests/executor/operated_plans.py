"""Plans with Tidegate's own relations, made with Substrait's messages, over sources of 64-bit columns and lists."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from google.protobuf.message import Message
from substrait import algebra_pb2 as algebra
from substrait import plan_pb2, type_pb2

NULLABLE = type_pb2.Type.NULLABILITY_NULLABLE
I64 = type_pb2.Type(i64=type_pb2.Type.I64(nullability=NULLABLE))
TEXT = type_pb2.Type(string=type_pb2.Type.String(nullability=NULLABLE))


def list_of(element: type_pb2.Type) -> type_pb2.Type:
    return type_pb2.Type(list=type_pb2.Type.List(type=element, nullability=NULLABLE))


def read(source: str, columns: Mapping[str, type_pb2.Type]) -> algebra.Rel:
    struct = type_pb2.Type.Struct(types=columns.values(), nullability=type_pb2.Type.NULLABILITY_REQUIRED)
    base = type_pb2.NamedStruct(names=columns, struct=struct)
    return algebra.Rel(read=algebra.ReadRel(base_schema=base, named_table=algebra.ReadRel.NamedTable(names=[source])))


def column(index: int) -> algebra.Expression:
    segment = algebra.Expression.ReferenceSegment(
        struct_field=algebra.Expression.ReferenceSegment.StructField(field=index)
    )
    reference = algebra.Expression.FieldReference(
        direct_reference=segment, root_reference=algebra.Expression.FieldReference.RootReference()
    )
    return algebra.Expression(selection=reference)


def operated(detail: Message, *inputs: algebra.Rel, prefix: str = "type.googleapis.com/") -> algebra.Rel:
    relation = algebra.Rel()
    if len(inputs) == 1:
        relation.extension_single.input.CopyFrom(inputs[0])
        relation.extension_single.detail.Pack(detail, type_url_prefix=prefix)
    else:
        relation.extension_multi.inputs.extend(inputs)
        relation.extension_multi.detail.Pack(detail, type_url_prefix=prefix)
    return relation


def picked(relation: algebra.Rel, width: int, columns: Sequence[int]) -> algebra.Rel:
    """The columns of a relation that has `width` of them."""
    common = algebra.RelCommon(emit=algebra.RelCommon.Emit(output_mapping=[width + at for at in range(len(columns))]))
    return algebra.Rel(
        project=algebra.ProjectRel(common=common, input=relation, expressions=[column(at) for at in columns])
    )


def joined(left: algebra.Rel, right: algebra.Rel, width: int, type_: str = "INNER") -> algebra.Rel:
    """A join where the first columns of both sides are equal; the left side has `width`."""
    equal = algebra.Expression.ScalarFunction(
        function_reference=1,
        output_type=type_pb2.Type(bool=type_pb2.Type.Boolean(nullability=NULLABLE)),
        arguments=[algebra.FunctionArgument(value=column(0)), algebra.FunctionArgument(value=column(width))],
    )
    return algebra.Rel(
        join=algebra.JoinRel(
            left=left,
            right=right,
            expression=algebra.Expression(scalar_function=equal),
            type=algebra.JoinRel.JoinType.Value(f"JOIN_TYPE_{type_}"),
        )
    )


def conjunction(*conditions: algebra.Expression) -> algebra.Expression:
    call = algebra.Expression.ScalarFunction(
        function_reference=2,
        output_type=type_pb2.Type(bool=type_pb2.Type.Boolean(nullability=NULLABLE)),
        arguments=[algebra.FunctionArgument(value=condition) for condition in conditions],
    )
    return algebra.Expression(scalar_function=call)


def plan(relation: algebra.Rel, names: Sequence[str]) -> bytes:
    message = plan_pb2.Plan(relations=[plan_pb2.PlanRel(root=algebra.RelRoot(input=relation, names=names))])
    message.version.minor_number = 85
    for anchor, (file, name) in enumerate((("comparison", "equal:any_any"), ("boolean", "and:bool")), 1):
        urn = message.extension_urns.add()
        urn.extension_urn_anchor, urn.urn = anchor, f"extension:io.substrait:functions_{file}"
        function = message.extensions.add().extension_function
        function.extension_urn_reference, function.function_anchor, function.name = anchor, anchor, name
    return message.SerializeToString()
