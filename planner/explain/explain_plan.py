"""A plan explained to people and programs: its relations, pipelines, fragments, sources, and the reasons.

In the text a relation stands above its only input; of several inputs each is indented. Below a loop that runs round by
round stand the operators that it runs over changes, and then the relations that feed it. The JSON has the same content,
its relations as a flat list that refers to inputs by number, because plans can be thousands of levels deep.
"""

from __future__ import annotations

import json
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import pyarrow as pa

from ...proto.values import Determinism, ExecutorKind, Explanation, TaskOptions
from .. import ir
from ..changes.lower_changes import input_name, lower_loop
from ..cut.column_selection import selection
from ..cut.divide import DEPTH, Division, Section
from ..cut.fragments import is_blocking, is_row_wise
from ..cut.kernels import has_kernels
from ..cut.operated import key_columns
from ..ir import tree
from ..ir.visit import subqueries
from ..physical.sources import PlannedSource
from .described import described
from .explain_changes import operators_json, operators_text
from .explain_channels import Spread, saved_ms, shortage_json, spread_json, spread_text
from .explain_operators import NONE, Marks, indented
from .explain_stages import stages_json, stages_text

_PROMISES: Final = {
    Determinism.STRICT: "the same rows in the same order, bit for bit, on every run",
    Determinism.RELAXED: "the same rows on every run, in any order",
}


_INDEXED: Final = "look-ups read this index: made once per task"
_INDEXED_PERHAPS: Final = "look-ups of epochs that are small beside the index read it: made once per task"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Line:
    """A relation in a fragment; `role` names its role for the relation above if that is not plain."""

    depth: int
    relation: ir.Relation
    role: str
    number: int
    parent: int | None
    marks: Marks


@dataclass(frozen=True, slots=True, kw_only=True)
class _Fragment:
    name: str
    why: str
    root: ir.Relation
    lines: tuple[_Line, ...]
    row_wise: bool
    blocking: bool
    kernels: bool


@dataclass(slots=True)
class _Naming:
    """Names for fragments, by the relation that each computes."""

    names: dict[ir.Relation, str] = field(default_factory=dict)
    relations: int = 0

    def of(self, relation: ir.Relation, ends: Container[ir.Relation], *, row_wise: bool = False) -> str:
        plain = "selection" if selection(relation, ends, row_wise=row_wise) else "fragment"
        kind = "operator" if isinstance(relation, ir.Operated) else plain
        return self.names.setdefault(relation, f"{kind} {len(self.names) + 1}")


def explain(
    plan: ir.Plan,
    division: Division,
    sources: Sequence[PlannedSource],
    schema: pa.Schema,
    options: TaskOptions,
    spread: Spread | None = None,
) -> Explanation:
    """The explanation of a plan. `spread` is the plan over several channels, or cut into stages."""
    naming = _Naming()
    tables = {name: _fragments(division, section, naming) for name, section in division.tables.items()}
    perhaps = {division.indexes[candidate.table, candidate.keys].name for candidate in division.lookups.values()}
    why = {name: _INDEXED_PERHAPS if name in perhaps else _INDEXED for name in tables}
    kept = {name: _fragments(division, section, naming) for name, section in division.kept.items()}
    whole = spread is None or len(spread.physical.pipelines) == len(division.sections)
    pipelines = [_fragments(division, section, naming, ends=whole) for section in division.sections]
    shared = [_lines(division, relation, {}, naming) for relation in plan.shared]
    content: dict[str, Any] = {
        "mode": options.mode.value,
        "determinism": options.determinism.value,
        "promise": _PROMISES[options.determinism],
        "channels": options.channels,
        "spill": options.spill.value,
        "columns": [{"name": field.name, "type": str(field.type), "nullable": field.nullable} for field in schema],
        "writes": _write(plan.write),
        "sources": [_source(source) for source in sources],
        "shared": [[_relation(division, line) for line in lines] for lines in shared],
        "indexes": [
            {"name": name, "why": why[name], "fragments": _json(division, fragments)}
            for name, fragments in tables.items()
        ],
        "kept": [
            {
                "name": name,
                "why": "only static sources feed it: computed once per task",
                "fragments": _json(division, fragments),
            }
            for name, fragments in kept.items()
        ],
        "pipelines": [
            {"start": _start(plan, section), "fragments": _json(division, fragments)}
            for section, fragments in zip(division.sections, pipelines, strict=True)
        ],
    }
    computed = {**{f"{name}: {why[name]}": fragments for name, fragments in tables.items()}, **_named_kept(kept)}
    text = _text(division, content, shared, computed, pipelines)
    if spread is not None and options.channels > 1:
        content["spread"] = spread_json(spread)
        content["spread_for"] = dict(spread.rows)
        content["spread_saves_ms"] = saved_ms(spread)
        content["spread_short_of_memory"] = shortage_json(spread)
        text += "".join(f"{line}\n" for line in spread_text(spread))
    if spread is not None and options.executor is ExecutorKind.SPARK:
        content["spark"] = stages_json(spread)
        text += "".join(f"{line}\n" for line in stages_text(spread))
    return Explanation(text=text, json=json.dumps(content, indent=1))


