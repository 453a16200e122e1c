"""One lag everywhere: in the API, on the console, in `penstock status`, and by the group's committed offsets."""

from __future__ import annotations

import json
import threading
import urllib.request
from collections.abc import Callable
from typing import Any

from penstock.client.inside import inside
from penstock.config.streams_config import StreamsConfig
from penstock.ids import TopicPartition
from penstock.kafka.admin import Admin
from penstock.kafka.groups import Groups
from tests.harness.command_line import penstock
from tests.harness.kafka import Kafka, unique, wait_until
from tests.harness.waiting import LIMIT
from tests.integration.helpers import keyed, topics
from tests.integration.topologies import count_by_key

Run = Callable[..., Any]


class Figures:
    """What the places that show a lag show for an application."""

    def __init__(self, kafka: Kafka, streams: Any, application_id: str) -> None:
        self._server, self._id, self._brokers = streams.server_host, application_id, kafka.bootstrap_servers
        self._admin = Admin({"bootstrap.servers": kafka.bootstrap_servers, "log_level": 0})
        self._config = StreamsConfig({"application.id": application_id, "bootstrap.servers": kafka.bootstrap_servers})

    def offsets(self, partitions: list[TopicPartition]) -> dict[TopicPartition, tuple[int, int]]:
        """The committed offset and the end of each partition, as the tools of Kafka read them."""
        with Groups(self._config, "figures") as groups:
            committed = groups.committed(self._id)
        ends = self._admin.log_ends(partitions, False)
        return {p: (committed.get(p, 0), ends[p]) for p in partitions}

    def app(self) -> dict[str, Any]:
        with urllib.request.urlopen(f"http://{self._server}/api/app", timeout=LIMIT) as answer:
            return json.load(answer)

    def console(self) -> dict[str, Any]:
        """The first document that the console is sent."""
        with urllib.request.urlopen(f"http://{self._server}/api/events", timeout=LIMIT) as events:
            return next(json.loads(line[5:])["patch"] for line in events if line.startswith(b"data:"))

    def status(self) -> str:
        return penstock(
            *("status", "-c", f"application.id={self._id}", "-c", f"bootstrap.servers={self._brokers}", "-c"),
            "processing.guarantee=exactly_once_v2",
        ).stdout


def test_should_show_one_lag_everywhere(kafka: Kafka, run: Run) -> None:
    source, out = topics(kafka, "in", "out")
    partitions = [TopicPartition(source, number) for number in range(2)]
    name = unique("figures")
    streams = run(
        count_by_key(source, out),
        {"application.id": name, "application.server": "localhost:0", "processing.guarantee": "exactly_once_v2"},
    )
    figures = Figures(kafka, streams, name)
    fed = threading.Event()

    def feed() -> None:
        while not fed.wait(0.01):
            kafka.feed(source, keyed("abcde"))

    feeder = threading.Thread(target=feed)
    feeder.start()
    try:  # whatever is shown lies between what was so before and what is so after it was asked for
        wait_until(lambda: min(at for at, _ in figures.offsets(partitions).values()) > 0, "every partition is committed")
        before = figures.offsets(partitions)

        def shown() -> dict[TopicPartition, dict[str, Any]]:
            app = figures.app()
            assert app["lag"] == sum(found["lag"] for found in app["partitions"])
            return {TopicPartition(found["topic"], found["partition"]): found for found in app["partitions"]}

        def is_newer() -> bool:
            found = shown()
            return all(p in found and found[p]["committed"] >= at and found[p]["end"] >= end for p, (at, end) in before.items())

        wait_until(is_newer, "what is shown is newer")
        found, after = shown(), figures.offsets(partitions)
        for p in partitions:
            assert before[p][0] <= found[p]["committed"] <= after[p][0]
            assert before[p][1] <= found[p]["end"] <= after[p][1]
            assert found[p]["lag"] == max(0, found[p]["end"] - found[p]["committed"])
    finally:
        fed.set()
        feeder.join()

    wait_until(lambda: all(at == end for at, end in figures.offsets(partitions).values()), "all that was fed is committed")
    wait_until(lambda: figures.app()["lag"] == 0, "the API shows it")
    streams.pause()
    wait_until(lambda: not inside(streams).is_processing, "no batch is under way")
    kafka.feed(source, keyed("abcde" * 5))
    assert sum(end - at for at, end in figures.offsets(partitions).values()) == 25
    wait_until(lambda: figures.app()["lag"] == 25, "the API shows what is not committed")
    app, document = figures.app(), figures.console()
    assert sum(task["lag"] or 0 for task in app["tasks"]) == 25
    assert document["now"]["lag"] == sum(found["lag"] for found in document["partitions"].values()) == 25
    assert "lag 25\n" in figures.status()
    at = document["series"].index("lag")
    wait_until(lambda: 25 in [point[at] for point in figures.console()["points"].values()], "the chart shows it too")
    streams.resume()
    wait_until(lambda: figures.app()["lag"] == 0, "all of it is processed")
    assert "lag 0\n" in figures.status()
