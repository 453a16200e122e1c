"""What an application stands on gives way: a full disk, a folder that is taken, topics that change or go."""

from __future__ import annotations

import os
import random
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import NewPartitions

from penstock import BrokerError, ProcessorStateError, StreamsError, TaskCorruptedError, TopologyError
from tests.harness.kafka import Kafka, unique, wait_until
from tests.harness.waiting import LIMIT
from tests.integration.helpers import counts, keyed, texts, topics, up_to
from tests.integration.topologies import count_by_key, pipe

Run = Callable[..., Any]
GUARANTEES = pytest.mark.parametrize("guarantee", ["exactly_once_v2", "at_least_once"])


class SmallDisk:
    """A file system in memory whose size can be changed."""

    def __init__(self, folder: Path, megabytes: int) -> None:
        self.folder = folder
        self._mount(f"size={megabytes}m")

    def grow(self, megabytes: int) -> None:
        self._mount(f"remount,size={megabytes}m")

    def _mount(self, options: str) -> None:
        subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(self.folder)], check=True, capture_output=True)

    def unmount(self) -> None:
        subprocess.run(["umount", "-l", str(self.folder)], check=True)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    folder = tmp_path / "disk"
    folder.mkdir()
    try:
        made = SmallDisk(folder, 4)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("a full disk is made with mount, which needs root")
    yield made
    made.unmount()


def wait_for_error(streams: Any, timeout: float = LIMIT) -> BaseException:
    wait_until(lambda: streams.state.name == "ERROR", "the application stops", timeout)
    assert streams.failure is not None
    return streams.failure  # type: ignore[no-any-return]


@pytest.mark.parametrize("guarantee", ["exactly_once_v2", pytest.param("at_least_once", marks=pytest.mark.slow)])
def test_should_say_that_the_disk_is_full_and_lose_nothing(guarantee: str, kafka: Kafka, run: Run, disk: SmallDisk) -> None:
    source, out = topics(kafka, "in", "out", partitions=1)
    chance = random.Random(1)
    keys = [f"{i}-{chance.getrandbits(8_000):x}" for i in range(4_000)]  # 8 MB that do not compress
    config = {"application.id": unique("full"), "processing.guarantee": guarantee, "state.dir": str(disk.folder)}
    kafka.feed(source, keyed(keys))
    failure = wait_for_error(run(count_by_key(source, out), config, wait=False))
    assert isinstance(failure, ProcessorStateError)
    assert str(disk.folder) in str(failure)
    assert "No space left" in str(failure)
    assert "disk is full" in str(failure)
    disk.grow(64)
    run(count_by_key(source, out), config)
    wait_until(lambda: kafka.has_consumed(config["application.id"], source), "everything is processed")
    found = counts(kafka, out)
    assert found.keys() == set(keys)
    if guarantee == "exactly_once_v2":
        assert all(count == [1] for count in found.values())
    kafka.feed(source, keyed(keys[:10]))
    wait_until(lambda: all(counts(kafka, out)[key][-1] >= 2 for key in keys[:10]), "the stores have what was counted before")


def test_should_say_which_folder_of_a_task_cannot_be_used(kafka: Kafka, run: Run, tmp_path: Path) -> None:
    source, out = topics(kafka, "in", "out", partitions=1)
    application = unique("taken")
    folder = tmp_path / "state" / application
    folder.mkdir(parents=True)
    (folder / "0_0").write_text("a file where the task's folder should be")
    kafka.feed(source, keyed("ab"))
    failure = wait_for_error(run(count_by_key(source, out), {"application.id": application}, wait=False))
    assert isinstance(failure, ProcessorStateError)
    assert str(folder / "0_0") in str(failure)
    (folder / "0_0").unlink()
    run(count_by_key(source, out), {"application.id": application})
    assert counts(kafka, out, 2) == up_to(a=1, b=1)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_should_say_that_it_has_no_rights_to_its_folder(kafka: Kafka, run: Run, tmp_path: Path) -> None:
    source, out = topics(kafka, "in", "out", partitions=1)
    (tmp_path / "state").mkdir(mode=0o500)
    with pytest.raises(ProcessorStateError, match="rights"):
        run(count_by_key(source, out), {"application.id": unique("rights")})


def test_should_say_that_its_folder_is_read_only(kafka: Kafka, run: Run, disk: SmallDisk) -> None:
    source, out = topics(kafka, "in", "out", partitions=1)
    config = {"application.id": unique("read-only"), "state.dir": str(disk.folder)}
    subprocess.run(["mount", "-o", "remount,ro", str(disk.folder)], check=True)
    with pytest.raises(ProcessorStateError, match=str(disk.folder)):
        run(count_by_key(source, out), config)
    subprocess.run(["mount", "-o", "remount,rw", str(disk.folder)], check=True)
    run(count_by_key(source, out), config)
    kafka.feed(source, keyed("a"))
    assert counts(kafka, out, 1) == up_to(a=1)
    subprocess.run(["mount", "-o", "remount,ro", str(disk.folder)], check=False)  # refused while files are open for writing


@GUARANTEES
def test_should_name_the_output_topic_that_was_deleted(guarantee: str, kafka: Kafka, run: Run) -> None:
    source, out = topics(kafka, "in", "out", partitions=1)
    config = {
        "application.id": unique("no-sink"),
        "processing.guarantee": guarantee,
        "task.timeout.ms": 1_000,
        "producer.topic.metadata.propagation.max.ms": 500,
        "producer.metadata.max.age.ms": 1_000,
    }
    streams = run(pipe(source, out), config)
    kafka.feed(source, texts(("a", "first")))
    kafka.read(out, 1)
    kafka.delete(out)
    kafka.feed(source, texts(("a", "second")))
    failure = wait_for_error(streams)
    assert isinstance(failure, TaskCorruptedError | BrokerError | StreamsError)
    assert out in str(failure)
    kafka.create(out, partitions=1)
    run(pipe(source, out), config)
    assert [m.value for m in kafka.read(out, 1)][-1] == b"SECOND"


def test_should_take_up_partitions_that_come_while_it_runs(kafka: Kafka, run: Run) -> None:
    source, out = topics(kafka, "in", "out", partitions=1)
    run(pipe(source, out), {"application.id": unique("grows"), "metadata.max.age.ms": 500})
    kafka.feed(source, texts(("a", "first")))
    kafka.read(out, 1)
    kafka.admin.create_partitions([NewPartitions(source, 3)])[source].result(LIMIT)
    wait_until(lambda: kafka.topics()[source] == 3, "the topic has grown")
    for partition in range(3):
        kafka.feed(source, texts(("b", f"to {partition}")), partition=partition)
    assert {m.value for m in kafka.read(out, 4)} == {b"FIRST", b"TO 0", b"TO 1", b"TO 2"}


def test_should_stop_where_partitions_come_that_its_state_does_not_have(kafka: Kafka, run: Run) -> None:
    source, out = topics(kafka, "in", "out", partitions=1)
    streams = run(count_by_key(source, out), {"application.id": unique("grows"), "metadata.max.age.ms": 500})
    kafka.feed(source, keyed("a"))
    kafka.read(out, 1)
    kafka.admin.create_partitions([NewPartitions(source, 2)])[source].result(LIMIT)
    failure = wait_for_error(streams)
    assert isinstance(failure, TopologyError)
    assert "counts-changelog exists with 1 partitions but needs 2" in str(failure)
