"""Class of bug: an expression of pyarrow that means something else, or nothing, in a plan. pyarrow says what is right.

pyarrow writes expressions, not plans: a test puts them into a projection of a table. Two of its functions are left out,
since pyarrow writes `if_else` and `is_in` without what they mean for a null.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.substrait as arrow_substrait
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from substrait.extended_expression_pb2 import ExtendedExpression
from substrait.plan_pb2 import Plan

import tidegate

from ..searching import tries

ROWS: Final = pa.table(
    {
        "a": pa.array([1, 2, None, 4, -7], pa.int64()),
        "b": pa.array([3, None, 0, -4, 5], pa.int64()),
        "f": pa.array([0.5, None, 2.0, -1.0, 1e308], pa.float64()),
        "g": pa.array([None, -0.0, 4.0, 1e-3, 1e308], pa.float64()),
        "s": pa.array(["x", "yy", None, "", "x"], pa.string()),
        "p": pa.array([True, False, None, True, False], pa.bool_()),
    }
)


def _two(of: st.SearchStrategy[Any], *functions: Any) -> st.SearchStrategy[Any]:
    return st.builds(lambda call, one, other: call(one, other), st.sampled_from(functions), of, of)


INTEGERS: Final = st.recursive(
    st.sampled_from([pc.field("a"), pc.field("b"), pc.scalar(pa.scalar(3, pa.int64()))]),
    lambda inside: st.one_of(
        _two(inside, pc.add, pc.subtract, pc.multiply, pc.coalesce),
        st.builds(pc.negate, inside),
        st.builds(pc.abs, inside),
    ),
    max_leaves=3,
)
FLOATS: Final = st.recursive(
    st.sampled_from([pc.field("f"), pc.field("g"), pc.scalar(2.5)]),
    lambda inside: _two(inside, pc.add, pc.subtract, pc.multiply, pc.coalesce),
    max_leaves=4,
)
TESTS: Final = st.one_of(
    *(_two(of, pc.equal, pc.less, pc.greater_equal, pc.not_equal) for of in (INTEGERS, FLOATS)),
    st.just(pc.field("p")),
    st.just(pc.field("s").is_null()),
    st.builds(lambda of: of.is_valid(), st.one_of(INTEGERS, FLOATS)),
    st.sampled_from(["x", ""]).map(lambda text: pc.field("s") == pc.scalar(text)),
)
CONDITIONS: Final = st.recursive(
    TESTS,
    lambda inside: st.one_of(_two(inside, pc.and_kleene, pc.or_kleene), st.builds(pc.invert, inside)),
    max_leaves=4,
)


def plan_of(expression: pc.Expression) -> bytes:
    """A projection of a table to the expression alone."""
    written = ExtendedExpression.FromString(
        bytes(arrow_substrait.serialize_expressions([expression], ["r"], ROWS.schema))
    )
    plan = Plan(extension_urns=written.extension_urns, extensions=written.extensions, version=written.version)
    root = plan.relations.add().root
    root.names.append("r")
    project = root.input.project
    project.input.read.base_schema.CopyFrom(written.base_schema)
    project.input.read.named_table.names.append("t")
    project.expressions.add().CopyFrom(written.referred_expr[0].expression)
    project.common.emit.output_mapping.append(ROWS.num_columns)
    return bytes(plan.SerializeToString())


@pytest.fixture(scope="module")
def client() -> Iterator[tidegate.Client]:
    with tidegate.local() as opened:
        yield opened


@given(expression=st.one_of(INTEGERS, FLOATS, CONDITIONS))
@settings(max_examples=tries(15), deadline=None)
def test_an_expression_has_pyarrow_s_values(client: tidegate.Client, expression: pc.Expression) -> None:
    expected = ds.dataset(ROWS).to_table(columns={"r": expression}).column("r")
    answer = client.query(plan_of(expression), {"t": ROWS}).column("r")
    assert answer.type == expected.type
    assert str(answer.to_pylist()) == str(expected.to_pylist())


def test_arithmetic_of_floats_says_what_is_to_happen_when_it_overflows(client: tidegate.Client) -> None:
    quotient = pc.divide(pc.field("f"), pc.field("g"))
    assert client.query(plan_of(quotient), {"t": ROWS}).column("r").to_pylist() == [None, None, 0.5, -1000.0, 1.0]
    product = pc.multiply(pc.field("f"), pc.field("g"))
    assert client.query(plan_of(product), {"t": ROWS}).column("r").to_pylist()[-1] == float("inf")
