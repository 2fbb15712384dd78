"""Checks that a server keeps its callers apart, and warnings for its owner if it does not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from ...proto.address import is_loopback
from ...proto.errors import InvalidRequest
from .settings import Settings


def check_apart(roots: Sequence[Path], own: Mapping[str, Path | None]) -> None:
    """Check that no split can read the server's `own` folders, which have rows of all principals.

    `own` has the folders by the names of their options.
    """
    for option, folder in own.items():
        inside = [root for root in roots if folder is not None and folder.resolve().is_relative_to(root.resolve())]
        if inside:
            raise InvalidRequest(
                f"{option} {folder} is below --root {inside[0]}, where each principal could read the files of the "
                "others: with --tokens, name a folder outside of every --root",
                reason="SHARED_FOLDER",
            )


def warning(settings: Settings, addresses: Sequence[str]) -> str | None:
    """A warning of what other people may do with the server, if they can reach it at one of its addresses."""
    address = next((candidate for candidate in addresses if not is_loopback(candidate)), None)
    if address is None:
        return None
    if settings.tokens is None:
        return f"everybody who reaches {address} may use this server: give --tokens FILE to restrict access"
    if settings.certificate is None:
        return (
            f"tokens and rows travel to and from {address} in plain text, which everybody on the way can read: see "
            "--tls-cert"
        )
    return None
