from __future__ import annotations

import base64
import zlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.runtime.carry_over import (
    OffsetAndMetadata,
    ProcessorMetadata,
    TopicPartitionMetadata,
    from_committed,
    logs_of,
    to_committed,
    with_logs,
)

LONGS = st.integers(-(2**63), 2**63 - 1)
NAMES = st.text(max_size=20).filter(lambda text: text.isprintable() and not text.startswith("penstock.log:"))  # those are ours


@settings(max_examples=100)
@given(LONGS, st.dictionaries(NAMES, LONGS, max_size=5))
def test_should_read_what_it_wrote(partition_time: int, entries: dict[str, int]) -> None:
    written = TopicPartitionMetadata(partition_time, ProcessorMetadata(entries))
    assert TopicPartitionMetadata.decode(written.encode()) == written


def test_should_write_kafka_streams_bytes() -> None:
    text = TopicPartitionMetadata(258, ProcessorMetadata({"ab": 3})).encode()
    assert base64.b64decode(text).hex() == "020000000000000102000000010000000261620000000000000003"
    assert base64.b64decode(TopicPartitionMetadata(-1, ProcessorMetadata()).encode()).hex() == "02" + "ff" * 8


def test_should_read_the_first_version() -> None:
    text = base64.b64encode(bytes.fromhex("010000000000000102")).decode()
    assert TopicPartitionMetadata.decode(text) == TopicPartitionMetadata(258, ProcessorMetadata())


@pytest.mark.parametrize("text", ["", None, "adfs", "!!", "AA==", "Ag==", base64.b64encode(b"\x09" + bytes(8)).decode()])
def test_should_take_what_it_does_not_understand_for_nothing(text: str | None) -> None:
    assert TopicPartitionMetadata.decode(text) == TopicPartitionMetadata(-1, ProcessorMetadata())


def test_should_take_truncated_entries_for_nothing() -> None:
    whole = base64.b64decode(TopicPartitionMetadata(5, ProcessorMetadata({"abc": 1})).encode())
    for length in range(10, len(whole)):
        text = base64.b64encode(whole[:length]).decode()
        assert TopicPartitionMetadata.decode(text).partition_time == -1


def test_should_merge_to_the_higher_value() -> None:
    mine = ProcessorMetadata({"a": 5, "b": 1})
    mine.update(ProcessorMetadata({"a": 3, "b": 2, "c": 9}))

    assert mine.as_dict() == {"a": 5, "b": 2, "c": 9}
    assert not mine.needs_commit


def test_should_need_a_commit_only_when_something_changed() -> None:
    metadata = ProcessorMetadata({"a": 5})
    metadata.put("a", 5)
    assert not metadata.needs_commit
    metadata.put("a", 6)
    assert metadata.needs_commit


def java_part(text: str) -> tuple[int, dict[str, int]]:
    """What Kafka Streams makes of a text: it reads as many entries as the first number says, and does not look further."""
    data = base64.b64decode(text, validate=True)
    assert data[0] == 2
    count, at, entries = int.from_bytes(data[9:13], "big"), 13, {}
    for _ in range(count):
        length = int.from_bytes(data[at : at + 4], "big")
        at += 4 + length
        entries[data[at - length : at].decode()] = int.from_bytes(data[at : at + 8], "big")
        at += 8
    return int.from_bytes(data[1:9], "big", signed=True), entries


def test_should_keep_from_java_what_is_ours_alone() -> None:
    entries = {"count-store": 7, "count-store@stream-time": 9, "ticker@s0/1000": 11, "other-store": 8}
    text = TopicPartitionMetadata(5, ProcessorMetadata(entries)).encode()
    assert java_part(text) == (5, {"count-store": 7, "other-store": 8})
    assert TopicPartitionMetadata.decode(text) == TopicPartitionMetadata(5, ProcessorMetadata(entries))
    only_ours = TopicPartitionMetadata(5, ProcessorMetadata({"ticker@s0/1000": 11})).encode()
    assert java_part(only_ours) == (5, {})


@pytest.mark.parametrize("count", [1, 200])
@pytest.mark.parametrize("entries", [{}, {"store": 7}, {"store@stream-time": 7}, {"store": 7, "store@stream-time": 9}])
def test_should_commit_positions_where_java_does_not_look(entries: dict[str, int], count: int) -> None:
    times = TopicPartitionMetadata(5, ProcessorMetadata(entries)).encode()
    positions = "7|lines=" + ",".join(str(123_456_789_012 + 7919 * 7919 * p) for p in range(count))
    text = to_committed(f"{times}|{positions}")
    assert java_part(text) == (5, {name: value for name, value in entries.items() if name == "store"})
    read, _, rest = from_committed(text).partition("|")
    assert rest == positions
    assert TopicPartitionMetadata.decode(read) == TopicPartitionMetadata(5, ProcessorMetadata(entries))
    assert TopicPartitionMetadata.decode(text) == TopicPartitionMetadata(5, ProcessorMetadata(entries))
    assert len(text) < 2_500


def test_should_commit_ids_of_logs_where_java_does_not_look() -> None:
    committed = with_logs(OffsetAndMetadata(3, "|7|lines=3,4"), {"lines": 4711})
    text = to_committed(committed.metadata)
    assert java_part(text) == (-1, {})
    assert logs_of(OffsetAndMetadata(3, from_committed(text))) == {"lines": 4711}


@pytest.mark.parametrize("text", ["", "|7|lines=3,4", "AgAAAAAAAAAF|had|words=3", "adfs", "!!", "AA=="])
def test_should_leave_alone_what_carries_no_positions_or_carries_them_in_the_open(text: str) -> None:
    assert from_committed(text) == text


def test_should_take_positions_that_are_cut_off_or_too_long_for_none() -> None:
    whole = base64.b64decode(to_committed("|7|lines=" + ",".join(map(str, range(100)))))
    for length in range(18, len(whole)):
        text = base64.b64encode(whole[:length]).decode()
        assert from_committed(text) == text
    huge = base64.b64encode(whole[:17] + b"\1" + zlib.compress(bytes(10 << 20))).decode()
    assert from_committed(huge) == huge
