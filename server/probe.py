"""`python -m tidegate.server.probe [HOST:PORT]` asks if a server is ready: exit code 0 if it is, else 1 and a line.

The probe asks the standard health service (`grpc.health.v1.Health`), which wants no token, so a container needs no
other tool for its health check. It asks a server of this machine that has TLS over TLS, and accepts any certificate:
the probe sends nothing secret, and trust in the certificate is not part of the server's health.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

from ..proto.address import is_loopback
from ..proto.tls import shown, trouble

DEFAULT_ADDRESS = "127.0.0.1:50051"
TIMEOUT_SECONDS = 3.0


def main(arguments: Sequence[str] | None = None) -> int:
    """Ask once, without waiting for a server that is not there."""
    options = _parser().parse_args(arguments)
    try:
        answer = _ask(options)
    except grpc.RpcError as error:
        print(f"{options.address}: {_said(options, error)}", file=sys.stderr)
        return 1
    if answer.status != health_pb2.HealthCheckResponse.SERVING:
        print(f"{options.address}: {health_pb2.HealthCheckResponse.ServingStatus.Name(answer.status)}", file=sys.stderr)
        return 1
    return 0


def _ask(options: argparse.Namespace) -> health_pb2.HealthCheckResponse:
    if options.tls_ca is not None:
        return _answer(_secure(options.address, options.tls_ca.read_bytes(), options.tls_name))
    try:
        return _answer(grpc.insecure_channel(options.address))
    except grpc.RpcError:
        certificate = shown(options.address) if is_loopback(options.address) else None
        if certificate is None:
            raise
        return _answer(_secure(options.address, certificate.pem, next(iter(certificate.names), None)))


def _answer(channel: grpc.Channel) -> health_pb2.HealthCheckResponse:
    with channel:
        request = health_pb2.HealthCheckRequest(service="")
        return health_pb2_grpc.HealthStub(channel).Check(request, timeout=TIMEOUT_SECONDS)


def _secure(address: str, authorities: bytes, name: str | None) -> grpc.Channel:
    named = [("grpc.ssl_target_name_override", name)] if name else []
    return grpc.secure_channel(address, grpc.ssl_channel_credentials(authorities), options=named)


def _said(options: argparse.Namespace, error: grpc.RpcError) -> str:
    over_tls = options.tls_ca is not None
    authorities = options.tls_ca.read_bytes() if over_tls else None
    problem = trouble(options.address, tls=over_tls, authorities=authorities, file=options.tls_ca)
    said = f"{error.code().name}: {error.details()}"
    return said if problem is None or (options.tls_name and problem.reason == "CERTIFICATE_NAME") else problem.sentence


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tidegate.server.probe",
        description="Check whether a server is ready. The exit code is 0 if it is, otherwise 1.",
    )
    parser.add_argument(
        "address",
        metavar="HOST:PORT",
        nargs="?",
        default=DEFAULT_ADDRESS,
        help="the server's address (default: %(default)s)",
    )
    parser.add_argument(
        "--tls-ca",
        metavar="FILE",
        type=Path,
        help="use TLS, and check the server's certificate with the certificate authorities in FILE",
    )
    parser.add_argument(
        "--tls-name", metavar="NAME", help="with --tls-ca: the name in the certificate, if the name is not HOST"
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
