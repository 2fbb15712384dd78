"""Access to a server: its address, TLS, the caller's token, and how a client connects.

A process that gets an `Access` connects as the client that it comes from: also without Flight, and with as much
patience.

A token comes from a file, from the environment of the calling process, or from the caller. A token from the caller
stays in this process: a printed or pickled `Access` has no token in it. An `Access` that is unpickled in another
process, such as an executor of Spark, takes the token from the file of the same name there, or from the environment
there.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import grpc

from ..proto.address import is_address, is_loopback
from ..proto.errors import InvalidRequest, Unauthenticated

TOKEN: Final = "TIDEGATE_TOKEN"  # noqa: S105 (names, as the next)
TOKEN_FILE: Final = "TIDEGATE_TOKEN_FILE"  # noqa: S105
TLS: Final = "TIDEGATE_TLS"

_PLAIN: Final = re.compile(r"[\x21-\x7e]+")

Metadata = tuple[tuple[str, str], ...]


@dataclass(frozen=True, kw_only=True)
class Access:
    """Access to a server.

    `authorities` is a file of certificates that check the server's; without it, those that gRPC knows. Without TLS, a
    token goes to this machine only, unless `plaintext_token` is True. Calls try again for `reconnect_seconds` while the
    server cannot be reached. Without `flight`, all results come over gRPC.
    """

    address: str
    token: str | None = field(default=None, repr=False)
    token_file: str | None = None
    tls: bool = False
    authorities: str | None = None
    plaintext_token: bool = False
    reconnect_seconds: float = 60.0
    flight: bool = True
    withheld: bool = False
    """True if there was a token, which has stayed in another process."""

    def __reduce__(self) -> tuple[Any, ...]:
        shipped = {**vars(self), "token": None, "withheld": self.withheld or self.token is not None}
        return _unpacked, (shipped,)

    def metadata(self) -> Metadata | None:
        """The headers of each call. Raises `InvalidRequest` if they would give a token away."""
        token = self._found()
        if token is None:
            return None
        if not (self.tls or self.plaintext_token or is_loopback(self.address)):
            raise InvalidRequest(
                f"the token would travel to {self.address} in plain text, which everybody on the way can read: use "
                "TLS (tls=True, --tls), or allow it with plaintext_token=True (--plaintext-token)",
                reason="PLAINTEXT_TOKEN",
            )
        return (("authorization", f"Bearer {token}"),)

    def channel(self, options: Sequence[tuple[str, Any]]) -> grpc.Channel:
        if not self.tls:
            return grpc.insecure_channel(self.address, options=options)
        return grpc.secure_channel(
            self.address, grpc.ssl_channel_credentials(self.authorities_bytes()), options=options
        )

    def authorities_bytes(self) -> bytes | None:
        """The authorities' certificates; None for those that gRPC knows."""
        return None if self.authorities is None else _bytes(self.authorities, "the authorities' certificates")

    def _found(self) -> str | None:
        if self.token is not None:
            return _checked(self.token, "the token given to the client")
        if self.token_file is not None:
            return _in_file(self.token_file)
        if TOKEN in os.environ:
            return _checked(os.environ[TOKEN], f"the content of {TOKEN}")
        if TOKEN_FILE in os.environ:
            return _in_file(os.environ[TOKEN_FILE])
        if self.withheld:
            raise Unauthenticated(
                "the token was given to the client as text, which the client does not send to other processes: give "
                f"the token as a file that those processes can read (token_file), or set {TOKEN_FILE} or {TOKEN} in "
                "their environment",
                reason="TOKEN_MISSING",
            )
        return None


def _unpacked(fields: dict[str, Any]) -> Access:
    return Access(**fields)


def access(
    address: str,
    *,
    token: str | None = None,
    token_file: str | os.PathLike[str] | None = None,
    tls: bool | str | os.PathLike[str] | None = None,
    plaintext_token: bool = False,
    reconnect_seconds: float = 60.0,
    flight: bool = True,
) -> Access:
    """The access to the server at HOST:PORT or unix:PATH. Raises `InvalidRequest`.

    `tls` is True, False or the authorities' file; if it is not given, the environment's TIDEGATE_TLS.
    """
    if not is_address(address):
        raise InvalidRequest(
            f"a server's address must be HOST:PORT, with a port up to 65535, or unix:PATH, not {address!r}"
        )
    if token is not None and token_file is not None:
        raise InvalidRequest("a token and a token_file are given: give only one of the two")
    result = Access(
        address=address,
        token=token,
        token_file=None if token_file is None else os.path.abspath(token_file),
        plaintext_token=plaintext_token,
        reconnect_seconds=reconnect_seconds,
        flight=flight,
    )
    match _of_environment(os.environ.get(TLS)) if tls is None else tls:
        case bool(wanted):
            return replace(result, tls=wanted)
        case authorities:
            return replace(result, tls=True, authorities=os.path.abspath(authorities))


def _of_environment(text: str | None) -> bool | str:
    """TIDEGATE_TLS as a value: true, false, or the authorities' file."""
    return {"": False, "false": False, "true": True}.get((text or "").lower(), text or "")


def _in_file(path: str) -> str:
    try:
        text = _bytes(path, "the token").decode()
    except UnicodeDecodeError:
        text = ""
    return _checked(text.strip(), f"the content of {path}")


def _checked(token: str, what: str) -> str:
    """The token, checked here, because gRPC would print a token that it refuses."""
    if not _PLAIN.fullmatch(token):
        raise InvalidRequest(f"{what} is not a token: a token is one word of ASCII characters", reason="BAD_TOKEN")
    return token


def _bytes(path: str, what: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise InvalidRequest(f"{what} cannot be read: {path}: {error.strerror}", reason="FILE_UNREADABLE") from error
