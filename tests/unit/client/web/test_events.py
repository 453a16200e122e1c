"""What the page is told: all of it once, then what changes."""

from __future__ import annotations

import http.client
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock.client.web.differences import applied
from penstock.client.web.guard import MAX_VIEWERS
from penstock.spark.messages import BatchReport, ThreadReport
from tests.harness.kafka import wait_until
from tests.harness.waiting import LIMIT
from tests.unit.client.web.busy_application import NASTY, FakeTopics, busy_application
from tests.unit.client.web.served import Served


class Stream:
    """One who looks."""

    def __init__(self, served: Served, token: str | None = None) -> None:
        self.connection = http.client.HTTPConnection(served.service.host.host, served.service.host.port, timeout=LIMIT)
        self.connection.request("GET", "/api/events", headers={"Authorization": f"Bearer {token}"} if token else {})
        self.response = self.connection.getresponse()
        self._rest = b""

    def events(self) -> Iterator[tuple[str, Any]]:
        while True:
            while b"\n\n" not in self._rest:
                part = self.response.read1(1 << 20)
                if not part:
                    return
                self._rest += part
            event, self._rest = self._rest.split(b"\n\n", 1)
            kind, data = event.decode().split("\n")
            yield kind.removeprefix("event: "), json.loads(data.removeprefix("data: "))

    def close(self) -> None:
        self.connection.close()


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    served = Served(tmp_path).serve()
    yield served
    served.close()


def test_should_tell_all_of_it_once_and_then_what_changes(served: Served) -> None:
    stream = Stream(served)
    assert stream.response.getheader("Content-Type") == "text/event-stream; charset=utf-8"
    events = stream.events()
    kind, first = next(events)
    document = first["patch"]
    assert kind == "whole"
    assert (document["app"]["state"], document["now"]["lag"], len(document["tasks"])) == ("RUNNING", 13, 3)
    assert document["partitions"]["in-0"]["committed"] == 100
    served.service.history.reported({0: ThreadReport(batches=(BatchReport(0.0, 0.1, {"in": 777}),))})
    while document["now"]["totals"].get("records") != 777:
        kind, told = next(events)
        assert kind == "change"
        assert "map" not in told["patch"], "what stays is not told again"
        assert len(json.dumps(told)) < len(json.dumps(first)) / 5
        document = applied(document, told["patch"])
    stream.close()


def test_should_make_the_document_once_for_all_and_not_at_all_for_nobody(served: Served) -> None:
    web = served.service._web
    assert web._parts is not None
    made: list[float] = []
    document = web._parts.document
    web._parts = web._parts._replace(document=lambda: made.append(time.monotonic()) or document())
    streams = [Stream(served) for _ in range(3)]
    for stream in streams:
        assert next(stream.events())[0] == "whole"
    assert len(made) <= 2
    for stream in streams:
        stream.close()
    wait_until(lambda: not web._viewers._ends, "all are gone")
    before = len(made)
    served.get("/api/stores")
    assert len(made) == before


def test_should_end_all_streams_with_the_server(tmp_path: Path) -> None:
    served = Served(tmp_path).serve()
    stream = Stream(served)
    events = stream.events()
    next(events)
    served.close()
    assert all(kind in ("change", "time") for kind, _ in events), "it ends, without an error"
    stream.close()


def test_should_let_so_many_look_and_answer_others_all_the_same(served: Served) -> None:
    streams = [Stream(served) for _ in range(MAX_VIEWERS)]
    for stream in streams:
        next(stream.events())
    one_more = Stream(served)
    assert one_more.response.status == 503
    assert served.get("/api/app")[0] == 200
    for stream in (*streams, one_more):
        stream.close()


def test_should_want_the_token(tmp_path: Path) -> None:
    served = Served(tmp_path, "secret").serve()
    try:
        for wrong in (None, "wrong"):
            refused = Stream(served, wrong)
            assert refused.response.status == 401
            refused.close()
        for path in ("/api/settings", "/api/dead-letters"):
            assert served.get(path)[0] == 401, path
        stream = Stream(served, "secret")
        assert next(stream.events())[0] == "whole"
        stream.close()
        assert served.get("/")[0] == 200, "the page itself has nothing to hide"
    finally:
        served.close()


def test_should_say_what_a_starting_application_waits_for(tmp_path: Path) -> None:
    served = Served(tmp_path)
    served.service.starting("the brokers")
    stream = Stream(served)
    events = stream.events()
    app = next(events)[1]["patch"]["app"]
    assert (app["state"], app["waiting"]) == ("STARTING", {"0": "the brokers"})
    status, refused = served.get("/api/stores")
    assert (status, "it waits for the brokers" in refused["error"]) == (503, True)
    served.service.starting("Spark")
    assert next(events)[1]["patch"]["app"]["waiting"] == {"0": "Spark"}
    served.serve()
    _, told = next(events)
    assert told["patch"]["app"]["state"] == "RUNNING"
    stream.close()
    served.close()


