"""Groups in which the brokers assign the tasks (`group.protocol = streams`), also with members in Java."""

from __future__ import annotations

import subprocess
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaAdminClient
from kafka.admin import ConfigResource, ConfigResourceType

from penstock import State, StreamThreadExceptionResponse
from penstock.config.streams_config import StreamsConfig
from penstock.kafka.groups import Groups, GroupStatus
from tests.conformance.java_twin import JVM_FLAGS, LIBRARIES, JavaUnavailableError, build
from tests.harness.command_line import penstock
from tests.harness.kafka import Kafka, unique, wait_until
from tests.harness.waiting import LIMIT
from tests.integration.helpers import counts, owned, texts, topics, up_to
from tests.integration.topologies import counted_and_joined, pipe, word_count

Run = Callable[..., Any]
STREAMS = {"group.protocol": "streams"}


def status(kafka: Kafka, application: str) -> GroupStatus:
    config = StreamsConfig({"application.id": application, "bootstrap.servers": kafka.bootstrap_servers})
    with Groups(config, "tests") as groups:
        return groups.status(application)


class JavaMember:
    """Kafka Streams in Java, in the group of an application."""

    def __init__(self, arguments: list[str]) -> None:
        command = ["java", *JVM_FLAGS, "-cp", f"{build()}:{LIBRARIES}/*", "penstock.conformance.Member", *arguments]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def wait_until_running(self) -> None:
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == "RUNNING\n"

    def close(self) -> None:
        if self.process.stdin is not None and not self.process.stdin.closed:
            self.process.stdin.close()
        self.process.wait(LIMIT)
        if self.process.stdout is not None:
            self.process.stdout.close()


@contextmanager
def java_member(kafka: Kafka, application: str, folder: Path, names: list[str], **config: str) -> Iterator[JavaMember]:
    settings = {"group.protocol": "streams", "commit.interval.ms": "50", **config}
    arguments = [kafka.bootstrap_servers, application, str(folder / "java"), *names]
    try:
        member = JavaMember([*arguments, *(f"{key}={value}" for key, value in settings.items())])
    except JavaUnavailableError as reason:
        pytest.skip(str(reason))
    try:
        member.wait_until_running()
        yield member
    finally:
        member.close()


@pytest.mark.parametrize("guarantee", ["exactly_once_v2", "at_least_once"])
def test_should_count_in_a_streams_group_and_leave_it(kafka: Kafka, run: Run, guarantee: str) -> None:
    source, out = topics(kafka, "in", "out")
    application = unique("brokers-assign")
    kafka.feed(source, texts(*[("k", "a b")] * 50))
    streams = run(word_count(source, out), {"application.id": application, "processing.guarantee": guarantee, **STREAMS})
    assert counts(kafka, out, 100) == up_to(a=50, b=50)
    found = status(kafka, application)
    assert (found.state, found.protocol) == ("Stable", "streams")
    assert [set(member.tasks) for member in found.members] == [{"0_0", "0_1", "1_0", "1_1"}]
    assert streams.close(60_000)
    assert not status(kafka, application).members
    with Groups(StreamsConfig({"application.id": application, "bootstrap.servers": kafka.bootstrap_servers}), "tests") as groups:
        groups.set_offsets(application, groups.committed(application))  # as `penstock reset` does
    kafka.feed(source, texts(*[("k", "a b")] * 10))
    run(word_count(source, out), {"application.id": application, "processing.guarantee": guarantee, **STREAMS})
    assert counts(kafka, out, 120) == up_to(a=60, b=60)


def test_should_take_over_from_a_classic_group_that_has_ended(kafka: Kafka, run: Run) -> None:
    source, out = topics(kafka, "in", "out")
    config = {"application.id": unique("converted"), "processing.guarantee": "exactly_once_v2"}
    kafka.feed(source, texts(*[("k", "a b")] * 20))
    classic = run(word_count(source, out), config)
    counts(kafka, out, 40)
    assert classic.close(60_000)
    kafka.feed(source, texts(*[("k", "a b")] * 20))
    run(word_count(source, out), {**config, **STREAMS})
    assert counts(kafka, out, 80) == up_to(a=40, b=40)
    assert status(kafka, config["application.id"]).protocol == "streams"


def test_should_share_a_group_with_another_instance_through_a_rebalance(kafka: Kafka, run: Run, tmp_path: Path) -> None:
    source, out = topics(kafka, "in", "out", partitions=4)
    config = {"application.id": unique("two"), "processing.guarantee": "exactly_once_v2", **STREAMS}
    first = run(word_count(source, out), {**config, "state.dir": str(tmp_path / "first")})
    kafka.feed(source, texts(*[(str(n), "a b c") for n in range(100)]))
    counts(kafka, out, 300)
    second = run(word_count(source, out), {**config, "state.dir": str(tmp_path / "second")})
    wait_until(lambda: len(owned(first)) == len(owned(second)) == 4, "both have half of the tasks", LIMIT)
    wait_until(lambda: "Stable" in status(kafka, config["application.id"]).state, "the group is stable", LIMIT)
    settings = [f"application.id={config['application.id']}", f"bootstrap.servers={kafka.bootstrap_servers}"]
    shown = penstock("status", "-c", settings[0], "-c", settings[1]).stdout
    assert "running on 2 instances" in shown
    assert "EPOCH" in shown
    kafka.feed(source, texts(*[(str(n), "a b c") for n in range(100)]))
    counts(kafka, out, 600)
    assert first.close(60_000)
    kafka.feed(source, texts(*[(str(n), "a b c") for n in range(100)]))
    assert counts(kafka, out, 900) == up_to(a=300, b=300, c=300)


