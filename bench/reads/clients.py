"""Clients of a query server: processes with a connection each, since one that shares a core with what is measured spoils it."""

from __future__ import annotations

import multiprocessing
import random
import socket
import time
from collections.abc import Sequence
from dataclasses import dataclass
from multiprocessing.synchronize import Event
from typing import Any


@dataclass(frozen=True)
class Answered:
    """What one client had: how many answers in how many seconds, and how long each took."""

    answers: int
    seconds: float
    latencies: list[float]


def read_for(
    address: tuple[str, int], keys: Sequence[str], clients: int, seconds: float, rate: float | None = None
) -> list[Answered]:
    """Let so many clients ask for random keys, as fast as they are answered or at a rate of all of them together."""
    with Clients(address, keys, clients, rate) as running:
        time.sleep(seconds)
    return running.answered


class Clients:
    """Ask while the block lasts."""

    def __init__(self, address: tuple[str, int], keys: Sequence[str], clients: int, rate: float | None = None) -> None:
        context = multiprocessing.get_context("spawn")
        self._results: Any = context.Queue()
        self._stop = context.Event()
        pace = None if rate is None else clients / rate
        arguments = [(address, list(keys), pace, number, self._stop, self._results) for number in range(clients)]
        self._processes = [context.Process(target=_ask, args=one, daemon=True) for one in arguments]
        self.answered: list[Answered] = []

    def __enter__(self) -> Clients:
        for process in self._processes:
            process.start()
        for _ in self._processes:
            assert self._results.get(timeout=60) == "ready"
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for _ in self._processes:
            found = self._results.get(timeout=60)
            if isinstance(found, str):
                raise RuntimeError(found)
            self.answered.append(found)
        for process in self._processes:
            process.join()


def _ask(address: tuple[str, int], keys: list[str], pace: float | None, seed: int, stop: Event, results: Any) -> None:
    chance, latencies = random.Random(seed), list[float]()
    connection = socket.create_connection(address)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.settimeout(30)
    results.put("ready")
    started = time.monotonic()
    try:
        while not stop.is_set():
            if pace is not None and (wait := started + len(latencies) * pace - time.monotonic()) > 0:
                time.sleep(wait)
            before = time.monotonic()
            _get(connection, f"/api/stores/counts/keys/{chance.choice(keys)}")
            latencies.append(time.monotonic() - before)
        results.put(Answered(len(latencies), time.monotonic() - started, latencies))
    except Exception as exc:  # noqa: BLE001 - told to who has started the client
        results.put(f"a client failed: {exc!r}")


def _get(connection: socket.socket, path: str) -> bytes:
    """One answer; http.client would take as long as the server does."""
    connection.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
    data = b""
    while b"\r\n\r\n" not in data:
        data += _received(connection)
    head, _, body = data.partition(b"\r\n\r\n")
    lines = head.lower().split(b"\r\n")
    length = next(int(line.partition(b":")[2]) for line in lines if line.startswith(b"content-length:"))
    while len(body) < length:
        body += _received(connection)
    if b" 200 " not in lines[0]:
        raise RuntimeError(f"{path}: {lines[0].decode()} {body[:300].decode()}")
    return body


def _received(connection: socket.socket) -> bytes:
    data = connection.recv(65536)
    if not data:
        raise RuntimeError("the server closed the connection")
    return data
