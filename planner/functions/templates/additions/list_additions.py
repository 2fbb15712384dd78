"""Lists: elements, parts, sets, vectors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from ....ir import types as t
from ..named_values import let, let_all
from ..use import Entry, Table, Template, Use, error


def _call(function: str) -> Template:
    return lambda use: use.cast(f"{function}({', '.join(use.arguments)})")


def _with(body: Callable[..., str]) -> Template:
    """A template over the arguments' names, however long their SQL is."""
    return lambda use: use.cast(let_all(use.arguments, lambda names: body(*names)))


def _distinct_in_order(x: str) -> str:
    """The elements without copies, each where it stands first. DuckDB's own function has no order and drops nulls."""
    first = "list_position(v, element) = position"
    null = "element IS NULL AND NOT list_contains(list_transform(v[1:position - 1], lambda e: e IS NULL), true)"
    return _naming(x, f"list_filter(v, lambda element, position: {first} OR ({null}))")


def _naming(x: str, body: str) -> str:
    return f"list_transform([{x}], lambda v: {body})[1]"


def _kept(x: str, y: str, *, inside: bool) -> str:
    """The elements of a list that are in another, or are not, nulls as values."""
    null = _has_null(y)
    test = f"coalesce(list_contains({y}, element), false) OR (element IS NULL AND {null})"
    return f"list_filter({x}, lambda element: {test if inside else f'NOT ({test})'})"


def _except(x: str, y: str) -> str:
    kept = _distinct_in_order(_kept(x, y, inside=False))
    return f"CASE WHEN {x} IS NULL OR {y} IS NULL THEN NULL ELSE {kept} END"


def _intersect(x: str, y: str) -> str:
    """The elements that both have, in the order of the longer list."""
    missing = f"CASE WHEN {x} IS NULL OR {y} IS NULL THEN NULL"
    first, second = (_distinct_in_order(_kept(*lists, inside=True)) for lists in ((x, y), (y, x)))
    return f"{missing} WHEN len({x}) >= len({y}) THEN {first} ELSE {second} END"


def _union(x: str, y: str) -> str:
    return f"CASE WHEN {x} IS NULL OR {y} IS NULL THEN NULL ELSE {_distinct_in_order(f'list_concat({x}, {y})')} END"


def _has_all(x: str, y: str) -> str:
    """An empty list is part of every list, known or not."""
    missing = f"WHEN {x} IS NULL OR {y} IS NULL THEN NULL"
    return f"CASE WHEN len({y}) = 0 THEN true {missing} ELSE len({_kept(y, x, inside=False)}) = 0 END"


def _has_any(x: str, y: str) -> str:
    """An empty list has no element in common with any list, known or not."""
    missing = f"WHEN {x} IS NULL OR {y} IS NULL THEN NULL"
    return f"CASE WHEN len({x}) = 0 OR len({y}) = 0 THEN false {missing} ELSE len({_kept(x, y, inside=True)}) > 0 END"


def _same(element: str, wanted: str) -> str:
    return f"{element} IS NOT DISTINCT FROM {wanted}"


def _positions(x: str, wanted: str) -> str:
    hits = f"list_filter(range(1, len({x}) + 1), lambda nth: {_same(f'{x}[nth]', wanted)})"
    return f"CASE WHEN {x} IS NULL THEN NULL ELSE {hits} END"


def _without_first(x: str, wanted: str) -> str:
    kept = f"list_filter({x}, lambda element, nth: nth <> coalesce({_positions(x, wanted)}[1], 0))"
    return f"CASE WHEN {x} IS NULL OR {wanted} IS NULL THEN NULL ELSE {kept} END"


def _without_all(x: str, wanted: str) -> str:
    kept = f"list_filter({x}, lambda element: NOT ({_same('element', wanted)}))"
    return f"CASE WHEN {x} IS NULL OR {wanted} IS NULL THEN NULL ELSE {kept} END"


def _replaced_first(x: str, old: str, new: str) -> str:
    first = f"{_positions(x, old)}[1]"
    return f"list_transform({x}, lambda element, nth: CASE WHEN nth = {first} THEN {new} ELSE element END)"


