"""A write at a plan's root is what becomes of its rows; anywhere else, or of anything else, it is refused by name."""

from __future__ import annotations

import pytest

from tidegate.operators.writing.modes import WriteMode
from tidegate.planner import ir

from ..plans import I32, I64, I64_NULL, TEXT, Node, decode, decode_binary, emit, filter_, plan, problem, problems, table
from ..plans import TRUE as YES


def schema(*types: Node, names: str = "xyz") -> Node:
    return {"names": list(names[: len(types)]), "struct": {"types": types, "nullability": "NULLABILITY_REQUIRED"}}


def write(input_: Node | None = None, **more: object) -> Node:
    defaults = {
        "namedTable": {"names": ["db", "out"]},
        "tableSchema": schema(I64, TEXT),
        "op": "WRITE_OP_CTAS",
        "output": "OUTPUT_MODE_MODIFIED_RECORDS",
        "input": table(I64, TEXT) if input_ is None else input_,
    }
    return {"write": {name: value for name, value in (defaults | more).items() if value is not None}}


def decoded(relation: Node, names: str = "ab") -> ir.Write:
    table_write = decode(plan(relation, list(names))).plan.write
    assert table_write is not None
    return table_write


def test_the_plan_is_the_writes_input_and_the_table_has_its_own_names() -> None:
    decoded_plan = decode_binary(plan(write(), ["a", "b"])).plan
    assert isinstance(decoded_plan.root, ir.Read)
    assert decoded_plan.names == ("x", "y")
    assert decoded_plan.write == ir.Write(
        table=("db", "out"),
        table_names=("x", "y"),
        mode=WriteMode.ERROR,
        columns=(0, 1),
        returned=True,
        names=("a", "b"),
        plan_path="relations[0].root.input.write",
    )


@pytest.mark.parametrize(
    ("node", "mode"),
    [
        ({"op": "WRITE_OP_INSERT"}, WriteMode.INSERT),
        ({"op": "WRITE_OP_INSERT", "createMode": "CREATE_MODE_REPLACE_IF_EXISTS"}, WriteMode.INSERT),
        ({}, WriteMode.ERROR),
        ({"createMode": "CREATE_MODE_APPEND_IF_EXISTS"}, WriteMode.APPEND),
        ({"createMode": "CREATE_MODE_REPLACE_IF_EXISTS"}, WriteMode.REPLACE),
        ({"createMode": "CREATE_MODE_IGNORE_IF_EXISTS"}, WriteMode.IGNORE),
        ({"createMode": "CREATE_MODE_ERROR_IF_EXISTS"}, WriteMode.ERROR),
    ],
)
def test_the_operation_and_the_create_mode_are_one_mode(node: Node, mode: WriteMode) -> None:
    assert decoded(write(**node)).mode is mode


@pytest.mark.parametrize("output", [None, "OUTPUT_MODE_NO_OUTPUT"])
def test_a_write_without_output_may_leave_the_results_columns_unnamed(output: str | None) -> None:
    assert not decoded(write(output=output)).returned
    assert decoded(write(output=output)).names == ("a", "b")
    assert decoded(write(output=output), "").columns == ()


def test_an_emit_chooses_what_is_handed_out_not_what_is_written() -> None:
    decoded_plan = decode(plan(write(common=emit(1)), ["b"])).plan
    assert decoded_plan.names == ("x", "y")
    assert decoded_plan.write is not None
    assert (decoded_plan.write.columns, decoded_plan.write.names) == ((1,), ("b",))


def test_what_may_be_null_can_be_written_into_what_may_not() -> None:
    assert decoded(write(table(I64_NULL, TEXT))).table == ("db", "out")


