"""What errors carry for code that handles them."""

from __future__ import annotations

import pytest

from penstock import (
    Consumed,
    MissingSourceTopicError,
    ProcessingError,
    Produced,
    Serdes,
    StreamsBuilder,
    StreamsError,
    TaskCorruptedError,
    TaskId,
    TopologyError,
    TopologyTestDriver,
)
from penstock.spark.raised import Raised

TEXT = Serdes.string()


def test_should_say_which_task_failed() -> None:
    builder = StreamsBuilder()
    builder.stream("in", Consumed(TEXT, TEXT)).map_values(int).to("out", Produced(TEXT, Serdes.long()))
    with TopologyTestDriver(builder.build()) as driver:
        topic = driver.create_input_topic("in", TEXT, TEXT)
        with pytest.raises(ProcessingError) as failed:
            topic.pipe_input("a", "no number")
    assert failed.value.task_id == TaskId(0, 0)
    assert StreamsError("elsewhere").task_id is None


def test_should_say_which_task_could_not_be_opened() -> None:
    builder = StreamsBuilder()
    builder.stream("in", Consumed(TEXT, TEXT)).map_values(lambda value: object()).to("out")
    with pytest.raises(StreamsError) as failed:
        TopologyTestDriver(builder.build())
    assert failed.value.task_id == TaskId(0, 0)


def test_should_say_which_tasks_are_corrupted_also_from_a_worker() -> None:
    error = TaskCorruptedError("does not fit", [TaskId(0, 1), TaskId(0, 2)])
    error.task_id = TaskId(0, 1)
    assert error.corrupted_tasks == {TaskId(0, 1), TaskId(0, 2)}
    travelled = Raised.of(error).exception()
    assert isinstance(travelled, TaskCorruptedError)
    assert (str(travelled), travelled.corrupted_tasks, travelled.task_id) == ("does not fit", error.corrupted_tasks, TaskId(0, 1))
    assert TaskCorruptedError("nobody in particular").corrupted_tasks == frozenset()


def test_should_tell_missing_source_topics_apart() -> None:
    assert issubclass(MissingSourceTopicError, StreamsError)
    assert issubclass(MissingSourceTopicError, TopologyError)