def _replaced_all(x: str, old: str, new: str) -> str:
    return f"list_transform({x}, lambda element: CASE WHEN {_same('element', old)} THEN {new} ELSE element END)"


def _sorted(use: Use) -> str:
    words = [use.constant(at) for at in range(1, len(use.arguments))]
    if not all(isinstance(word, str) for word in words):
        use.refuse("direction and nulls must be constants")
    direction, nulls = (*(str(word).upper() for word in words), *("ASC", "NULLS FIRST")[len(words) :])
    if direction not in ("ASC", "DESC") or nulls not in ("NULLS FIRST", "NULLS LAST"):
        use.refuse(f"the order {direction} {nulls} is not supported; write ASC or DESC, NULLS FIRST or NULLS LAST")
    type_ = use.type(0)
    test = _null_inside("element", type_.element) if isinstance(type_, t.List) else None

    def sorted_(x: str) -> str:
        ordered = f"list_sort({x}, '{direction}', '{nulls}')"
        if test is None or (direction == "ASC") == (nulls == "NULLS LAST"):
            return ordered
        return f"CASE WHEN len(list_filter({x}, lambda element: {test})) > 0 THEN {_ORDER_OF_NULLS} ELSE {ordered} END"

    return let(use.arguments[0], sorted_)


def _slice(use: Use) -> str:
    step = use.constant(3) if len(use.arguments) > 3 else 1
    if not isinstance(step, int) or step < 1:
        use.refuse("the step must be a constant above 0")
    return use.cast(let_all(use.arguments[:3], lambda names: _part(names[0], names[1], names[2], step)))


def _part(x: str, begin: str, end: str, step: int) -> str:
    """The elements between two positions, both included. A position beyond an end stands for that end."""
    first = f"CASE WHEN {begin} < 0 THEN greatest(len({x}) + {begin} + 1, 1) ELSE greatest({begin}, 1) END"
    last = f"CASE WHEN {end} < 0 THEN len({x}) + {end} + 1 ELSE least({end}, len({x})) END"
    every = f" AND (nth - {first}) % {step} = 0" if step > 1 else ""
    inside = f"list_filter({x}, lambda element, nth: nth BETWEEN {first} AND {last}{every})"
    return f"CASE WHEN {x} IS NULL OR {begin} IS NULL OR {end} IS NULL THEN NULL ELSE {inside} END"


def _to_string(use: Use) -> str:
    type_ = use.type(0)
    if isinstance(type_, t.List) and not isinstance(type_.element, t.Integer | t.String | t.Boolean | t.Date):
        use.refuse(f"the texts of {type_.element} differ between engines; cast the elements")
    return let_all(use.arguments, lambda names: _as_text(*names))


def _as_text(x: str, separator: str, nulls: str | None = None) -> str:
    texts = f"list_transform({x}, lambda element: CAST(element AS VARCHAR))"
    if nulls is None:
        return joined(f"list_filter({texts}, lambda text: text IS NOT NULL)", separator)
    return joined(f"list_transform({texts}, lambda text: coalesce(text, {nulls}))", separator)


def joined(texts: str, separator: str) -> str:
    """The texts of a list as one, with any separator: that of DuckDB's own function must be a constant."""

    def reduced(v: str) -> str:
        both = f"list_reduce({v}, lambda before, behind: before || {separator} || behind)"
        return f"CASE WHEN {separator} IS NULL THEN NULL WHEN len({v}) = 0 THEN '' ELSE {both} END"

    return let(texts, reduced)


def _dimensions(use: Use) -> str:
    depth, type_ = 0, use.type(0)
    while isinstance(type_, t.List):
        depth, type_ = depth + 1, type_.element
    return use.cast(f"CASE WHEN {use.arguments[0]} IS NULL THEN NULL ELSE {depth} END")


