"""Certificates for tests: an authority of its own, made on the spot with nothing but the standard library.

ECDSA on P-256 (FIPS 186-4, SEC 1) in a few lines, DER (X.690) in a few more. Neither is fast or safe from those who
measure times; the keys live as long as a test.
"""

from __future__ import annotations

import base64
import hashlib
import secrets
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path

P = 2**256 - 2**224 + 2**192 + 2**96 - 1
N = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551
G = (
    0x6B17D1F2E12C4247F8BCE6E563A440F277037D812DEB33A0F4A13945D898C296,
    0x4FE342E2FE1A7F9B8EE7EB4A7C0F9E162BCE33576B315ECECBB6406837BF51F5,
)
Point = tuple[int, int]
Validity = tuple[str, str]
YEARS: Validity = ("200101000000Z", "491231235959Z")

COMMON_NAME, SUBJECT_ALTERNATIVES, BASIC_CONSTRAINTS = "2.5.4.3", "2.5.29.17", "2.5.29.19"
EC_KEY, CURVE, ECDSA_SHA256 = "1.2.840.10045.2.1", "1.2.840.10045.3.1.7", "1.2.840.10045.4.3.2"


def _sum(a: Point | None, b: Point | None) -> Point | None:
    if a is None or b is None:
        return a or b
    if a[0] == b[0]:
        if a != b:
            return None
        slope = (3 * a[0] * a[0] - 3) * pow(2 * a[1], -1, P)
    else:
        slope = (b[1] - a[1]) * pow(b[0] - a[0], -1, P)
    x = (slope * slope - a[0] - b[0]) % P
    return x, (slope * (a[0] - x) - a[1]) % P


def _times(number: int) -> Point:
    """So many times the generator."""
    point: Point | None = None
    power: Point | None = G
    while number:
        point = _sum(point, power) if number & 1 else point
        power = _sum(power, power)
        number >>= 1
    assert point is not None
    return point


def _der(tag: int, *parts: bytes) -> bytes:
    content = b"".join(parts)
    size = len(content)
    counted = size.to_bytes((size.bit_length() + 7) // 8, "big")
    return bytes([tag]) + (bytes([size]) if size < 128 else bytes([0x80 | len(counted)]) + counted) + content


def _sequence(*parts: bytes) -> bytes:
    return _der(0x30, *parts)


def _integer(number: int) -> bytes:
    return _der(0x02, number.to_bytes(number.bit_length() // 8 + 1, "big"))


def _bits(content: bytes) -> bytes:
    return _der(0x03, b"\0", content)


def _identifier(dotted: str) -> bytes:
    first, second, *rest = map(int, dotted.split("."))
    coded = bytearray([40 * first + second])
    for number in rest:
        groups = [number >> shift & 0x7F for shift in range(28, -1, -7) if number >> shift or not shift]
        coded += bytes([group | 0x80 for group in groups[:-1]] + groups[-1:])
    return _der(0x06, bytes(coded))


def _extension(kind: str, value: bytes) -> bytes:
    return _sequence(_identifier(kind), _der(0x04, value))


def _name(common: str) -> bytes:
    return _sequence(_der(0x31, _sequence(_identifier(COMMON_NAME), _der(0x0C, common.encode()))))


def _alternative(name: str) -> bytes:
    try:
        return _der(0x87, ip_address(name).packed)
    except ValueError:
        return _der(0x82, name.encode())


def _pem(kind: str, content: bytes) -> str:
    return f"-----BEGIN {kind}-----\n{base64.encodebytes(content).decode()}-----END {kind}-----\n"


@dataclass(frozen=True)
class Key:
    secret: int

    @classmethod
    def new(cls) -> Key:
        return cls(secrets.randbelow(N - 1) + 1)

    @property
    def public(self) -> bytes:
        x, y = _times(self.secret)
        return b"\x04" + x.to_bytes(32, "big") + y.to_bytes(32, "big")

    def signature(self, content: bytes) -> bytes:
        digest = int.from_bytes(hashlib.sha256(content).digest(), "big")
        nonce = secrets.randbelow(N - 1) + 1
        r = _times(nonce)[0] % N
        return _sequence(_integer(r), _integer(pow(nonce, -1, N) * (digest + r * self.secret) % N))

    @property
    def pem(self) -> str:
        bare = _sequence(_integer(1), _der(0x04, self.secret.to_bytes(32, "big")), _der(0xA1, _bits(self.public)))
        kind = _sequence(_identifier(EC_KEY), _identifier(CURVE))
        return _pem("PRIVATE KEY", _sequence(_integer(0), kind, _der(0x04, bare)))


@dataclass(frozen=True)
class Authority:
    """Vouches for servers, to those who have its own certificate."""

    key: Key
    name: str = "Tidegate's tests"

    @classmethod
    def new(cls) -> Authority:
        return cls(Key.new())

    @property
    def pem(self) -> str:
        constraint = _extension(BASIC_CONSTRAINTS, _sequence(_der(0x01, b"\xff")))
        return self._certificate(self.name, self.key.public, constraint)

    def issue(self, folder: Path, *names: str, valid: Validity = YEARS, self_signed: bool = False) -> tuple[Path, Path]:
        """Files of a certificate for a server of these names, and of its key."""
        key = self.key if self_signed else Key.new()
        alternatives = _extension(SUBJECT_ALTERNATIVES, _sequence(*map(_alternative, names)))
        certificate, private = folder / "server.pem", folder / "server.key"
        subject = self.name if self_signed else names[0]
        certificate.write_text(self._certificate(subject, key.public, alternatives, valid))
        private.write_text(key.pem)
        return certificate, private

    def _certificate(self, subject: str, public: bytes, extension: bytes, valid: Validity = YEARS) -> str:
        signed = _sequence(_identifier(ECDSA_SHA256))
        content = _sequence(
            _der(0xA0, _integer(2)),
            _integer(secrets.randbits(63) + 1),
            signed,
            _name(self.name),
            _sequence(*(_der(0x17, time.encode()) for time in valid)),
            _name(subject),
            _sequence(_sequence(_identifier(EC_KEY), _identifier(CURVE)), _bits(public)),
            _der(0xA3, _sequence(extension)),
        )
        return _pem("CERTIFICATE", _sequence(content, signed, _bits(self.key.signature(content))))
