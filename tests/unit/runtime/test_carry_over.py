from __future__ import annotations

import base64

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.runtime.carry_over import ProcessorMetadata, TopicPartitionMetadata

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
