"""Nulls before errors: a function that is null for a null argument is so whatever its other arguments are."""

from __future__ import annotations

from dataclasses import replace

from .named_values import let_all
from .use import Template, Use, maybe_null


def nulls_first(template: Template) -> Template:
    """`template`, whose SQL is not computed where an argument is null. It would fail there for the value of another
    argument, or have a value.
    """

    def checked(use: Use) -> str:
        nullable = [at for at, type_ in enumerate(use.types) if type_ is not None and maybe_null(use, at)]
        if not nullable:
            return template(use)

        def of_names(names: tuple[str, ...]) -> str:
            nulls = " OR ".join(f"{names[at]} IS NULL" for at in nullable)
            return f"CASE WHEN {nulls} THEN NULL ELSE {template(replace(use, arguments=names))} END"

        return let_all(use.arguments, lambda names: of_names(tuple(names)))

    return checked
