"""Addresses as a server and its clients name them."""

from __future__ import annotations

import pytest

from tidegate.proto.address import beside, placeless


@pytest.mark.parametrize(
    ("address", "reached", "expected"),
    [
        ("0.0.0.0:50052", "db.example:50051", "db.example:50052"),
        ("[::]:50052", "[::1]:50051", "[::1]:50052"),
        ("unix:/run/theirs/s.flight", "unix:/ours/s", "unix:/ours/s.flight"),
        ("unix:/run/theirs/s.flight", "unix:s", "unix:s.flight"),
        ("0.0.0.0:50052", "unix:/ours/s", None),
        ("unix:/run/s.flight", "db.example:50051", None),
    ],
)
def test_another_address_of_a_server_is_found_beside_the_one_it_is_reached_at(
    address: str, reached: str, expected: str | None
) -> None:
    assert beside(reached, placeless(address)) == expected
