"""The values of a plan's dynamic parameters: given beside the plan, or by its `parameter_bindings`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

import pyarrow as pa

from ...operators.arrays.casts import plain
from ...proto.arrow.arrow_ipc import read_schema, read_untrusted_stream
from ...proto.errors import PlanError, Problem, RequestError
from ..ir import Literal
from ..ir.from_arrow import type_of
from ..ir.types import Type, required
from .arrow_literals import NoSuchValue, literal_value, literals_in, shown
from .encoding import limits
from .encoding.message_nodes import Message, Nodes
from .literal_values import Literals
from .plan_path import PlanPath
from .poison import is_unknown
from .problems import Problems


@dataclass(frozen=True, slots=True, eq=False)
class GivenValue:
    """A value that comes beside a plan, as an array of one, and the number of literals that it stands for."""

    array: pa.Array
    literals: int

    @property
    def size(self) -> int:
        """The bytes that each further use of the value counts as: about those of the literals in a plan."""
        return int(self.array.nbytes) + _LITERAL_BYTES * self.literals


Given = Mapping[int, GivenValue]
"""The values that come beside a plan, by the numbers of their parameters."""

_MOST_NUMBER: Final = (1 << 32) - 1
_LITERAL_BYTES: Final = 4
_LISTED: Final = 20


def read_given(stream: bytes) -> Given:
    """The values in an Arrow stream of one row, with a column for each. Raises `PlanError`."""
    if not stream:
        return {}
    if len(stream) > limits.BYTES.most:
        raise limits.BYTES.refuse(len(stream))
    try:
        columns = len(read_schema(stream))
        if columns > limits.COLUMNS.most:
            raise limits.COLUMNS.refuse(columns)
        schema, batches = read_untrusted_stream(stream)
    except RequestError as error:
        raise _unreadable(str(error)) from error
    rows = sum(batch.num_rows for batch in batches)
    if rows != 1:
        raise _unreadable(f"they must be one row, not {rows:,}")
    batch = next(batch for batch in batches if batch.num_rows)
    values: dict[int, GivenValue] = {}
    for name, column in zip(schema.names, batch.columns, strict=True):
        number = int(name) if name.isascii() and name.isdigit() and len(name) <= 10 else _MOST_NUMBER + 1
        if number > _MOST_NUMBER:
            raise _unreadable(f"a column must be called by its parameter's number, as 0, not {name[:40]!r}")
        if number in values:
            raise _unreadable(f"parameter {number} has two values")
        values[number] = GivenValue(column, literals_in(column))
    literals = sum(value.literals for value in values.values())
    if literals > limits.LITERALS.most:
        raise limits.LITERALS.refuse(literals)
    return values


def _unreadable(why: str) -> PlanError:
    message = f"the values of parameters cannot be read: {why}"
    return PlanError(Problem(place="parameters", reason="BAD_PARAMETER", message=message))


class Parameters:
    """The parameters of one plan. A value that is given beside the plan takes the place of the plan's binding."""

    def __init__(self, nodes: Nodes, problems: Problems, literals: Literals, beside: Given) -> None:
        self._nodes = nodes
        self._problems = problems
        self._literals = literals
        self._given = beside
        self._read: set[int] = set()
        self._bound: dict[int, tuple[int, PlanPath]] = {}
        self._used: set[int] = set()
        self._values: dict[tuple[int, Type], object] = {}

    def bind(self, binding: Message, plan_path: PlanPath) -> None:
        """A binding of the plan."""
        if binding.parameter_anchor in self._bound:
            problem = f"parameter {binding.parameter_anchor} has two values"
            self._problems.add(plan_path / "parameter_anchor", "DUPLICATE_ANCHOR", problem)
        self._bound[binding.parameter_anchor] = binding.value, plan_path / "value"

    def value(self, number: int, declared: Type | None, plan_path: PlanPath) -> Literal | None:
        """The value of a parameter that is declared so, or not at all; None, once reported, if it has none."""
        self._used.add(number)
        if number in self._given:
            return self._from_arrow(number, declared, plan_path)
        if number in self._bound:
            return self._from_plan(number, declared, plan_path)
        message = (
            f"parameter {number} has no value: give one beside the plan (parameters={{{number}: ...}}), or add a "
            "binding to the plan's parameter_bindings"
        )
        self._problems.add(plan_path / "parameter_reference", "MISSING_PARAMETER", message)
        return None

    def check_given(self) -> None:
        """Refuses values of parameters that a plan without other problems does not have."""
        known = sorted({*self._used, *self._bound})
        more = f", and {len(known) - _LISTED:,} more" if len(known) > _LISTED else ""
        listed = (", ".join(map(str, known[:_LISTED])) or "none") + more
        for number in sorted(self._given.keys() - known):
            message = f"the plan has no parameter {number}; its parameters are: {listed}"
            self._problems.add(PlanPath().at("parameters", number), "UNKNOWN_PARAMETER", message)

    def _from_plan(self, number: int, declared: Type | None, plan_path: PlanPath) -> Literal | None:
        literal = self._literals.convert(*self._bound[number])
        if is_unknown(literal.type):
            return None
        type_ = literal.type if declared is None else declared
        if required(literal.type) != required(type_) or (literal.value is None and not type_.nullable):
            value = "null" if literal.value is None else str(literal.type)
            self._refuse(number, declared, f"its value is {value}", plan_path)
            return None
        return replace(literal, type=type_)

    def _from_arrow(self, number: int, declared: Type | None, plan_path: PlanPath) -> Literal | None:
        array = self._given[number].array
        if number in self._read:
            self._nodes.count_repeat(self._given[number].size)
        self._read.add(number)
        type_ = declared or type_of(pa.field("", plain(array.type), nullable=array.null_count > 0))
        if type_ is None:
            self._refuse(number, None, f"{shown(array.type)} is the type of no column: cast the value", plan_path)
            return None
        if is_unknown(self._literals.types.carried(type_, plan_path / "type")):
            return None
        if (number, type_) not in self._values:
            try:
                self._values[number, type_] = literal_value(array, type_)
            except NoSuchValue as error:
                self._refuse(number, declared, str(error), plan_path)
                return None
        return Literal(value=self._values[number, type_], type=type_)

    def _refuse(self, number: int, declared: Type | None, why: str, plan_path: PlanPath) -> None:
        stands = "has no declared type" if declared is None else f"is declared {declared}"
        self._problems.add(plan_path / "type", "BAD_PARAMETER", f"parameter {number} {stands}, but {why}")
