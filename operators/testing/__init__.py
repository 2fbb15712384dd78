"""Checks of the rules that every operator must keep, to run all at once or one by one.

::

    check_operator(MyOperator, [[left, right], [left2, right2]])

    @pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
    def test_my_operator(check):
        check(Case(make=MyOperator, epochs=[[left, right], [left2, right2]]))

A check raises `AssertionError` with the operator's mistake. An operator's own tests check the rows that it computes.
The checks here hold that it computes the same rows however its inputs arrive, and leaves nothing open.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pyarrow as pa

from ..core.operator import Operator
from .check_inputs import CUTS, Boom, WatchedStream, one_row_each
from .check_nodes import Checked, OfGraph, operators_of
from .checks import (
    CHECKS,
    closes_its_inputs_at_the_end,
    gives_batches_of_its_schema,
    gives_the_expected_rows,
    gives_the_same_rows_however_its_input_is_cut,
    gives_the_same_rows_however_its_inputs_interleave,
    gives_the_same_rows_whatever_the_order_of_its_inputs_rows,
    gives_the_same_rows_when_run_again,
    goes_on_from_its_saved_state,
    keeps_nothing_undeclared_across_a_barrier,
    passes_on_what_breaks_an_input,
    reads_no_input_that_it_has_closed,
    stops_reading_when_closed_early,
    takes_inputs_without_batches_like_empty_ones,
    works_after_a_broken_epoch,
)
from .running import Case, Epoch, MemoryState, Reordered


def check_operator(
    make: Checked,
    epochs: Sequence[Epoch],
    *,
    before: Callable[[Operator], None] | None = None,
    ordered: bool | None = None,
    expected: Sequence[pa.Table] | None = None,
    reordered: Reordered | None = None,
) -> None:
    """Put an operator through all checks; `AssertionError` names the operator, the rule it broke, and how.

    `make` gives a new operator each time, or is a node of a `tidegate.TaskGraph`, whose executor (or function) is then
    given its streams in batches as they are cut here. `epochs` are its inputs: for each epoch a table for each input.
    Two or three epochs of five to twenty rows show most mistakes, if keys repeat and there are nulls; the first one
    should have rows in every input, for it is the one that is broken off in every place.

    - `expected`: the right answer of each epoch. Without it the checks compare the operator only with itself, and one
      that always drops the same rows passes.
    - `ordered=False`: the rows of an epoch may come in any order. Strict tasks are made of operators that keep one; of
      nodes it is not asked unless told, because a strict task hands them their rows in the same batches always.
    - `reordered`: gives an epoch's tables with their rows in another order, if that changes no row of the answer.
    - `before`: called before each run, to assign pieces to an operator that reads sources itself, say.

    Checked are: its schema; the same rows when run again, however each input is cut into batches, however several
    inputs interleave, and whatever happened in an earlier epoch; nothing kept across a barrier but what `save` writes
    and `load` takes back; inputs closed at the end, after an early close and after an error, and not read afterwards;
    an input's error passed on.

    >>> from tidegate.testing import check_operator
    >>> check_operator(lambda: RunningTotal(numbers.schema), [[numbers], [numbers.slice(0, 2)]])
    """
    options = {} if before is None else {"before": before}
    if ordered is None:
        ordered = not isinstance(make, OfGraph)
    operators = operators_of(make, epochs[0] if epochs else ())
    case = Case(make=operators, epochs=epochs, ordered=ordered, expected=expected, reordered=reordered, **options)
    for check in CHECKS:
        rule = f"{_name(make, case)} breaks the rule {check.__name__!r}"
        try:
            check(case)
        except AssertionError as wrong:
            raise AssertionError(f"{rule}: {wrong}") from wrong
        except Exception as error:
            error.add_note(f"{rule}: the check raised this error")
            raise


def _name(make: Checked, case: Case) -> str:
    if isinstance(make, OfGraph):
        return f"node {make.node.name!r}"
    operator = case.make()
    operator.close()
    return type(operator).__name__


__all__ = [
    "CHECKS",
    "CUTS",
    "Boom",
    "Case",
    "Epoch",
    "MemoryState",
    "Reordered",
    "WatchedStream",
    "check_operator",
    "closes_its_inputs_at_the_end",
    "gives_batches_of_its_schema",
    "gives_the_expected_rows",
    "gives_the_same_rows_however_its_input_is_cut",
    "gives_the_same_rows_however_its_inputs_interleave",
    "gives_the_same_rows_whatever_the_order_of_its_inputs_rows",
    "gives_the_same_rows_when_run_again",
    "goes_on_from_its_saved_state",
    "keeps_nothing_undeclared_across_a_barrier",
    "one_row_each",
    "passes_on_what_breaks_an_input",
    "reads_no_input_that_it_has_closed",
    "stops_reading_when_closed_early",
    "takes_inputs_without_batches_like_empty_ones",
    "works_after_a_broken_epoch",
]
