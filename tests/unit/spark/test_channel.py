"""What threads and driver say to each other: only among those who know the key, bounded in size and time, never unpickled."""

from __future__ import annotations

import contextlib
import os
import pickle
import random
import socket
import struct
import subprocess
import threading
import time
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock import InvalidStateStoreError, StateStoreNotAvailableError, TaskId
from penstock.errors import SerializationError
from penstock.spark.queries import channel as channels
from penstock.spark.queries import listening as listenings
from penstock.spark.queries.channel import GONE, Channel, ChannelError, answer_of, connect, send_error
from penstock.spark.queries.listening import Listening, listen_on_port
from penstock.wire import Codec
from tests.harness.identities import openssl_identity
from tests.harness.kafka import wait_until
from tests.harness.waiting import LIMIT

KEY = b"k" * 32
CODEC = Codec(TaskId)


class Echo:
    """Answers every message with itself; told of what it got."""

    def __init__(self, folder: Path | None, **options: Any) -> None:
        self.got: list[Any] = []
        where: dict[str, Any] = {"folder": folder} if folder else {"host": "127.0.0.1", "identity": openssl_identity()}
        self.listening = Listening("echo", KEY, CODEC, self._answer, **{**where, **options})
        at = self.listening.address
        self.address: Any = at if isinstance(at, str) else ("127.0.0.1", at)

    def _answer(self, channel: Channel) -> None:
        while True:
            message = channel.receive(30)
            self.got.append(message)
            channel.send(*message)

    def connect(self, key: bytes = KEY) -> Channel:
        return connect(self.address, key, CODEC, openssl_identity())

    def raw(self) -> socket.socket:
        connected = socket.socket(socket.AF_UNIX if isinstance(self.address, str) else socket.AF_INET)
        connected.settimeout(20)
        connected.connect(self.address)
        return connected


@pytest.fixture(params=["file", "port"])
def echo(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Echo]:
    echo = Echo(tmp_path if request.param == "file" else None)
    yield echo
    echo.listening.close()


def answers(echo: Echo) -> None:
    with echo.connect() as channel:
        channel.send("hello", TaskId(0, 1), {"a": [1, None, b"raw"]})
        assert channel.receive(10) == ("hello", TaskId(0, 1), {"a": [1, None, b"raw"]})


def test_should_talk_to_who_knows_the_key(echo: Echo) -> None:
    answers(echo)
    with echo.connect() as first, echo.connect() as second:
        first.send("long", os.urandom(3_000_000))
        second.send("short")
        assert second.receive(10) == ("short",)
        assert len(first.receive(10)[1]) == 3_000_000
        assert first.is_quiet


def test_should_refuse_who_does_not_know_the_key(echo: Echo) -> None:
    with pytest.raises(ChannelError, match="another key"):
        echo.connect(b"x" * 32)
    with pytest.raises(ChannelError, match="has no key"):
        echo.connect(b"")
    assert echo.got == []
    answers(echo)


def garbage() -> Iterator[bytes]:
    chance = random.Random(7)
    yield b""
    yield b"\xff\xff\xff\xff" * 30
    yield b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n" * 5
    yield pickle.dumps(TaskId(0, 1)) * 20
    yield struct.pack(">I", 2**31) + b"x" * 100
    for _ in range(60):
        yield chance.randbytes(chance.randrange(1, 300))


def test_should_read_nothing_of_strangers_but_a_proof(echo: Echo) -> None:
    for hostile in garbage():
        with echo.raw() as stranger, contextlib.suppress(OSError):
            stranger.sendall(hostile)
            stranger.shutdown(socket.SHUT_WR)
            while stranger.recv(4096):
                pass
    assert echo.got == []
    answers(echo)


def test_should_not_take_back_its_own_words(tmp_path: Path) -> None:
    """A stranger that answers a challenge with what the other side says, to itself or over a second connection."""
    echo = Echo(tmp_path)
    with echo.raw() as first, echo.raw() as second:
        said, also = first.recv(40), second.recv(40)
        first.sendall(said[8:] + said[8:])
        second.sendall(also[8:] + said[8:])
        assert first.recv(100) == second.recv(100) == b""

    # And one that pretends to listen, and sends back what the reader proves itself with.
    accepted: list[bytes] = []
    mirror = socket.socket(socket.AF_UNIX)
    mirror.bind(str(tmp_path / "mirror"))
    mirror.listen()

    def reflect() -> None:
        connected, _ = mirror.accept()
        with connected:
            connected.sendall(b"penstck1" + bytes(32))
            accepted.append(connected.recv(64))
            connected.sendall(accepted[0][32:])
            with contextlib.suppress(OSError):
                accepted.append(connected.recv(100))

    thread = threading.Thread(target=reflect)
    thread.start()
    with pytest.raises(ChannelError, match="does not know"):
        connect(str(tmp_path / "mirror"), KEY, CODEC, None)
    thread.join()
    assert accepted[1:] == [b""]
    mirror.close()
    echo.listening.close()


