"""What a running application tells of its threads, tasks and stores."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from penstock import KafkaStreams, LagInfo, StreamsError, StreamsNotStartedError, TaskId, TopicPartition
from penstock.client.inside import inside
from tests.conftest import application_config
from tests.harness.kafka import Kafka, unique, wait_until
from tests.integration.helpers import counts, keyed, topics, up_to
from tests.integration.topologies import count_by_key, pipe

Run = Callable[..., Any]


def test_should_tell_of_threads_tasks_and_lags(kafka: Kafka, run: Run) -> None:
    source, out = topics(kafka, "in", "out")
    application = unique("metadata")
    streams = run(count_by_key(source, out), {"application.id": application, "num.stream.threads": 2})
    kafka.feed(source, keyed("abcd"))
    assert counts(kafka, out, 4) == up_to(a=1, b=1, c=1, d=1)

    def tasks() -> dict[TaskId, Any]:
        return {task.task_id: task for thread in streams.metadata_for_local_threads() for task in thread.active_tasks}

    ends = kafka.ends(source)
    wait_until(lambda: sum(sum(t.committed_offsets.values()) for t in tasks().values()) == 4, "all is committed")
    known = {TopicPartition(source, partition): end for partition, end in ends.items()}
    wait_until(lambda: {p: at for t in tasks().values() for p, at in t.end_offsets.items()} == known, "the ends are reported")
    for partition in (0, 1):
        task, at = tasks()[TaskId(0, partition)], TopicPartition(source, partition)
        assert task.topic_partitions == {at}
        assert task.committed_offsets == task.end_offsets == {at: ends[partition]}
        assert task.time_current_idling_started is None
    threads = sorted(streams.metadata_for_local_threads(), key=lambda thread: thread.thread_name)
    assert [thread.thread_name for thread in threads] == [f"{inside(streams).client_id}-StreamThread-{n}" for n in (1, 2)]
    assert {thread.thread_state for thread in threads} == {"RUNNING"}
    assert threads[0].consumer_client_id == f"{threads[0].thread_name}-consumer"
    assert threads[0].restore_consumer_client_id == f"{threads[0].thread_name}-restore-consumer"
    assert threads[0].producer_client_ids == {f"{threads[0].thread_name}-producer"}
    assert threads[0].admin_client_id == f"{inside(streams).client_id}-admin"
    assert not any(thread.standby_tasks for thread in threads)

    changelog = kafka.ends(f"{application}-counts-changelog")
    assert streams.all_local_store_partition_lags() == {"counts": {p: LagInfo(end, end) for p, end in changelog.items()}}
    assert all(lag.offset_lag == 0 for lag in streams.all_local_store_partition_lags()["counts"].values())

    streams.close()
    with pytest.raises(StreamsError, match="NOT_RUNNING"):
        streams.metadata_for_local_threads()


def test_should_tell_nothing_before_the_start(kafka: Kafka, spark: Any, tmp_path: Path) -> None:
    streams = KafkaStreams(
        pipe("in", "out"), application_config(kafka, tmp_path, {"application.id": unique("not-yet")}), spark=spark
    )
    with pytest.raises(StreamsNotStartedError, match="start"):
        streams.metadata_for_local_threads()
    with pytest.raises(StreamsNotStartedError, match="start"):
        streams.all_local_store_partition_lags()
