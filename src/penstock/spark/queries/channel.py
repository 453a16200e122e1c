"""Messages between the processes of one application: how threads and the driver talk about state.

Who connects and who listens prove to each other that they know the application's key before anything else is read; until then
only so many bytes are read as a proof has, and only for so long. After that each message is its length and plain values as
`wire` writes them. Nothing is ever unpickled, and every read and write has a limit of size and of time.

    listener   MAGIC, a nonce of 32 bytes
    reader     a nonce of 32 bytes, HMAC(key, "reader", both nonces)
    listener   HMAC(key, "listener", both nonces)
    either     <4 bytes length> <message>, …

The two proofs differ in what they say of the side they come from, so that what one side said proves nothing when it is sent back
to it. On a network all of this runs within TLS (`identity.py`).
"""

from __future__ import annotations

import contextlib
import hmac
import os
import secrets
import select
import socket
import ssl
import struct
import time
from collections.abc import Iterator
from typing import Any

from penstock import errors
from penstock.errors import InvalidStateStoreError, PenstockError, SerializationError
from penstock.spark.identity import Identity
from penstock.wire import Codec

Address = str | tuple[str, int]
"""A socket file on this host, or a host and a port."""

MAX_REQUEST = 4 * 1024 * 1024
MAX_ANSWER = 256 * 1024 * 1024
"""The longest messages, in bytes: a request has a key or two in it, an answer a value at least."""

PROOF_SECONDS = 10.0
"""How long two sides may take to prove themselves, TLS included."""

_CONNECT_SECONDS = 5.0
_LONGEST_PATH = 107
_MESSAGE_SECONDS = 60.0
_READ_AT_ONCE = 256 * 1024
_NONCE_SIZE = 32
_PROOF_SIZE = 32
_MAGIC = b"penstck1"
_LENGTH = struct.Struct(">I")
_TIMEVAL = struct.Struct("@ll")


class ChannelError(OSError):
    """The other side is not who it should be, or does not keep to the protocol; the channel is of no more use."""


GONE = (OSError, EOFError)
"""What a channel raises when the other side is gone, silent or a stranger."""


class Channel:
    """Plain values, one message after the other, with somebody who knows the key."""

    def __init__(self, connected: socket.socket, codec: Codec, max_received: int, max_sent: int) -> None:
        self._socket = connected
        self._codec = codec
        self._max_received = max_received
        self._max_sent = max_sent
        self.idle_since: float | None = None
        """Since when nobody has anything to do here; whoever listens may end such a channel to make room for others."""

    def send(self, *message: Any) -> None:
        """Tell the other side; raises SerializationError, with nothing sent, for what is too long or no plain data."""
        data = self._codec.encode(message)
        if len(data) > self._max_sent:
            raise SerializationError(f"a message of {len(data)} bytes is longer than the {self._max_sent} that are sent at once")
        self._socket.settimeout(_MESSAGE_SECONDS)
        self._socket.sendall(_LENGTH.pack(len(data)) + data)

    def receive(self, seconds: float) -> tuple[Any, ...]:
        """The next message, if it begins within so many seconds."""
        try:
            self._socket.settimeout(seconds)
            first = self._socket.recv(_LENGTH.size)
        except TimeoutError as exc:
            raise ChannelError(f"no answer for {seconds:.0f} s") from exc
        if not first:
            raise EOFError("the other side has ended the connection")
        deadline = time.monotonic() + _MESSAGE_SECONDS
        (length,) = _LENGTH.unpack(first + _read(self._socket, _LENGTH.size - len(first), deadline))
        if length > self._max_received:
            raise ChannelError(f"a message of {length} bytes was announced, {self._max_received} are taken")
        try:
            message = self._codec.decode(_read(self._socket, length, deadline))
        except SerializationError as exc:
            raise ChannelError(f"what was received is no message: {exc}") from exc
        if type(message) is not tuple or not message or type(message[0]) is not str:
            raise ChannelError("what was received is no message: it does not say what it is")
        return message

    @property
    def is_quiet(self) -> bool:
        """Whether it is open and nothing has come: what comes unasked is the end of the connection."""
        return not self.has_come(0.0)

    def has_come(self, seconds: float) -> bool:
        """Whether something comes within so many seconds: a message, or the end of the connection."""
        try:
            if isinstance(self._socket, ssl.SSLSocket) and self._socket.pending():
                return True
            waiting = select.poll()
            waiting.register(self._socket.fileno(), select.POLLIN | select.POLLHUP | select.POLLERR)
            return bool(waiting.poll(seconds * 1000))
        except (OSError, ValueError):
            return True  # closed

    def shut_down(self) -> None:
        """End the connection under whoever waits for it on another thread."""
        shut_down(self._socket)

    def close(self) -> None:
        """End the connection."""
        self._socket.close()

    def __enter__(self) -> Channel:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def connect(address: Address, key: bytes, codec: Codec, identity: Identity | None, seconds: float = PROOF_SECONDS) -> Channel:
    """A channel to whoever listens there, who knows the key as we do, within so many seconds; over a network within TLS."""
    deadline = time.monotonic() + seconds
    connected = _connected(address, min(seconds, _CONNECT_SECONDS))
    try:
        if not isinstance(address, str):
            if identity is None:
                raise ChannelError("what crosses a network is encrypted, and there is no certificate to do it with")
            connected = encrypted = identity.client_side(connected)
            identity.greet(encrypted, max(0.001, deadline - time.monotonic()))
        _prove_as_reader(connected, key, deadline)
    except BaseException:
        connected.close()
        raise
    return Channel(connected, codec, MAX_ANSWER, MAX_REQUEST)


