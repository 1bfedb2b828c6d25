"""Kafka's frames on a connection without TLS and SASL: where each begins and ends, what it asks, whom it answers.

Source: Kafka's documentation, "Protocol"; EndTxnRequest.json.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

END_TXN = 26
_FIRST_FLEXIBLE_END_TXN = 3
_LENGTH = struct.Struct(">i")
_REQUEST = struct.Struct(">hhi")
_CORRELATION = struct.Struct(">i")
_SHORT = struct.Struct(">h")
_END = struct.Struct(">qh?")
# `socket.request.max.bytes` of a broker; the first bytes of a TLS handshake are a larger number.
_LARGEST_BYTES = 100 << 20


class NotKafkaError(Exception):
    """What came over the connection cannot be a frame of Kafka's protocol: is it TLS?"""


class RequestHeader(NamedTuple):
    api_key: int
    api_version: int
    correlation_id: int


class EndTxn(NamedTuple):
    """A producer's requests to its transaction coordinator at the end of a transaction."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    is_commit: bool


class FrameSplitter:
    """Cuts one direction of a connection into whole frames, from pieces of any size."""

    def __init__(self) -> None:
        self._rest = bytearray()

    def feed(self, data: bytes) -> list[bytes]:
        """The frames that `data` completes. Raises NotKafkaError."""
        self._rest += data
        frames: list[bytes] = []
        at = 0
        while len(self._rest) - at >= _LENGTH.size:
            (length,) = _LENGTH.unpack_from(self._rest, at)
            if not _CORRELATION.size <= length <= _LARGEST_BYTES:
                raise NotKafkaError(f"a frame of {length} bytes: the proxy reads plain connections only")
            after = at + _LENGTH.size + length
            if after > len(self._rest):
                break
            frames.append(bytes(self._rest[at:after]))
            at = after
        del self._rest[:at]
        return frames


def request_header(frame: bytes) -> RequestHeader:
    """The beginning that all requests have in common, in every version of their header."""
    return RequestHeader(*_REQUEST.unpack_from(frame, _LENGTH.size))


def correlation_id(frame: bytes) -> int:
    """Which request this frame answers."""
    (number,) = _CORRELATION.unpack_from(frame, _LENGTH.size)
    return int(number)


def end_txn(frame: bytes) -> EndTxn:
    """The content of an EndTxn request; versions 0 to 5."""
    header = request_header(frame)
    at = _LENGTH.size + _REQUEST.size
    # The client's id is never in the compact form, not even in a flexible header.
    (client_id_length,) = _SHORT.unpack_from(frame, at)
    at += _SHORT.size + max(0, client_id_length)
    if header.api_version >= _FIRST_FLEXIBLE_END_TXN:
        tags, at = _varint(frame, at)
        if tags:
            raise NotKafkaError(f"a request header with {tags} tagged fields; none is defined yet")
        length, at = _varint(frame, at)
        length -= 1
    else:
        (length,) = _SHORT.unpack_from(frame, at)
        at += _SHORT.size
    transactional_id = frame[at : at + length].decode()
    return EndTxn(transactional_id, *_END.unpack_from(frame, at + length))


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at
