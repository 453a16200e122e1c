from __future__ import annotations

import pickle
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.dead_letters import DeadLetter
from penstock.errors import SerializationError, TaskMigratedError
from penstock.ids import TaskId, TopicPartition
from penstock.runtime.flow import Flow
from penstock.runtime.task_metrics import TaskCounts
from penstock.spark.batch import ShuffledBatch
from penstock.spark.blobs import batch_blob, counts_blob, end_blob, failure_blob, flow_blob, read_blobs
from penstock.spark.messages import Failure
from penstock.spark.raised import Raised

BATCH = ShuffledBatch.of_rows([(b"k", b"v", 1, (("h", b"1"),), 0, 7)])


@pytest.mark.parametrize("topic", ["w", "app-words-repartition", "seven-7"])
def test_should_bring_each_batch_to_its_target(topic: str) -> None:
    target, other = TopicPartition(topic, 3), TopicPartition(topic, 4)
    received = read_blobs([batch_blob(target, BATCH), batch_blob(other, BATCH), batch_blob(target, BATCH)])
    assert {t: batch.offsets.tolist() for t, batch in received.batches.items()} == {target: [7, 7], other: [7]}
    assert received.failure is None


def test_should_bring_what_went_through_the_topology_before() -> None:
    letter = DeadLetter("dead", 8, "ValueError", "no number", "orders", 2, 41)
    flow = Flow(Counter({("a", "b"): 3}), 1, [letter])
    received = read_blobs([flow_blob(flow), flow_blob(flow)])
    assert received.flow == Flow(Counter({("a", "b"): 6}), 2, [letter, letter])


def test_should_bring_what_tasks_before_the_shuffle_have_counted() -> None:
    counts = [TaskCounts(TaskId(0, p), 7, 0.5, 0.25, 1, {("lines", "source"): (7, 300)}) for p in (0, 1)]
    assert read_blobs([counts_blob(some) for some in counts]).counts == counts


def test_should_bring_the_first_failure() -> None:
    first, second = (Failure("StreamsError", text, "traceback", Raised.of(ValueError(text))) for text in ("one", "two"))
    assert read_blobs([failure_blob(first), failure_blob(second)]).failure == first


@pytest.mark.parametrize(
    "blob",
    [
        b"",
        b"R",
        b"R\x00\xff\xff\x00\x00\x00\x00",
        b"R\x00\x00\x01\x00\x00\x00\x00\xff",
        batch_blob(TopicPartition("words", 0), BATCH)[:-9],
        pickle.dumps((TopicPartition("words", 0), BATCH.to_bytes())),
        b"F" + failure_blob(Failure("", "", ""))[1:],
        b"X" + flow_blob(Flow())[1:],
        b"C" + flow_blob(Flow())[1:],
        b"X" + pickle.dumps(Failure("", "", "")),
    ],
)
def test_should_refuse_what_the_stage_did_not_write(blob: bytes) -> None:
    with pytest.raises(SerializationError):
        read_blobs([blob])


@given(blob=st.binary(max_size=64), tag=st.sampled_from([b"R", b"F", b"X", b""]))
def test_should_refuse_any_other_bytes(blob: bytes, tag: bytes) -> None:
    with pytest.raises(SerializationError):
        read_blobs([tag + blob])


def test_should_know_whether_all_has_come_that_was_sent() -> None:
    """A worker takes the loss of an executor, in the midst of its blobs, for their end."""
    first, second = TaskId(0, 0), TaskId(0, 1)
    blobs = [flow_blob(Flow()), flow_blob(Flow()), end_blob(first, 2, 7), end_blob(second, 0, 0)]
    read_blobs(blobs).check({first: 7, second: 0})
    read_blobs([]).check({})
    for left_out in range(len(blobs)):
        with pytest.raises(TaskMigratedError, match="only in part"):
            read_blobs([blob for number, blob in enumerate(blobs) if number != left_out]).check({first: 7, second: 0})


def test_should_know_a_second_computation_that_differs_from_the_first() -> None:
    received = read_blobs([end_blob(TaskId(0, 0), 0, 7), end_blob(TaskId(0, 1), 0, 8)])
    received.check({TaskId(0, 0): 7, TaskId(0, 1): 8})
    with pytest.raises(TaskMigratedError, match=r"0_1 gave other records than before.*repartition\.transport = topic"):
        received.check({TaskId(0, 0): 7, TaskId(0, 1): 9})
