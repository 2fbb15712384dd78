"""`python -m tidegate.server.probe [HOST:PORT]`: is a server ready? Exit code 0 when it is, 1 and a line when not.

It asks the standard health service (`grpc.health.v1.Health`), so that a container needs no other tool for its
health check.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

DEFAULT_ADDRESS = "127.0.0.1:50051"
TIMEOUT_SECONDS = 3.0


def main(arguments: Sequence[str] | None = None) -> int:
    """Ask once, without waiting for a server that is not there."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    address = given[0] if given else DEFAULT_ADDRESS
    with grpc.insecure_channel(address) as channel:
        try:
            answer = health_pb2_grpc.HealthStub(channel).Check(
                health_pb2.HealthCheckRequest(service=""), timeout=TIMEOUT_SECONDS
            )
        except grpc.RpcError as error:
            print(f"{address}: {error.code().name}: {error.details()}", file=sys.stderr)
            return 1
    if answer.status != health_pb2.HealthCheckResponse.SERVING:
        print(f"{address}: {health_pb2.HealthCheckResponse.ServingStatus.Name(answer.status)}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
