"""Bytes as somebody would write them who wants to do harm, and a room in which they can do none."""

from __future__ import annotations

import pickle
import random
import resource
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from penstock.errors import SerializationError

COUNT = 2_000
"""How many hostile inputs each reader gets."""

_MEMORY = 512 * 1024 * 1024
_SECONDS = 120  # of all inputs together: no measure of speed, only the end of a loop that has none

# Lengths and counts in the formats that are read: int16, int32, int64, and Kafka's variable-length numbers.
_LENGTHS = [
    *(value.to_bytes(2, "big", signed=True) for value in (-1, 0, 2**15 - 1, -(2**15))),
    *(value.to_bytes(4, "big", signed=True) for value in (-(2**31), -2, -1, 0, 1, 255, 65_536, 2**24, 2**31 - 1)),
    *(value.to_bytes(8, "big", signed=True) for value in (-(2**63), -1, 0, 2**31, 2**62, 2**63 - 1)),
    b"\xff\xff\xff\xff\x0f",
    b"\xfe\xff\xff\xff\x0f",
    b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
    b"\x01",
    b"\x03",
]


class Bomb:
    """Whoever unpickles it gets an error that nobody expects."""

    def __reduce__(self) -> Any:
        return exec, ("raise AssertionError('a pickle from outside was loaded')",)


_NASTY = [
    b"",
    *(bytes([byte]) * size for byte in (0, 1, 2, 0x7F, 0x80, 0xFF) for size in (1, 2, 3, 4, 7, 8, 9, 12, 16, 17, 24, 100, 5_000)),
    *(pickle.dumps(Bomb(), protocol) for protocol in range(pickle.HIGHEST_PROTOCOL + 1)),
    b"[" * 100_000,
    b"[" * 50_000 + b"]" * 50_000,
    b'{"a":' * 50_000 + b"1" + b"}" * 50_000,
    b"9" * 100_000,
    b"-" + b"9" * 5_000,
    b"1e999999999",
    b"NaN",
    b"[NaN, Infinity, -Infinity]",
    b'"\\ud800"',
    b'{"\\udfff": "\\ud800\\udc00"}',
    b"\xef\xbb\xbf{}",
    b"\xff\xfe{\x00}\x00",
    b'{"a": 1, "a": 2}',
    b'{"__class__": "os.system", "__reduce__": ["exec", "1"]}',
    b"null",
    b"true",
    b"{}",
    b"[]",
    b'""',
    b"\x00null",
    "٣_٤ ²".encode(),
    "\u202e\u0000\ufeff".encode(),
]


def hostile(valid: Sequence[bytes], seed: int = 14, count: int = COUNT) -> Iterator[bytes]:
    """Known tricks first, then what chance makes of nothing and of bytes that are valid; the same for a seed."""
    drawn = random.Random(seed)
    makers: list[Callable[[random.Random, bytes], bytes]] = [_noise, _cut, _flipped, _lengthened, _joined]
    yield from _NASTY[:count]
    for number in range(max(0, count - len(_NASTY))):
        yield makers[number % len(makers)](drawn, drawn.choice(valid) if valid else b"")


def _noise(drawn: random.Random, _: bytes) -> bytes:
    return drawn.randbytes(drawn.choice((1, 2, 4, 8, 9, 12, 16, 20, 40, 100, drawn.randrange(300))))


def _cut(drawn: random.Random, data: bytes) -> bytes:
    if drawn.random() < 0.7:
        return data[: drawn.randrange(len(data) + 1)]
    return data[drawn.randrange(len(data) + 1) :] + drawn.randbytes(drawn.randrange(4))


def _flipped(drawn: random.Random, data: bytes) -> bytes:
    changed = bytearray(data or b"\x00")
    for _ in range(drawn.randrange(1, 9)):
        changed[drawn.randrange(len(changed))] ^= 1 << drawn.randrange(8)
    return bytes(changed)


def _lengthened(drawn: random.Random, data: bytes) -> bytes:
    """With a length somewhere that nothing behind it bears out."""
    at, length = drawn.randrange(len(data) + 1), drawn.choice(_LENGTHS)
    return data[:at] + length + data[at + (len(length) if drawn.random() < 0.8 else 0) :]


def _joined(drawn: random.Random, data: bytes) -> bytes:
    return data + drawn.choice(_LENGTHS) + data if drawn.random() < 0.5 else data + data


@contextmanager
def confined() -> Iterator[None]:
    """Half a gigabyte more than there is now, and two minutes: whoever believes a length that is declared needs more."""
    with open("/proc/self/statm") as pages:
        in_use = int(pages.read().split()[0]) * resource.getpagesize()
    before = resource.getrlimit(resource.RLIMIT_AS)
    handler = signal.signal(signal.SIGALRM, _too_long)
    resource.setrlimit(resource.RLIMIT_AS, (in_use + _MEMORY, before[1]))
    signal.alarm(_SECONDS)
    try:
        yield
    finally:
        signal.alarm(0)
        resource.setrlimit(resource.RLIMIT_AS, before)
        signal.signal(signal.SIGALRM, handler)


def _too_long(*_: Any) -> None:
    raise AssertionError(f"an input is still being read after {_SECONDS} s")


def assert_survives(
    read: Callable[[bytes], Any],
    valid: Sequence[bytes] = (),
    allowed: type[Exception] | tuple[type[Exception], ...] = SerializationError,
) -> None:
    """Each hostile input gives a value or one of the errors that `read` documents; valid ones give a value."""
    for data in valid:
        read(data)
    with confined():
        for number, data in enumerate(hostile(valid)):
            try:
                read(data)
            except allowed:
                pass
            except BaseException as exc:
                shown = data if len(data) <= 200 else data[:100] + b"..."
                raise AssertionError(f"input {number}, {len(data)} bytes {shown!r}: {type(exc).__name__}: {exc}") from exc
