"""Store entries as pairs of bytes, the cheapest form to send to another process. Each part names its form."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from itertools import chain
from typing import Any

from penstock.errors import ConfigError, SerializationError
from penstock.windows import SessionWindow, TimeWindow, Windowed

FIRST_PART, MOST_PER_PART = 64, 1_000
"""The first and the largest number of entries in a message. It starts small, because many readers stop early, and doubles."""

BYTES_PER_PART = 1024 * 1024

_TIME = struct.Struct(">q")
_BOUNDS = struct.Struct(">qq")
_SIZE_OF_OTHERS = 1024

Part = tuple[str, list[Any], bool]


def parts_of(entries: Iterator[Any]) -> Iterator[Part]:
    """Yield the entries in parts: the form, the entries, and whether this part is the last."""
    first = next(entries, None)
    if first is None:
        yield "other", [], True
        return
    form = _form_of(first)
    packed = map(_PACK[form], chain((first,), entries))
    most = FIRST_PART
    while True:
        part, ended = _taken(packed, most)
        yield form, part, ended
        if ended:
            return
        most = min(2 * most, MOST_PER_PART)


def entries_of(form: Any, part: Any) -> list[Any]:
    """Decode the entries of a part."""
    try:
        if form == "other":
            return list(part)
        unpack = _UNPACK[form]
        return part if unpack is None else [unpack(key, value) for key, value in part]
    except (KeyError, TypeError, ValueError, struct.error, ConfigError) as exc:
        raise SerializationError(f"entries of a store have an unknown form: {exc!r}") from exc


def _taken(packed: Iterator[Any], most: int) -> tuple[list[Any], bool]:
    part: list[Any] = []
    size = 0
    for entry in packed:
        part.append(entry)
        size += len(entry[0]) + len(entry[1] or b"") if type(entry) is tuple and type(entry[1]) is bytes else _SIZE_OF_OTHERS
        if len(part) >= most or size >= BYTES_PER_PART:
            return part, False
    return part, True


def _form_of(entry: Any) -> str:
    if type(entry) is tuple and len(entry) == 2 and isinstance(entry[1], bytes):
        key = entry[0]
        if isinstance(key, bytes):
            return "plain"
        if type(key) is int:
            return "times"
        if isinstance(key, Windowed) and isinstance(key.key, bytes):
            return _WINDOWS.get(type(key.window), "other")
    return "other"


def _unchanged(entry: Any) -> Any:
    return entry


def _with_time(entry: tuple[int, bytes]) -> tuple[bytes, bytes]:
    return _TIME.pack(entry[0]), entry[1]


def _with_window(entry: tuple[Windowed[bytes], bytes]) -> tuple[bytes, bytes]:
    key, value = entry
    return _BOUNDS.pack(key.window.start, key.window.end) + key.key, value


def _time_from(key: bytes, value: bytes) -> tuple[int, bytes]:
    return _TIME.unpack(key)[0], value


def _time_window_from(key: bytes, value: bytes) -> tuple[Windowed[bytes], bytes]:
    return Windowed(key[16:], TimeWindow(*_BOUNDS.unpack(key[:16]))), value


def _session_from(key: bytes, value: bytes) -> tuple[Windowed[bytes], bytes]:
    return Windowed(key[16:], SessionWindow(*_BOUNDS.unpack(key[:16]))), value


_WINDOWS: dict[type, str] = {TimeWindow: "windows", SessionWindow: "sessions"}

_PACK: dict[str, Callable[[Any], Any]] = {
    "plain": _unchanged,
    "times": _with_time,
    "windows": _with_window,
    "sessions": _with_window,
    "other": _unchanged,
}

_UNPACK: dict[str, Callable[[bytes, bytes], Any] | None] = {
    "plain": None,
    "times": _time_from,
    "windows": _time_window_from,
    "sessions": _session_from,
}
