"""A plan explained: its relations, pipelines, fragments, sources, and the reasons."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

import pyarrow as pa

from ...proto.values import Determinism, ExecutorKind, Explanation, TaskOptions
from .. import ir
from ..analysis.row_wise import is_row_wise
from ..changes.lower_changes import input_name, lower_loop
from ..cut.column_selection import selection
from ..cut.divide import DEPTH, Division, Section
from ..cut.fragments import is_blocking
from ..cut.kernels import has_kernels
from ..cut.operated import key_columns
from ..ir import tree
from ..ir.visit import subqueries_of
from ..physical.sources import PlannedSource
from .described import described
from .explain_changes import operators_json
from .explain_channels import Spread, choice_json, spread_json
from .explain_operators import marks, write_json
from .explain_stages import stages_json
from .explanation_text import explanation

_PROMISES: Final = {
    Determinism.STRICT: "the same rows in the same order, bit for bit, on every run",
    Determinism.RELAXED: "the same rows on every run, in any order",
}


_Json: TypeAlias = dict[str, Any]

_INDEXED: Final = "look-ups read this index: made once per task"
_INDEXED_PERHAPS: Final = "look-ups of epochs that are small beside the index read it: made once per task"


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
    why_on_spark: str = "",
) -> Explanation:
    """The explanation of a plan. `spread` is the plan over several channels, or cut into stages. `why_on_spark` says
    why every epoch of a task on Spark is a job.
    """
    naming = _Naming()
    tables = {name: _fragments(division, section, naming) for name, section in division.tables.items()}
    perhaps = {division.indexes[candidate.table, candidate.keys].name for candidate in division.lookups.values()}
    why = {name: _INDEXED_PERHAPS if name in perhaps else _INDEXED for name in tables}
    kept = {name: _fragments(division, section, naming) for name, section in division.kept.items()}
    whole = spread is None or len(spread.physical.pipelines) == len(division.sections)
    pipelines = [_fragments(division, section, naming, ends=whole) for section in division.sections]
    content: dict[str, Any] = {
        "mode": options.mode.value,
        "determinism": options.determinism.value,
        "promise": _PROMISES[options.determinism],
        "channels": options.channels,
        "spill": options.spill.value,
        "columns": [{"name": field.name, "type": str(field.type), "nullable": field.nullable} for field in schema],
        "writes": None if plan.write is None else write_json(plan.write),
        "sources": [_source(source) for source in sources],
        "shared": [_relations(division, relation, {}, naming) for relation in plan.shared],
        "indexes": [{"name": name, "why": why[name], "fragments": fragments} for name, fragments in tables.items()],
        "kept": [
            {"name": name, "why": "only static sources feed it: computed once per task", "fragments": fragments}
            for name, fragments in kept.items()
        ],
        "pipelines": [
            {"start": _start(plan, section), "fragments": fragments}
            for section, fragments in zip(division.sections, pipelines, strict=True)
        ],
    }
    if spread is not None and options.channels > 1:
        content |= {"spread": spread_json(spread), **choice_json(spread)}
    if spread is not None and options.executor is ExecutorKind.SPARK:
        below = 0 if why_on_spark else options.spark_threshold_bytes
        content["spark"] = {**stages_json(spread), "service_below_bytes": below, "always": why_on_spark}
    return explanation(content)


# ------------------------------------------------------------------------------------------------ fragments


def _fragments(division: Division, section: Section, naming: _Naming, *, ends: bool = False) -> list[_Json]:
    """The section's fragments, the root's first. `ends` says that the section ends a pipeline."""
    ends_at = {*section.edges, *division.uses}
    naming.of(section.root, ends_at, row_wise=section.row_wise)
    edges = {edge: naming.of(edge, ends_at) for edge in reversed(section.edges)}
    fragments = [_fragment(division, section.root, "", edges, naming, ends=ends)]
    operated = {child for edge in section.edges if isinstance(edge, ir.Operated) for child in tree.read_by(edge)}
    for edge in reversed(section.edges):
        why = "" if isinstance(edge, ir.Operated) or edge in operated else _why_cut(edge)
        fragments.append(_fragment(division, edge, why, edges, naming))
    return fragments


def _why_cut(edge: ir.Relation) -> str:
    if isinstance(edge, ir.Recursion):
        return "cut off, as a loop's rows are put in order outside of DuckDB"
    return f"cut off, being {DEPTH} relations deep"


def _fragment(
    division: Division,
    root: ir.Relation,
    why: str,
    edges: Mapping[ir.Relation, str],
    naming: _Naming,
    *,
    ends: bool = False,
) -> _Json:
    stops = {*edges, *division.uses}
    return {
        "name": naming.of(root, stops),
        "why": why,
        "row_wise": is_row_wise(root, stops),
        "blocking": is_blocking(root, stops),
        "kernels": has_kernels(root, stops),
        "relations": _relations(division, root, edges, naming, ends=ends),
    }


def _relations(
    division: Division, root: ir.Relation, edges: Mapping[ir.Relation, str], naming: _Naming, *, ends: bool = False
) -> list[_Json]:
    """The relations below `root`, each before its inputs. They refer to each other by number, because plans can be
    thousands of levels deep. `role` names a relation's role for the relation above if that is not plain.
    """
    relations: list[_Json] = []
    stack: list[tuple[ir.Relation, str, int | None]] = [(root, "", None)]
    while stack:
        relation, role, parent = stack.pop()
        naming.relations += 1
        number = naming.relations
        inner = relation is not root
        ended = inner and (relation in edges or relation in division.uses)
        content: _Json = {
            "number": number,
            "parent": parent,
            "role": ": ".join(filter(None, (role, edges.get(relation, "") if inner else ""))),
            "relation": _describe(division, relation, inner=inner),
            "place": relation.plan_path,
            **marks(ends=ends and not inner, blocks=not ended and relation.traits.takes == "all"),
        }
        if isinstance(relation, ir.Rounds) and not inner:
            content["operators"] = operators_json(lower_loop(relation), _called(relation))
        relations.append(content)
        if not ended:
            below = [*((child, "") for child in tree.read_by(relation)), *_subqueries(relation)]
            stack.extend((child, of, number) for child, of in reversed(below))
    return relations


def _subqueries(relation: ir.Relation) -> Iterator[tuple[ir.Relation, str]]:
    for subquery in subqueries_of(relation):
        yield subquery.relation, f"{subquery.kind.value} subquery"


def _start(plan: ir.Plan, section: Section) -> str:
    return "piece" if section.row_wise and plan.write is None else "seal"


def _source(source: PlannedSource) -> dict[str, Any]:
    return {
        "name": source.name,
        "kind": "static" if source.static else "fed",
        "columns": [
            {"name": column.name, "type": str(column.type), "nullable": column.nullable} for column in source.columns
        ],
        "reads": list(source.plan_paths),
        "files": [item.path for item in source.items],
        "reader": _reader(source),
    }


def _reader(source: PlannedSource) -> str:
    sliced = " and ".join(column.name for column in source.columns if column.slices)
    ranges = f", with ranges of {sliced} for the channels if row groups hardly overlap in it" if sliced else ""
    return f"Parquet files: DuckDB, inside the fragment{ranges}; anything else: through Arrow"


def _called(loop: ir.Rounds) -> dict[str, str]:
    return {input_name(port): f"input {port} of the loop" for port in range(len(loop.inputs))}


def _describe(division: Division, relation: ir.Relation, *, inner: bool) -> str:
    """A relation in words. A kept result is named at its reads; at its computation it is the fragment's root."""
    if isinstance(relation, ir.IndexLookup):
        index = division.indexes.get((relation.right, key_columns(relation)))
        return f"{described(relation)} {index.name}" if index else described(relation)
    candidate = division.lookups.get(relation)
    if candidate is not None:
        name = division.indexes[candidate.table, candidate.keys].name
        return f"{described(relation)}, or a look-up in kept index {name}"
    kept = division.uses.get(relation) if inner else None
    return f"{kept}, {described(relation)}" if kept else described(relation)
