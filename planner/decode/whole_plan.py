"""Decodes a whole plan: its declarations, its relations, its root."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, NoReturn

from ...proto.errors import PlanError, Problem
from ...proto.operator_registration import UserOperators
from ...proto.values import PlanBytes
from .. import ir
from . import expressions, poison, relations
from .beside_plan import NO_SCHEMAS, Beside, Schemas
from .declarations.declared_types import Types
from .declarations.extensions import read_extensions
from .declarations.field_names import count_names, name_fields
from .declarations.habits import Habits, candidates
from .decoder import Converters, Decoder, Subtree
from .encoding import limits
from .encoding.counting import Counted, count_json, count_text, count_wire
from .encoding.json_nodes import JsonNodes, read_json
from .encoding.looks_like import looks_like, unreadable
from .encoding.message_nodes import Malformed, Message, Nodes
from .encoding.protobuf_nodes import WireNodes
from .parameter_values import read_given
from .plan_path import PlanPath
from .problems import Problems, TooManyProblems

_BYTE_ORDER_MARK: Final = "\ufeff"
_PER_RECORD: Final = 2
_CONVERTERS: Final = Converters(
    relations=relations.CONVERTERS,
    refused_relations=relations.REFUSED,
    expressions=expressions.CONVERTERS,
    refused_expressions=expressions.REFUSED,
)
_NO_OPERATORS: Final[UserOperators] = {}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Decoded:
    """A plan without problems, and warnings for its author."""

    plan: ir.Plan
    warnings: tuple[str, ...]


def decode_plan(plan: PlanBytes, operators: UserOperators = _NO_OPERATORS, schemas: Schemas = NO_SCHEMAS) -> Decoded:
    """Decodes a plan, binary or JSON, of any Substrait release. `operators` are the service owner's operators, which
    the plan may name. The values of its parameters come with it.
    `schemas` are those of tables and files whose rows are there already.

    Raises `PlanError` with every problem found, each with its place in the plan, and no other error, whatever the bytes
    are. Decoding takes time linear in the plan's size, however deep the plan nests. A plan beyond one of `limits` is
    refused before anything is made of it.
    """
    if plan.json is not None:
        plan = replace(plan, json=plan.json.removeprefix(_BYTE_ORDER_MARK))
    if (other := looks_like(plan)) is not None:
        raise PlanError(Problem(place="", reason="MALFORMED", message=f"this is not a Substrait plan: {other}"))
    parameters = read_given(plan.parameters)
    try:
        nodes = _counted(plan, sum(value.literals for value in parameters.values()))
        message = nodes().peek(0)
    except Malformed as error:
        raise PlanError(Problem(place="", reason="MALFORMED", message=unreadable(plan, str(error)))) from error
    likeliest, *others = candidates(message)
    beside = Beside(operators=operators, parameters=parameters, schemas=schemas)
    reading = _decode(nodes(), beside, likeliest)
    if isinstance(reading.result, Decoded) and not reading.unsure:
        return reading.result
    for habits in others:
        if habits.set_index is not likeliest.set_index and reading.bare_sets is None:
            continue
        if habits.expansion is not likeliest.expansion and not reading.may_pass_columns:
            continue
        alternative = _decode(nodes(), beside, habits).result
        if isinstance(alternative, Decoded):
            return alternative if isinstance(reading.result, PlanError) else _refuse_both(reading.bare_sets or "")
    if isinstance(reading.result, PlanError):
        raise reading.result
    return reading.result


def _refuse_both(plan_path: str) -> NoReturn:
    raise PlanError(
        Problem(
            place=plan_path,
            reason="AMBIGUOUS_GROUPING",
            message="this aggregate may have the number of the grouping set as its last column, or not: the plan's "
            "producer has written both, and the columns above fit both; list the aggregate's columns in its emit",
        )
    )


def _counted(plan: PlanBytes, literals: int) -> Callable[[], Nodes]:
    """A factory of tables of the plan's messages, one for each reading of the plan. Refuses a plan that is too large,
    with the literals of its parameters, first.
    """
    counted = Counted(literals)
    encoded = plan.binary if plan.binary is not None else plan.json or ""
    size = len(encoded) + len(plan.parameters)
    if size > limits.BYTES.most:
        raise limits.BYTES.refuse(size)
    if isinstance(encoded, bytes):
        if literals or len(encoded) > limits.least():
            count_wire(encoded, counted=counted)
        return partial(WireNodes, encoded)
    count_text(encoded)
    value = read_json(encoded)
    if literals or len(encoded) > limits.least():
        count_json(value, counted)
    return partial(JsonNodes, value)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Reading:
    """One way to read a plan. `bare_sets` is the plan path of an aggregate with several grouping sets and without an
    emit; `unsure` tells that its producer may mean it otherwise. `may_pass_columns` tells that the plan does not fit,
    and that an expansion of it may have more columns.
    """

    result: Decoded | PlanError
    bare_sets: str | None
    unsure: bool
    may_pass_columns: bool


def _decode(nodes: Nodes, beside: Beside, habits: Habits) -> _Reading:
    problems = Problems()
    message = nodes.take(0)
    extensions = read_extensions(message, problems)
    types = Types(nodes, problems, extensions, habits)
    decoder = Decoder(_CONVERTERS, nodes, problems, extensions, types, habits, beside)
    plan = None
    with suppress(TooManyProblems):
        _check_plan(decoder, message)
        plan = _root(decoder, message)
        if not len(problems):
            decoder.parameters.check_given()
    result: Decoded | PlanError
    try:
        problems.raise_any()
        if plan is None:
            raise AssertionError("a plan without problems has a root")
        result = Decoded(plan=plan, warnings=problems.warnings)
    except PlanError as error:
        result = error
    sets = decoder.bare_sets
    return _Reading(
        result=result,
        bare_sets=sets,
        unsure=habits.set_index_unsure and sets is not None,
        may_pass_columns=isinstance(result, PlanError) and decoder.has_short_expansion,
    )


def _check_plan(decoder: Decoder, message: Message) -> None:
    """Checks the parts of a plan beside its relations."""
    enhancement_owner = message.advanced_extensions
    if enhancement_owner.HasField("enhancement"):
        decoder.refuse_enhancement(enhancement_owner, PlanPath("advanced_extensions"))
    if message.execution_behavior.variable_eval_mode == _PER_RECORD:
        decoder.problems.add(
            PlanPath("execution_behavior") / "variable_eval_mode",
            "UNSUPPORTED_EVALUATION",
            "the clock is read once per epoch, not for every record; use VARIABLE_EVALUATION_MODE_PER_PLAN",
        )
    for index, binding in enumerate(message.parameter_bindings):
        decoder.parameters.bind(binding, PlanPath().at("parameter_bindings", index))
    for index, alias in enumerate(message.type_aliases):
        decoder.types.aliases[alias.type_alias_anchor] = alias.type, PlanPath().at("type_aliases", index) / "type"


def _root(decoder: Decoder, message: Message) -> ir.Plan | None:
    """The plan, from its one root; None if there is no root or the root's relation is poison."""
    roots: list[tuple[Message, PlanPath]] = []
    for index, relation in enumerate(message.relations):
        plan_path = PlanPath().at("relations", index)
        match relation.WhichOneof("rel_type"):
            case "root":
                roots.append((relation, plan_path / "root"))
            case "rel":
                decoder.subtrees[index] = Subtree(relation.rel, plan_path / "rel", tuple(relation.detached_expressions))
            case _:
                decoder.problems.add(plan_path, "MISSING", "a relation is missing here")
    if len(decoder.subtrees) > limits.SUBTREES.most:
        decoder.problems.add(PlanPath("relations"), limits.REASON, limits.SUBTREES.message(len(decoder.subtrees)))
        return None
    if len(roots) != 1:
        problem = f"a plan must have exactly one root, which names the result's columns, not {len(roots)}"
        decoder.problems.add(PlanPath("relations"), "WRONG_ROOTS", problem)
    plans = [_plan(decoder, root, plan_path, message.version.producer) for root, plan_path in roots]
    for ordinal in decoder.subtrees:
        decoder.subtree(ordinal)
    plan = plans[0] if plans else None
    return plan if plan is None or not decoder.side_writes else _with_side_tables(decoder, plan)


