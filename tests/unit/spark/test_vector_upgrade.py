from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from penstock.dead_letters import ErrorHandlerContext
from penstock.errors import SerializationError
from penstock.hashing import default_partition
from penstock.ids import TaskId, TopicPartition
from penstock.record import ProducedRecord, Record
from penstock.runtime.offset_metadata import OffsetAndMetadata
from penstock.runtime.sink_format import SinkFormat
from penstock.serdes.codecs import serialize_bytes
from penstock.spark.vectors import is_vector
from penstock.spark.worker.vector_upgrade import ShuffledBefore, SkippingCollector

LINES = TopicPartition("lines", 0)
KEYS = {p: next(k for k in (b"%d" % n for n in range(99)) if default_partition(k, 2) == p) for p in (0, 1)}


def collector(text: str, partition: int = 0) -> SkippingCollector:
    handlers: Any = None
    return SkippingCollector(
        {LINES: ShuffledBefore(text)}, TaskId(0, partition), handlers, handlers, {"words": 2, "audit": 1}.get
    )


def send(into: SkippingCollector, topic: str, key: bytes | None, offset: int, source: TopicPartition = LINES) -> bool:
    """Send a record made of an offset; whether it was kept."""
    context = SimpleNamespace(record_context=SimpleNamespace(topic=source.topic, partition=source.partition, offset=offset))
    into.send(topic, Record(key, b"v", 0), SinkFormat(serialize_bytes, serialize_bytes, "sink", context))
    return bool(into.drain()[0])


def test_should_leave_out_what_the_task_of_its_partition_had() -> None:
    into = collector("words=3,5")
    assert [send(into, "words", KEYS[0], offset) for offset in (2, 3, 4)] == [False, True, True]
    assert [send(into, "words", KEYS[1], offset) for offset in (3, 4, 5)] == [False, False, True]


def test_should_leave_out_the_first_records_of_an_offset_that_was_begun() -> None:
    into = collector("words=3+2,3")
    assert [send(into, "words", KEYS[0], 3) for _ in range(4)] == [False, False, True, True]
    assert send(into, "words", KEYS[1], 3)


def test_should_send_records_without_a_key_where_they_went_before() -> None:
    into = collector("words=9,0")
    assert [send(into, "words", None, offset) for offset in (6, 7)] == [False, True]


def test_should_leave_out_what_else_was_written_along_with_the_first_topic() -> None:
    assert [send(collector("words=3,5", partition=1), "audit", None, offset) for offset in (4, 5)] == [False, True]


def test_should_write_what_goes_elsewhere_of_a_record_that_its_task_had_only_in_part() -> None:
    """Before the shuffle it is written with the commit that passes its record; what was begun are records for the task."""
    into = collector("words=3+2,3")
    assert [send(into, "audit", None, offset) for offset in (2, 3, 4)] == [False, True, True]
    assert [send(into, "words", KEYS[0], 3) for _ in range(3)] == [False, False, True]


def test_should_keep_all_of_other_sources_and_of_timers() -> None:
    into = collector("words=3,5")
    assert send(into, "words", KEYS[0], 0, TopicPartition("orders", 0))
    nowhere = SimpleNamespace(record_context=None)
    into.send("words", Record(KEYS[0], b"v", 0), SinkFormat(serialize_bytes, serialize_bytes, "sink", nowhere))
    assert len(into.drain()[0]) == 1


def test_should_leave_out_dead_letters_that_were_written() -> None:
    into = collector("words=3,5")
    for offset in (2, 3):
        context = ErrorHandlerContext("lines", 0, offset, (), None, TaskId(0, 0), 0)
        into.send_raw(ProducedRecord("dead", None, None, b"%d" % offset, 0, ()), context)
    assert [record.value for record in into.drain()[0]] == [b"3"]  # type: ignore[union-attr]


def test_should_tell_where_each_task_goes_on_when_the_shuffle_is_back() -> None:
    had = ShuffledBefore("words=3,5+1")
    words = [TopicPartition("words", partition) for partition in range(3)]
    assert [had.position(target, 3) for target in words] == [(3, 0), (5, 1), (3, 0)]
    assert [had.position(target, 5) for target in words] == [(5, 0), (5, 1), (5, 0)]
    assert had.position(words[1], 6) == (6, 0)


def test_should_be_carried_until_it_is_passed() -> None:
    had = ShuffledBefore("words=3,5+1")
    carried = had.carried(OffsetAndMetadata(5, "times"))
    assert carried == OffsetAndMetadata(5, "times|had|words=3,5+1")
    assert not is_vector(carried)
    again = ShuffledBefore.of(carried)
    assert again is not None
    assert again.carried(OffsetAndMetadata(6, "times")) == OffsetAndMetadata(6, "times")
    assert ShuffledBefore.of(OffsetAndMetadata(6, "times")) is None


@pytest.mark.parametrize("text", ["", "words=", "words=3,x", "words=1+", "words=-1,2", ";"])
def test_should_say_what_cannot_be_read(text: str) -> None:
    with pytest.raises(SerializationError, match="cannot be read"):
        ShuffledBefore.of(OffsetAndMetadata(6, f"times|had|{text}"))
