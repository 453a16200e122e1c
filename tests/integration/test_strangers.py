"""Somebody who may join the group but does not know the token, beside a real instance: gets no work, no token, no reader."""

from __future__ import annotations

import http.client
import json
import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from penstock import KafkaStreams
from penstock.ids import TaskId
from penstock.kafka.members import MemberInfo, Membership, Shares
from penstock.kafka.membership import GroupMember
from tests.harness.kafka import Kafka, unique, wait_until
from tests.harness.waiting import LIMIT
from tests.integration.helpers import keyed, topics
from tests.integration.topologies import count_by_key
from tests.unit.peers.fake_peer import FakePeer

Run = Callable[..., Any]
TOKEN = "correct-horse-battery-staple"
KEYS = [f"k{number}" for number in range(16)]
FORGED = json.dumps(
    {"key": "k", "value": 666, "timestamp": 0, "partition": 0, "host": "evil", "entries": [], "next": None}
).encode()


@contextmanager
def fake_member(kafka: Kafka, group: str, topic: str, host: str) -> Iterator[list[Membership]]:
    """A member that claims a host and all state; where it leads, it takes one task and gives the other away."""
    info = MemberInfo("evil", 64, host, (TaskId(0, 0), TaskId(0, 1)), (), {TaskId(0, 0): -2, TaskId(0, 1): -2})
    got: list[Membership] = []

    def assign(infos: Sequence[MemberInfo]) -> Shares:
        others = [info.process_id for info in infos if info.process_id != "evil"]
        return Shares({"evil": [TaskId(0, 0)], **{process: [TaskId(0, 1)] for process in others}})

    def revoked(lost: bool) -> threading.Event:
        stopped = threading.Event()
        stopped.set()
        return stopped

    config = {"group_id": group, "bootstrap_servers": kafka.bootstrap_servers, "heartbeat_interval_ms": 300}
    config |= {"session_timeout_ms": 10_000, "max_poll_interval_ms": 30_000}
    member = GroupMember(config, [topic], lambda: info, assign, revoked, got.append)
    member.start()
    try:
        yield got
    finally:
        member.close()


def ask(streams: KafkaStreams, key: str) -> tuple[int, Any]:
    assert streams.server_host is not None
    connection = http.client.HTTPConnection(streams.server_host.host, streams.server_host.port, timeout=LIMIT)
    try:
        connection.request("GET", f"/api/stores/counts/keys/{key}", headers={"Authorization": f"Bearer {TOKEN}"})
        response = connection.getresponse()
        return response.status, json.load(response)
    finally:
        connection.close()


def test_should_give_a_stranger_in_the_group_no_work_no_token_and_no_reader(kafka: Kafka, run: Run, caplog: Any) -> None:
    caplog.set_level(logging.WARNING)
    source, out = topics(kafka, "in", "out")
    config = {"application.id": unique("strangers"), "application.server": "localhost:0", "application.server.token": TOKEN}
    kafka.feed(source, keyed(KEYS))
    with FakePeer(lambda path, headers: (200, {"Content-Type": "application/json"}, FORGED)) as peer:
        streams = run(count_by_key(source, out), config)
        wait_until(lambda: [ask(streams, key)[0] for key in KEYS] == [200] * len(KEYS), "all keys are there")
        with fake_member(kafka, config["application.id"], source, str(peer.host)) as got:
            wait_until(lambda: "is a stranger" in caplog.text, "the leader has seen the stranger")
            wait_until(lambda: "has no tasks in generation" in caplog.text, "the stranger has been given nothing")
            kafka.feed(source, keyed(KEYS))

            def values() -> list[int]:
                answers = [ask(streams, key) for key in KEYS]
                assert {status for status, _ in answers} <= {200, 503}
                return [answer["value"] for status, answer in answers if status == 200]

            wait_until(lambda: values() == [2] * len(KEYS), "all of it is counted, by the real instance")
            assert {len(thread.active_tasks) for thread in streams.metadata_for_local_threads()} == {2}
            assert {str(metadata.host_info) for metadata in streams.metadata_for_all_streams_clients()} == {
                str(streams.server_host)
            }
            assert got == []
    assert peer.heard == []
    assert streams.failure is None


def test_should_take_nothing_from_a_stranger_who_leads_the_group(kafka: Kafka, run: Run, caplog: Any) -> None:
    caplog.set_level(logging.WARNING)
    source, out = topics(kafka, "in", "out")
    config = {"application.id": unique("led"), "application.server": "localhost:0", "application.server.token": TOKEN}
    kafka.feed(source, keyed(KEYS))
    with FakePeer(lambda path, headers: (200, {"Content-Type": "application/json"}, FORGED)) as peer:
        with fake_member(kafka, config["application.id"], source, str(peer.host)) as got:
            wait_until(lambda: got, "the stranger leads the group")
            streams = run(count_by_key(source, out), config, wait=False)
            wait_until(lambda: "has no tasks in generation" in caplog.text, "the real instance has refused its part")
            assert streams.state.name == "REBALANCING"
            assert {ask(streams, key)[0] for key in KEYS} == {503}
            assert streams.metadata_for_all_streams_clients() == []
        wait_until(lambda: [ask(streams, key)[0] for key in KEYS] == [200] * len(KEYS), "it works when the stranger is gone")
        assert {ask(streams, key)[1]["value"] for key in KEYS} == {1}
    assert peer.heard == []
    assert streams.failure is None
    assert TOKEN not in caplog.text
