from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from penstock.errors import StreamsError
from penstock.ids import TaskId
from penstock.processor import Processor, PunctuationType
from penstock.record import Record, RecordMetadata
from penstock.serdes.serde import Serdes
from penstock.state.stores import Stores
from penstock.testing import CapturedForward, MockProcessorContext


class Sample(Processor[Any, Any, Any, Any]):
    def init(self, context: Any) -> None:
        super().init(context)
        self.store = context.get_state_store("sums")
        self.timer = context.schedule(timedelta(seconds=1), PunctuationType.WALL_CLOCK_TIME, self.punctuate)

    def process(self, record: Any) -> None:
        total = (self.store.get(record.key) or 0) + record.value
        self.store.put(record.key, total)
        self.context.forward(record.with_value(total), "big" if total > 10 else None)
        if total > 10:
            self.context.commit()

    def punctuate(self, timestamp: int) -> None:
        for key, value in self.store.all():
            self.context.forward(Record(key, value, timestamp))


def sample() -> tuple[MockProcessorContext, Sample]:
    context = MockProcessorContext({"user.key": "mine"})
    builder = Stores.key_value_store_builder(Stores.in_memory_key_value_store("sums"), Serdes.string(), Serdes.long())
    store = builder.with_logging_disabled().build()
    store.init(context.get_state_store_context(), store)
    processor = Sample()
    processor.init(context)
    return context, processor


def test_should_keep_what_was_forwarded() -> None:
    context, processor = sample()
    processor.process(Record("a", 4, 5))
    processor.process(Record("a", 8, 6))

    assert context.forwarded() == [CapturedForward(Record("a", 4, 5)), CapturedForward(Record("a", 12, 6), "big")]
    assert [capture.record.value for capture in context.forwarded("big")] == [4, 12]
    assert [capture.record.value for capture in context.forwarded("small")] == [4]
    context.reset_forwards()
    assert context.forwarded() == []


def test_should_keep_what_was_scheduled() -> None:
    context, processor = sample()
    processor.process(Record("a", 4, 5))
    (captured,) = context.scheduled_punctuators()
    assert (captured.interval, captured.type, captured.cancelled) == (
        timedelta(seconds=1),
        PunctuationType.WALL_CLOCK_TIME,
        False,
    )
    captured.punctuator(99)
    assert context.forwarded()[-1].record == Record("a", 4, 99)
    processor.timer.cancel()
    assert captured.cancelled


def test_should_note_a_request_for_a_commit() -> None:
    context, processor = sample()
    processor.process(Record("a", 11, 5))
    assert context.committed
    context.reset_commit()
    assert not context.committed


def test_should_tell_what_the_test_set(tmp_path: Path) -> None:
    context = MockProcessorContext({"application.id": "mine", "user.key": 1}, TaskId(2, 3), tmp_path)
    assert (context.application_id, context.task_id, context.app_configs["user.key"]) == ("mine", TaskId(2, 3), 1)
    assert context.state_dir == tmp_path
    assert context.record_metadata is None
    context.set_record_metadata("topic", 1, 2)
    context.set_current_system_time_ms(5)
    context.set_current_stream_time_ms(6)
    assert context.record_metadata == RecordMetadata("topic", 1, 2)
    assert (context.current_system_time_ms(), context.current_stream_time_ms()) == (5, 6)
    assert context.get_state_store("none") is None


def test_should_say_what_the_test_has_to_set() -> None:
    context = MockProcessorContext()
    for ask in (context.current_system_time_ms, context.current_stream_time_ms, lambda: context.state_dir):
        with pytest.raises(StreamsError):
            ask()
