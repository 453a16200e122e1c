"""Asking a host that is no instance of the application: it learns nothing, and nothing it says is believed."""

from __future__ import annotations

import http.client
import json
import logging
import socket
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest

from penstock import HostInfo, StateStoreNotAvailableError, StreamsConfig, TaskId, ValueAndTimestamp
from penstock.client.web.errors import HttpError
from penstock.client.web.forwarding import Forwarder
from penstock.peers import connection
from penstock.peers.proofs import PeerKeys
from penstock.peers.session import AnsweringSessions
from penstock.query.table_read import ALL
from penstock.spark.messages import Application
from penstock.spark.queries.state_tables import read_source
from penstock.spark.queries.store_locator import StoreSource
from tests.unit.client.web.served import Served
from tests.unit.peers.fake_peer import Answer, FakePeer

COUNTS = [("key", "string"), ("value", "bigint"), ("timestamp", "bigint")]
TOKEN = "correct-horse-battery-staple"
KEYS = PeerKeys.derive(TOKEN, "app")
FORGED = json.dumps({"key": "a", "value": "forged", "session": "forged", "proof": "00" * 32}).encode()
PATH = "/api/stores/counts/keys/secret-key"


def forged(path: str, headers: dict[str, str]) -> Answer:
    return 200, {"Content-Type": "application/json", "X-Penstock-Proof": "00" * 32}, FORGED


def refuse(path: str, headers: dict[str, str]) -> Answer:
    return 401, {}, b'{"error": "send the token: Authorization: Bearer <application.server.token>"}'


def knows_half(sign: bool) -> Callable[[str, dict[str, str]], Answer]:
    """Opens sessions as an instance does, and then signs nothing, or something else."""
    here: list[AnsweringSessions] = []

    def answer(path: str, headers: dict[str, str]) -> Answer:
        if not here:
            here.append(AnsweringSessions(KEYS.peer, headers["Host"]))
        if path.startswith("/api/peer"):
            session, proof = here[0].answer_opening(path.partition("nonce=")[2]) or ("", "")
            return 200, {}, json.dumps({"session": session, "proof": proof}).encode()
        exchange = here[0].admit(headers["Authorization"].encode(), "GET", path.encode())
        assert exchange is not None
        return 200, {"X-Penstock-Proof": exchange.answer_proof(200, b"{}").hex()} if sign else {}, FORGED

    return answer


@pytest.mark.parametrize("answer", [forged, refuse])
def test_should_tell_a_stranger_nothing_and_believe_nothing_of_it(answer: Callable[..., Answer], caplog: Any) -> None:
    caplog.set_level(logging.DEBUG)
    with FakePeer(answer) as peer:
        forwarder = Forwarder(KEYS)
        with pytest.raises(HttpError, match=r"knows the application's token|answer belongs to another request") as raised:
            forwarder.get(peer.host, PATH, {"from": "secret-from"})
        forwarder.close()
    assert raised.value.status == 503
    assert len(peer.heard) == 1
    for secret in (TOKEN, "secret-key", "secret-from", "Authorization", KEYS.peer.hex()):
        assert secret not in "".join(peer.heard)
        assert secret not in caplog.text
    assert "forged" not in raised.value.reason


@pytest.mark.parametrize("sign", [False, True], ids=["unsigned", "signed for another body"])
def test_should_not_believe_an_answer_that_is_not_signed(sign: bool) -> None:
    with FakePeer(knows_half(sign)) as peer:
        forwarder = Forwarder(KEYS)
        with pytest.raises(HttpError, match="no valid signature") as raised:
            forwarder.get(peer.host, PATH, {})
        forwarder.close()
    assert raised.value.status == 503
    assert TOKEN not in "".join(peer.heard)


def test_should_refuse_an_instance_elsewhere_where_there_is_no_token(monkeypatch: pytest.MonkeyPatch) -> None:
    with FakePeer(forged) as peer:
        monkeypatch.setattr(connection, "is_loopback", lambda address: False)  # as if it were another host's
        forwarder = Forwarder(None)
        with pytest.raises(HttpError, match=r"application\.server\.token") as raised:
            forwarder.get(peer.host, PATH, {})
        forwarder.close()
    assert raised.value.status == 503
    assert peer.heard == []


