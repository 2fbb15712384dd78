"""Filters, projects and groups small inputs with Arrow's and NumPy's kernels, without DuckDB.

A statement's fixed cost, before its first row, is many times the cost of a thousand rows. Kernels give the rows that
DuckDB would give, bit for bit, or decline: where a sum or a product overflows, or NaN is compared, DuckDB computes the
rows, with a result or an error.
"""

from .groups import Grouped
from .kernel_expressions import Apply, Column, Constant, Expression, Function, Moment
from .kernel_rows import Filtered, Projected
from .small import SMALL_ROWS, Kernels, Step, pay_at_any_size

__all__ = [
    "SMALL_ROWS",
    "Apply",
    "Column",
    "Constant",
    "Expression",
    "Filtered",
    "Function",
    "Grouped",
    "Kernels",
    "Moment",
    "Projected",
    "Step",
    "pay_at_any_size",
]
