"""The decoder: drives the converters of relations and expressions over a plan's table of messages.

A converter that needs a relation or an expression inside its own is a generator: it yields a request and is sent the
result. `planner.ir.walk.unroll` keeps the converters on a stack of its own, so nothing recurses, whatever the depth.
Most expressions are columns and literals, which need nothing: their converters return them at once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from types import GeneratorType
from typing import Any, Final, TypeAlias, TypeVar, cast

from ...operators.core.interrupts import look
from .. import ir
from ..ir.types import Boolean, Type, is_nested, nullable
from ..ir.walk import unroll
from . import poison
from .beside_plan import Beside
from .declarations.declared_types import Types
from .declarations.extensions import Extensions
from .declarations.habits import Habits
from .declarations.type_sizes import TypeSizes
from .emit import emit
from .enclosing_loops import Loops
from .encoding import limits
from .encoding.counting import Counted
from .encoding.message_nodes import Malformed, Message, Nodes
from .literal_values import Literals
from .parameter_values import Parameters
from .plan_path import PlanPath
from .problems import Problems
from .scope import Scope, Windows

_MESSAGES: Final = 1_000
"""The messages between two looks whether the work is to stop: some milliseconds."""


@dataclass(frozen=True, slots=True, eq=False)
class RelationRequest:
    """A request for the relation `number`. `outer` is the scope of an enclosing query, if there is one."""

    number: int
    plan_path: PlanPath
    outer: Scope | None


@dataclass(frozen=True, slots=True, eq=False)
class ExpressionRequest:
    """A request for the expression to which these steps lead."""

    steps: Steps[ir.Expression]


@dataclass(frozen=True, slots=True, eq=False)
class SharedRequest:
    """A request for the common subtree `ordinal`, made by a reference at `plan_path`."""

    ordinal: int
    plan_path: PlanPath


Request: TypeAlias = RelationRequest | ExpressionRequest | SharedRequest
Result: TypeAlias = ir.Relation | ir.Expression

T = TypeVar("T")
Steps: TypeAlias = Generator[Request, Any, T]


RelationConverter: TypeAlias = "Callable[[Decoder, Message, PlanPath, Scope | None], Steps[ir.Relation]]"
ExpressionConverter: TypeAlias = "Callable[[Decoder, Message, PlanPath, Scope], ir.Expression | Steps[ir.Expression]]"


@dataclass(frozen=True, slots=True, kw_only=True)
class Converters:
    """A converter for each kind of relation and of expression, or the reason why a kind has none."""

    relations: Mapping[str, RelationConverter]
    refused_relations: Mapping[str, str]
    expressions: Mapping[str, ExpressionConverter]
    refused_expressions: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Subtree:
    """A relation of the plan that is not its root. References read it."""

    number: int
    plan_path: PlanPath
    detached: tuple[int, ...]


class Decoder:
    """The decoding of one plan, with everything that a converter may use."""

    def __init__(
        self,
        converters: Converters,
        nodes: Nodes,
        problems: Problems,
        extensions: Extensions,
        types: Types,
        habits: Habits,
        beside: Beside,
    ) -> None:
        self._converters = converters
        self.nodes = nodes
        self.problems = problems
        self.extensions = extensions
        self.habits = habits
        self.operators = beside.operators
        self.schemas = beside.schemas
        self.types = types
        self.literals = Literals(nodes, problems, types)
        self.detached: Sequence[int] = ()
        self.open_detached: set[int] = set()
        self.parameters = Parameters(nodes, problems, self.literals, beside.parameters)
        self.loops = Loops()
        self.subtrees: dict[int, Subtree] = {}
        self.shared: dict[int, tuple[int, ir.Relation]] = {}
        self.root_path = PlanPath()
        self.write: ir.Write | None = None
        self.side_writes: dict[int, ir.Write] = {}
        self.grafted = Counted()
        self.bare_sets: str | None = None
        self.has_short_expansion = False
        self.columns_above: dict[int, tuple[int, frozenset[int]]] = {}
        self._unfinished: set[int] = set()
        self._anchored: dict[ir.Relation, int] = {}
        self._depth = self._messages = 0
        self._columns = 0
        self._sizes = TypeSizes()
        self._counts: Counter[limits.Limit] = Counter()
        self._refused_depth = self._refused_columns = False

    def root(self, number: int, plan_path: PlanPath) -> ir.Relation:
        """The relation `number`, with all relations in it. For a write, the result is the write's input, and `write` is
        set.
        """
        self.root_path = plan_path
        return self._drive(RelationRequest(number, plan_path, None)) if number else self.missing_relation(plan_path)

    def subtree(self, ordinal: int) -> ir.Relation:
        """A common subtree, whether or not a reference has asked for it."""
        return self._drive(SharedRequest(ordinal, PlanPath()))

    def subtree_of_write(self, plan_path: PlanPath) -> int | None:
        """The common subtree at whose top the write with this path stands; None if the write stands elsewhere."""
        writes = {str(subtree.plan_path / "write"): ordinal for ordinal, subtree in self.subtrees.items()}
        return writes.get(str(plan_path))

    # ------------------------------------------------------------------------------------------------- requests

    def relation(self, number: int, plan_path: PlanPath, outer: Scope | None) -> Steps[ir.Relation]:
        """The relation `number`; poison if it is absent or broken."""
        if not number:
            return self.missing_relation(plan_path)
        relation: ir.Relation = yield RelationRequest(number, plan_path, outer)
        return relation

    def argument(
        self, number: int, plan_path: PlanPath, scope: Scope, *, untyped: bool = False
    ) -> Steps[ir.Expression]:
        """The expression `number`, which may be a lambda; poison if it is absent or broken. With `untyped`, a null
        without a type is `poison.NULL`: the caller gives it a type or reports it.
        """
        message = self._take(number, plan_path) if number and self._has_depth(plan_path) else None
        if message is None:
            return poison.EXPRESSION if number else self.missing_expression(plan_path)
        kind = message.WhichOneof("rex_type")
        if kind is None:
            return self.missing_expression(plan_path)
        plan_path = plan_path / kind
        if kind in self._converters.refused_expressions:
            self.problems.add(plan_path, "UNSUPPORTED_EXPRESSION", self._converters.refused_expressions[kind])
            return poison.EXPRESSION
        if untyped and kind == "literal":
            return self.literals.convert(message.literal, plan_path, untyped=True)
        expression: Any = self._converters.expressions[kind](self, getattr(message, kind), plan_path, scope)
        if isinstance(expression, GeneratorType):
            expression = yield ExpressionRequest(expression)
        is_sized = not is_nested(expression.type) or self._has_sizes((expression.type,), plan_path)
        return cast("ir.Expression", expression) if is_sized else poison.EXPRESSION

    def expression(
        self, number: int, plan_path: PlanPath, scope: Scope, *, untyped: bool = False
    ) -> Steps[ir.Expression]:
        """The expression `number`, which may not be a lambda; otherwise as `argument`."""
        expression = yield from self.argument(number, plan_path, scope, untyped=untyped)
        if isinstance(expression, ir.Lambda):
            self.problems.add(plan_path, "MISPLACED_LAMBDA", "a lambda can only be an argument of a function")
            return poison.EXPRESSION
        return expression

    def expressions(
        self, numbers: Sequence[int], plan_path: PlanPath, field: str, scope: Scope, *, untyped: bool = False
    ) -> Steps[tuple[ir.Expression, ...]]:
        """The expressions of the repeated field `field` of the message at `plan_path`."""
        literals = self.literals.run(numbers, plan_path, field, untyped=untyped)
        if literals is not None:
            return literals
        converted = []
        for index, number in enumerate(numbers):
            at = plan_path.at(field, index)
            converted.append((yield from self.expression(number, at, scope, untyped=untyped)))
        return tuple(converted)

    def condition(self, number: int, plan_path: PlanPath, scope: Scope) -> Steps[ir.Expression]:
        """An expression that must be boolean."""
        expression = yield from self.expression(number, plan_path, scope, untyped=True)
        if expression is poison.NULL:
            return ir.Literal(value=None, type=Boolean())
        if not isinstance(expression.type, Boolean):
            message = f"a condition must be boolean, not {expression.type}"
            self.problems.add(plan_path, "NOT_BOOLEAN", message)
        return expression

    # ------------------------------------------------------------------------------------------------- questions

    def missing_relation(self, plan_path: PlanPath) -> ir.Relation:
        self.problems.add(plan_path, "MISSING", "a relation is missing here")
        return poison.RELATION

    def missing_expression(self, plan_path: PlanPath) -> ir.Expression:
        self.problems.add(plan_path, "MISSING", "an expression is missing here")
        return poison.EXPRESSION

    def typed(self, values: Sequence[ir.Expression], plan_path: PlanPath) -> Sequence[ir.Expression]:
        """The values, which have one type: their nulls without a type have that of the first value that has one. They
        are reported if none has.
        """
        if not any(value is poison.NULL for value in values):
            return values
        type_ = next((value.type for value in values if value is not poison.NULL), None)
        null = self.literals.untyped(plan_path) if type_ is None else ir.Literal(value=None, type=nullable(type_))
        return [null if value is poison.NULL else value for value in values]

    def scope(
        self, inputs: Sequence[ir.Relation], message: Message, outer: Scope | None, windows: Windows | None = None
    ) -> Scope:
        """The row that the expressions of an operator over `inputs` see: the inputs' columns, one after the other."""
        if any(child is poison.RELATION for child in inputs):
            return Scope(schema=None, outer=outer, windows=windows)
        anchors: dict[int, range] = {}
        schema: ir.Schema = ()
        for child in inputs:
            if child in self._anchored:
                anchors[self._anchored[child]] = range(len(schema), len(schema) + len(child.schema))
            schema += child.schema
        if message.common.rel_anchor:
            anchors[message.common.rel_anchor] = range(len(schema))
        return Scope(schema=schema, outer=outer, anchors=anchors, windows=windows)

    def check_extension(self, message: Message, plan_path: PlanPath) -> None:
        """Refuses an enhancement of the message. An optimization changes nothing."""
        if message.advanced_extension.HasField("enhancement"):
            self.refuse_enhancement(message.advanced_extension, plan_path / "advanced_extension")

    def refuse_enhancement(self, extension: Message, plan_path: PlanPath) -> None:
        self.problems.add(
            plan_path / "enhancement",
            "UNSUPPORTED_ENHANCEMENT",
            f"the enhancement {extension.enhancement.type_url!r} is not supported, and cannot be ignored, because an "
            "enhancement changes the plan's meaning",
        )

    def shared_relation(self, ordinal: int, plan_path: PlanPath) -> Steps[tuple[int, ir.Relation]]:
        """The common subtree that a reference at `plan_path` means, and its position in `ir.Plan.shared`."""
        relation: ir.Relation = yield SharedRequest(ordinal, plan_path)
        return self.shared[ordinal][0] if ordinal in self.shared else 0, relation

    # ------------------------------------------------------------------------------------------------- the drive

    def _drive(self, request: Request) -> ir.Relation:
        relation: ir.Relation = unroll(self._step, request)
        return relation

    def _step(self, request: Request) -> Steps[Result]:
        self._depth += 1
        try:
            match request:
                case ExpressionRequest():
                    return (yield from request.steps)
                case RelationRequest() if self._has_depth(request.plan_path):
                    return (yield from self._relation(request))
                case SharedRequest() if self._has_depth(request.plan_path):
                    return (yield from self._shared(request))
                case _:
                    return poison.RELATION
        finally:
            self._depth -= 1

    def _has_depth(self, plan_path: PlanPath) -> bool:
        """Tests whether one part more inside of others is allowed, and reports the first that is too deep: the parts
        beside it are mostly too deep as well.
        """
        if self._depth < limits.DEPTH.most:
            return True
        if not self._refused_depth:
            self._refused_depth = True
            self.problems.add(plan_path, limits.REASON, limits.DEPTH.message())
        return False

    def count(self, limit: limits.Limit, plan_path: PlanPath, number: int = 1) -> bool:
        """Counts so many of what has a limit, and tests the count against it. The first excess is reported, once.

        What a loop's body is read for to find out its columns is not counted: it is read again.
        """
        if self.loops.guessing:
            return True
        before = self._counts[limit]
        self._counts[limit] += number
        if before <= limit.most < before + number:
            self.problems.add(plan_path, limits.REASON, limit.message())
        return before + number <= limit.most

    def _count_columns(self, columns: int, plan_path: PlanPath) -> bool:
        """Counts a relation's columns, and tests the count and the plan's total against the limits. The first excess is
        reported, once.
        """
        self._columns += columns
        if columns <= limits.COLUMNS.most and self._columns <= limits.ALL_COLUMNS.most:
            return True
        if not self._refused_columns:
            self._refused_columns = True
            limit = limits.COLUMNS if columns > limits.COLUMNS.most else limits.ALL_COLUMNS
            self.problems.add(plan_path, limits.REASON, limit.message())
        return False

    def _has_sizes(self, types: Sequence[Type], plan_path: PlanPath) -> bool:
        """Tests the sizes of nested types against their limits, and reports an excess."""
        excess = self._sizes.excess(types)
        if excess is not None:
            self.problems.add(plan_path, limits.REASON, excess)
        return excess is None

    def _take(self, number: int, plan_path: PlanPath) -> Message | None:
        self._messages += 1
        if not self._messages % _MESSAGES:
            look()
        try:
            return self.nodes.take(number)
        except Malformed as error:
            self.problems.add(plan_path, "MALFORMED", str(error))
            return None

    def _relation(self, request: RelationRequest) -> Steps[ir.Relation]:
        message = self._take(request.number, request.plan_path)
        if message is None:
            return poison.RELATION
        kind = message.WhichOneof("rel_type")
        if kind is None:
            return self.missing_relation(request.plan_path)
        plan_path = request.plan_path / kind
        body = getattr(message, kind)
        if kind in self._converters.refused_relations:
            self.problems.add(plan_path, "UNSUPPORTED_RELATION", self._converters.refused_relations[kind])
            return poison.RELATION
        converter = self._converters.relations[kind]
        relation = yield from converter(self, body, plan_path, request.outer)
        fits = self._count_columns(len(relation.schema), plan_path) and self._has_sizes(relation.schema, plan_path)
        if not fits:
            return poison.RELATION
        if kind in ("reference", "write"):
            return relation
        if not kind.startswith("extension_"):
            self.check_extension(body, plan_path)
        self.check_extension(body.common, plan_path / "common")
        if not self._count_columns(len(body.common.emit.output_mapping), plan_path):
            return poison.RELATION
        relation = emit(relation, body.common, plan_path, self.problems)
        if body.common.rel_anchor and relation is not poison.RELATION:
            self._anchored[relation] = body.common.rel_anchor
        return relation

    def _shared(self, request: SharedRequest) -> Steps[ir.Relation]:
        ordinal = request.ordinal
        if ordinal in self.shared:
            return self.shared[ordinal][1]
        if ordinal in self._unfinished:
            message = f"relation {ordinal} of the plan refers to itself, directly or through other relations"
            self.problems.add(request.plan_path, "CIRCULAR_REFERENCE", message)
            return poison.RELATION
        self._unfinished.add(ordinal)
        subtree = self.subtrees[ordinal]
        around, self.detached = self.detached, subtree.detached
        with self.loops.out_of_all():
            relation = yield from self.relation(subtree.number, subtree.plan_path, None)
        self.detached = around
        self._unfinished.discard(ordinal)
        # a subtree comes after the subtrees that it refers to
        self.shared[ordinal] = len(self.shared), relation
        return relation