def test_should_keep_text_of_records_as_text(tmp_path: Path) -> None:
    served = busy_application(tmp_path, hour=False)
    stream = Stream(served)
    _, first = next(stream.events())
    assert NASTY in json.dumps(first["patch"]["log"]), "it is told as it is; the page makes text of it and nothing else"
    assert first["patch"]["stores"]["counts 0_0"]["disk"] == 48_000_000
    assert first["patch"]["causes"]["0"]["count"] == 7
    stream.close()
    served.close()


JSON = {"Content-Type": "application/json"}
TOKEN = {"Authorization": "Bearer secret"}
LETTER = b'{"topic": "graveyard", "partition": 0, "offset": 4}'


@pytest.fixture
def guarded(tmp_path: Path) -> Iterator[tuple[Served, FakeTopics]]:
    topics = FakeTopics()
    served = Served(tmp_path, "secret", config={"errors.dead.letter.queue.topic.name": "graveyard"}).serve(letters=topics)
    yield served, topics
    served.close()


def test_should_replay_for_those_who_have_the_token(guarded: tuple[Served, FakeTopics]) -> None:
    served, topics = guarded
    status, found = served.get("/api/dead-letters/replay", {**TOKEN, **JSON}, "POST", body=LETTER)
    assert (status, found["topic"], found["partition"]) == (200, "in", 1)
    assert len(topics.written) == 1
    assert served.get("/api/dead-letters", TOKEN)[1]["letters"][-5]["replayed"]


@pytest.mark.parametrize(
    ("headers", "method", "body", "status"),
    [
        (JSON, "POST", LETTER, 401),
        ({**JSON, "Authorization": "Bearer wrong"}, "POST", LETTER, 401),
        (TOKEN, "GET", None, 405),
        (TOKEN, "DELETE", None, 405),
        ({**TOKEN, "Content-Type": "text/plain"}, "POST", LETTER, 415),
        ({**TOKEN, "Content-Type": "application/x-www-form-urlencoded"}, "POST", LETTER, 415),
        (TOKEN, "POST", LETTER, 415),
        ({**TOKEN, **JSON, "Origin": "https://evil.example"}, "POST", LETTER, 403),
        ({**TOKEN, **JSON, "Sec-Fetch-Site": "cross-site"}, "POST", LETTER, 403),
        ({**TOKEN, **JSON, "Sec-Fetch-Site": "same-site"}, "POST", LETTER, 403),
        ({**TOKEN, **JSON}, "POST", b"x" * 70_000, 413),
        ({**TOKEN, **JSON, "Transfer-Encoding": "chunked"}, "POST", None, 413),
        ({**TOKEN, **JSON}, "POST", b"not json", 400),
    ],
)
def test_should_let_nobody_else_write(
    guarded: tuple[Served, FakeTopics], headers: dict[str, str], method: str, body: bytes | None, status: int
) -> None:
    served, topics = guarded
    assert served.get("/api/dead-letters/replay", headers, method, body=body)[0] == status
    assert topics.written == []


def test_should_write_nothing_without_a_token_in_the_settings(tmp_path: Path) -> None:
    topics = FakeTopics()
    served = Served(tmp_path, config={"errors.dead.letter.queue.topic.name": "graveyard"}).serve(letters=topics)
    try:
        status, found = served.get("/api/dead-letters/replay", JSON, "POST", body=LETTER)
        assert (status, "application.server.token" in found["error"], topics.written) == (403, True, [])
        assert served.get("/api/dead-letters/replay", {**JSON, **TOKEN}, "POST", body=LETTER)[0] == 403
        assert served.get("/api/dead-letters")[0] == 200
    finally:
        served.close()


def test_should_hide_secrets_among_settings(tmp_path: Path) -> None:
    served = Served(tmp_path, "s3cret-token", config={"sasl.password": "letmein"}).serve()
    try:
        status, found = served.get("/api/settings", {"Authorization": "Bearer s3cret-token"})
        assert status == 200
        assert not {"s3cret-token", "letmein"} & {row["value"] for row in found["settings"]}
        assert {row["key"]: row["value"] for row in found["settings"]}["application.server.token"] == "[hidden]"
    finally:
        served.close()


def test_should_browse_windows_of_all_keys(tmp_path: Path) -> None:
    served = busy_application(tmp_path, hour=False)
    try:
        status, found = served.get("/api/stores/windows/windows?limit=3")
        assert status == 200
        starts = [entry["start"] for entry in found["entries"]]
        assert (len(starts), starts, found["here"], found["partitions"]) == (3, sorted(starts), 3, 3)
        assert served.get("/api/stores/windows/windows?from=5&to=4")[0] == 400
        assert served.get("/api/stores/counts/windows")[0] == 400
    finally:
        served.close()
