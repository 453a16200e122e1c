from __future__ import annotations

import pytest

from penstock.errors import SerializationError
from penstock.ids import TopicPartition
from penstock.runtime.offset_metadata import OffsetAndMetadata
from penstock.spark.vectors import Vector

LINES = [TopicPartition("lines", 0), TopicPartition("lines", 1)]
BIRDS = [TopicPartition("birds", 0)]


def test_should_keep_the_positions_of_the_others_when_a_topic_comes_that_sorts_first() -> None:
    committed = Vector(9, {LINES[0]: 3, LINES[1]: 4}).committed("", LINES)
    assert Vector.of(committed, BIRDS + LINES).positions == {LINES[0]: 3, LINES[1]: 4}


def test_should_keep_the_positions_of_the_others_when_a_topic_goes() -> None:
    committed = Vector(9, {BIRDS[0]: 100, LINES[0]: 3, LINES[1]: 4}).committed("", BIRDS + LINES)
    assert Vector.of(committed, LINES).positions == {LINES[0]: 3, LINES[1]: 4}


def test_should_keep_the_positions_of_the_others_when_a_topic_grows() -> None:
    committed = Vector(9, {BIRDS[0]: 5, LINES[0]: 3, LINES[1]: 4}, {LINES[1]: 2}).committed("", BIRDS + LINES)
    found = Vector.of(committed, [*BIRDS, TopicPartition("birds", 1), *LINES])
    assert found == Vector(9, {BIRDS[0]: 5, LINES[0]: 3, LINES[1]: 4}, {LINES[1]: 2})


def test_should_read_what_was_committed_in_the_order_of_the_sources() -> None:
    assert Vector.of(OffsetAndMetadata(0, "times|7|3,4+1"), LINES) == Vector(7, {LINES[0]: 3, LINES[1]: 4}, {LINES[1]: 1})


def test_should_know_nothing_where_there_is_no_vector() -> None:
    assert Vector.of(None, LINES) == Vector.of(OffsetAndMetadata(12, "AgAAAAAAAAAB"), LINES) == Vector(0, {})


@pytest.mark.parametrize("metadata", ["|seven|lines=3,4", "|7|lines=3,x", "|7|lines=", "|7|,", "|7|lines=1+x,2"])
def test_should_say_what_cannot_be_read(metadata: str) -> None:
    with pytest.raises(SerializationError, match="cannot be read"):
        Vector.of(OffsetAndMetadata(0, metadata), LINES)
