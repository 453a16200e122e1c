from __future__ import annotations

from datetime import datetime, timezone
from typing import Any

import pytest

from penstock import ProducedRecord, RawRecord, Record, TestRecord

HEADERS = (("foo", b"value"), ("bar", None))
TIME = datetime(2019, 6, 1, 10, tzinfo=timezone.utc)
MILLISECONDS = 1_559_383_200_000


def test_should_have_the_fields_of_a_record() -> None:
    record = TestRecord("key", 1, TIME, HEADERS)
    assert (record.key, record.value, record.timestamp, record.headers) == ("key", 1, MILLISECONDS, HEADERS)
    assert record.record_time == TIME


def test_should_be_equal_by_its_fields() -> None:
    record = TestRecord("key", 1, TIME, HEADERS)
    assert record == TestRecord("key", 1, MILLISECONDS, HEADERS)
    assert hash(record) == hash(TestRecord("key", 1, MILLISECONDS, HEADERS))
    for other in (
        TestRecord("other", 1, TIME, HEADERS),
        TestRecord("key", 2, TIME, HEADERS),
        TestRecord("key", 1, MILLISECONDS + 1, HEADERS),
        TestRecord("key", 1, TIME, HEADERS[:1]),
        TestRecord("key", 1, None, HEADERS),
        "key",
    ):
        assert record != other


def test_should_equal_a_record_of_the_same_fields_from_both_sides() -> None:
    assert TestRecord("key", 1, 5) == Record("key", 1, 5)
    assert Record("key", 1, 5) == TestRecord("key", 1, 5)


def test_should_do_without_key_timestamp_and_headers() -> None:
    record: TestRecord[Any, int] = TestRecord(1)
    assert record == TestRecord(None, 1)
    assert (record.key, record.value, record.timestamp, record.record_time, record.headers) == (None, 1, None, None, ())


def test_should_refuse_a_negative_timestamp_and_one_that_is_none_at_all() -> None:
    with pytest.raises(ValueError, match="Invalid timestamp: -1"):
        TestRecord("key", 1, -1)
    with pytest.raises(TypeError, match=r"TestRecord\(key, value, timestamp, headers\)"):
        TestRecord("key", 1, HEADERS)  # type: ignore[arg-type]


def test_should_take_records_of_topics() -> None:
    expected = TestRecord(b"k", b"v", 5, HEADERS)
    assert TestRecord.of(RawRecord("topic", 1, 0, 5, b"k", b"v", HEADERS)) == expected
    assert TestRecord.of(ProducedRecord("topic", 1, b"k", b"v", 5, HEADERS)) == expected
