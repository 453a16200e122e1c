from __future__ import annotations

import pytest

from penstock.runtime.offset_metadata import (
    OffsetAndMetadata,
    ProcessorMetadata,
    TopicPartitionMetadata,
    from_committed,
    to_committed,
)
from penstock.spark.vectors import is_vector
from penstock.spark.worker.block_progress import processed_rows, with_processed_rows, without_extras
from penstock.spark.worker.vector_upgrade import ShuffledBefore

TIMES = TopicPartitionMetadata(7, ProcessorMetadata({"store": 9})).encode()


@pytest.mark.parametrize("times", ["", TIMES])
def test_should_come_back_from_the_brokers(times: str) -> None:
    committed = with_processed_rows(OffsetAndMetadata(5, times), 123)
    stored = committed._replace(metadata=from_committed(to_committed(committed.metadata)))
    assert processed_rows(stored) == (5, 123)
    expected = TopicPartitionMetadata.decode(times)
    assert TopicPartitionMetadata.decode(without_extras(stored).metadata) == expected
    assert TopicPartitionMetadata.decode(to_committed(committed.metadata)) == expected, "Java reads the times too"
    assert not is_vector(stored)


@pytest.mark.parametrize("times", ["", TIMES])
def test_should_come_back_beside_what_is_carried_since_an_earlier_release(times: str) -> None:
    """The topic was written by records through the shuffle then, and by blocks since."""
    carried = ShuffledBefore("words=3,9+1").carried(OffsetAndMetadata(5, times))
    stored = with_processed_rows(carried, 123)
    stored = stored._replace(metadata=from_committed(to_committed(stored.metadata)))
    assert processed_rows(stored) == (5, 123)
    had = ShuffledBefore.of(stored)
    assert had is not None
    assert had.carried(OffsetAndMetadata(5, times)) == carried
    assert TopicPartitionMetadata.decode(without_extras(stored).metadata) == TopicPartitionMetadata.decode(times)
    assert not is_vector(stored)


def test_should_leave_a_commit_as_it_is_if_no_row_of_a_block_was_processed() -> None:
    assert with_processed_rows(OffsetAndMetadata(5, TIMES), 0) == OffsetAndMetadata(5, TIMES)
    assert processed_rows(OffsetAndMetadata(5, TIMES)) is None


@pytest.mark.parametrize(
    "metadata", ["", TIMES, "|", "|rows=", "|rows=-1", "|rows=1.5", "|rows=1234567890", "|rows=٣", "|7|lines=3,4", "|had|words=4"]
)
def test_should_take_nothing_else_for_progress(metadata: str) -> None:
    assert processed_rows(OffsetAndMetadata(5, metadata)) is None