# ------------------------------------------------------------------------------------------------ fragments


def _fragments(division: Division, section: Section, naming: _Naming, *, ends: bool = False) -> tuple[_Fragment, ...]:
    """The section's fragments, the root's first. `ends` says that the section ends a pipeline."""
    ends_at = {*section.edges, *division.uses}
    naming.of(section.root, ends_at, row_wise=section.row_wise)
    edges = {edge: naming.of(edge, ends_at) for edge in reversed(section.edges)}
    fragments = [_fragment(division, section.root, "", edges, naming, ends=ends)]
    operated = {child for edge in section.edges if isinstance(edge, ir.Operated) for child in tree.read_by(edge)}
    for edge in reversed(section.edges):
        why = f"cut off, being {DEPTH} relations deep"
        if isinstance(edge, ir.Operated) or edge in operated:
            why = ""
        fragments.append(_fragment(division, edge, why, edges, naming))
    return tuple(fragments)


def _named_kept(kept: Mapping[str, Sequence[_Fragment]]) -> dict[str, Sequence[_Fragment]]:
    return {
        f"{name}: only static sources feed it: computed once per task": fragments for name, fragments in kept.items()
    }


def _fragment(
    division: Division,
    root: ir.Relation,
    why: str,
    edges: Mapping[ir.Relation, str],
    naming: _Naming,
    *,
    ends: bool = False,
) -> _Fragment:
    stops = {*edges, *division.uses}
    return _Fragment(
        name=naming.of(root, stops),
        why=why,
        root=root,
        lines=_lines(division, root, edges, naming, ends=ends),
        row_wise=is_row_wise(root, stops),
        blocking=is_blocking(root, stops),
        kernels=has_kernels(root, stops),
    )


def _lines(
    division: Division, root: ir.Relation, edges: Mapping[ir.Relation, str], naming: _Naming, *, ends: bool = False
) -> tuple[_Line, ...]:
    lines: list[_Line] = []
    stack: list[tuple[ir.Relation, int, str, int | None]] = [(root, 0, "", None)]
    while stack:
        relation, depth, role, parent = stack.pop()
        naming.relations += 1
        number = naming.relations
        if relation is not root and relation in edges:
            role = f"{role}{edges[relation]}, "
            lines.append(_Line(depth=depth, relation=relation, role=role, number=number, parent=parent, marks=NONE))
            continue
        named = relation is not root and relation in division.uses
        marks = Marks(ends=ends and relation is root, blocks=not named and relation.traits.blocks)
        lines.append(_Line(depth=depth, relation=relation, role=role, number=number, parent=parent, marks=marks))
        if named:
            continue
        below = [*((child, "") for child in tree.read_by(relation)), *_subqueries(relation)]
        deeper = depth + (len(below) > 1)
        stack.extend((child, deeper, of, number) for child, of in reversed(below))
    return tuple(lines)


def _subqueries(relation: ir.Relation) -> Iterator[tuple[ir.Relation, str]]:
    for expression in tree.expressions(relation):
        for subquery in subqueries(expression):
            yield subquery.relation, f"{subquery.kind.value} subquery: "


def _start(plan: ir.Plan, section: Section) -> str:
    return "piece" if section.row_wise and plan.write is None else "seal"


def _write(write: ir.Write | None) -> dict[str, Any] | None:
    if write is None:
        return None
    return {
        "table": ".".join(write.table),
        "mode": write.mode.value,
        "returned": write.returned,
        "place": write.plan_path,
    }


def _source(source: PlannedSource) -> dict[str, Any]:
    return {
        "name": source.name,
        "kind": "static" if source.static else "fed",
        "columns": [
            {"name": column.name, "type": str(column.type), "nullable": column.nullable} for column in source.columns
        ],
        "reads": list(source.plan_paths),
        "files": [item.path for item in source.items],
        "reader": "Parquet files: DuckDB, inside the fragment; anything else: through Arrow",
    }


# ------------------------------------------------------------------------------------------------- as JSON


