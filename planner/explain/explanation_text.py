"""Renders explanations: the document is a value; the text, the JSON and a graph's picture are made of it alone.

In the text of a plan a relation stands above its only input; of several inputs each is indented. Below a loop that
runs round by round stand the operators that it runs over changes, and then the relations that feed it. An operator on
changes that several read is shown once and named after that.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from ...proto.values import Explanation
from .graph_lines import graph_lines
from .graph_picture import picture
from .wording import ENDS, Document, counted

ROWS: Final = 10_000_000
"""The rows of a source whose size is not given."""
_INDENTED: Final = 64
_MOVED: Final = {"shuffled": "through the shuffle", "file": "a file of each task, unless the rows are few"}


def explanation(document: Document) -> Explanation:
    """The document of a plan as text and JSON. The document of a graph is drawn as well."""
    if "nodes" in document:
        text = "\n".join(graph_lines(document))
        return Explanation(text=text, json=json.dumps(document), svg=picture(document))
    text = "".join(f"{line}\n" for line in _lines(document))
    return Explanation(text=text, json=json.dumps(document, indent=1))


def _lines(document: Document) -> Iterator[str]:
    how = f"({document['promise']}), channels: {document['channels']}"
    if "spill" in document:
        yield f"{document['mode']}, {document['determinism']} {how}, spill: {document['spill']}"
    else:
        yield f"{document['mode']} {how}"
    yield f"columns: {_columns(document['columns'])}"
    if document.get("writes") is not None:
        yield _write(document["writes"])
    for table in document.get("side_tables", ()):
        yield f"writes side table {table['table']} at the barrier ({table['mode']})  [{table['place']}]"
    for source in document["sources"]:
        yield f"source {source['name']} ({source['kind']}): {_columns(source['columns'])}"
        yield from (f"  file {path}" for path in source["files"])
        yield from (f"  {source[key]}" for key in ("reader",) if key in source)
    if "operators" in document:
        yield from _on_changes(document)
    else:
        yield from _in_fragments(document)
    if "spread" in document:
        yield from _spread(document)
    if "spark" in document:
        yield from _stages(document["spark"])


def _columns(columns: Sequence[Document]) -> str:
    return ", ".join(
        f"{column['name']} {column['type']}{'' if column['nullable'] else ' not null'}" for column in columns
    )


def _write(write: Document) -> str:
    returned = "its rows are the result" if write["returned"] else "the result has no rows"
    return f"writes table {write['table']} at the barrier ({write['mode']}); {returned}  [{write['place']}]"


# ---------------------------------------------------------------------------------------------- fragments


def _in_fragments(document: Document) -> Iterator[str]:
    for ordinal, relations in enumerate(document["shared"]):
        yield f"shared {ordinal}, computed once for all its uses"
        yield from _relations(relations, 1)
    for computed in (*document["indexes"], *document["kept"]):
        yield f"{computed['name']}: {computed['why']}"
        yield from _fragments(computed["fragments"])
    for number, pipeline in enumerate(document["pipelines"], 1):
        start = "starts with its first piece" if pipeline["start"] == "piece" else "starts at the seal"
        yield f"pipeline {number}, {start}"
        yield from _fragments(pipeline["fragments"])


def _fragments(fragments: Sequence[Document]) -> Iterator[str]:
    names = {"row_wise": "row-wise", "blocking": "blocking", "kernels": "kernels for few rows"}
    for fragment in fragments:
        traits = [text for key, text in names.items() if fragment[key]]
        yield "  " + ", ".join(filter(None, (fragment["name"], *traits, fragment["why"])))
        yield from _relations(fragment["relations"], 2)


def _relations(relations: Sequence[Document], indent: int) -> Iterator[str]:
    depths: dict[int | None, int] = {None: indent}
    siblings = Counter(relation["parent"] for relation in relations)
    for relation in relations:
        depth = depths[relation["parent"]] + (siblings[relation["parent"]] > 1)
        depths[relation["number"]] = depth
        role = relation["role"]
        before = role and f"{role}: " if role.endswith("subquery") else role and f"{role}, "
        yield _line(depth, f"{before}{relation['relation']}", relation)
        yield from (_indented(depth + 1) + line for line in _operators(relation.get("operators", ())))


def _line(depth: int, what: str, marked: Document, after: str = "") -> str:
    names = {"blocks": "blocks", "ends_pipeline": ENDS}
    marks = "".join(f", {name}" for mark, name in names.items() if marked[mark])
    return f"{_indented(depth)}{what}{marks}{after}  [{marked['place']}]"


def _indented(depth: int) -> str:
    """The indentation of a line at this depth. Beyond 64 levels, which nobody can follow, it gives the number."""
    return "  " * depth if depth <= _INDENTED else f"{'  ' * _INDENTED}({depth}) "


# -------------------------------------------------------------------------------------- operators on changes


def _on_changes(document: Document) -> Iterator[str]:
    yield "operators"
    yield from (f"  {line}" for line in _operators(document["operators"]))
    again = [str(operator["number"]) for operator in document["operators"] if not operator["incremental"]]
    if again:
        yield f"not incremental: {', '.join(again)}"
    yield from (f"warning: {warning}" for warning in document["warnings"])


def _operators(operators: Sequence[Document]) -> Iterator[str]:
    """A line for each place where an operator is read, each line indented below its reader's."""
    seen: set[int] = set()
    stack = [(1, 0)] if operators else []
    while stack:
        number, depth = stack.pop()
        if number in seen:
            yield f"{_indented(depth)}{number}, as above"
            continue
        seen.add(number)
        operator = operators[number - 1]
        why = operator["why"]
        work = {"change": "", "touched keys": f"; {why}", "everything": f"; computed again from all rows: {why}"}
        yield _line(depth, f"{number} {operator['operator']}", operator, work[operator["work"]])
        below = operator["inputs"]
        stack.extend((child, depth + (len(below) > 1)) for child in reversed(below))


