"""What two instances prove to each other."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.peers import session
from penstock.peers.proofs import PeerKeys
from penstock.peers.session import (
    PART_HEAD_BYTES,
    SESSION_SECONDS,
    AnsweringSessions,
    AskingSession,
    UnprovenError,
    read_part_head,
)

KEY = PeerKeys.derive("secret", "shop").peer
HERE = "localhost:8080"
TARGET = b"/api/stores/counts/keys/a?stale=true"


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def opened(server: AnsweringSessions, key: bytes = KEY, host: str = HERE) -> AskingSession:
    client = AskingSession(key, host)
    found = server.answer_opening(client.opening.partition("nonce=")[2])
    assert found is not None
    client.open(*found)
    return client


def test_should_derive_a_key_for_each_purpose_and_application() -> None:
    keys, other = PeerKeys.derive("secret", "shop"), PeerKeys.derive("secret", "shop-eu")
    assert len({keys.member, keys.leader, keys.peer, other.member, other.leader, other.peer, b"secret"}) == 7
    assert "secret" not in repr(keys)
    assert keys.peer.hex() not in repr(keys)
    assert PeerKeys.of({"application.server.token": None, "application.id": "shop"}) is None


def test_should_admit_one_who_knows_the_token_and_prove_the_answer() -> None:
    server = AnsweringSessions(KEY, HERE)
    client = opened(server)
    for _ in range(3):
        asked, header = client.request("GET", TARGET)
        admitted = server.admit(header.encode(), "GET", TARGET)
        assert admitted == asked
        assert "secret" not in header


def test_should_not_take_an_instance_with_another_token_for_a_peer() -> None:
    server = AnsweringSessions(PeerKeys.derive("guessed", "shop").peer, HERE)
    with pytest.raises(UnprovenError, match="token"):
        opened(server)


def test_should_not_take_what_another_instance_said_for_an_answer() -> None:
    with pytest.raises(UnprovenError, match="token"):  # the asker dials a host that passes all on to a real instance
        opened(AnsweringSessions(KEY, HERE), host="evil:1")
    other = AnsweringSessions(KEY, HERE).answer_opening("00" * 32)
    assert other is not None
    with pytest.raises(UnprovenError, match="belongs to another request"):  # an opening that somebody else had
        AskingSession(KEY, HERE).open(*other)


def test_should_refuse_what_was_heard_before_or_changed_on_the_way() -> None:
    server = AnsweringSessions(KEY, HERE)
    client = opened(server)
    _, first = client.request("GET", TARGET)
    _, second = client.request("GET", TARGET)
    assert server.admit(second.encode(), "GET", b"/api/stores/counts/keys/b") is None
    assert server.admit(second.encode(), "HEAD", TARGET) is None
    assert server.admit(second.replace(" 2 ", " 3 ").encode(), "GET", TARGET) is None
    assert server.admit(second.encode(), "GET", TARGET) is not None
    assert server.admit(second.encode(), "GET", TARGET) is None
    assert server.admit(first.encode(), "GET", TARGET) is None


def test_should_forget_sessions_after_a_while_by_its_own_clock() -> None:
    clock = Clock()
    server = AnsweringSessions(KEY, HERE, clock)
    _, header = opened(server).request("GET", TARGET)
    clock.now += SESSION_SECONDS + 1
    assert server.admit(header.encode(), "GET", TARGET) is None


def test_should_not_take_a_session_of_another_run_or_of_the_clients_own_making() -> None:
    _, header = opened(AnsweringSessions(KEY, HERE)).request("GET", TARGET)
    assert AnsweringSessions(KEY, HERE).admit(header.encode(), "GET", TARGET) is None


def admitted(server: AnsweringSessions, client: AskingSession) -> bool:
    return server.admit(client.request("GET", TARGET)[1].encode(), "GET", TARGET) is not None


def test_should_keep_nothing_of_strangers() -> None:
    server = AnsweringSessions(KEY, HERE)
    for _ in range(10):
        server.answer_opening("00" * 32)
        server.admit(b"Penstock x 1 00", "GET", TARGET)
    assert not server._kept


def test_should_admit_new_peers_for_ever_and_keep_those_that_ask(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "MAX_SESSIONS", 4)
    clock = Clock()
    server = AnsweringSessions(KEY, HERE, clock)
    busy = opened(server)
    for _ in range(20):
        clock.now += 1
        assert admitted(server, opened(server))
        assert admitted(server, busy)
    assert len(server._kept) == 4


def test_should_refuse_for_ever_what_was_heard_in_a_session_that_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "MAX_SESSIONS", 4)
    clock = Clock()
    server = AnsweringSessions(KEY, HERE, clock)
    old, unused = opened(server), opened(server)
    _, heard = old.request("GET", TARGET)
    assert server.admit(heard.encode(), "GET", TARGET) is not None
    for _ in range(4):
        clock.now += 1
        assert admitted(server, opened(server))
    assert server.admit(heard.encode(), "GET", TARGET) is None
    assert not admitted(server, old)
    assert not admitted(server, unused)  # it may have been one that was heard
    assert admitted(server, opened(server))


def test_should_keep_a_session_for_as_long_as_it_is_used() -> None:
    clock = Clock()
    server = AnsweringSessions(KEY, HERE, clock)
    client = opened(server)
    for _ in range(5):
        clock.now += SESSION_SECONDS - 1
        assert admitted(server, client)
    clock.now += SESSION_SECONDS + 1
    assert not admitted(server, client)


@given(st.binary(max_size=300))
def test_should_refuse_garbage(garbage: bytes) -> None:
    server = AnsweringSessions(KEY, HERE)
    assert server.admit(garbage, "GET", TARGET) is None
    assert server.admit(b"Penstock " + garbage, "GET", TARGET) is None
    assert server.answer_opening(garbage.decode("latin-1")) is None
    with pytest.raises(UnprovenError):
        AskingSession(KEY, HERE).open(garbage.decode("latin-1"), garbage.decode("latin-1"))


def test_should_notice_parts_that_are_changed_moved_or_missing() -> None:
    exchange, _ = opened(AnsweringSessions(KEY, HERE)).request("GET", TARGET)
    head = exchange.part_head(200, 0, False, b"rows")
    assert len(head) == PART_HEAD_BYTES
    last, size, proof = read_part_head(head)
    assert (last, size) == (False, 4)
    exchange.check_part(200, 0, False, b"rows", proof)
    for changed in ((201, 0, False, b"rows"), (200, 1, False, b"rows"), (200, 0, True, b"rows"), (200, 0, False, b"r0ws")):
        with pytest.raises(UnprovenError):
            exchange.check_part(*changed, proof)
    with pytest.raises(UnprovenError, match="claims"):
        read_part_head(b"\0\xff\xff\xff\xff" + bytes(32))
