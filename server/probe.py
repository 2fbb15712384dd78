"""`python -m tidegate.server.probe [HOST:PORT]`: is a server ready? Exit code 0 when it is, 1 and a line when not.

It asks the standard health service (`grpc.health.v1.Health`), which wants no token, so that a container needs no other
tool for its health check.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

DEFAULT_ADDRESS = "127.0.0.1:50051"
TIMEOUT_SECONDS = 3.0


def main(arguments: Sequence[str] | None = None) -> int:
    """Ask once, without waiting for a server that is not there."""
    options = _parser().parse_args(arguments)
    with _channel(options) as channel:
        try:
            answer = health_pb2_grpc.HealthStub(channel).Check(
                health_pb2.HealthCheckRequest(service=""), timeout=TIMEOUT_SECONDS
            )
        except grpc.RpcError as error:
            print(f"{options.address}: {error.code().name}: {error.details()}", file=sys.stderr)
            return 1
    if answer.status != health_pb2.HealthCheckResponse.SERVING:
        print(f"{options.address}: {health_pb2.HealthCheckResponse.ServingStatus.Name(answer.status)}", file=sys.stderr)
        return 1
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tidegate.server.probe", description="Is a server ready?")
    parser.add_argument("address", metavar="HOST:PORT", nargs="?", default=DEFAULT_ADDRESS)
    parser.add_argument(
        "--tls-ca", metavar="FILE", type=Path, help="over TLS, to a server that one in FILE vouches for"
    )
    parser.add_argument("--tls-name", metavar="NAME", help="of the server's certificate, where it is not HOST")
    return parser


def _channel(options: argparse.Namespace) -> grpc.Channel:
    if options.tls_ca is None:
        return grpc.insecure_channel(options.address)
    named = [("grpc.ssl_target_name_override", options.tls_name)] if options.tls_name else []
    return grpc.secure_channel(
        options.address, grpc.ssl_channel_credentials(options.tls_ca.read_bytes()), options=named
    )


if __name__ == "__main__":
    sys.exit(main())