def test_should_end_with_one_who_sends_a_byte_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "_OPENING_SECONDS", 0.3)
    listening = socket.create_server(("127.0.0.1", 0))
    done = threading.Event()

    def trickle() -> None:
        accepted, _ = listening.accept()
        try:
            while not done.wait(0.05):
                accepted.sendall(b"H")
        except OSError:
            pass
        accepted.close()

    threading.Thread(target=trickle, daemon=True).start()
    forwarder = Forwarder(KEYS)
    with pytest.raises(HttpError) as raised:
        forwarder.get(HostInfo("127.0.0.1", listening.getsockname()[1]), PATH, {})
    done.set()
    listening.close()
    assert raised.value.status == 503


def application(folder: Path) -> Application:
    config = {"application.id": "app", "bootstrap.servers": "localhost:9", "state.dir": str(folder)}
    return Application("key", StreamsConfig({**config, "application.server.token": TOKEN}), None, None, "p", "c")  # type: ignore[arg-type]


@pytest.mark.parametrize("answer", [forged, knows_half(False)], ids=["stranger", "unsigned"])
def test_should_read_no_table_of_a_stranger(answer: Callable[..., Answer], tmp_path: Path) -> None:
    with FakePeer(answer) as peer:
        source = StoreSource(TaskId(0, 0), "", server=str(peer.host))
        with pytest.raises(StateStoreNotAvailableError, match=r"signature|another request|prove"):
            list(read_source(application(tmp_path), "counts", source, COUNTS, ALL))
    assert TOKEN not in "".join(peer.heard)


def test_should_notice_a_table_that_is_cut_short_or_changed(tmp_path: Path) -> None:
    served = Served(tmp_path, TOKEN).serve()
    for number in range(3_000):
        served.world.write("counts", 0).put(f"k{number}", ValueAndTimestamp(number, 1))
    served.world.commit()
    real = f"http://{served.address}"

    def through(change: Callable[[bytes], bytes]) -> Callable[[str, dict[str, str]], Answer]:
        def answer(path: str, headers: dict[str, str]) -> Answer:
            passed = {n: v for n, v in headers.items() if n in ("Authorization", "X-Penstock-Forwarded")}
            with urlopen(Request(real + path, headers=passed)) as response:
                body, kept = response.read(), {n: v for n, v in response.headers.items() if n.startswith("x-penstock")}
            return 200, kept, body if path.startswith("/api/peer") else change(body)

        return answer

    def read(change: Callable[[bytes], bytes]) -> list[Any]:
        with FakePeer(through(change)) as peer, pytest.MonkeyPatch.context() as patch:
            # A man in the middle: what is sent to the instance's address comes to him.
            real_connect = connection.connect
            patch.setattr(connection, "connect", lambda host, timeout, tls: real_connect(peer.host, timeout))
            return list(
                read_source(application(tmp_path), "counts", StoreSource(TaskId(0, 0), "", server=served.address), COUNTS, ALL)
            )

    try:
        assert sum(batch.num_rows for batch in read(lambda body: body)) == 3_000
        for change in (
            lambda body: body[:-37],
            lambda body: body[:-1] + b"x",
            lambda body: body[: len(body) // 2],
            lambda body: b"",
        ):
            with pytest.raises(StateStoreNotAvailableError):
                read(change)
    finally:
        served.close()


def test_should_serve_peers_and_refuse_a_request_that_is_sent_twice(tmp_path: Path) -> None:
    served = Served(tmp_path, TOKEN).serve()
    try:
        asking = connection.PeerConnection(served.service.host, KEYS, 5)
        status, body = asking.get("/api/stores", 1 << 20)
        assert (status, b"counts" in body) == (200, True)
        assert asking.get("/api/stores/nothing/keys/a", 1 << 20)[0] == 404
        assert asking._session is not None
        _, header = asking._session.request("GET", b"/api/stores")
        asking.close()
        statuses = [served.get("/api/stores", {"Authorization": header})[0] for _ in range(2)]
        assert statuses == [200, 401]
        assert served.get("/api/peer?nonce=short")[0] == 400
        assert served.get("/api/peer?nonce=" + "0" * 500)[0] == 401
        with pytest.raises((OSError, http.client.HTTPException)):
            connection.PeerConnection(served.service.host, PeerKeys.derive("other", "app"), 5)
    finally:
        served.close()
