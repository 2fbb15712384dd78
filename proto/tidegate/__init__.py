"""The wire: what protobuf and gRPC generate from `v1/`."""