def _vectors(body: Callable[[str, str], str], what: str) -> Template:
    """A function of two lists of one length; null if an element is null."""

    def checked(x: str, y: str) -> str:
        nulls = " OR ".join(map(_has_null, (x, y)))
        lengths = f"len({x}) <> len({y})"
        failure = error(f"{what} of lists of different lengths")
        return (
            f"CASE WHEN {x} IS NULL OR {y} IS NULL THEN NULL WHEN {lengths} THEN {failure}"
            f" WHEN {nulls} THEN NULL ELSE {body(x, y)} END"
        )

    return _with(checked)


def _cosine_distance(x: str, y: str) -> str:
    """Null if a vector has no direction."""
    products = " OR ".join(f"list_inner_product({v}, {v}) = 0" for v in (x, y))
    return f"CASE WHEN len({x}) > 0 AND ({products}) THEN NULL ELSE list_cosine_distance({x}, {y}) END"


def _elementwise(symbol: str, what: str) -> Template:
    def combined(x: str, y: str) -> str:
        failure = error(f"{what} of lists of different lengths")
        pairs = f"list_transform({x}, lambda element, nth: element {symbol} {y}[nth])"
        return (
            f"CASE WHEN {x} IS NULL OR {y} IS NULL THEN NULL WHEN len({x}) <> len({y}) THEN {failure} ELSE {pairs} END"
        )

    return _with(combined)


def _product(x: str) -> str:
    present = f"list_filter({x}, lambda e: e IS NOT NULL)"
    return f"CASE WHEN len({present}) = 0 THEN NULL ELSE list_reduce({present}, lambda a, b: a * b) END"


def _prepend(use: Use) -> str:
    element, x = use.arguments
    return use.cast(f"list_concat([{element}], {x})")


def _append(use: Use) -> str:
    x, element = use.arguments
    return use.cast(f"list_concat({x}, [{element}])")


def _without_end(bounds: str) -> Template:
    return lambda use: let(use.arguments[0], lambda x: f"{x}[{bounds}]")


def _numbers(function: str) -> Template:
    """Whole numbers; null if a bound is null. Steps of 0 are an error."""

    def counted(*bounds: str) -> str:
        missing = " OR ".join(f"{bound} IS NULL" for bound in bounds)
        zero = f" WHEN {bounds[2]} = 0 THEN {error(f'{function} with a step of 0')}" if len(bounds) > 2 else ""
        return f"CASE WHEN {missing} THEN NULL{zero} ELSE {function}({', '.join(bounds)}) END"

    return _with(counted)


def _concat(*lists: str) -> str:
    """The lists that are not null, one after the other; null if all are."""
    missing = " AND ".join(f"{x} IS NULL" for x in lists)
    return f"CASE WHEN {missing} THEN NULL ELSE list_concat({', '.join(lists)}) END"


def _resized(x: str, length: str, filling: str) -> str:
    missing = f"greatest({length} - len({x}), 0)"
    filled = f"list_concat({x}[1:{length}], list_transform(range({missing}), lambda nth: {filling}))"
    return (
        f"CASE WHEN {x} IS NULL OR {length} IS NULL THEN NULL WHEN {length} < 0 THEN {error('a length below 0')}"
        f" ELSE {filled} END"
    )


def _lengths(use: Use) -> str:
    type_ = use.type(0)
    if isinstance(type_, t.List) and isinstance(type_.element, t.List):
        use.refuse("lists in lists are not supported")
    return let(use.arguments[0], lambda x: f"CASE WHEN len({x}) > 0 THEN [len({x})] END")


def _null_inside(x: str, type_: t.Type, depth: int = 0) -> str | None:
    """The condition that a value has a null inside; None if it cannot have one. It is null or false for a null."""
    match type_:
        case t.List(element=element):
            one = f"inside{depth}"
            test = " OR ".join(_null_tests(one, element, depth))
            return f"list_contains(list_transform({x}, lambda {one}: {test}), true)" if test else None
        case t.Struct(fields=fields):
            parts = (_null_tests(f"struct_extract_at({x}, {at})", field, depth) for at, field in enumerate(fields, 1))
            tests = [test for tests in parts for test in tests]
            return f"({x} IS NOT NULL AND ({' OR '.join(tests)}))" if tests else None
        case _:
            return None