def test_should_keep_the_standbys_that_the_group_is_configured_with(kafka: Kafka, run: Run, tmp_path: Path) -> None:
    source, out = topics(kafka, "in", "out")
    config = {"application.id": unique("standbys"), "processing.guarantee": "exactly_once_v2", **STREAMS}
    client = KafkaAdminClient(bootstrap_servers=kafka.bootstrap_servers)
    wanted = ConfigResource(ConfigResourceType.GROUP, config["application.id"], {"streams.num.standby.replicas": "1"})
    client.alter_configs([wanted])
    client.close()
    both = [run(word_count(source, out), {**config, "state.dir": str(tmp_path / name)}) for name in ("first", "second")]
    kafka.feed(source, texts(*[(str(n), "a b c d") for n in range(20)]))
    counts(kafka, out, 80)

    def standing_by(streams: Any) -> set[str]:
        return {str(t.task_id) for thread in streams.metadata_for_local_threads() for t in thread.standby_tasks}

    wait_until(lambda: {"1_0", "1_1"} == standing_by(both[0]) ^ standing_by(both[1]), "each task has a standby", LIMIT)
    found = status(kafka, config["application.id"])
    assert sorted(task for member in found.members for task in member.copies) == ["1_0", "1_1"]


def test_should_be_exact_in_a_group_with_java_through_rebalances(kafka: Kafka, run: Run, tmp_path: Path) -> None:
    """Java begins, Python joins, Java leaves and comes back: the brokers move tasks with their state between both."""
    names = topics(kafka, "lines", "counts", "orders", "customers", "joined", partitions=4)
    lines, out, orders, customers, joined = names
    application, guarantee = unique("mixed"), "exactly_once_v2"
    words = [f"w{n}" for n in range(12)]
    rounds = 0

    def feed() -> None:
        nonlocal rounds
        rounds += 1
        kafka.feed(lines, texts(*[(str(n), " ".join(words)) for n in range(25)]))
        kafka.feed(orders, texts(*[(word, f"order {rounds}") for word in words]))

    def is_shared() -> bool:
        members = status(kafka, application).members
        return len(members) == 2 and all(member.tasks for member in members) and sum(len(m.tasks) for m in members) == 12

    kafka.feed(customers, texts(*[(word, word.upper()) for word in words]))
    with ExitStack() as stack:
        java = stack.enter_context(java_member(kafka, application, tmp_path, names, **{"processing.guarantee": guarantee}))
        feed()
        counts(kafka, out, 300)
        streams = run(counted_and_joined(*names), {"application.id": application, "processing.guarantee": guarantee, **STREAMS})
        wait_until(is_shared, "both have tasks", LIMIT)
        feed()
        counts(kafka, out, 600)
        java.close()
        feed()
        counts(kafka, out, 900)
        stack.enter_context(java_member(kafka, application, tmp_path, names, **{"processing.guarantee": guarantee}))
        wait_until(is_shared, "both have tasks again", LIMIT)
        feed()
        counts(kafka, out, 1_200)
        assert streams.close(60_000)
        feed()
        assert counts(kafka, out, 1_500) == up_to(**dict.fromkeys(words, 125))
        found = Counter((message.value or b"").decode() for message in kafka.read(joined, 60))
    assert found == {f"order {n} for {word.upper()}": 1 for n in range(1, 6) for word in words}


def test_should_refuse_another_topology_with_a_sentence(kafka: Kafka, run: Run, tmp_path: Path) -> None:
    source, out = topics(kafka, "in", "out")
    config = {"application.id": unique("other"), **STREAMS}
    run(word_count(source, out), {**config, "state.dir": str(tmp_path / "first")})
    other = run(pipe(source, out), {**config, "state.dir": str(tmp_path / "second")}, wait=False)
    wait_until(lambda: other.failure is not None, "the other topology is refused", LIMIT)
    assert "The brokers refuse this instance in the streams group" in str(other.failure)
    assert "Topology updates are not supported yet" in str(other.failure)


def test_should_stop_all_instances_of_a_streams_group(kafka: Kafka, run: Run, tmp_path: Path) -> None:
    source, out = topics(kafka, "in", "out")
    config = {"application.id": unique("all-stop"), **STREAMS}

    def stop_all(error: BaseException) -> StreamThreadExceptionResponse:
        return StreamThreadExceptionResponse.SHUTDOWN_APPLICATION

    both = [
        run(pipe(source, out), {**config, "state.dir": str(tmp_path / name)}, set_uncaught_exception_handler=stop_all)
        for name in ("first", "second")
    ]
    kafka.feed(source, texts(("k", "boom")))
    wait_until(lambda: all(streams.state is State.ERROR for streams in both), "both have stopped", LIMIT)