@pytest.mark.parametrize(
    ("node", "plan_path", "reason"),
    [
        ({"op": "WRITE_OP_DELETE"}, "op", "UNSUPPORTED_WRITE"),
        ({"op": "WRITE_OP_UPDATE"}, "op", "UNSUPPORTED_WRITE"),
        ({"op": None}, "op", "UNSUPPORTED_WRITE"),
        ({"op": 77}, "op", "UNSUPPORTED_WRITE"),
        ({"createMode": 77}, "create_mode", "UNSUPPORTED_WRITE"),
        ({"namedTable": None}, "", "MISSING"),
        ({"namedTable": {}}, "named_table.names", "MISSING"),
        ({"namedTable": {"names": ["db", ""]}}, "named_table.names", "MISSING"),
        ({"namedTable": None, "extensionTable": {}}, "extension_table", "UNSUPPORTED_WRITE"),
        ({"tableSchema": None}, "table_schema", "MISSING"),
        ({"tableSchema": schema(I64)}, "table_schema", "WRONG_WIDTH"),
        ({"tableSchema": schema(I64, I32)}, "table_schema.struct.types[1]", "WRONG_TYPE"),
        ({"tableSchema": schema(I64, TEXT, names="xx")}, "table_schema.names", "DUPLICATE_NAME"),
        ({"input": {"filter": {}}}, "input.filter.input", "MISSING"),
        ({"common": emit(2)}, "common.emit.output_mapping[0]", "OUT_OF_RANGE"),
        (
            {"advancedExtension": {"enhancement": {"@type": "x.com/Faster"}}},
            "advanced_extension.enhancement",
            "UNSUPPORTED_ENHANCEMENT",
        ),
    ],
)
def test_what_cannot_be_written_is_refused_by_name_in_its_place(node: Node, plan_path: str, reason: str) -> None:
    reported = problems(plan(write(**node), ["a", "b"]))
    assert (f"relations[0].root.input.write.{plan_path}".rstrip("."), reason) in {(p.place, p.reason) for p in reported}


@pytest.mark.parametrize("op", ["WRITE_OP_DELETE", "WRITE_OP_UPDATE"])
def test_the_operation_that_is_refused_is_named(op: str) -> None:
    assert op in problem(plan(write(op=op), ["a", "b"])).message


def test_a_write_below_the_root_is_refused() -> None:
    reported = problem(plan(filter_(write(), YES), ["a", "b"]))
    assert (reported.reason, reported.place) == ("MISPLACED_WRITE", "relations[0].root.input.filter.input.write")


def silent(*names: str, **more: object) -> Node:
    return write(output="OUTPUT_MODE_NO_OUTPUT", namedTable={"names": names}, **more)


def test_a_write_that_a_reference_reads_is_refused() -> None:
    shared = problem(plan({"reference": {"subtreeOrdinal": 0}}, ["a", "b"], silent("late")))
    assert (shared.reason, shared.place) == ("MISPLACED_WRITE", "relations[1].root.input.reference")


def test_writes_beside_the_root_are_tables_beside_the_result() -> None:
    nodes = plan(table(I64), ["a"], silent("late"), filter_(table(I64, TEXT), YES), silent("old", op="WRITE_OP_INSERT"))
    decoded_plan = decode_binary(nodes).plan
    assert decoded_plan.write is None
    assert [(side.write.table, side.write.mode) for side in decoded_plan.side_tables] == [
        (("late",), WriteMode.ERROR),
        (("old",), WriteMode.INSERT),
    ]
    first, second = (decoded_plan.shared[side.ordinal] for side in decoded_plan.side_tables)
    assert [first.plan_path, second.plan_path] == [f"relations[{at}].rel.write.input.read.named_table" for at in (0, 2)]


@pytest.mark.parametrize(
    ("side", "field"),
    [
        (silent("late", createMode="CREATE_MODE_REPLACE_IF_EXISTS"), ".create_mode"),
        (write(namedTable={"names": ["late"]}), ".output"),
        (silent("db", "out"), ""),
    ],
)
def test_what_only_the_write_of_the_result_can_do_is_refused(side: Node, field: str) -> None:
    refused = problem(plan(write(), ["a", "b"], side))
    assert (refused.reason, refused.place) == ("UNSUPPORTED_WRITE", f"relations[0].rel.write{field}")
