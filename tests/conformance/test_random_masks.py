"""Class of bug: the mask of a read that keeps another field, loses a null, or gives a null where a struct was.

Random structs, values and masks, against the same masks over plain Python values.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import tidegate

from ..searching import tries

Node = dict[str, Any]


@dataclass(frozen=True)
class Kind:
    """A type: an integer if it has no fields, else a struct."""

    nullable: bool
    fields: tuple[Kind, ...] = ()


@dataclass(frozen=True)
class Mask:
    """The kept fields of a struct, each with the mask inside of it. Without fields, all is kept."""

    kept: tuple[tuple[int, Mask], ...] = ()


KINDS: Final = st.recursive(
    st.builds(Kind, st.booleans()),
    lambda inside: st.builds(Kind, st.booleans(), st.lists(inside, min_size=1, max_size=3).map(tuple)),
    max_leaves=8,
)
STRUCTS: Final = KINDS.filter(lambda kind: kind.fields)


def values(kind: Kind) -> st.SearchStrategy[Any]:
    some = st.tuples(*map(values, kind.fields)) if kind.fields else st.integers(-9, 9)
    return st.none() | some if kind.nullable else some


@st.composite
def masks(draw: st.DrawFn, kind: Kind) -> Mask:
    if not kind.fields or draw(st.integers(0, 3)) == 0:
        return Mask()
    order = draw(st.lists(st.integers(0, len(kind.fields) - 1), min_size=1, unique=True))
    return Mask(tuple((field, draw(masks(kind.fields[field]))) for field in order))


@st.composite
def reads(draw: st.DrawFn) -> tuple[Kind, Mask, list[Any], bool]:
    kind = draw(STRUCTS)
    return kind, draw(masks(kind)), draw(st.lists(values(kind), max_size=4)), draw(st.booleans())


def kept_of(value: Any, mask: Mask, *, keeps: bool) -> Any:
    """The mask over plain values, as the specification says it."""
    if value is None or not mask.kept:
        return value
    kept = [kept_of(value[field], inside, keeps=keeps) for field, inside in mask.kept]
    return kept[0] if len(kept) == 1 and not keeps else tuple(kept)


def kind_of(kind: Kind, mask: Mask, *, keeps: bool) -> Kind:
    """What a mask makes of a type. The only field of a struct that may be null may be null, too."""
    if not mask.kept:
        return kind
    kept = tuple(kind_of(kind.fields[field], inside, keeps=keeps) for field, inside in mask.kept)
    if len(kept) == 1 and not keeps:
        return Kind(kind.nullable or kept[0].nullable, kept[0].fields)
    return Kind(kind.nullable, kept)


def substrait_type(kind: Kind) -> Node:
    how = {"nullability": "NULLABILITY_NULLABLE" if kind.nullable else "NULLABILITY_REQUIRED"}
    return {"struct": {"types": [*map(substrait_type, kind.fields)], **how}} if kind.fields else {"i64": how}


def arrow_type(kind: Kind) -> pa.DataType:
    fields = [field_of(f"n{at}", field) for at, field in enumerate(kind.fields)]
    return pa.struct(fields) if fields else pa.int64()


def field_of(name: str, kind: Kind) -> pa.Field:
    return pa.field(name, arrow_type(kind), kind.nullable)


def select(mask: Mask) -> Node:
    items = [
        {"field": field, **({"child": {"struct": select(inside)}} if inside.kept else {})}
        for field, inside in mask.kept
    ]
    return {"structItems": items}


def names(kind: Kind) -> list[str]:
    return [name for at, field in enumerate(kind.fields) for name in (f"n{at}", *names(field))]


def plan(kind: Kind, mask: Mask, *, keeps: bool) -> str:
    base = {"names": ["s", *names(kind)], "struct": {"types": [substrait_type(kind)]}}
    named = ["s", *names(kind_of(kind, mask, keeps=keeps))]
    projection = {"select": select(Mask(((0, mask),))), "maintainSingularStruct": keeps}
    read = {"baseSchema": base, "namedTable": {"names": ["t"]}, "projection": projection}
    return json.dumps({"relations": [{"root": {"input": {"read": read}, "names": named}}]})


def as_arrow(value: Any, kind: Kind) -> Any:
    """A value as `pa.array` takes it: structs as dictionaries."""
    if value is None or not kind.fields:
        return value
    return {f"n{at}": as_arrow(one, kind.fields[at]) for at, one in enumerate(value)}


def as_tuples(value: Any) -> Any:
    return tuple(as_tuples(field) for field in value.values()) if isinstance(value, dict) else value


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("masks")


@pytest.fixture(scope="module")
def client(folder: Path) -> Iterator[tidegate.Client]:
    with tidegate.local(roots=[folder]) as client:
        yield client


@settings(max_examples=tries(60), suppress_health_check=[HealthCheck.too_slow])
@given(reads())
def test_a_mask_keeps_the_fields_that_it_names(
    client: tidegate.Client, folder: Path, read: tuple[Kind, Mask, list[Any], bool]
) -> None:
    kind, mask, rows, keeps = read
    array = pa.array([as_arrow(row, kind) for row in rows], arrow_type(kind))
    table = pa.Table.from_arrays([array], schema=pa.schema([field_of("s", kind)]))
    pq.write_table(table, folder / "t.parquet")
    expected = [kept_of(row, mask, keeps=keeps) for row in rows]
    for split in (table, str(folder / "t.parquet")):
        result = client.query(plan(kind, mask, keeps=keeps), {"t": split})
        result.validate(full=True)
        assert result.schema == pa.schema([field_of("s", kind_of(kind, mask, keeps=keeps))])
        assert [as_tuples(value) for value in result.column(0).to_pylist()] == expected
    with client.create_task(plan(kind, mask, keeps=keeps), mode="continuous") as task:
        changes = task.run_epoch({"t": [table]}).table()
    weighed = zip(*(column.to_pylist() for column in changes.columns), strict=True)
    counted = {repr(as_tuples(value)): weight for value, weight in weighed}
    assert counted == Counter(map(repr, expected))
