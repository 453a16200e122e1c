"""Messages between the processes of one application, for reading state.

Both sides first prove that they know the application's key. Until then only the bytes of a proof are read, for a limited
time. Afterwards a message is its length and plain values in the format of `wire.py`. Nothing is unpickled, and all reads and
writes are limited in size and time.

    listener   MAGIC, a nonce of 32 bytes
    reader     a nonce of 32 bytes, HMAC(key, "reader", both nonces)
    listener   HMAC(key, "listener", both nonces)
    either     <4 bytes length> <message>, …

The HMACs contain the side's role, so a proof cannot be sent back as the answer. On a network all of this runs within TLS
(`spark/identity.py`).
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
"""The longest messages in bytes. A request has a few keys; an answer has at least a value."""

PROOF_SECONDS = 10.0
"""The time limit for both proofs, TLS included."""

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
    """The peer is not authenticated or violates the protocol. The channel is unusable."""


GONE = (OSError, EOFError)
"""Errors of a channel whose peer has disconnected, does not answer, or is not authenticated."""


class Channel:
    """Exchanges messages of plain values with an authenticated peer."""

    def __init__(self, connected: socket.socket, codec: Codec, max_received: int, max_sent: int) -> None:
        self._socket = connected
        self._codec = codec
        self._max_received = max_received
        self._max_sent = max_sent
        self.idle_since: float | None = None
        """The time since the channel is idle. The listener may close an idle channel to accept another."""

    def send(self, *message: Any) -> None:
        """Send a message. Raises SerializationError, and sends nothing, if it is too long or not plain data."""
        data = self._codec.encode(message)
        if len(data) > self._max_sent:
            raise SerializationError(f"a message has {len(data)} bytes, but at most {self._max_sent} can be sent")
        self._socket.settimeout(_MESSAGE_SECONDS)
        self._socket.sendall(_LENGTH.pack(len(data)) + data)

    def receive(self, seconds: float) -> tuple[Any, ...]:
        """Return the next message. Raises ChannelError if none begins within `seconds`."""
        try:
            self._socket.settimeout(seconds)
            first = self._socket.recv(_LENGTH.size)
        except TimeoutError as exc:
            raise ChannelError(f"no answer within {seconds:.0f} s") from exc
        if not first:
            raise EOFError("the peer closed the connection")
        deadline = time.monotonic() + _MESSAGE_SECONDS
        (length,) = _LENGTH.unpack(first + _read(self._socket, _LENGTH.size - len(first), deadline))
        if length > self._max_received:
            raise ChannelError(f"a message has {length} bytes, but at most {self._max_received} are accepted")
        try:
            message = self._codec.decode(_read(self._socket, length, deadline))
        except SerializationError as exc:
            raise ChannelError(f"the peer sent an invalid message: {exc}") from exc
        if type(message) is not tuple or not message or type(message[0]) is not str:
            raise ChannelError("the peer sent an invalid message: it has no type")
        return message

    @property
    def is_quiet(self) -> bool:
        """True if the channel is open and no data wait. Unrequested data mean that the connection has ended."""
        return not self.has_come(0.0)

    def has_come(self, seconds: float) -> bool:
        """Return True if a message, or the end of the connection, arrives within `seconds`."""
        try:
            if isinstance(self._socket, ssl.SSLSocket) and self._socket.pending():
                return True
            waiting = select.poll()
            waiting.register(self._socket.fileno(), select.POLLIN | select.POLLHUP | select.POLLERR)
            return bool(waiting.poll(seconds * 1000))
        except (OSError, ValueError):
            return True  # closed

    def shut_down(self) -> None:
        """End the connection, also while another thread waits on it."""
        shut_down(self._socket)

    def close(self) -> None:
        self._socket.close()

    def __enter__(self) -> Channel:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def connect(address: Address, key: bytes, codec: Codec, identity: Identity | None, seconds: float = PROOF_SECONDS) -> Channel:
    """Connect to a listener and authenticate both sides within `seconds`. Network connections use TLS."""
    deadline = time.monotonic() + seconds
    connected = _connected(address, min(seconds, _CONNECT_SECONDS))
    try:
        if not isinstance(address, str):
            if identity is None:
                raise ChannelError("network connections need TLS, but the application has no certificate")
            connected = encrypted = identity.client_side(connected)
            identity.greet(encrypted, max(0.001, deadline - time.monotonic()))
        _prove_as_reader(connected, key, deadline)
    except BaseException:
        connected.close()
        raise
    return Channel(connected, codec, MAX_ANSWER, MAX_REQUEST)


def welcome(accepted: socket.socket, key: bytes, codec: Codec) -> Channel:
    """Authenticate an accepted reader. Raises ChannelError if it does not know the key."""
    _prove_as_listener(accepted, key, time.monotonic() + PROOF_SECONDS)
    return Channel(accepted, codec, MAX_REQUEST, MAX_ANSWER)


def send_error(channel: Channel, error: Exception) -> None:
    """Send an error: penstock's own by name, others as text."""
    known = type(error) if isinstance(error, PenstockError) else InvalidStateStoreError
    text = str(error) if isinstance(error, PenstockError) else f"the store failed to answer: {error!r}"
    channel.send("error", known.__name__, text[:100_000])