def _null_tests(x: str, type_: t.Type, depth: int) -> list[str]:
    inside = _null_inside(x, type_, depth + 1)
    return [*([f"{x} IS NULL"] if type_.nullable else []), *([f"coalesce({inside}, false)"] if inside else [])]


_ORDER_OF_NULLS: Final = error("a null inside of a list or struct has another place in this order in DuckDB")


def _known_inside(use: Use) -> str:
    def checked(x: str) -> str:
        test = _null_inside(x, use.type(0))
        return f"CASE WHEN {test} THEN {_ORDER_OF_NULLS} ELSE {x} END" if test else x

    return let(use.arguments[0], checked)


def _has_null(x: str) -> str:
    return f"list_contains(list_transform({x}, lambda e: e IS NULL), true)"


def _normalized(x: str) -> str:
    """The unit vector; null if an element is null."""
    length = f"sqrt(list_sum(list_transform({x}, lambda e: e * e)))"
    return f"CASE WHEN {_has_null(x)} THEN NULL ELSE list_transform({x}, lambda e: e / nullif({length}, 0)) END"


def _scaled(x: str, factor: str) -> str:
    return f"CASE WHEN {factor} IS NULL THEN NULL ELSE list_transform({x}, lambda e: e * {factor}) END"


def _elements_inside(use: Use) -> str:
    """The number of elements of the innermost lists."""
    x, type_ = use.arguments[0], use.type(0)
    while isinstance(type_, t.List) and isinstance(type_.element, t.List):
        x, type_ = f"flatten({x})", type_.element
    return use.cast(f"len({x})")


def _without_some(x: str, wanted: str, count: str) -> str:
    gone = f"{_positions(x, wanted)}[1:greatest({count}, 0)]"
    kept = f"list_filter({x}, lambda element, nth: NOT list_contains({gone}, nth))"
    return f"CASE WHEN {x} IS NULL OR {wanted} IS NULL OR {count} IS NULL THEN NULL ELSE {kept} END"


def _replaced_some(x: str, old: str, new: str, count: str) -> str:
    gone = f"{_positions(x, old)}[1:greatest({count}, 0)]"
    hit = f"list_contains({gone}, nth)"
    replaced = f"list_transform({x}, lambda element, nth: CASE WHEN {hit} THEN {new} ELSE element END)"
    return f"CASE WHEN {count} IS NULL THEN NULL ELSE {replaced} END"


def _zipped(x: str, y: str) -> str:
    pair = f"struct_pack(f1 := {x}[nth], f2 := {y}[nth])"
    longest = f"greatest(coalesce(len({x}), 0), coalesce(len({y}), 0))"
    pairs = f"list_transform(range(1, {longest} + 1), lambda nth: {pair})"
    return f"CASE WHEN {x} IS NULL AND {y} IS NULL THEN NULL ELSE {pairs} END"


def _entries(x: str) -> str:
    pair = f"struct_pack(f1 := map_keys({x})[nth], f2 := map_values({x})[nth])"
    return f"list_transform(range(1, CAST(cardinality({x}) AS BIGINT) + 1), lambda nth: {pair})"


def _parts(x: str, separator: str) -> str:
    """The parts of a text: the text itself if the separator is empty, its characters if the separator is null."""
    characters = f"CASE WHEN {x} IS NULL THEN NULL ELSE string_split({x}, '') END"
    return (
        f"CASE WHEN {x} = '' THEN [] WHEN {separator} IS NULL THEN {characters}"
        f" WHEN {separator} = '' AND {x} IS NOT NULL THEN [{x}] ELSE string_split({x}, {separator}) END"
    )


def _extracted(x: str, key: str) -> str:
    return f"[map_extract_value({x}, {key})]"