# ------------------------------------------------------------------------------------------------ channels


def _spread(document: Document) -> Iterator[str]:
    pipelines, saved = document["spread"], document["spread_saves_ms"]
    yield f"spread over channels, for {_sizes(document['spread_for'])} (the sizes of sealed splits decide):"
    if (short := document["spread_short_of_memory"]) is not None:
        has, least, limit = (-(-short[size] >> 20) for size in ("instance_memory", "least", "memory_limit"))
        channels = short["channels"]
        yield (
            f"  fewer channels, as an instance of {channels} would have {has} MiB and needs {least}: "
            f"{channels} take a memory_limit of {limit} MiB"
        )
    if saved is not None and len(pipelines) == 1 and pipelines[0]["channels"] == 1:
        least = document["spread_threshold_ms"]
        yield f"  one channel, as several are estimated to save {max(saved, 0.0):.0f} ms; {least:.0f} are worth it"
    for pipeline in pipelines:
        reads = "; ".join(f"{read['source']}, {read['rows']}" for read in pipeline["reads"])
        received = ", ".join(f"exchange {number}" for number in pipeline["receives"])
        inputs = "; ".join(filter(None, (reads, received))) or "nothing"
        channels = "one channel" if pipeline["channels"] == 1 else f"{pipeline['channels']} channels"
        yield f"  pipeline {pipeline['number']} on {channels} reads {inputs}"
        yield from (f"    {_operator(operator)}" for operator in pipeline["operators"])
        for sent in pipeline["sends"]:
            yield f"    exchange {sent['exchange']} to pipeline {sent['to']}: {_sent(sent)}"
        if not pipeline["sends"]:
            yield "    gives the result"


def _operator(operator: Document) -> str:
    return _line(operator["depth"], operator["operator"], operator)


def _sizes(rows: Mapping[str, int]) -> str:
    if all(number == ROWS for number in rows.values()):
        return f"sources of {ROWS:,} rows each"
    return ", ".join(f"{number:,} rows of {name}" for name, number in rows.items())


def _sent(sent: Document) -> str:
    by = f" of columns {', '.join(map(str, sent['keys']))}" if sent["keys"] else ""
    return f"{sent['routing']}{by}{', merged in order' if sent['ordered'] else ''}"


# -------------------------------------------------------------------------------------------- stages on Spark


def _stages(job: Document) -> Iterator[str]:
    stages = job["stages"]
    tasks = sum(stage["tasks"] for stage in stages)
    what = f"a job of {counted(len(stages), 'stage')}, {counted(tasks, 'task')}"
    yield f"on Spark an epoch is {what}, for {_sizes(job['for'])}:"
    for earlier in job["before"]:
        read = "of which every process makes its index" if earlier["kept"] == "index" else "which every task may read"
        yield f"  before the first epoch: {earlier['name']}, a job of one task: rows in a file, {read}"
    for stage in stages:
        if stage["cuts"] is not None:
            tasks = counted(stage["tasks"], "task")
            yield f"  stage {stage['number']}: {tasks} that cut the rows of exchange {stage['cuts']} into ranges"
            continue
        yield f"  stage {stage['number']}: {'; '.join(map(_member, stage['pipelines']))}"
        for member in stage["pipelines"]:
            yield f"    {_operator(member['operators'][0])}"
        for sent in (sent for member in stage["pipelines"] for sent in member["sends"]):
            yield f"    exchange {sent['exchange']} to pipeline {sent['to']}: {_sent(sent)}, {_MOVED[sent['moved']]}"
        if stage["to"] is None:
            yield "    the result: a file of each task, read in order"
    below = job["service_below_bytes"]
    yield (
        f"  no job for an epoch whose inputs have less than {below:,} bytes: the service runs it"
        if below
        else f"  every epoch is a job: {job['always']}"
    )


def _member(member: Document) -> str:
    disk = " (feeds several stages: its rows are kept on disk for the epoch)" if member["kept_on_disk"] else ""
    return f"pipeline {member['pipeline']}, {counted(member['tasks'], 'task')}{disk}"