def answer_of(message: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the message. If it has an error, raise that as one of penstock's own error classes."""
    if message[0] == "error":
        _, name, text = (*message, "", "")[:3]
        known = getattr(errors, name, None) if isinstance(name, str) else None
        if not (isinstance(known, type) and issubclass(known, PenstockError)):
            known = InvalidStateStoreError
        raise known(str(text))
    return message


def shut_down(connected: socket.socket) -> None:
    """End a connection, also while another thread waits on it. TLS sends no close notification."""
    with contextlib.suppress(OSError):
        socket.socket.shutdown(connected, socket.SHUT_RDWR)


def send_at_once(connected: socket.socket) -> None:
    """Disable Nagle's algorithm, which delays small messages by 40 ms on a network."""
    connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


@contextlib.contextmanager
def socket_path(path: str) -> Iterator[str]:
    """Yield a path for a socket. A path above 107 bytes is replaced by one through its opened folder."""
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
        # No Python timeout: connect would fail at once while the listener's queue is full. With SO_SNDTIMEO it waits.
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
        raise ChannelError("the reader does not know the application's key")
    accepted.sendall(_proof(key, b"listener", ours, theirs))


def _prove_as_reader(connected: socket.socket, key: bytes, deadline: float) -> None:
    said = _read(connected, len(_MAGIC) + _NONCE_SIZE, deadline)
    if said[: len(_MAGIC)] != _MAGIC:
        raise ChannelError("the listener does not belong to this application")
    theirs, ours = said[len(_MAGIC) :], secrets.token_bytes(_NONCE_SIZE)
    connected.sendall(ours + _proof(key, b"reader", theirs, ours))
    try:
        proof = _read(connected, _PROOF_SIZE, deadline)
    except EOFError as exc:
        raise ChannelError("the listener has another key: it does not belong to this application") from exc
    if not hmac.compare_digest(proof, _proof(key, b"listener", theirs, ours)):
        raise ChannelError("the listener does not know the application's key")


def _proof(key: bytes, side: bytes, listeners: bytes, readers: bytes) -> bytes:
    if not key:
        raise ChannelError("the application has no key, so no proof is possible")
    return hmac.digest(key, _MAGIC + side + b"\0" + listeners + readers, "sha256")


def _read(connected: socket.socket, count: int, deadline: float) -> bytes:
    """Read exactly `count` bytes. Memory is allocated as they arrive, not as announced."""
    parts, missing = [], count
    while missing:
        left = deadline - time.monotonic()
        if left <= 0:
            raise ChannelError("the peer sends its message too slowly")
        connected.settimeout(left)
        part = connected.recv(min(missing, _READ_AT_ONCE))
        if not part:
            raise EOFError("the peer closed the connection")
        parts.append(part)
        missing -= len(part)
    return b"".join(parts)
