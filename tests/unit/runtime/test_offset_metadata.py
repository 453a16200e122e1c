from __future__ import annotations

import base64
import random
import zlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.errors import StreamsError
from penstock.ids import TaskId
from penstock.operators.time_tracker import time_key
from penstock.runtime.offset_metadata import (
    MAX_LENGTH,
    OffsetAndMetadata,
    ProcessorMetadata,
    TopicPartitionMetadata,
    from_committed,
    logs_of,
    to_committed,
    with_logs,
    with_own_offset,
)

TIME, OTHER_TIME = time_key("store@stream-time"), time_key("store@min-time")
LONGS = st.integers(-(2**63), 2**63 - 1)
NAMES = st.from_regex(r"[a-zA-Z0-9._-]{0,20}", fullmatch=True) | st.text(max_size=20).map(time_key)


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
    entries = {"count-store": 7, TIME: 9, OTHER_TIME: 11, "other-store": 8}
    text = TopicPartitionMetadata(5, ProcessorMetadata(entries)).encode()
    assert java_part(text) == (5, {"count-store": 7, "other-store": 8})
    assert TopicPartitionMetadata.decode(text) == TopicPartitionMetadata(5, ProcessorMetadata(entries))
    only_ours = TopicPartitionMetadata(5, ProcessorMetadata({TIME: 11})).encode()
    assert java_part(only_ours) == (5, {})


@pytest.mark.parametrize("count", [1, 200])
@pytest.mark.parametrize("entries", [{}, {"store": 7}, {TIME: 7}, {"store": 7, TIME: 9}])
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


def earlier(partition_time: int, java: dict[str, int], own: dict[str, int], positions: str = "") -> str:
    """What earlier versions committed: names of operators' times in full, and due times of timers."""

    def written(entries: dict[str, int]) -> bytes:
        parts = [len(entries).to_bytes(4, "big")]
        for name, value in entries.items():
            parts += [len(name).to_bytes(4, "big"), name.encode(), value.to_bytes(8, "big", signed=True)]
        return b"".join(parts)

    packed = b"\1" + zlib.compress(positions.encode(), 1) if positions else b""
    data = b"\2" + partition_time.to_bytes(8, "big", signed=True) + written(java) + written(own) + packed
    return base64.b64encode(data).decode()


@pytest.mark.parametrize("positions", ["", "7|lines=" + ",".join(map(str, range(50)))])
def test_should_read_what_earlier_versions_committed(positions: str) -> None:
    own = {"store@stream-time": 9, "store@min-time": 8, "ticker@w0/1000": 2**63 - 1, "penstock.log:lines": 4711}
    text = from_committed(earlier(5, {"store": 7}, own, positions))
    times, bar, rest = text.partition("|")
    assert (bar, rest) == ("|" if positions else "", positions)
    found = TopicPartitionMetadata.decode(times)
    assert found.partition_time == 5
    assert [found.processor_metadata.claim(name) for name in ("store", TIME, OTHER_TIME)] == [7, 9, 8]
    found.processor_metadata.drop_unclaimed()
    assert found.processor_metadata == ProcessorMetadata({"store": 7, TIME: 9, OTHER_TIME: 8})
    assert logs_of(OffsetAndMetadata(0, times)) == {"lines": 4711}


def test_should_believe_an_earlier_version_that_ran_in_between() -> None:
    """It keeps the short names, which it does not know, and adds its own behind them."""
    found = TopicPartitionMetadata.decode(earlier(5, {}, {TIME: 9, "store@stream-time": 12}))
    assert found.processor_metadata == ProcessorMetadata({TIME: 12})


def times_of(count: int) -> dict[str, int]:
    return {time_key(f"KTABLE-SUPPRESS-STATE-STORE-{number:010}@stream-time"): 2**62 + number for number in range(count)}


def test_should_have_room_for_the_times_of_150_operators() -> None:
    text = TopicPartitionMetadata(2**62, ProcessorMetadata(times_of(150))).encode()
    assert len(text) <= MAX_LENGTH
    assert to_committed(text) == text


@pytest.mark.parametrize("own_offset", [False, True])
@pytest.mark.parametrize("stores", [0, 40])
@pytest.mark.parametrize("count", [0, 1, 150, 161, 162, 163, 1_000])
@pytest.mark.parametrize("sources", [0, 1, 230])
def test_should_leave_out_operators_times_as_far_as_brokers_do_not_keep_them(
    sources: int, count: int, stores: int, own_offset: bool
) -> None:
    java = {f"store-{number:04}": number for number in range(stores if sources < 100 else 10)}
    committed = OffsetAndMetadata(3, TopicPartitionMetadata(5, ProcessorMetadata({**java, **times_of(count)})).encode())
    if own_offset:
        committed = with_own_offset(committed)
    randomly = random.Random(sources)
    positions = "|7|lines=" + ",".join(str(randomly.randrange(10**11, 10**12)) for _ in range(sources)) if sources else ""
    logs = {f"a-topic-with-a-name-{number}": 2**62 + number for number in range(20)} if sources else {}
    text = to_committed(with_logs(committed._replace(metadata=committed.metadata + positions), logs).metadata)

    assert len(text) <= MAX_LENGTH
    assert java_part(text) == (5, java)
    times, bar, rest = from_committed(text).partition("|")
    assert bar + rest == positions
    found = TopicPartitionMetadata.decode(times).processor_metadata.as_dict()
    kept = found.keys() - java.keys()
    assert kept <= times_of(count).keys()
    if len(kept) < count:
        assert len(text) > MAX_LENGTH - 60
        assert kept == set(sorted(times_of(count))[: len(kept)])
    assert text == to_committed(from_committed(text))


def test_should_warn_where_operators_times_have_to_be_left_out(caplog: pytest.LogCaptureFixture) -> None:
    metadata = ProcessorMetadata()
    for name in times_of(150):
        metadata.claim(name)
    metadata.check_length(TaskId(0, 1))
    assert not caplog.records
    for name in times_of(170).keys() - times_of(150).keys():
        metadata.claim(name)
    metadata.check_length(TaskId(0, 1))
    assert "task 0_1: the stream times of 170 operators take 4332 bytes" in caplog.text


def test_should_refuse_more_results_on_window_close_than_brokers_keep_the_times_of() -> None:
    metadata = ProcessorMetadata()
    for number in range(58):
        metadata.claim(f"KSTREAM-AGGREGATE-STATE-STORE-{number:010}")
    metadata.check_length(TaskId(0, 1))
    metadata.claim("KSTREAM-AGGREGATE-STATE-STORE-0000000058")
    with pytest.raises(StreamsError, match=r"task 0_1 cannot be opened: 59 stores emit results on window close.*4,108 bytes"):
        metadata.check_length(TaskId(0, 1))
