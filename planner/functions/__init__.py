"""Binds a plan's function calls to the official implementations, and writes these as DuckDB's SQL."""

from .aliases import Argument
from .argument_types import in_one_order
from .binding import Bound, bind, bind_scalar
from .function_coverage import CoverageRow, coverage_rows
from .patterns import Signature
from .producer_casts import before_cast, differs_inside, reads_moments_inside
from .producer_meanings import orders_nulls_inside
from .registry import own_extensions
from .result_types import derived_type

__all__ = [
    "Argument",
    "Bound",
    "CoverageRow",
    "Signature",
    "before_cast",
    "differs_inside",
    "orders_nulls_inside",
    "bind",
    "bind_scalar",
    "coverage_rows",
    "derived_type",
    "in_one_order",
    "own_extensions",
    "reads_moments_inside",
]
