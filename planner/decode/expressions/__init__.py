"""Decodes expressions: one converter for each kind in `Expression.rex_type`, or the reason why there is none."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ..decoder import ExpressionConverter
from .cast import convert_cast
from .context_variable import convert_context_variable
from .detached import convert_detached
from .dynamic_parameter import convert_dynamic_parameter
from .if_then import convert_if_then
from .lambdas import convert_lambda, convert_lambda_invocation
from .literal import convert_literal
from .nested import convert_nested
from .or_list import convert_multi_or_list, convert_singular_or_list
from .scalar_function import convert_scalar_function
from .selection import convert_selection
from .subquery import convert_subquery
from .switch import convert_switch
from .window_function import convert_window_function

CONVERTERS: Final[Mapping[str, ExpressionConverter]] = {
    "literal": convert_literal,
    "selection": convert_selection,
    "scalar_function": convert_scalar_function,
    "window_function": convert_window_function,
    "if_then": convert_if_then,
    "switch_expression": convert_switch,
    "singular_or_list": convert_singular_or_list,
    "multi_or_list": convert_multi_or_list,
    "cast": convert_cast,
    "subquery": convert_subquery,
    "nested": convert_nested,
    "lambda": convert_lambda,
    "lambda_invocation": convert_lambda_invocation,
    "execution_context_variable": convert_context_variable,
    "detached_expression_ordinal": convert_detached,
    "dynamic_parameter": convert_dynamic_parameter,
}

REFUSED: Final[Mapping[str, str]] = {
    "enum": "an enum is not a value, and can only be an argument of a function",
}
