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


def test_should_leave_a_commit_as_it_is_if_no_row_of_a_block_was_processed() -> None:
    assert with_processed_rows(OffsetAndMetadata(5, TIMES), 0) == OffsetAndMetadata(5, TIMES)
    assert processed_rows(OffsetAndMetadata(5, TIMES)) is None


@pytest.mark.parametrize(
    "metadata", ["", TIMES, "|", "|rows=", "|rows=-1", "|rows=1.5", "|rows=1234567890", "|rows=٣", "|7|lines=3,4", "|had|words=4"]
)
def test_should_take_nothing_else_for_progress(metadata: str) -> None:
    assert processed_rows(OffsetAndMetadata(5, metadata)) is None
