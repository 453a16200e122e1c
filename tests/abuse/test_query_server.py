"""The query server keeps to its own description, whatever is asked: the requests are made from /openapi.json."""

from __future__ import annotations

import json
import random
import socket
from collections.abc import Iterator
from typing import Any, NamedTuple
from urllib.parse import quote

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from penstock import SessionWindow, ValueAndTimestamp, Windowed
from penstock.client.web.openapi import openapi
from penstock.spark.queries.store_changes import ChangeReader, Stretch
from tests.abuse.hostile import hostile
from tests.harness.waiting import LIMIT
from tests.unit.client.web.busy_application import FakeTopics
from tests.unit.client.web.served import Served

TOKEN = "s3cret"
STORES = ("counts", "windows", "sessions", "versions", "numbers", "raw", "documents")
KEYS = ("k1", "a/b ü", "alice", "v", "-7", '"AP8="', '["x", 1]')
PATHS = sorted(openapi()["paths"])
EVENTS, REPLAY = "/api/events", "/api/dead-letters/replay"
WRITES = (REPLAY, "/api/pause", "/api/resume")
READS = [path for path in PATHS if path not in (EVENTS, *WRITES)]  # events do not end
TRACES = (b"Traceback", b'File "', b"site-packages", b'.py\\"', b"object at 0x")


class Answer(NamedTuple):
    """What came back; a status of 0 for a connection that was closed without a word."""

    status: int
    headers: dict[str, str]
    body: bytes


class NoChanges(ChangeReader):
    """Changes of a changelog without records, because these servers have no broker."""

    def stretch(self, store: Any, partition: int, read: Any) -> Stretch:
        return Stretch(0, 0)


def filled(folder: Any, token: str | None) -> Served:
    served = Served(folder, token, config={"errors.dead.letter.queue.topic.name": "graveyard"}).serve(letters=FakeTopics(0))
    served.service._change_reader = NoChanges(served.config, "abuse")
    world = served.world
    for number, key in enumerate(("k1", "k2", "a/b ü", "v")):
        world.home_of("counts", key).put(key, ValueAndTimestamp(number, 1000))
        world.home_of("windows", key).put(key, ValueAndTimestamp(number, 1000), 1000)
        world.home_of("versions", key).put(key, str(number), 1000)
    world.home_of("sessions", "alice").put(Windowed("alice", SessionWindow(1000, 1500)), 4)
    world.home_of("numbers", -7).put(-7, {"name": "Ä", "list": [1, None]})
    world.home_of("raw", b"\x00\xff").put(b"\x00\xff", b"\x01")
    world.home_of("documents", ["x", 1]).put(["x", 1], float("nan"))
    world.commit()
    return served


@pytest.fixture(scope="module")
def open_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    served = filled(tmp_path_factory.mktemp("open"), None)
    yield served
    served.close()


@pytest.fixture(scope="module")
def guarded_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    served = filled(tmp_path_factory.mktemp("guarded"), TOKEN)
    yield served
    served.close()


