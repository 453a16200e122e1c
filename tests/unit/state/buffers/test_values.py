"""Bytes and sizes as Kafka Streams 4.3.0 printed them for the same values."""

from __future__ import annotations

import pytest

from penstock.errors import SerializationError
from penstock.record import RecordContext
from penstock.state.buffers.values import BufferValue, Reader, context_size_estimate, serialize_context

PLAIN = RecordContext(1234567890123, 42, 3, "topic-é")
FULL = RecordContext(5, 7, 1, "t", (("a", b"1"), ("né", None)))
FULL_HEX = "000000000000000500000000000000070000000174000000010000000200000001610000000131000000036ec3a9ffffffff"


@pytest.mark.parametrize(
    ("context", "expected", "size"),
    [
        (PLAIN, "0000011f71fb04cb000000000000002a00000008746f7069632dc3a90000000300000000", 27),
        (FULL, FULL_HEX, 25),
    ],
)
def test_should_write_a_record_context_as_java_does(context: RecordContext, expected: str, size: int) -> None:
    assert serialize_context(context).hex() == expected
    assert context_size_estimate(context) == size


@pytest.mark.parametrize(
    ("prior", "old", "new", "expected", "size"),
    [
        (None, None, b"new", "ffffffffffffffff000000036e6577", 28),
        (b"old", b"old", b"new", "000000036f6c64fffffffe000000036e6577", 31),
        (b"prior", b"old", b"new", "000000057072696f72000000036f6c64000000036e6577", 36),
        (b"prior", None, None, "000000057072696f72ffffffffffffffff", 30),
        (None, b"old", None, "ffffffff000000036f6c64ffffffff", 28),
        (b"", b"", b"x", "00000000fffffffe0000000178", 26),
    ],
)
def test_should_write_a_buffer_value_as_java_does(
    prior: bytes | None, old: bytes | None, new: bytes | None, expected: str, size: int
) -> None:
    value = BufferValue(prior, old, new, FULL)

    assert value.serialize().hex() == FULL_HEX + expected
    assert value.resident_memory_size_estimate() == size
    read = Reader(value.serialize()).buffer_value()
    assert (read.prior_value, read.old_value, read.new_value) == (prior, old, new)
    assert read.serialize() == value.serialize()


def test_should_read_back_a_record_context() -> None:
    read = Reader(serialize_context(FULL)).context()

    assert (read.timestamp, read.offset, read.partition, read.topic, read.headers) == (5, 7, 1, "t", FULL.headers)


def test_should_write_an_empty_topic_for_a_record_that_comes_from_none() -> None:
    read = Reader(serialize_context(RecordContext(5, -1, -1, None))).context()

    assert (read.topic, read.offset, read.partition) == ("", -1, -1)


def test_should_refuse_a_value_that_ends_too_early() -> None:
    data = BufferValue(b"prior", b"old", b"new", FULL).serialize()

    with pytest.raises(SerializationError, match="ends too early"):
        Reader(data[:-1]).buffer_value()
