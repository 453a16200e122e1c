"""The latest records of a topic, and pausing and resuming, over the query server."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from penstock.client.web.topics import _shown
from penstock.errors import SerializationError
from penstock.record import RawRecord
from tests.unit.client.web.busy_application import FakeTopics
from tests.unit.client.web.served import Served

TOKEN = "s3cret"
KNOWN = {"Authorization": f"Bearer {TOKEN}"}
JSON = {**KNOWN, "Content-Type": "application/json"}


class Records(FakeTopics):
    """Three records of any topic: one of text, one that is no text, a tombstone."""

    def last(self, topic: str, most: int) -> list[RawRecord]:
        if topic == "graveyard":
            return super().last(topic, most)
        found = [
            RawRecord(topic, 0, 7, 1_000, b"key", b"value", (("source", b"shop"),)),
            RawRecord(topic, 1, 3, 900, b"\xff\x00", b"\xff", ()),
            RawRecord(topic, 2, 1, 800, b"gone", None, ()),
        ]
        return found[:most]


class Pausable:
    def __init__(self) -> None:
        self.paused = False

    def pause(self, paused: bool) -> None:
        self.paused = paused


@pytest.fixture
def pausable() -> Pausable:
    return Pausable()


@pytest.fixture
def served(tmp_path: Path, pausable: Pausable) -> Iterator[Served]:
    made = Served(tmp_path, TOKEN).serve(letters=Records(0), pause=pausable.pause, paused=lambda: pausable.paused)
    yield made
    made.close()


def test_should_show_the_latest_records_through_the_serdes_of_the_source(served: Served) -> None:
    kinds = {topic["name"]: topic["kind"] for topic in served.get("/api/topics", KNOWN)[1]["topics"]}
    assert kinds["in"] == "input"
    assert kinds["app-counts-changelog"] == "changelog"
    status, found = served.get("/api/topics/in/latest?limit=2", KNOWN)
    assert (status, len(found["records"])) == (200, 2)
    first, second = found["records"]
    assert (first["partition"], first["offset"], first["timestamp"]) == (0, 7, 1_000)
    assert (first["key"]["text"], first["value"]["text"]) == ("key", "value")
    assert first["headers"] == [{"name": "source", "value": {"text": "shop", "size": 4}}]
    assert second["key"] == {"text": "\ufffd\\u0000", "size": 2}, "as the application sees it, control characters escaped"
    assert served.get("/api/topics/in/latest", KNOWN)[1]["records"][2]["value"] is None


def test_should_show_the_bytes_of_a_record_that_the_serde_refuses() -> None:
    def refuse(topic: str, data: bytes) -> Any:
        raise SerializationError("no order")

    assert _shown(refuse, "in", b"\xff") == {"hex": "ff", "size": 1, "error": "SerializationError: no order"}
    assert _shown(refuse, "in", None) is None
    long = _shown(lambda topic, data: data.decode(), "in", b"x" * 9_000)
    assert long is not None
    assert (len(long["text"]), long["size"], long["cut"]) == (8_000, 9_000, True)
    assert _shown(lambda topic, data: {"a": [1, None]}, "in", b"..")["text"] == '{"a": [1, null]}'  # type: ignore[index]


@pytest.mark.parametrize("limit", ["0", "101", "x", "-1", "99999999999", "٣"])
def test_should_bound_how_many_records_are_read(served: Served, limit: str) -> None:
    status, found = served.get(f"/api/topics/in/latest?limit={quote(limit)}", KNOWN)
    assert (status, found["error"]) == (400, "limit must be a number from 1 to 100")


def test_should_read_no_topic_of_others_and_nothing_without_the_token(served: Served) -> None:
    assert served.get("/api/topics/__consumer_offsets/latest", KNOWN)[0] == 404
    assert served.get("/api/topics/in/latest")[0] == 401
    assert served.get("/api/topics")[0] == 401


def test_should_pause_and_resume_with_the_token(served: Served, pausable: Pausable) -> None:
    def post(path: str, headers: dict[str, str]) -> tuple[int, Any]:
        return served.get(path, headers, "POST", body=json.dumps({}).encode())

    assert post("/api/pause", JSON) == (200, {"paused": True})
    assert pausable.paused
    for refused, headers in (
        (401, {"Content-Type": "application/json"}),
        (415, {**KNOWN, "Content-Type": "text/plain"}),
        (403, {**JSON, "Sec-Fetch-Site": "cross-site"}),
        (403, {**JSON, "Origin": "https://evil.example"}),
    ):
        assert post("/api/resume", headers)[0] == refused
    assert served.get("/api/resume", KNOWN)[0] == 405
    assert pausable.paused, "what was refused has changed nothing"
    assert post("/api/resume", JSON) == (200, {"paused": False})


def test_should_not_be_paused_where_there_is_no_token(tmp_path: Path, pausable: Pausable) -> None:
    served = Served(tmp_path).serve(letters=Records(0), pause=pausable.pause)
    try:
        status, found = served.get("/api/pause", {"Content-Type": "application/json"}, "POST", body=b"{}")
        assert (status, pausable.paused) == (403, False)
        assert "application.server.token" in found["error"]
    finally:
        served.close()
