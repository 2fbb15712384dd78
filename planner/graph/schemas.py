"""The schema of every node, and the problems of the columns that nodes ask for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from ...operators.arrays.casts import stored
from ...operators.arrays.hashing import hash_kind, hashable
from ...operators.user.batch_function import mapped_schema
from ...operators.user.user_code import shown
from ...proto.errors import NodeError, PlanError, Problem
from ...proto.graph import (
    ByKey,
    DatasetSource,
    ExecutorNode,
    FedSource,
    FileSource,
    GraphNode,
    Input,
    MapNode,
    SourceNode,
    SqlNode,
    StockNode,
    UnionNode,
)
from .graph_structure import problem
from .steps import MergeStep, SqlStep, Step
from .stock_nodes import Schemas, Wrong, sql_step, stock_steps


def steps_of(nodes: Sequence[GraphNode], files: Schemas) -> tuple[tuple[Step, ...], Schemas]:
    """The steps of the nodes, and the schema of each; `nodes` are in order, `files` has the schemas of the files that
    are read. Raises `PlanError` with everything that does not fit.
    """
    typing = _Typing({node.name for node in nodes}, files)
    for node in nodes:
        typing.add(node)
    if typing.problems:
        raise PlanError(*typing.problems)
    return tuple(typing.steps), typing.schemas


class _Typing:
    """The schemas of the nodes so far. A node with an untyped input is passed over: the input's problem has been
    reported.
    """

    def __init__(self, names: set[str], files: Schemas) -> None:
        self.schemas: dict[str, pa.Schema] = {}
        self.steps: list[Step] = []
        self.problems: list[Problem] = []
        self._names = names
        self._files = files

    def add(self, node: GraphNode) -> None:
        match node:
            case SqlNode() | StockNode():
                if all(stream.source in self.schemas for stream in node.inputs):
                    self._add_steps(node)
            case _:
                self._know(node, _schema(node, self.schemas, self._files, self.problems))
                if isinstance(node, ExecutorNode):
                    self.problems += _partitions(node, self.schemas)

    def _add_steps(self, node: SqlNode | StockNode) -> None:
        try:
            steps: Sequence[SqlStep | MergeStep] = (
                [sql_step(node, self.schemas)]
                if isinstance(node, SqlNode)
                else list(stock_steps(node, self.schemas, self._unused))
            )
        except Wrong as error:
            self.problems.append(problem(node.name, error.reason, str(error)))
            return
        for step in steps:
            self._know(step, step.schema if isinstance(step, SqlStep) else self.schemas[step.source])
            if isinstance(step, SqlStep):
                self.problems += _partitions(step, self.schemas)

    def _know(self, step: Step, schema: pa.Schema | None) -> None:
        if schema is not None:
            self.steps.append(step)
            self.schemas[step.name] = _stored(schema)

    def _unused(self, name: str) -> str:
        while name in self._names:
            name += "_"
        self._names.add(name)
        return name


def _schema(
    node: SourceNode | MapNode | UnionNode | ExecutorNode, schemas: Schemas, files: Schemas, problems: list[Problem]
) -> pa.Schema | None:
    """The schema of a node; None, once its problem is reported, if it cannot be known."""
    match node:
        case FileSource():
            return _read_by_name(node, _of_files(node, files, problems), problems)
        case FedSource():
            return _read_by_name(node, node.schema, problems)
        case DatasetSource():
            return _read_by_name(node, node.dataset.schema, problems)
        case MapNode():
            source = schemas.get(node.source)
            return _mapped(node, source, problems) if source is not None else None
        case UnionNode():
            return _united(node, schemas, problems)
        case ExecutorNode(schema=None):
            if len(node.inputs) == 1:
                return schemas.get(node.inputs[0].source)
            problems.append(
                problem(node.name, "NO_SCHEMA", "the node has several streams: give the schema of its rows")
            )
            return None
        case _:
            return node.schema


def _of_files(node: FileSource, files: Schemas, problems: list[Problem]) -> pa.Schema | None:
    schema = node.schema or files.get(node.name)
    if schema is None:
        text = "its files do not tell the types of their columns: give a schema"
        problems.append(problem(node.name, "NO_SCHEMA", text))
        return None
    if node.columns is None:
        return schema
    missing = [column for column in node.columns if column not in schema.names]
    problems.extend(problem(node.name, "UNKNOWN_COLUMN", _no_column(column, schema)) for column in missing)
    return None if missing else pa.schema([schema.field(column) for column in node.columns])


def _read_by_name(
    node: FileSource | FedSource | DatasetSource, schema: pa.Schema | None, problems: list[Problem]
) -> pa.Schema | None:
    """The schema of a source, if all its columns have different names."""
    names = () if schema is None else schema.names
    for name in dict.fromkeys(names):
        if names.count(name) > 1:
            problems.append(
                problem(
                    node.name,
                    "DUPLICATE_COLUMN",
                    f"several of its columns are called {name!r}, and columns are read by name: give the columns "
                    "different names",
                )
            )
            return None
    return schema


def _mapped(node: MapNode, source: pa.Schema, problems: list[Problem]) -> pa.Schema | None:
    if node.schema is not None:
        return node.schema
    try:
        return mapped_schema(node, source)
    except NodeError as error:
        text = (
            f"{error.what}\nTidegate called the function with an empty batch, to learn the schema: accept an empty "
            "batch, or give map(..., schema=...)"
        )
        problems.append(problem(node.name, "BAD_FUNCTION", text))
        return None


def _stored(schema: pa.Schema) -> pa.Schema:
    """The schema of rows as this process keeps them, whatever Arrow type their texts had."""
    return pa.schema([field.with_type(stored(field.type)) for field in schema])


def _united(node: UnionNode, schemas: Schemas, problems: list[Problem]) -> pa.Schema | None:
    known = [(name, schemas[name]) for name in node.sources if name in schemas]
    if len(known) < len(node.sources):
        return None
    first_name, first = known[0]
    for name, schema in known[1:]:
        if schema.names != first.names or schema.types != first.types:
            text = (
                f"the streams of the union have different schemas, {first_name!r} ({shown(first)}) and {name!r} "
                f"({shown(schema)}): give streams of one schema"
            )
            problems.append(problem(node.name, "SCHEMA_MISMATCH", text))
            return None
    fields = zip(*(schema for _, schema in known), strict=True)
    return pa.schema([same[0].with_nullable(any(field.nullable for field in same)) for same in fields])


def _partitions(node: ExecutorNode | SqlStep, schemas: Schemas) -> Iterator[Problem]:
    keyed: list[tuple[Input, list[str]]] = []
    for stream in node.inputs:
        schema = schemas.get(stream.source)
        if not isinstance(stream.partition, ByKey) or schema is None:
            continue
        wrong = list(_wrong_keys(node.name, stream, stream.partition, schema))
        yield from wrong
        if not wrong:
            keyed.append((stream, [hash_kind(schema.field(column).type) for column in stream.partition.columns]))
    for other, types in keyed[1:]:
        first, expected = keyed[0]
        if types != expected:
            yield problem(
                node.name,
                "KEY_TYPES",
                f"streams {first.name!r} ({', '.join(expected)}) and {other.name!r} ({', '.join(types)}) are "
                "partitioned by keys of different types, so equal keys would go to different channels: cast the "
                "keys to one type",
            )


def _wrong_keys(node: str, stream: Input, key: ByKey, schema: pa.Schema) -> Iterator[Problem]:
    if not key.columns:
        yield problem(node, "UNKNOWN_COLUMN", f"stream {stream.name!r} is partitioned by no column")
    for column in key.columns:
        if schema.names.count(column) != 1:
            text = f"stream {stream.name!r} is partitioned by {column!r}: {_no_column(column, schema)}"
            yield problem(node, "UNKNOWN_COLUMN", text)
        elif not hashable(schema.field(column).type):
            type_ = schema.field(column).type
            text = f"stream {stream.name!r} is partitioned by {column!r}, whose type {type_} cannot be a hash key"
            yield problem(node, "UNSUPPORTED_TYPE", text)


def _no_column(column: str, schema: pa.Schema) -> str:
    there = ", ".join(schema.names)
    if column in schema.names:
        return f"several of the columns {there} are called {column!r}"
    return f"there is no column {column!r}; there are: {there}"
