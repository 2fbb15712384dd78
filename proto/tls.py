"""Tell why a connection over TLS fails, by a second handshake beside gRPC's: gRPC's messages vary.

Where a name has several addresses gRPC reports the last one alone, as "Connection refused" for example, and a client
without TLS sees nothing but "Socket closed".
"""

from __future__ import annotations

import os
import pkgutil
import socket
import ssl
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from .address import UNIX

SECONDS: Final = 1.0
"""The time that a handshake may take. A server that takes longer counts as one that cannot be reached."""

TROUBLES: Final = frozenset(
    {"CERTIFICATE_NAME", "CERTIFICATE_EXPIRED", "CERTIFICATE_UNTRUSTED", "NO_AUTHORITIES", "TLS_WANTED", "NO_TLS"}
)
_WRONG_NAME: Final = (62, 63, 64)  # OpenSSL's codes: a host's name, an e-mail address, an IP address
_WRONG_TIME: Final = (9, 10)  # not valid yet, expired
_NOT_TLS: Final = ("WRONG_VERSION_NUMBER", "UNEXPECTED_EOF_WHILE_READING", "HTTP_REQUEST", "RECORD_LAYER_FAILURE")


@dataclass(frozen=True, slots=True, kw_only=True)
class Trouble:
    """A failure that another try would not mend. `reason` is machine-readable."""

    reason: str
    sentence: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """A server's certificate and the names that it is for."""

    pem: bytes
    names: tuple[str, ...]


def trouble(address: str, *, tls: bool, authorities: bytes | None = None, file: str | None = None) -> Trouble | None:
    """The trouble with TLS, or with its absence, at `address`; None where the cause is another one. `authorities` are
    the certificates in `file`; without them, those that gRPC knows.
    """
    if not tls:
        return _wants_tls() if shown(address) is not None else None
    context = _context()
    try:
        context.load_verify_locations(cadata=_known(authorities))
    except ssl.SSLError:
        return Trouble(reason="NO_AUTHORITIES", sentence=f"{file} has no certificates (PEM)")
    try:
        _handshake(address, context)
    except ssl.SSLCertVerificationError as error:
        known = f"the authorities in {file}" if file else "the authorities that gRPC knows"
        return _untrusted(address, error, known)
    except ssl.SSLError as error:
        return _has_no_tls() if error.reason in _NOT_TLS else None
    except OSError:
        return None
    return None


def shown(address: str) -> Shown | None:
    """The certificate that a server shows, trusted or not; None where the server has no TLS, or cannot be reached."""
    context = _context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    try:
        pem = ssl.DER_cert_to_PEM_cert(_handshake(address, context)[0])
    except OSError:
        return None
    return Shown(pem=pem.encode(), names=_names(address, pem))


def _names(address: str, pem: str) -> tuple[str, ...]:
    """The names in a certificate. Python parses only certificates that it has verified, so this one is its own
    authority here.
    """
    context = _context()
    context.check_hostname = False
    context.load_verify_locations(cadata=pem)
    with suppress(OSError):
        fields = _handshake(address, context)[1]
        return tuple(str(name) for _, name in fields.get("subjectAltName", ()))
    return ()


def _context() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN  # as gRPC has it: any certificate may be an authority
    context.set_alpn_protocols(["h2"])
    return context


def _handshake(address: str, context: ssl.SSLContext) -> tuple[bytes, dict[str, tuple[tuple[str, str], ...]]]:
    """The server's certificate: as DER, and parsed where it is verified."""
    host = "localhost" if address.startswith(UNIX) else address.rpartition(":")[0].strip("[]")
    with _connected(address, host, context) as secured:
        return secured.getpeercert(binary_form=True) or b"", secured.getpeercert() or {}  # type: ignore[return-value]


def _connected(address: str, host: str, context: ssl.SSLContext) -> ssl.SSLSocket:
    """A connection after its handshake, at the first place of the address that answers."""
    failure: OSError | None = None
    for family, socket_address in _socket_addresses(address):
        # A socket that is connected before it is wrapped is not closed where the server ends at once.
        secured = context.wrap_socket(socket.socket(family), server_hostname=host)
        try:
            secured.settimeout(SECONDS)
            secured.connect(socket_address)
        except OSError as error:
            secured.close()
            if isinstance(error, ssl.SSLError):
                raise
            failure = error
        else:
            return secured
    raise failure or OSError(f"{address} names no place")


def _socket_addresses(address: str) -> Iterator[tuple[int, Any]]:
    if address.startswith(UNIX):
        yield socket.AF_UNIX, os.path.abspath(address.removeprefix(UNIX))
        return
    host, _, port = address.rpartition(":")
    for family, _, _, _, socket_address in socket.getaddrinfo(host.strip("[]"), int(port), type=socket.SOCK_STREAM):
        yield family, socket_address


def _known(authorities: bytes | None) -> str:
    """The known authorities, as PEM."""
    if authorities is not None:
        return authorities.decode("ascii", "replace")
    named = os.environ.get("GRPC_DEFAULT_SSL_ROOTS_FILE_PATH")
    if named:
        with suppress(OSError), open(named, encoding="ascii", errors="replace") as file:
            return file.read()
    return (pkgutil.get_data("grpc._cython", "_credentials/roots.pem") or b"").decode("ascii", "replace")


def _untrusted(address: str, error: ssl.SSLCertVerificationError, known: str) -> Trouble:
    if error.verify_code in _WRONG_NAME:
        certificate = shown(address)
        names = f", not for {', '.join(certificate.names)}" if certificate is not None and certificate.names else ""
        host = "localhost" if address.startswith(UNIX) else address.rpartition(":")[0]
        sentence = (
            f"its certificate must be for {host}{names}: connect by a name of the certificate, or renew the certificate"
        )
        return Trouble(reason="CERTIFICATE_NAME", sentence=sentence)
    if error.verify_code in _WRONG_TIME:
        sentence = (
            f"its certificate cannot be used ({error.verify_message}): renew the certificate, or set the clocks right"
        )
        return Trouble(reason="CERTIFICATE_EXPIRED", sentence=sentence)
    sentence = (
        f"its certificate is not trusted ({error.verify_message}): none of {known} has signed the certificate; name "
        "the file of its certificate authority (tls=FILE, --tls-ca FILE)"
    )
    return Trouble(reason="CERTIFICATE_UNTRUSTED", sentence=sentence)


def _wants_tls() -> Trouble:
    return Trouble(
        reason="TLS_WANTED",
        sentence="the server takes only connections with TLS: give tls=True or a file, --tls or --tls-ca",
    )


def _has_no_tls() -> Trouble:
    return Trouble(
        reason="NO_TLS", sentence="the server takes only connections without TLS: leave tls, --tls and --tls-ca out"
    )