def _with_side_tables(decoder: Decoder, plan: ir.Plan) -> ir.Plan:
    """The plan with the tables that it writes beside its result. Each has one writer: two would be two files of one
    name.
    """
    written = [] if plan.write is None else [plan.write.table]
    side_tables = []
    for ordinal, write in decoder.side_writes.items():
        if write.table in written:
            problem = f"the plan writes table {'.'.join(write.table)!r} twice: write a union of the rows"
            decoder.problems.add(PlanPath(write.plan_path), "UNSUPPORTED_WRITE", problem)
        written.append(write.table)
        side_tables.append(ir.SideTable(ordinal=decoder.shared[ordinal][0], write=write))
    shared = tuple(relation for _, relation in decoder.shared.values())
    return replace(plan, shared=shared, side_tables=tuple(side_tables))


def _plan(decoder: Decoder, message: Message, plan_path: PlanPath, producer: str) -> ir.Plan | None:
    decoder.detached = tuple(message.detached_expressions)
    relation = decoder.root(message.root.input, plan_path / "input")
    if relation is poison.RELATION:
        return None
    names = tuple(message.root.names)
    write = decoder.write
    types = relation.schema if write is None else tuple(relation.schema[index] for index in write.columns)
    unnamed = write is not None and not write.returned and not names
    expected = count_names(types)
    if len(names) != expected and not unnamed:
        problem = f"{len(names)} names for {len(types)} columns, which with their nested fields need {expected}"
        decoder.problems.add(plan_path / "names", "WRONG_WIDTH", problem)
    elif write is not None:
        own, _ = ((), ()) if unnamed else name_fields(types, names)
        write = replace(write, names=own, columns=write.columns[: len(own)])
    return ir.Plan(
        root=relation,
        names=names if write is None else write.table_names,
        shared=tuple(relation for _, relation in decoder.shared.values()),
        producer=producer,
        write=write,
    )