def test_should_not_wait_for_strangers_that_say_it_slowly(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(channels, "PROOF_SECONDS", 0.5)
    monkeypatch.setattr(listenings, "PROOF_SECONDS", 0.5)
    for folder in (tmp_path, None):
        echo = Echo(folder)
        with echo.raw() as stranger:
            ended = threading.Event()

            def drip(stranger: socket.socket = stranger, ended: threading.Event = ended) -> None:
                with contextlib.suppress(OSError):
                    while not ended.wait(0.05):
                        stranger.sendall(b"\x16")

            dripping = threading.Thread(target=drip)
            dripping.start()
            with contextlib.suppress(ConnectionResetError):
                while stranger.recv(4096):
                    pass
            ended.set()
            dripping.join()
        echo.listening.close()


def test_should_answer_while_strangers_say_nothing(echo: Echo) -> None:
    silent = [echo.raw() for _ in range(3 * listenings.MAX_STRANGERS)]
    answers(echo)
    assert len(echo.listening._strangers) <= listenings.MAX_STRANGERS
    wait_until(lambda: len(echo.listening._threads) <= listenings.MAX_STRANGERS + 1, "threads of those who made room end")
    for stranger in silent:
        stranger.close()


def test_should_take_no_memory_for_what_is_only_announced(tmp_path: Path) -> None:
    ours, theirs = socket.socketpair()
    channel = Channel(ours, CODEC, channels.MAX_ANSWER, channels.MAX_REQUEST)
    theirs.sendall(struct.pack(">I", channels.MAX_ANSWER) + b"x" * 1000)
    theirs.close()
    tracemalloc.start()
    with pytest.raises(EOFError):
        channel.receive(10)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 5_000_000
    channel.close()


@pytest.mark.parametrize(
    ("sent", "what"),
    [
        (struct.pack(">I", channels.MAX_REQUEST + 1), "are accepted"),
        (struct.pack(">I", 5) + b"hello", "invalid message"),
        (struct.pack(">I", 1) + b"N", "invalid message"),
        (struct.pack(">I", 5) + b"t\0\0\0\0", "invalid message"),
        (struct.pack(">I", 40) + pickle.dumps(Path("x")).ljust(40, b".")[:40], "invalid message"),
    ],
)
def test_should_refuse_what_is_no_message(sent: bytes, what: str) -> None:
    ours, theirs = socket.socketpair()
    theirs.sendall(sent)
    with Channel(ours, CODEC, channels.MAX_REQUEST, channels.MAX_ANSWER) as channel, pytest.raises(ChannelError, match=what):
        channel.receive(10)
    theirs.close()


def test_should_send_nothing_that_is_too_long_or_not_plain(echo: Echo) -> None:
    with echo.connect() as channel:
        with pytest.raises(SerializationError, match="but at most 4194304 can be sent"):
            channel.send("long", bytes(channels.MAX_REQUEST))
        with pytest.raises(SerializationError, match="not plain"):
            channel.send("odd", print)
        channel.send("fine")
        assert channel.receive(10) == ("fine",)


def test_should_give_up_who_does_not_answer(echo: Echo, monkeypatch: pytest.MonkeyPatch) -> None:
    with echo.connect() as channel, pytest.raises(ChannelError, match="no answer"):
        channel.receive(0.05)
    ours, theirs = socket.socketpair()
    monkeypatch.setattr(channels, "_MESSAGE_SECONDS", 0.2)
    theirs.sendall(struct.pack(">I", 100) + b"begun")
    with Channel(ours, CODEC, 1000, 1000) as channel, pytest.raises(GONE):
        channel.receive(10)
    theirs.close()


def test_should_raise_errors_of_its_own_and_no_others() -> None:
    for name, kind in (
        ("StateStoreNotAvailableError", StateStoreNotAvailableError),
        ("SystemExit", InvalidStateStoreError),
        ("PenstockError.__init__", InvalidStateStoreError),
        ("annotations", InvalidStateStoreError),
        (7, InvalidStateStoreError),
    ):
        with pytest.raises(kind, match="because"):
            answer_of(("error", name, "because"))
    with pytest.raises(InvalidStateStoreError):
        answer_of(("error",))
    ours, theirs = socket.socketpair()
    with Channel(ours, CODEC, 1000, 1000) as one, Channel(theirs, CODEC, 1000, 1000) as other:
        send_error(one, OSError("no disk"))
        with pytest.raises(InvalidStateStoreError, match="no disk"):
            answer_of(other.receive(5))


def test_should_let_idle_readers_make_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listenings, "MAX_READERS", 3)
    held: list[Channel] = []
    gate = threading.Event()

    def answer(channel: Channel) -> None:
        held.append(channel)
        channel.idle_since = time.monotonic()
        while True:
            (what,) = channel.receive(30)
            channel.idle_since = None
            channel.send(what)
            if what == "work":
                gate.wait(LIMIT)

    listening = Listening("limited", KEY, CODEC, answer, folder=tmp_path)

    def ask(what: str) -> None:
        channel = connect(str(listening.address), KEY, CODEC, None)
        opened.append(channel)
        channel.send(what)
        assert answer_of(channel.receive(10)) == (what,)

    opened: list[Channel] = []
    ask("work")
    ask("work")
    with connect(str(listening.address), KEY, CODEC, None) as idle:
        wait_until(lambda: len(held) == 3, "the idle one is there")
        ask("work")  # takes the place of the idle one
        with pytest.raises(GONE):
            idle.receive(10)
    with pytest.raises(StateStoreNotAvailableError, match="3 readers"):
        ask("work")
    gate.set()
    for channel in opened:
        channel.close()
    listening.close()


