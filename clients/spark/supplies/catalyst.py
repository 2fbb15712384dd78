"""Reads a classic DataFrame's plan: whether it is files read as they are, which files, and which rows its filters keep.

Spark's plan is read, and nothing is run. Only known parts are trusted: with any node, expression, option or setting
that is not on a list here, Spark has to compute the DataFrame, and a sentence says why.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

from pyspark.sql import DataFrame
from pyspark.sql.types import StructField

from ...proto.errors import InvalidRequest
from ..data_frames import case_sensitive, elements, setting
from ..frame_columns import Column, arrow_type, quoted
from .conditions import SIGNS, Both, Compare, Condition, Either, Null, Value, columns_of
from .spark_listing import ListedFile, NotPlain, listed

_FORMATS: Final = {
    "org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat": "parquet",
    "org.apache.spark.sql.execution.datasources.orc.OrcFileFormat": "orc",
}
_TEXT: Final = ("csv", "json", "text", "xml", "avro")
#: Settings of a session that make Spark read other rows than are in the files, and the value that each must have.
_SETTINGS: Final = {
    "spark.sql.files.ignoreCorruptFiles": "false",
    "spark.sql.files.ignoreMissingFiles": "false",
    "spark.sql.parquet.fieldId.read.enabled": "false",
}
_PLAIN_OPTIONS: Final = {"path", "paths", "mergeschema", "basepath", "recursivefilelookup", "serialization.format"}
_DEFAULTS: Final = ("EXISTS_DEFAULT", "CURRENT_DEFAULT")


@dataclass(frozen=True, slots=True, kw_only=True)
class PlainScan:
    """Files read as they are, by path. `filters` are still to be decided.

    `partition_columns` are the wanted columns that folders tell; each file has their values. `filter_columns` are the
    columns of the files that the filters look at. `case_sensitive` says whether Spark tells names apart by case.
    """

    format: str
    files: tuple[ListedFile, ...]
    filters: tuple[tuple[Condition, str], ...]
    partition_columns: tuple[str, ...]
    filter_columns: tuple[Column, ...]
    case_sensitive: bool


def plain_scan(frame: DataFrame, columns: Sequence[Column]) -> PlainScan:
    """The scan of these columns of a classic DataFrame. Raises `NotPlain`."""
    session = frame.sparkSession
    for name, plain in _SETTINGS.items():
        if (value := setting(session, name)) not in (plain, None):
            raise NotPlain(f"the session has {name}={value}")
    scan, conditions = _walk(_with_these_alone(frame, columns)._jdf.queryExecution().sparkPlan())
    names = {attribute.exprId().id(): attribute.name() for attribute in elements(scan.output())} if conditions else {}
    relation = scan.relation()
    format_ = _format(relation)
    filters = tuple(
        (_condition(conjunct, names), conjunct.sql()) for condition in conditions for conjunct in _conjuncts(condition)
    )
    filter_columns = _filter_columns(relation, frozenset().union(*(columns_of(condition) for condition, _ in filters)))
    partition = _check_fields(relation, columns, filter_columns, session)
    return PlainScan(
        format=format_,
        files=listed(scan, partition),
        filters=filters,
        partition_columns=partition,
        filter_columns=filter_columns,
        case_sensitive=case_sensitive(session),
    )


def _with_these_alone(frame: DataFrame, columns: Sequence[Column]) -> Any:
    """The DataFrame with these columns alone.

    Without other columns it is the DataFrame itself, whose plan Spark keeps.
    """
    chosen = [column.name for column in columns]
    return frame if sorted(frame.schema.names) == sorted(chosen) else frame.select(*map(quoted, chosen))


def _walk(node: Any) -> tuple[Any, list[Any]]:
    """The scan below projections and filters, and the filters' conditions."""
    conditions = []
    output = node.output()
    wanted: dict[int, str] | None = None
    while (kind := node.getClass().getSimpleName()) != "FileSourceScanExec":
        if kind == "ProjectExec":
            wanted = wanted or {attribute.exprId().id(): attribute.name() for attribute in elements(output)}
            _check_projection(node, wanted)
        elif kind == "FilterExec":
            conditions.append(node.condition())
        else:
            raise NotPlain(f"the DataFrame is computed ({kind.removesuffix('Exec')})")
        node = node.children().apply(0)
    return node, conditions


def _check_projection(node: Any, wanted: Mapping[int, str]) -> None:
    for expression in elements(node.projectList()):
        name = wanted.get(expression.exprId().id())
        if name is not None and expression.getClass().getSimpleName() != "AttributeReference":
            raise NotPlain(f"column {name!r} is computed ({expression.sql()})")


def _format(relation: Any) -> str:
    kind = relation.fileFormat().getClass().getName()
    if kind not in _FORMATS:
        name = relation.fileFormat().toString().lower()
        if name in _TEXT:
            raise NotPlain(f"Spark reads {name.upper()} files by other rules and options than Tidegate")
        raise NotPlain(f"the files are read by {kind.rpartition('.')[2].removesuffix('$')}")
    for pair in elements(relation.options().toSeq()):
        if pair._1().lower() not in _PLAIN_OPTIONS:
            raise NotPlain(f"the files are read with option {pair._1()}={pair._2()}")
    return _FORMATS[kind]


