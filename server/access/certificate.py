"""TLS: a certificate and its key, read again for new connections after they have been renewed."""

from __future__ import annotations

import logging
import ssl
from dataclasses import dataclass
from pathlib import Path

import grpc

from ...proto.errors import InvalidRequest

log = logging.getLogger("tidegate.server")


@dataclass(frozen=True, slots=True)
class Certificate:
    """PEM files: the server's certificate chain, its own certificate first, and its private key."""

    chain: Path
    key: Path

    def credentials(self) -> grpc.ServerCredentials:
        """The server's credentials. Raises `InvalidRequest` if the files are not valid.

        If the files become invalid later, new connections get the certificate that was read last.
        """
        version, configuration = self.version(), self._configuration()

        def renewed() -> grpc.ServerCertificateConfiguration | None:
            nonlocal version
            try:
                current = self.version()
                if current == version:
                    return None
                version = current
                read = self._configuration()
            except InvalidRequest as error:
                log.error("the server keeps the previous certificate: %s", error)
                return None
            log.info("the server has read the new certificate")
            return read

        return grpc.dynamic_ssl_server_credentials(configuration, renewed)  # type: ignore[arg-type]  # None is no change

    def version(self) -> tuple[int, ...]:
        """A value that changes when the files are renewed."""
        try:
            return tuple(
                part
                for status in map(Path.stat, (self.chain, self.key))
                for part in (status.st_mtime_ns, status.st_ino)
            )
        except OSError as error:
            raise self._wrong(error.strerror or str(error)) from error

    def _configuration(self) -> grpc.ServerCertificateConfiguration:
        return grpc.ssl_server_certificate_configuration([self.read()])

    def read(self) -> tuple[bytes, bytes]:
        """The key and the chain."""
        try:
            ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(self.chain, self.key, password=_no_password)
            return self.key.read_bytes(), self.chain.read_bytes()
        except ssl.SSLError as error:
            raise self._wrong(
                f"these are not PEM files of a certificate and its key ({error.reason or error})"
            ) from error
        except (OSError, ValueError) as error:
            raise self._wrong(str(error)) from error

    def _wrong(self, why: str) -> InvalidRequest:
        return InvalidRequest(f"{self.chain} and {self.key} cannot be used for TLS: {why}", reason="BAD_CERTIFICATE")


def _no_password() -> str:
    raise ValueError("the key is encrypted, and the server has no password for the key")