def _json(division: Division, fragments: Sequence[_Fragment]) -> list[dict[str, Any]]:
    return [
        {
            "name": fragment.name,
            "why": fragment.why,
            "row_wise": fragment.row_wise,
            "blocking": fragment.blocking,
            "kernels": fragment.kernels,
            "relations": [_relation(division, line) for line in fragment.lines],
        }
        for fragment in fragments
    ]


def _relation(division: Division, line: _Line) -> dict[str, Any]:
    content = {
        "number": line.number,
        "parent": line.parent,
        "role": line.role.rstrip(", :"),
        "relation": _describe(division, line),
        "place": line.relation.plan_path,
        **line.marks.json,
    }
    loop = _loop_run_here(line)
    return content if loop is None else {**content, "operators": operators_json(lower_loop(loop), _called(loop))}


# ------------------------------------------------------------------------------------------------- as text


def _text(
    division: Division,
    content: Mapping[str, Any],
    shared: Sequence[Sequence[_Line]],
    computed: Mapping[str, Sequence[_Fragment]],
    pipelines: Sequence[Sequence[_Fragment]],
) -> str:
    how = f"channels: {content['channels']}, spill: {content['spill']}"
    lines = [
        f"{content['mode']}, {content['determinism']} ({content['promise']}), {how}",
        f"columns: {_columns(content['columns'])}",
    ]
    if content["writes"] is not None:
        lines.append(_write_line(content["writes"]))
    for source in content["sources"]:
        lines.append(f"source {source['name']} ({source['kind']}): {_columns(source['columns'])}")
        lines.extend(f"  file {path}" for path in source["files"])
        lines.append(f"  {source['reader']}")
    for ordinal, shared_lines in enumerate(shared):
        lines.append(f"shared {ordinal}, computed once for all its uses")
        lines.extend(_line(division, line, 1) for line in shared_lines)
    for title, fragments in computed.items():
        lines.append(title)
        lines.extend(_fragment_lines(division, fragments))
    for number, (pipeline, fragments) in enumerate(zip(content["pipelines"], pipelines, strict=True), 1):
        start = "starts with its first piece" if pipeline["start"] == "piece" else "starts at the seal"
        lines.append(f"pipeline {number}, {start}")
        lines.extend(_fragment_lines(division, fragments))
    return "\n".join(lines) + "\n"


def _write_line(write: Mapping[str, Any]) -> str:
    returned = "its rows are the result" if write["returned"] else "the result has no rows"
    return f"writes table {write['table']} at the barrier ({write['mode']}); {returned}  [{write['place']}]"


def _columns(columns: Sequence[Mapping[str, Any]]) -> str:
    return ", ".join(
        f"{column['name']} {column['type']}{'' if column['nullable'] else ' not null'}" for column in columns
    )


def _fragment_lines(division: Division, fragments: Sequence[_Fragment]) -> Iterator[str]:
    for fragment in fragments:
        known = (
            ("row-wise", fragment.row_wise),
            ("blocking", fragment.blocking),
            ("kernels for few rows", fragment.kernels),
        )
        marks = [text for text, holds in known if holds]
        yield "  " + ", ".join([fragment.name, *marks, *([fragment.why] if fragment.why else [])])
        for line in fragment.lines:
            yield _line(division, line, 2)
            loop = _loop_run_here(line)
            if loop is not None:
                yield from (indented(line.depth + 3) + text for text in operators_text(lower_loop(loop), _called(loop)))


def _line(division: Division, line: _Line, indent: int) -> str:
    what = f"{line.role}{_describe(division, line)}{line.marks.text}"
    return f"{indented(indent + line.depth)}{what}  [{line.relation.plan_path}]"


def _loop_run_here(line: _Line) -> ir.Rounds | None:
    """The loop whose operators are shown here. A fragment that only reads a loop does not show its operators again."""
    return line.relation if isinstance(line.relation, ir.Rounds) and line.parent is None else None


def _called(loop: ir.Rounds) -> dict[str, str]:
    return {input_name(port): f"input {port} of the loop" for port in range(len(loop.inputs))}


def _describe(division: Division, line: _Line) -> str:
    """The line of a relation. A kept result is named at its reads; at its computation it is the fragment's root."""
    if isinstance(line.relation, ir.IndexLookup):
        index = division.indexes.get((line.relation.right, key_columns(line.relation)))
        return f"{described(line.relation)} {index.name}" if index else described(line.relation)
    candidate = division.lookups.get(line.relation)
    if candidate is not None:
        name = division.indexes[candidate.table, candidate.keys].name
        return f"{described(line.relation)}, or a look-up in kept index {name}"
    kept = division.uses.get(line.relation) if line.parent is not None else None
    return f"{kept}, {described(line.relation)}" if kept else described(line.relation)
