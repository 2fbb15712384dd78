"""Facts about relations that are kept while the plan around these relations is rewritten.

A fact is of one relation with exactly its inputs: where a rewrite makes another relation of it with
`dataclasses.replace`, the fact need not hold for the new one. So facts are found by the relation itself. A plain
dictionary, asked for the new relation, would say that there is no fact, and the plan would run without it in silence.
But the new relation has the number of the old one, and so `ByNode` notices.
"""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from typing import TypeVar

from ...proto.errors import InternalError
from . import Relation
from .relations import NodeNumber

FactT = TypeVar("FactT")


class ByNode(MutableMapping[Relation, FactT]):
    """Facts by relation, in the order in which they were found. Asking for a relation that was rewritten after its fact
    was found is an `InternalError`.
    """

    def __init__(self) -> None:
        self._facts: dict[Relation, FactT] = {}
        self._numbers: set[NodeNumber] = set()

    def __getitem__(self, relation: Relation) -> FactT:
        if relation in self._facts:
            return self._facts[relation]
        if relation.number in self._numbers:
            raise InternalError(f"a rewrite lost what was known of the {relation.traits.name} at {relation.plan_path}")
        raise KeyError(relation)

    def __setitem__(self, relation: Relation, fact: FactT) -> None:
        self._facts[relation] = fact
        self._numbers.add(relation.number)

    def __delitem__(self, relation: Relation) -> None:
        del self._facts[relation]
        self._numbers.remove(relation.number)

    def __iter__(self) -> Iterator[Relation]:
        return iter(self._facts)

    def __len__(self) -> int:
        return len(self._facts)
