"""Decodes Substrait plans, of every release, binary or JSON, into `ir.Plan`.

`decode_plan` is the way in. `encoding.message_nodes` (a table of messages) and `encoding.message_classes` (a private
descriptor pool) take a plan apart without nesting, `decoder` drives one converter for each kind of relation and
expression, and `problems` collects everything that is wrong.
"""

from __future__ import annotations

from .whole_plan import Decoded, decode_plan

__all__ = ["Decoded", "decode_plan"]