def send(served: Served, data: bytes) -> Answer:
    """The answer to these very bytes."""
    with socket.create_connection((served.service.host.host, served.service.host.port), timeout=LIMIT) as connection:
        received = b""
        try:
            connection.sendall(data)
            while block := connection.recv(65_536):
                received += block
                if _is_whole(received):
                    break
        except ConnectionError:
            pass
    if not received:
        return Answer(0, {}, b"")
    head, _, body = received.partition(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")
    return Answer(int(first.split()[1]), {n.lower(): v for n, _, v in (line.partition(": ") for line in lines)}, body)


def _is_whole(received: bytes) -> bool:
    head, separator, body = received.partition(b"\r\n\r\n")
    lengths = [line.partition(b":")[2] for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
    return bool(separator) and bool(lengths) and len(body) >= int(lengths[0])


def request(target: str, headers: list[tuple[bytes, bytes]], method: bytes = b"GET") -> bytes:
    lines = [method + b" " + target.encode() + b" HTTP/1.1", *(name + b": " + value for name, value in headers)]
    return b"\r\n".join([*lines, b"Connection: close", b"", b""])


def assert_keeps_its_word(path: str, answer: Answer) -> None:
    """A status that the description knows, JSON (text for metrics) as it says, and nothing of the inside."""
    documented = openapi()["paths"][path]["get"]["responses"]
    assert str(answer.status) in documented, (answer.status, answer.body[:300])
    assert not [trace for trace in TRACES if trace in answer.body], answer.body[:500]
    (kind,) = documented[str(answer.status)]["content"]
    assert answer.headers["content-type"].startswith(kind)
    assert answer.headers["x-content-type-options"] == "nosniff"
    if kind == "application/json":
        body = json.loads(answer.body.decode(), parse_constant=_no_json)
        schema = documented[str(answer.status)]["content"][kind]["schema"]
        assert set(schema.get("required", ())) <= set(body)
        if answer.status != 200:
            assert isinstance(body["error"], str)
            assert len(answer.body) < 20_000


def _no_json(constant: str) -> Any:
    raise AssertionError(f"{constant} is not JSON")


# -- what is asked

_nasty = st.sampled_from(
    [data[:2_000].decode("latin-1") for data in hostile([key.encode() for key in KEYS], count=500)]
    + [
        "",
        "..",
        "../../etc/passwd",
        "%00",
        "'; drop table",
        "${jndi:ldap://x}",
        "<script>",
        "\r\nX: y",
        "-0",
        "1e3",
        "0x10",
        "٣",
        "١٢",
        "NaN",
    ]
)
_text = st.one_of(_nasty, st.text(max_size=30))
_json = st.recursive(st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8), st.lists, max_leaves=5)
_number = st.one_of(
    st.integers().map(str), st.integers(-1, 1_001).map(str), st.sampled_from([str(2**63), "-1", "9" * 5_000, "1_0", " 7"])
)
_KINDS = {
    "integer": st.one_of(_number, _text),
    "boolean": st.one_of(st.sampled_from(["true", "false", "TRUE", "1", ""]), _text),
    "string": st.one_of(st.sampled_from(KEYS), _json.map(json.dumps), _text),
}
_PATH = {"store": st.one_of(st.sampled_from(STORES), _text), "key": _KINDS["string"], "topic": st.one_of(st.just("in"), _text)}


@st.composite
def targets(draw: st.DrawFn, path: str) -> str:
    """An address of this path: its own parameters, there or not, twice, and some that nobody knows."""
    target, query = path, []
    for parameter in openapi()["paths"][path]["get"].get("parameters", []):
        name = parameter["name"]
        if parameter["in"] == "path":
            value = draw(_PATH[name])
            target = target.replace(f"{{{name}}}", quote(value, safe="" if name != "key" or draw(st.booleans()) else "/"))
        else:
            query += [(name, draw(_KINDS[parameter["schema"]["type"]])) for _ in range(draw(st.integers(0, 2)))]
    query += draw(st.lists(st.tuples(_text, _text), max_size=2))
    asked = "&".join(f"{quote(name, safe='')}={quote(value, safe='')}" for name, value in query)
    return (f"{target}?{asked}" if asked else target)[:9_000]


_printable = st.text(st.characters(min_codepoint=33, max_codepoint=126), max_size=40).map(str.encode)
_header = st.one_of(
    st.tuples(
        st.just(b"Authorization"),
        st.one_of(_printable, st.sampled_from([b"", b"Bearer", b"Bearer ", b"Basic czNjcmV0", b"bearer x"])),
    ),
    st.tuples(st.just(b"Origin"), st.sampled_from([b"null", b"https://evil.example", b"http://localhost", b"file://"])),
    st.tuples(st.just(b"Sec-Fetch-Site"), st.sampled_from([b"cross-site", b"same-site", b"same-origin", b"none", b"x"])),
    st.tuples(st.just(b"X-Penstock-Forwarded"), _printable),
    st.tuples(
        st.sampled_from(
            [b"Cookie", b"Range", b"Accept", b"Accept-Encoding", b"If-None-Match", b"X-Forwarded-For", b"X-Penstock-Proof"]
        ),
        _printable,
    ),
    st.tuples(st.sampled_from([b"Content-Length"]), st.sampled_from([b"0", b"1", b"99999999999"])),
    st.tuples(
        st.sampled_from([b"Upgrade", b"Expect", b"TE"]), st.sampled_from([b"websocket", b"100-continue", b"h2c", b"trailers"])
    ),
)
_host = st.one_of(st.sampled_from([b"localhost", b"127.0.0.1:80", b"evil.example", b"[::1]", b""]), _printable)
_LIMITS = settings(
    max_examples=120,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


@pytest.mark.parametrize("path", READS)
def test_should_answer_hostile_questions_as_it_says(open_server: Served, path: str) -> None:
    @_LIMITS
    @given(target=targets(path))
    def ask(target: str) -> None:
        answer = send(open_server, request(target, [(b"Host", b"localhost")]))
        # Everything is here and runs: there is nothing to wait for.
        assert answer.status < 500, answer.body[:500]
        assert_keeps_its_word(path, answer)

    ask()


@pytest.mark.parametrize("path", READS)
def test_should_answer_hostile_headers_as_it_says(open_server: Served, path: str) -> None:
    target = path.replace("{store}", "counts").replace("{key}", "k1").replace("{topic}", "in")

    @_LIMITS
    @given(host=_host, headers=st.lists(_header, max_size=4))
    def ask(host: bytes, headers: list[tuple[bytes, bytes]]) -> None:
        answer = send(open_server, request(target, [(b"Host", host), *headers]))
        if not answer.body.startswith(b"Invalid HTTP request"):
            assert_keeps_its_word(path, answer)

    ask()


@pytest.mark.parametrize("path", READS)
def test_should_tell_nothing_without_the_token(guarded_server: Served, path: str) -> None:
    target = path.replace("{store}", "counts").replace("{key}", "k1").replace("{topic}", "in")

    @_LIMITS
    @given(host=_host, headers=st.lists(_header, max_size=4))
    def ask(host: bytes, headers: list[tuple[bytes, bytes]]) -> None:
        answer = send(guarded_server, request(target, [(b"Host", host), *headers]))
        assert answer.status in (400, 401, 403, 413)
        assert TOKEN.encode() not in answer.body
        if not answer.body.startswith(b"Invalid HTTP request"):
            assert_keeps_its_word(path, answer)

    ask()
    authorized = [(b"Host", b"localhost"), (b"Authorization", b"Bearer " + TOKEN.encode())]
    assert send(guarded_server, request(target, authorized)).status in (200, 400)


def test_should_answer_after_anything_that_is_not_http(open_server: Served) -> None:
    drawn = random.Random(14)
    good = request("/api/stores/counts/keys/k1", [(b"Host", b"localhost"), (b"Cookie", b"a=b")])
    for number, data in enumerate(hostile([good, b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"], count=400)):
        # Cut off by the end of the stream, or else the server would wait for the rest.
        answer = send(open_server, data[:50_000] + b"\r\n\r\n")
        assert answer.status < 500, (number, data[:200], answer)
        assert not [trace for trace in TRACES if trace in answer.body]
        if drawn.random() < 0.1:
            assert send(open_server, good).status == 200


@pytest.mark.parametrize("method", [b"POST", b"PUT", b"DELETE", b"PATCH", b"OPTIONS", b"TRACE", b"CONNECT", b"BREW"])
@pytest.mark.parametrize("path", PATHS)
def test_should_only_read(open_server: Served, path: str, method: bytes) -> None:
    answer = send(open_server, request(path, [(b"Host", b"localhost")], method))
    assert answer.status in (403, 405)
    assert json.loads(answer.body)["error"]


@given(
    path=st.sampled_from(WRITES),
    headers=st.lists(_header, max_size=4),
    method=st.sampled_from([b"POST", b"GET", b"PUT"]),
    body=st.binary(max_size=40),
)
@_LIMITS
def test_should_write_nothing_without_the_token(
    guarded_server: Served, path: str, headers: list[tuple[bytes, bytes]], method: bytes, body: bytes
) -> None:
    given_length = any(name == b"Content-Length" for name, _ in headers)
    sized = [] if given_length else [(b"Content-Length", str(len(body)).encode())]
    asked = request(path, [(b"Host", b"localhost"), (b"Content-Type", b"application/json"), *sized, *headers], method)
    answer = send(guarded_server, asked + body)
    assert answer.status in (400, 401, 403, 413)
    assert send(guarded_server, request(EVENTS, [(b"Host", b"localhost"), *headers])).status in (400, 401, 403, 413)


@given(body=st.one_of(st.binary(max_size=200), _json.map(lambda found: json.dumps(found).encode())))
@_LIMITS
def test_should_refuse_hostile_bodies_as_it_says(guarded_server: Served, body: bytes) -> None:
    known = [(b"Host", b"localhost"), (b"Authorization", b"Bearer " + TOKEN.encode()), (b"Content-Type", b"application/json")]
    answer = send(guarded_server, request(REPLAY, [*known, (b"Content-Length", str(len(body)).encode())], b"POST") + body)
    assert answer.status == 400
    assert isinstance(json.loads(answer.body)["error"], str)
    assert not [trace for trace in TRACES if trace in answer.body]


def test_should_describe_every_path_it_has(open_server: Served) -> None:
    told = json.loads(send(open_server, request("/openapi.json", [(b"Host", b"localhost")])).body)
    assert told == openapi()
    for path in READS:
        for word in ("store", "key"):
            assert (f"{{{word}}}" in path) == any(p["name"] == word for p in told["paths"][path]["get"].get("parameters", []))
