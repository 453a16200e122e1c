"""Copies that follow their changelogs, without Spark around them: what is lost of one log concerns its copy only."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import TopicPartition as ClientPartition

from penstock import StreamsConfig
from penstock.client.preparation import prepare
from penstock.ids import TaskId
from penstock.kafka.admin import Admin
from penstock.kafka.clients import admin_config
from penstock.metrics.registry import Metrics
from penstock.spark.messages import Application
from penstock.spark.worker.standby_worker import StandbyUpdater, open_standby
from penstock.state.directory import StateDirectory
from tests.harness.kafka import Kafka, Message, unique, wait_until
from tests.harness.waiting import LIMIT
from tests.integration.helpers import topics
from tests.integration.topologies import count_by_key

TASKS = (TaskId(0, 0), TaskId(0, 1))


class StateReplicas:
    """An updater that keeps copies of two tasks, and their changelog."""

    def __init__(self, kafka: Kafka, folder: Path) -> None:
        source, out = topics(kafka, "in", "out")
        self._kafka, self._folder, self._application_id = kafka, folder, unique("copies")
        given = {"application.id": self._application_id, "bootstrap.servers": kafka.bootstrap_servers, "state.dir": str(folder)}
        self._config = StreamsConfig({**given, "processing.guarantee": "exactly_once_v2"})
        self.changelog = f"{self._application_id}-counts-changelog"
        kafka.create(self.changelog, partitions=2)  # one that is only compacted cannot be cut
        plan = prepare(count_by_key(source, out), self._config, Admin(admin_config(self._config, "test"))).plan
        self._application = Application("copies#1", self._config, plan, None, "process", "client")
        self._updater: StandbyUpdater | None = None

    def write(self, *keys: str) -> None:
        for partition in range(2):
            self._kafka.feed(self.changelog, [Message(k.encode(), bytes(8), 1_000) for k in keys], partition=partition)

    def cut(self, partition: int, start: int) -> None:
        cut = ClientPartition(self.changelog, partition, start)
        self._kafka.admin.delete_records([cut])[cut].result(LIMIT)

    def follow(self, *offsets: int) -> None:
        """Until the copies have come so far."""
        if self._updater is None:
            self._updater = StandbyUpdater(self._application)
        self._updater.keep(TASKS, {})
        updater = self._updater

        def reached() -> bool:
            found = {loaded.task_id: loaded.offset for loaded in updater.report().copies}
            return [found.get(task) for task in TASKS] == list(offsets)

        wait_until(reached, f"the copies are at {offsets}")

    def pause(self, *tasks: TaskId) -> None:
        assert self._updater is not None
        self._updater.keep(tasks, {}, paused=True)

    def offsets(self) -> dict[TaskId, int]:
        assert self._updater is not None
        return {loaded.task_id: loaded.offset for loaded in self._updater.report().copies}

    def close(self) -> None:
        if self._updater is not None:
            self._updater.close()
            self._updater = None

    def keys(self) -> list[str]:
        """What the closed copies hold, a text for each."""
        directory, found = StateDirectory(self._folder, self._application_id), []
        for task_id in TASKS:
            standby = open_standby(self._application, directory, task_id, Metrics())
            standby.initialize()
            with standby.state_manager.store("counts").all() as entries:
                found.append("".join(key for key, _ in entries))
            standby.close()
        return found


@pytest.fixture
def copies(kafka: Kafka, tmp_path: Path) -> Iterator[StateReplicas]:
    found = StateReplicas(kafka, tmp_path)
    yield found
    found.close()


def test_should_begin_anew_only_the_copy_that_its_changelog_has_passed(copies: StateReplicas) -> None:
    copies.write(*"abc")
    copies.follow(3, 3)
    copies.close()
    copies.write(*"defgh")
    copies.cut(0, 6)
    copies.follow(8, 8)
    copies.close()
    assert copies.keys() == ["gh", "abcdefgh"]


def test_should_begin_anew_while_it_follows_a_changelog_that_was_made_anew(copies: StateReplicas, kafka: Kafka) -> None:
    copies.write(*"abcde")
    copies.follow(5, 5)
    kafka.delete(copies.changelog)
    kafka.create(copies.changelog, partitions=2)
    copies.write("x")
    copies.follow(1, 1)
    copies.close()
    assert copies.keys() == ["x", "x"]


def test_should_begin_anew_where_the_changelog_is_another_one_than_the_copy_was_made_of(
    copies: StateReplicas, kafka: Kafka
) -> None:
    copies.write(*"abc")
    copies.follow(3, 3)
    copies.close()
    kafka.delete(copies.changelog)
    kafka.create(copies.changelog, partitions=2)
    copies.write(*"vwxyz")
    copies.follow(5, 5)
    copies.close()
    assert copies.keys() == ["vwxyz", "vwxyz"]


def test_should_stand_still_while_paused_and_close_what_is_given_up(copies: StateReplicas) -> None:
    copies.write(*"abc")
    copies.follow(3, 3)
    copies.pause(*TASKS)
    copies.write(*"de")
    copies.pause(*TASKS)
    assert copies.offsets() == {TASKS[0]: 3, TASKS[1]: 3}
    copies.pause(TASKS[0])
    assert copies.offsets() == {TASKS[0]: 3}
    copies.pause(*TASKS)  # opened when it goes on
    assert copies.offsets() == {TASKS[0]: 3}
    copies.follow(5, 5)