TABLE: Final[Table] = {
    ("lists", "array_any_value"): Entry(lambda use: f"list_filter({use.arguments[0]}, lambda e: e IS NOT NULL)[1]"),
    ("lists", "array_max"): Entry(_call("list_max")),
    ("lists", "array_min"): Entry(_call("list_min")),
    ("lists", "array_element"): Entry(_call("list_extract")),
    ("lists", "array_append"): Entry(_append),
    ("lists", "array_prepend"): Entry(_prepend),
    ("lists", "array_concat"): Entry(_with(_concat)),
    ("lists", "array_distinct"): Entry(_with(_distinct_in_order)),
    ("lists", "array_compact"): Entry(lambda use: f"list_filter({use.arguments[0]}, lambda e: e IS NOT NULL)"),
    ("lists", "array_pop_back"): Entry(_without_end(":-2")),
    ("lists", "array_pop_front"): Entry(_without_end("2:")),
    ("lists", "array_reverse"): Entry(_call("list_reverse")),
    ("lists", "array_sort"): Entry(_sorted),
    ("lists", "array_except"): Entry(_with(_except)),
    ("lists", "array_intersect"): Entry(_with(_intersect)),
    ("lists", "array_union"): Entry(_with(_union)),
    ("lists", "array_has"): Entry(_call("list_contains")),
    ("lists", "array_has_all"): Entry(_with(_has_all)),
    ("lists", "array_has_any"): Entry(_with(_has_any)),
    ("lists", "array_position"): Entry(_with(lambda x, wanted: f"{_positions(x, wanted)}[1]")),
    ("lists", "array_positions"): Entry(_with(_positions)),
    ("lists", "array_remove"): Entry(_with(_without_first)),
    ("lists", "array_remove_all"): Entry(_with(_without_all)),
    ("lists", "array_replace"): Entry(_with(_replaced_first)),
    ("lists", "array_replace_all"): Entry(_with(_replaced_all)),
    ("lists", "array_repeat"): Entry(_with(lambda x, n: f"list_transform(range({n}), lambda nth: {x})")),
    ("lists", "array_resize"): Entry(_with(_resized)),
    ("lists", "array_slice"): Entry(_slice, note="the step must be a constant"),
    ("lists", "array_to_string"): Entry(_to_string),
    ("lists", "array_ndims"): Entry(_dimensions),
    ("lists", "array_sum"): Entry(_call("list_sum")),
    ("lists", "array_avg"): Entry(_call("list_avg")),
    ("lists", "array_product"): Entry(_with(_product)),
    ("lists", "array_distance"): Entry(_vectors(lambda x, y: f"list_distance({x}, {y})", "array_distance")),
    ("lists", "cosine_distance"): Entry(_vectors(_cosine_distance, "cosine_distance")),
    ("lists", "inner_product"): Entry(_vectors(lambda x, y: f"list_inner_product({x}, {y})", "inner_product")),
    ("lists", "array_add"): Entry(_elementwise("+", "array_add")),
    ("lists", "array_subtract"): Entry(_elementwise("-", "array_subtract")),
    ("lists", "array_scale"): Entry(_with(_scaled)),
    ("lists", "cardinality"): Entry(lambda use: use.cast(f"cardinality({use.arguments[0]})")),
    ("lists", "cardinality_inside"): Entry(_elements_inside),
    ("lists", "empty"): Entry(lambda use: f"(len({use.arguments[0]}) = 0)"),
    ("lists", "flatten"): Entry(_call("flatten")),
    ("lists", "known_inside"): Entry(_known_inside),
    ("lists", "generate_series"): Entry(_numbers("generate_series")),
    ("lists", "range"): Entry(_numbers("range")),
    ("lists", "string_to_array"): Entry(_with(_parts)),
    ("lists", "array_dims"): Entry(_lengths),
    ("lists", "array_normalize"): Entry(_with(_normalized)),
    ("lists", "array_remove_n"): Entry(_with(_without_some)),
    ("lists", "array_replace_n"): Entry(_with(_replaced_some)),
    ("lists", "arrays_zip"): Entry(_with(_zipped)),
    ("lists", "map"): Entry(_call("map")),
    ("lists", "map_entries"): Entry(_with(_entries)),
    ("lists", "map_extract"): Entry(_with(_extracted)),
    ("lists", "map_keys"): Entry(_call("map_keys")),
    ("lists", "map_values"): Entry(_call("map_values")),
}
