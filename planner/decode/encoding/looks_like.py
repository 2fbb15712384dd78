"""Recognizes input that is not a plan, such as SQL text, and tells the caller what a plan looks like."""

from __future__ import annotations

import codecs
import re
from typing import Final

from ....proto.values import PlanBytes
from .json_text import after_space

_HEAD: Final = 4096
"""The number of first characters that identify a text."""

_MAKERS: Final = "a producer (DuckDB, DataFusion, Isthmus or ibis) makes a plan from SQL"
_WANTED: Final = "a plan is protobuf bytes (a file of any name) or JSON (text, or a file whose name ends in .json)"

_UTF_16: Final = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_CONTROL: Final = re.compile(r"[\x00-\x08\x0e-\x1f]")
# What stands before the first word is matched possessively: plans come from strangers, and nothing is tried twice.
_SQL: Final = re.compile(
    r"(?:\s++|--[^\n]*+|(?>/\*.*?\*/)|\()*+"
    r"(?:select|with|from|values|insert|update|delete|merge|create|explain|table|pivot)\b(?!\s*[{:])",
    re.IGNORECASE | re.DOTALL,
)
_PROTOBUF_TEXT: Final = re.compile(
    r"(?:version|extension_ur[in]s|extensions|relations|type_aliases|parameter_bindings|"
    r"execution_behavior|advanced_extensions|expected_type_urls)\s*[{:\[]"
)
_TEXT_PLAN: Final = re.compile(
    r"(?>/\*.*?\*/\s*+)*+(?:pipelines\s*\{|extension_space\b|root\s*\{|schema\s+\w+\s*\{|source\s+\w+\s+\w+\s*\{|\w+\s+relation\s+\w+\s*\{|"
    r"===\s*(?:plan|extensions)\b)",
    re.IGNORECASE | re.DOTALL,
)


def looks_like(plan: PlanBytes) -> str | None:
    """A sentence about a plan that is not in its declared encoding; None if it may well be in it."""
    if plan.binary is not None and plan.binary.startswith(_UTF_16):
        return "this looks like text in UTF-16: a plan in JSON is text in UTF-8"
    if plan.binary == b"":
        return f"it is empty: {_WANTED}"
    head = _text(plan)
    if head is None:
        return None
    if head.startswith("{"):
        is_json = "this looks like JSON: give a plan in JSON as a str, or as a file whose name ends in .json"
        return is_json if plan.binary is not None else None
    if _SQL.match(head):
        return f"this looks like SQL, and {_MAKERS}"
    if _PROTOBUF_TEXT.match(head):
        return f"this looks like protobuf's text format, which Tidegate does not read: {_WANTED}"
    if _TEXT_PLAN.match(head):
        return f"this looks like a plan written as text, which Tidegate does not read: {_WANTED}"
    if plan.json is not None:
        start = f"begins with {head.strip()[:20]!r}" if head.strip() else "is empty"
        return f"the text {start}, and a plan in JSON begins with '{{': give the name of a file as a pathlib.Path"
    return None


def unreadable(plan: PlanBytes, fault: str) -> str:
    """A sentence about a plan whose encoding has a fault."""
    if plan.binary is None:
        return fault
    head = _text(plan)
    first = f"{fault}: " if head is None else f"the text begins with {head.strip()[:20]!r}: "
    return f"this is not a Substrait plan: {first}{_WANTED}"


def _text(plan: PlanBytes) -> str | None:
    """The beginning of the plan if it is text. The bytes of a plan have control characters among the first few."""
    if plan.json is not None:
        return _without_comments(plan.json)
    head = (plan.binary or b"")[:_HEAD].decode("utf-8-sig", "replace")
    return _without_comments(head) if head.strip() and not _CONTROL.search(head) else None


def _without_comments(text: str) -> str:
    """The text from the first token of JSON on."""
    start = after_space(text)
    return text[start : start + _HEAD]
