from __future__ import annotations

import json
from typing import Any

import pytest

from penstock.client.web.dead_letters import HEADER_REPLAYED, DeadLetters, shown_bytes
from penstock.client.web.errors import HttpError
from penstock.dead_letters import HEADER_ERRORS_TOPIC
from penstock.record import RawRecord
from tests.unit.client.web.busy_application import NASTY, FakeTopics


def letters(topics: FakeTopics, sources: tuple[str, ...] = ("in",)) -> DeadLetters:
    return DeadLetters(topics, lambda: ["graveyard"], lambda: sources)


def asked(**changes: Any) -> bytes:
    return json.dumps({"topic": "graveyard", "partition": 0, "offset": 4, **changes}).encode()


def test_should_tell_all_of_a_letter() -> None:
    found = letters(FakeTopics()).list()
    assert (len(found["letters"]), found["topics"], found["missing"]) == (120, ["graveyard"], [])
    letter = found["letters"][-5]
    assert letter["at"] == {"topic": "graveyard", "partition": 0, "offset": 4}
    assert letter["from"] == {"topic": "in", "partition": 1, "offset": 1004}
    assert (letter["exception"], letter["cause"]) == ("ValueError", "invalid literal for int() with base #: '# pieces'")
    assert "Traceback" in letter["traceback"]
    assert letter["key"] == {"text": "k4", "size": 2}
    assert letter["value"] == {"hex": "00ff04", "size": 3}
    assert NASTY in found["letters"][-6]["value"]["text"]
    assert letter["headers"] == [{"name": "source", "value": {"text": "shop", "size": 4}}]
    assert letter["why_not"] is None


def test_should_read_dead_letter_topics_and_no_others() -> None:
    with pytest.raises(HttpError, match="not a dead letter topic") as refused:
        letters(FakeTopics()).list("secrets")
    assert refused.value.status == 404


def test_should_write_a_letter_to_where_it_came_from() -> None:
    topics = FakeTopics()
    done = letters(topics).replay(asked())
    assert (done["topic"], done["partition"]) == ("in", 1)
    (record,) = topics.written
    letter = topics.records[4]
    assert (record.key, record.value, record.timestamp) == (letter.key, letter.value, letter.timestamp)
    assert record.headers == (("source", b"shop"), (HEADER_REPLAYED, b"graveyard-0@4"))


def test_should_replay_once_unless_told_to() -> None:
    topics = FakeTopics()
    console = letters(topics)
    console.replay(asked())
    with pytest.raises(HttpError, match="replayed already") as refused:
        console.replay(asked())
    assert refused.value.status == 409
    assert console.list()["letters"][-5]["replayed"]
    console.replay(asked(again=True))
    assert len(topics.written) == 2


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"", 400),
        (b"[]", 400),
        (b"[" * 100_000, 400),
        (asked(partition="0"), 400),
        (asked(offset=-1), 400),
        (asked(offset=2**70), 400),
        (asked(topic="in"), 404),
        (asked(topic="__consumer_offsets"), 404),
        (asked(offset=100_000), 404),
        (asked(partition=7), 404),
    ],
)
def test_should_refuse_what_is_no_dead_letter(body: bytes, status: int) -> None:
    topics = FakeTopics()
    with pytest.raises(HttpError) as refused:
        letters(topics).replay(body)
    assert refused.value.status == status
    assert topics.written == []


def test_should_write_to_input_topics_of_the_application_alone() -> None:
    topics = FakeTopics()
    with pytest.raises(HttpError, match="not an input topic"):
        letters(topics, sources=("orders",)).replay(asked())
    forged = topics.records[4]._replace(headers=((HEADER_ERRORS_TOPIC, b"__consumer_offsets"),))
    topics.records[4] = forged
    with pytest.raises(HttpError, match="its origin is unknown"):
        letters(topics).replay(asked())
    assert topics.written == []


def test_should_show_the_beginning_of_what_is_long() -> None:
    assert shown_bytes(b"x" * 20_000) == {"text": "x" * 8_000, "size": 20_000, "cut": True}
    assert shown_bytes(b"\xff" * 20_000, 10) == {"hex": "ff" * 5, "size": 20_000, "cut": True}
    assert shown_bytes(b"") == {"text": "", "size": 0}


def test_should_take_any_bytes_for_headers() -> None:
    topics = FakeTopics(1)
    topics.records = [
        RawRecord("graveyard", 0, 0, 0, None, None, (("\x00odd", b"\xff"), ("n", None), (HEADER_ERRORS_TOPIC, b"\xff")))
    ]
    (letter,) = letters(topics).list()["letters"]
    assert letter["why_not"]
    json.dumps(letter)
