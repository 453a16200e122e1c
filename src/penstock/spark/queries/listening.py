"""A listening socket of one process for the application's other processes, with limits.

Each connection gets a thread until it is authenticated or too slow. If too many are unauthenticated, the oldest is closed, so
that silent strangers do not block others. The number of authenticated readers is limited too: the one that is idle the
longest is closed for a new one.
"""

from __future__ import annotations

import contextlib
import ipaddress
import logging
import os
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path

from penstock.errors import StateStoreNotAvailableError
from penstock.spark.identity import Identity
from penstock.spark.queries.channel import GONE, PROOF_SECONDS, Channel, send_at_once, send_error, shut_down, socket_path, welcome
from penstock.wire import Codec

MAX_STRANGERS = 32
MAX_READERS = 64

_CLOSE_SECONDS = 5.0

_log = logging.getLogger(__name__)


class Listening:
    """Calls `answer(channel)` for each authenticated reader on its own thread.

    `address` is a socket file in `folder`, or with a `host` a port there, which requires TLS.
    """

    def __init__(
        self,
        name: str,
        key: bytes,
        codec: Codec,
        answer: Callable[[Channel], None],
        *,
        folder: Path | None = None,
        host: str = "",
        identity: Identity | None = None,
    ) -> None:
        self._name, self._key, self._codec, self._answer = name, key, codec, answer
        self._identity = identity
        self.address: str | int
        if folder is not None:
            self._socket, self.address = _listen_on_file(folder / "socket")
        else:
            if identity is None:
                raise ValueError("listening on a port needs TLS with a certificate")
            self._socket = listen_on_port(host)
            self.address = self._socket.getsockname()[1]
        self._lock = threading.Lock()
        self._strangers: dict[int, socket.socket] = {}
        self._readers: list[Channel] = []
        self._threads: set[threading.Thread] = set()
        self._closed = False
        threading.Thread(target=self._accept, name=name, daemon=True).start()

    def close(self) -> None:
        """Stop listening and close all connections. Returns when their threads have ended."""
        with self._lock:
            self._closed = True
            connected, readers, threads = list(self._strangers.values()), list(self._readers), list(self._threads)
        shut_down(self._socket)
        self._socket.close()
        for stranger in connected:
            shut_down(stranger)
        for reader in readers:
            reader.shut_down()
        deadline = time.monotonic() + _CLOSE_SECONDS
        for thread in threads:
            thread.join(max(0.0, deadline - time.monotonic()))

    def _accept(self) -> None:
        while not self._closed:
            try:
                accepted, _ = self._socket.accept()
            except OSError as exc:
                if self._closed or self._socket.fileno() < 0:
                    return
                _log.warning("%s: accepting a connection failed: %s", self._name, exc)
                time.sleep(0.1)  # perhaps too many open files, which passes
                continue
            thread = threading.Thread(target=self._serve, args=(accepted,), name=self._name, daemon=True)
            with self._lock:
                if self._closed:
                    accepted.close()
                    return
                while len(self._strangers) >= MAX_STRANGERS:
                    shut_down(self._strangers.pop(next(iter(self._strangers))))
                try:
                    thread.start()  # it waits for the lock before it uses the entry below
                except RuntimeError:  # too many threads, which passes
                    accepted.close()
                    continue
                self._strangers[id(thread)] = accepted
                self._threads.add(thread)

    def _serve(self, accepted: socket.socket) -> None:
        thread, channel = threading.current_thread(), None
        with self._lock:
            pass  # wait until `_accept` has registered this thread
        try:
            channel = self._known(accepted, thread)
            if channel is not None:
                self._answer(channel)
        except GONE as exc:
            _log.debug("%s: a reader disconnected: %s", self._name, exc)
        finally:
            self._forget(thread, channel)
            if channel is not None:
                channel.close()
            accepted.close()

    def _known(self, accepted: socket.socket, thread: threading.Thread) -> Channel | None:
        """Authenticate a reader. Returns None, after an error message, if there are too many readers."""
        connected = accepted
        try:
            if self._identity is not None:
                send_at_once(accepted)
                connected = encrypted = self._identity.server_side(accepted)
                with self._lock:
                    if id(thread) not in self._strangers:  # closed meanwhile for a newer connection
                        raise ConnectionAbortedError("closed for a newer connection")
                    self._strangers[id(thread)] = encrypted
                self._identity.greet(encrypted, PROOF_SECONDS)
            channel = welcome(connected, self._key, self._codec)
            if self._admit(channel, thread):
                return channel
            channel.receive(PROOF_SECONDS)  # read its request first, or it would not see the answer
            send_error(channel, StateStoreNotAvailableError(f"{MAX_READERS} readers are connected. Try again later"))
            channel.close()
            return None
        except BaseException:
            connected.close()
            raise

    def _admit(self, channel: Channel, thread: threading.Thread) -> bool:
        with self._lock:
            self._strangers.pop(id(thread), None)
            if self._closed:
                return False
            if len(self._readers) >= MAX_READERS:
                idle = [reader for reader in self._readers if reader.idle_since is not None]
                if not idle:
                    return False
                longest = min(idle, key=lambda reader: reader.idle_since or 0.0)
                self._readers.remove(longest)
                longest.shut_down()
            self._readers.append(channel)
            return True

    def _forget(self, thread: threading.Thread, channel: Channel | None) -> None:
        with self._lock:
            self._strangers.pop(id(thread), None)
            self._threads.discard(thread)
            if channel is not None and channel in self._readers:
                self._readers.remove(channel)


def listen_on_port(host: str) -> socket.socket:
    """Listen on a port of the host's reachable address, or of all addresses if that is unknown."""
    for family, address in _addresses(host):
        listening = socket.socket(family, socket.SOCK_STREAM)
        try:
            listening.bind((address, 0))
            listening.listen(128)
            return listening
        except OSError:
            listening.close()
    raise OSError(f"no port is available on {host or 'this host'} or on all of its addresses")


def _addresses(host: str) -> list[tuple[int, str]]:
    """Return addresses to listen on, best first. Names that resolve to loopback, as some hosts' own do, are skipped."""
    found: list[tuple[int, str]] = []
    with contextlib.suppress(OSError):
        literal = _is_address(host)
        for family, _, _, _, address in socket.getaddrinfo(host, 0, type=socket.SOCK_STREAM) if host else ():
            if literal or host == "localhost" or not ipaddress.ip_address(str(address[0]).partition("%")[0]).is_loopback:
                found.append((family, str(address[0])))
    return [*found, (socket.AF_INET, "")]


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def _listen_on_file(path: Path) -> tuple[socket.socket, str]:
    listening = socket.socket(socket.AF_UNIX)
    try:
        with socket_path(str(path)) as shorter:
            listening.bind(shorter)
        os.chmod(path, 0o600)
        listening.listen(128)
    except OSError:
        listening.close()
        raise
    return listening, str(path)