def test_should_end_what_is_open_when_it_is_closed(echo: Echo) -> None:
    with echo.connect() as channel, echo.raw() as stranger:
        channel.send("a")
        channel.receive(10)
        echo.listening.close()
        with pytest.raises(GONE):
            channel.receive(10)
        stranger.settimeout(10)
        with contextlib.suppress(ConnectionResetError):
            while stranger.recv(4096):
                pass
    assert not echo.listening._threads
    with pytest.raises(OSError):
        echo.connect()


def test_should_keep_socket_files_to_its_user(tmp_path: Path) -> None:
    echo = Echo(tmp_path)
    assert os.stat(echo.address).st_mode & 0o777 == 0o600
    echo.listening.close()


def test_should_listen_in_a_folder_whose_path_is_too_long_for_a_socket(tmp_path: Path) -> None:
    folder = tmp_path / ("long-" * 20) / ("name-" * 20)
    folder.mkdir(parents=True)
    echo = Echo(folder)
    with echo.connect() as channel:
        channel.send("a")
        assert channel.receive(10)
    echo.listening.close()


# -- on a network


def test_should_say_nothing_in_plain_text_on_a_port(tmp_path: Path) -> None:
    echo = Echo(None)
    with echo.raw() as stranger:
        stranger.sendall(b"penstck1" + bytes(64))
        told = b""
        with contextlib.suppress(ConnectionResetError):
            while part := stranger.recv(100):
                told += part
        assert len(told) < 10, told  # an alert of TLS at most
    assert echo.got == []
    version = f"openssl s_client -connect 127.0.0.1:{echo.address[1]} -tls1_2 </dev/null"
    assert subprocess.run(version, shell=True, capture_output=True).returncode != 0
    echo.listening.close()


def test_should_take_no_other_certificate(tmp_path: Path) -> None:
    echo, other = Echo(None), openssl_identity("other")
    with pytest.raises(OSError, match="certificate"):
        connect(echo.address, KEY, CODEC, other)
    # Nor a listener with another one, before anything is proven to it; nor one that shows none.
    impostor = Listening("impostor", KEY, CODEC, lambda channel: None, host="127.0.0.1", identity=other)
    with pytest.raises(OSError, match="certificate"):
        connect(("127.0.0.1", int(impostor.address)), KEY, CODEC, openssl_identity())
    with pytest.raises(ChannelError, match="need TLS"):
        connect(echo.address, KEY, CODEC, None)
    with pytest.raises(ValueError, match="certificate"):
        Listening("plain", KEY, CODEC, lambda channel: None, host="127.0.0.1")
    answers(echo)
    impostor.close()
    echo.listening.close()


@pytest.mark.parametrize(
    ("host", "bound"),
    [("127.0.0.7", "127.0.0.7"), ("localhost", "127.0.0.1"), ("", "0.0.0.0"), ("no-such-host.invalid", "0.0.0.0")],
)
def test_should_listen_on_the_address_others_reach_it_at(host: str, bound: str) -> None:
    with listen_on_port(host) as listening:
        assert listening.getsockname()[0] in (bound, "::1")


def test_should_listen_on_all_addresses_where_its_name_leads_only_to_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    look_up: Callable[..., Any] = socket.getaddrinfo
    monkeypatch.setattr(socket, "getaddrinfo", lambda host, *a, **k: look_up("127.0.1.1", *a, **k))
    with listen_on_port("worker-7") as listening:
        assert listening.getsockname()[0] == "0.0.0.0"