def welcome(accepted: socket.socket, key: bytes, codec: Codec) -> Channel:
    """A channel to a reader who knows the key; raises ChannelError for strangers."""
    _prove_as_listener(accepted, key, time.monotonic() + PROOF_SECONDS)
    return Channel(accepted, codec, MAX_REQUEST, MAX_ANSWER)


def send_error(channel: Channel, error: Exception) -> None:
    """Tell what went wrong: an error of penstock by its name, every other as text."""
    known = type(error) if isinstance(error, PenstockError) else InvalidStateStoreError
    text = str(error) if isinstance(error, PenstockError) else f"the store failed to answer: {error!r}"
    channel.send("error", known.__name__, text[:100_000])


def answer_of(message: tuple[Any, ...]) -> tuple[Any, ...]:
    """The message, unless it tells of an error: that is raised, as one of penstock's own errors and no other."""
    if message[0] == "error":
        _, name, text = (*message, "", "")[:3]
        known = getattr(errors, name, None) if isinstance(name, str) else None
        if not (isinstance(known, type) and issubclass(known, PenstockError)):
            known = InvalidStateStoreError
        raise known(str(text))
    return message


def shut_down(connected: socket.socket) -> None:
    """End a connection under whoever waits for it on another thread; TLS does not say good-bye."""
    with contextlib.suppress(OSError):
        socket.socket.shutdown(connected, socket.SHUT_RDWR)


def send_at_once(connected: socket.socket) -> None:
    """Small messages go at once on a network too: 40 ms each otherwise."""
    connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


@contextlib.contextmanager
def socket_path(path: str) -> Iterator[str]:
    """A path that the system takes for a socket: one of more than 107 bytes is named by its folder, which is opened for that."""
    if len(os.fsencode(path)) <= _LONGEST_PATH:
        yield path
        return
    folder, name = os.path.split(path)
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{descriptor}/{name}"
    finally:
        os.close(descriptor)


def _connected(address: Address, seconds: float) -> socket.socket:
    if not isinstance(address, str):
        connected = socket.create_connection(address, seconds)
        send_at_once(connected)
        return connected
    connected = socket.socket(socket.AF_UNIX)
    try:
        # Without a Python timeout: the system waits while too many others are waiting to be accepted, and does not fail at once.
        connected.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, _TIMEVAL.pack(int(seconds), int(seconds % 1 * 1e6) or 1))
        with socket_path(address) as path:
            connected.connect(path)
        connected.settimeout(seconds)
    except OSError:
        connected.close()
        raise
    return connected


def _prove_as_listener(accepted: socket.socket, key: bytes, deadline: float) -> None:
    ours = secrets.token_bytes(_NONCE_SIZE)
    accepted.settimeout(PROOF_SECONDS)
    accepted.sendall(_MAGIC + ours)
    said = _read(accepted, _NONCE_SIZE + _PROOF_SIZE, deadline)
    theirs, proof = said[:_NONCE_SIZE], said[_NONCE_SIZE:]
    if not hmac.compare_digest(proof, _proof(key, b"reader", ours, theirs)):
        raise ChannelError("a stranger: it does not know the application's key")
    accepted.sendall(_proof(key, b"listener", ours, theirs))


def _prove_as_reader(connected: socket.socket, key: bytes, deadline: float) -> None:
    said = _read(connected, len(_MAGIC) + _NONCE_SIZE, deadline)
    if said[: len(_MAGIC)] != _MAGIC:
        raise ChannelError("what listens there is not of this application")
    theirs, ours = said[len(_MAGIC) :], secrets.token_bytes(_NONCE_SIZE)
    connected.sendall(ours + _proof(key, b"reader", theirs, ours))
    try:
        proof = _read(connected, _PROOF_SIZE, deadline)
    except EOFError as exc:
        raise ChannelError("what listens there has another key: it is not of this application") from exc
    if not hmac.compare_digest(proof, _proof(key, b"listener", theirs, ours)):
        raise ChannelError("what listens there does not know the application's key")


def _proof(key: bytes, side: bytes, listeners: bytes, readers: bytes) -> bytes:
    if not key:
        raise ChannelError("the application has no key, so nobody can prove to be of it")
    return hmac.digest(key, _MAGIC + side + b"\0" + listeners + readers, "sha256")


def _read(connected: socket.socket, count: int, deadline: float) -> bytes:
    """Exactly so many bytes; memory is taken as they come, whatever was announced."""
    parts, missing = [], count
    while missing:
        left = deadline - time.monotonic()
        if left <= 0:
            raise ChannelError("the other side takes too long for what it says")
        connected.settimeout(left)
        part = connected.recv(min(missing, _READ_AT_ONCE))
        if not part:
            raise EOFError("the other side has ended the connection")
        parts.append(part)
        missing -= len(part)
    return b"".join(parts)