def _filter_columns(relation: Any, names: frozenset[str]) -> tuple[Column, ...]:
    """The columns of the files that have these names. Spark takes the values of other columns from folders."""
    if not names:
        return ()
    folders = {field["name"].casefold() for field in _fields(relation.partitionSchema())}
    chosen = [field for field in _fields(relation.dataSchema()) if field["name"] in names]
    return tuple(_filter_column(field) for field in chosen if field["name"].casefold() not in folders)


def _filter_column(field: dict[str, Any]) -> Column:
    try:
        return Column(field["name"], arrow_type(StructField.fromJson(field).dataType, field["name"]))
    except InvalidRequest as unmapped:
        raise NotPlain(f"a filter looks at column {field['name']!r}, whose type only Spark reads") from unmapped


def _check_fields(
    relation: Any, columns: Sequence[Column], filter_columns: Sequence[Column], session: Any
) -> tuple[str, ...]:
    """The wanted columns that folders tell.

    Refuses columns with a default for files that lack them, and columns that both folders and files may have.
    """
    read = [*columns, *filter_columns]
    wanted = {column.name.casefold() for column in columns}
    data = {field["name"].casefold(): field["metadata"] for field in _fields(relation.dataSchema())}
    folders = [field["name"] for field in _fields(relation.partitionSchema())]
    partition = tuple(name for name in folders if name.casefold() in wanted)
    for name in partition:
        if name.casefold() in data:
            raise NotPlain(f"column {name!r} is in the folders' names and in the files")
    for name in sorted({column.name.casefold() for column in read} & data.keys()):
        if any(key in data[name] for key in _DEFAULTS):
            raise NotPlain(f"column {name!r} has a default value for files that lack the column")
    if any(column.temporal for column in read):
        for name in ("datetimeRebaseModeInRead", "int96RebaseModeInRead"):
            mode = setting(session, f"spark.sql.parquet.{name}")
            if mode not in ("CORRECTED", None):
                raise NotPlain(f"the session has spark.sql.parquet.{name}={mode}")
        if setting(session, "spark.sql.parquet.int96TimestampConversion") == "true":
            raise NotPlain("the session moves the timestamps of files that other programs have written")
    return partition


def _fields(schema: Any) -> list[dict[str, Any]]:
    """The fields of a schema of the JVM's, in one call for any number of fields."""
    fields: list[dict[str, Any]] = json.loads(schema.json())["fields"]
    return fields


def _conjuncts(condition: Any) -> Iterator[Any]:
    if condition.getClass().getSimpleName() == "And":
        for child in elements(condition.children()):
            yield from _conjuncts(child)
    else:
        yield condition


def _condition(expression: Any, names: Mapping[int, str]) -> Condition:
    kind = expression.getClass().getSimpleName()
    children = list(elements(expression.children()))
    match kind:
        case "And":
            return Both(_condition(children[0], names), _condition(children[1], names))
        case "Or":
            return Either(_condition(children[0], names), _condition(children[1], names))
        case "IsNotNull" | "IsNull" if (name := _attribute(children[0], names)) is not None:
            return Null(name, is_null=kind == "IsNull")
        case "In" if (name := _attribute(children[0], names)) is not None:
            return _one_of(name, [_literal(child) for child in children[1:]], expression)
        case _ if kind in SIGNS:
            return _comparison(expression, children, SIGNS[kind], names)
        case _:
            raise _undecidable(expression)


def _comparison(
    expression: Any, children: Sequence[Any], signs: tuple[str, str], names: Mapping[int, str]
) -> Condition:
    for (attribute, literal), sign in zip((children, children[::-1]), signs, strict=True):
        name, value = _attribute(attribute, names), _literal(literal)
        if name is not None and value is not None:
            return Compare(name, sign, value)
    raise _undecidable(expression)


def _one_of(name: str, values: Sequence[Value | None], expression: Any) -> Condition:
    either: Condition | None = None
    for value in values:
        if value is None:
            raise _undecidable(expression)
        compare = Compare(name, "=", value)
        either = compare if either is None else Either(either, compare)
    if either is None:
        raise _undecidable(expression)
    return either


def _undecidable(expression: Any) -> NotPlain:
    return NotPlain(f"the filter {expression.sql()} must be computed")


def _attribute(expression: Any, names: Mapping[int, str]) -> str | None:
    if expression.getClass().getSimpleName() != "AttributeReference":
        return None
    name: str | None = names.get(expression.exprId().id())
    return name


def _literal(expression: Any) -> Value | None:
    """The literal's value; None unless its type has one order for Spark and for statistics of files."""
    if expression.getClass().getSimpleName() != "Literal" or expression.value() is None:
        return None
    kind = expression.dataType().catalogString()
    value = expression.value()
    if kind in ("tinyint", "smallint", "int", "bigint", "date", "timestamp", "timestamp_ntz"):
        return int(value)
    if kind == "string":
        return str(value.toString())
    if kind.startswith("decimal"):
        return Decimal(value.toString())
    return None
