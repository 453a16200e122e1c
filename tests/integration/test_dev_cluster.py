"""Three brokers that replicate each other: one of them may die."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from penstock import BrokerError, DevCluster
from tests.harness.kafka import Kafka, Message, wait_until
from tests.harness.waiting import LIMIT


@pytest.mark.slow
def test_should_take_writes_of_all_replicas_while_one_of_three_brokers_is_dead(tmp_path: Path) -> None:
    with DevCluster(data_dir=tmp_path) as cluster:
        kafka = Kafka(cluster.bootstrap_servers)
        kafka.create("numbers", partitions=3)
        partitions = kafka.admin.list_topics("numbers", timeout=LIMIT).topics["numbers"].partitions.values()
        assert [len(partition.replicas) for partition in partitions] == [3, 3, 3]
        now = int(time.time() * 1000)  # what is older than the retention goes when a broker comes back
        for number in range(3):
            cluster.kill(number)
            assert cluster.running == [other for other in range(3) if other != number]
            messages = [Message(str(i).encode(), b"x", now) for i in range(number * 100, number * 100 + 100)]
            kafka.feed("numbers", messages, {"acks": "all"})
            cluster.start()
            wait_until(lambda: _in_sync(kafka, "numbers") == [3, 3, 3], "all replicas are in sync again")
        assert sorted(int(m.key or b"") for m in kafka.read("numbers")) == list(range(300))
        with pytest.raises(BrokerError, match="no broker 3"):
            cluster.kill(3)
    assert cluster.running == []


def _in_sync(kafka: Kafka, topic: str) -> list[int]:
    return [len(p.isrs) for p in kafka.admin.list_topics(topic, timeout=LIMIT).topics[topic].partitions.values()]
