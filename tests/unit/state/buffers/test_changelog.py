"""Every format of a suppress buffer's changelog, read as Kafka Streams 4.3.0 reads it."""

from __future__ import annotations

import pytest

from penstock.errors import ProcessorStateError
from penstock.record import Headers, RawRecord
from penstock.state.buffers.changelog import read_changelog_record

CONTEXT = "00000000000000050000000000000007000000017400000001000000010000000168ffffffff"
CONTEXT_WITHOUT_HEADERS = "00000000000000050000000000000007000000017400000001ffffffff"
SIZED_CHANGE = "0000000e000000036f6c64000000036e6577"
CHANGE = SIZED_CHANGE[8:]
TIME = "0000000000000064"
PRIOR = "000000057072696f72"
SAME_AS_PRIOR = "fffffffe"
NEW = "000000036e6577"
NONE = "ffffffff"


def _record(version: bytes | None, value: str) -> RawRecord:
    headers: Headers = () if version is None else (("v", version),)
    return RawRecord("clog", 2, 11, 99, b"k", bytes.fromhex(value), headers)


@pytest.mark.parametrize(
    ("version", "value", "previous_prior", "prior", "old"),
    [
        (None, TIME + CHANGE, None, b"old", b"old"),
        (None, TIME + CHANGE, b"kept", b"kept", b"old"),
        (b"\x01", TIME + CONTEXT + SIZED_CHANGE, None, b"old", b"old"),
        (b"\x01", TIME + CONTEXT + SIZED_CHANGE, b"kept", b"kept", b"old"),
        (b"\x01", TIME + CONTEXT_WITHOUT_HEADERS + SIZED_CHANGE, b"kept", b"kept", b"old"),
        (b"\x02", CONTEXT + SIZED_CHANGE + PRIOR + TIME, b"not kept", b"prior", b"old"),
        # 2.4.0 to 2.5.0 wrote format 3 and called it 2.
        (b"\x02", CONTEXT + PRIOR + SAME_AS_PRIOR + NEW + TIME, None, b"prior", b"prior"),
        (b"\x02", CONTEXT + NONE + NONE + NEW + TIME, None, None, None),
        (b"\x03", CONTEXT + PRIOR + SAME_AS_PRIOR + NEW + TIME, b"not kept", b"prior", b"prior"),
    ],
)
def test_should_read_every_format(
    version: bytes | None, value: str, previous_prior: bytes | None, prior: bytes | None, old: bytes | None
) -> None:
    time, read = read_changelog_record(_record(version, value), previous_prior)

    assert time == 100
    assert (read.prior_value, read.old_value, read.new_value) == (prior, old, b"new")
    if version is None:
        assert (read.context.topic, read.context.partition, read.context.offset, read.context.timestamp) == ("clog", 2, 11, 99)
    else:
        assert (read.context.topic, read.context.partition, read.context.offset, read.context.timestamp) == ("t", 1, 7, 5)
        expected_headers = () if CONTEXT_WITHOUT_HEADERS in value else (("h", None),)
        assert read.context.headers == expected_headers


def test_should_refuse_a_format_it_does_not_know() -> None:
    with pytest.raises(ProcessorStateError, match="clog-2 at offset 11"):
        read_changelog_record(_record(b"\x04", CONTEXT + PRIOR), None)


def test_should_refuse_what_is_neither_of_the_formats_called_2() -> None:
    with pytest.raises(ProcessorStateError, match="neither of format 2 nor of format 3"):
        read_changelog_record(_record(b"\x02", CONTEXT), None)
