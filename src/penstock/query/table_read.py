"""Which part of a store a table reads: all of it, some keys, a range of keys, windows that start in a range of time.

What is read may be more than what a query wants to see, never less: whoever asks filters what comes.
"""

from __future__ import annotations

import base64
import json
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from penstock.query.columns import is_builtin, sql_type
from penstock.serdes import codecs as codecs
from penstock.serdes.serde import as_deserializer

MAX_KEYS: Final = 1_000
"""So many keys are looked up one by one; of more all is read."""

MAX_TIME: Final = 2**63 - 1

_WHOLE = {"bigint": 63, "int": 31, "smallint": 15}
_SERIALIZERS: Final[Mapping[str, Callable[[str, Any], bytes | None]]] = {
    "string": codecs.serialize_string,
    "uuid": codecs.serialize_string,
    "bigint": codecs.serialize_long,
    "int": codecs.serialize_integer,
    "smallint": codecs.serialize_short,
    "binary": codecs.serialize_bytes,
}
_FIELDS: Final = ("keys", "low", "high", "start_low", "start_high")


@dataclass(frozen=True)
class TableRead:
    """Keys are as their column shows them; bounds are included, None leaves them open. The empty tuple of keys reads nothing."""

    keys: tuple[Any, ...] | None = None
    low: Any = None
    high: Any = None
    start_low: int | None = None
    start_high: int | None = None

    @property
    def is_all(self) -> bool:
        """Whether everything is read."""
        return self == ALL

    def to_text(self) -> str:
        """As JSON, for an address or an option."""
        found = {name: getattr(self, name) for name in _FIELDS if getattr(self, name) is not None}
        return json.dumps(found, default=_as_base64, ensure_ascii=False, separators=(",", ":"))

    @classmethod
    def from_text(cls, text: str, key_format: str | None) -> TableRead:
        """From what `to_text` gave, for keys of a format; ValueError says what is wrong with it."""
        try:
            found = json.loads(text) if text else {}
        except RecursionError:
            raise ValueError("it is nested too deeply") from None
        if not isinstance(found, dict) or not found.keys() <= {*_FIELDS}:
            raise ValueError(f"it has to be an object of {', '.join(_FIELDS)}")
        if key_format is None:
            if not found.keys().isdisjoint(("keys", "low", "high")):
                raise ValueError("only the serde of its keys knows their bytes")
            key_format = ""
        keys = found.get("keys")
        if keys is not None and (not isinstance(keys, list) or len(keys) > MAX_KEYS):
            raise ValueError(f"`keys` has to be a list of at most {MAX_KEYS}")
        low, high = (None if found.get(name) is None else key_of(found[name], key_format) for name in ("low", "high"))
        if (low is not None or high is not None) and key_format == "uuid":
            raise ValueError("keys of this store are not in the order of their text")
        times = [found.get(name) for name in ("start_low", "start_high")]
        if not all(time is None or (type(time) is int and abs(time) <= MAX_TIME) for time in times):
            raise ValueError("times are whole numbers of milliseconds")
        return cls(None if keys is None else tuple(key_of(key, key_format) for key in keys), low, high, *times)


ALL: Final = TableRead()


def key_format_of(serde: Any) -> str | None:
    """How the keys of a serde look as a column, where a key's bytes follow from that; None where only the serde knows.

    >>> from penstock.serdes.serde import Serdes
    >>> key_format_of(Serdes.string()), key_format_of(Serdes.uuid()), key_format_of(Serdes.long()), key_format_of(Serdes.json())
    ('string', 'uuid', 'bigint', None)
    """
    if not is_builtin(serde):
        return None
    deserializer = as_deserializer(serde)
    if deserializer is codecs.deserialize_uuid:
        return "uuid"
    kind = sql_type(serde)
    return kind if kind in _SERIALIZERS and (kind != "string" or deserializer is codecs.deserialize_string) else None


def key_of(value: Any, key_format: str) -> Any:
    """A key as its column shows it, from what JSON or a filter of Spark holds; ValueError where it cannot be one."""
    if key_format in _WHOLE:
        if type(value) is not int or not -(1 << _WHOLE[key_format]) <= value < 1 << _WHOLE[key_format]:
            raise ValueError(f"{value!r:.50} is not a whole number of type {key_format}")
        return value
    if key_format == "binary" and isinstance(value, bytes | bytearray):
        return bytes(value)
    if not isinstance(value, str):
        raise ValueError(f"{value!r:.50} is not a key of type {key_format}")
    if key_format == "binary":
        return base64.b64decode(value, validate=True)
    value.encode()  # halves of surrogate pairs are no text
    return value if key_format == "string" else str(uuid.UUID(value))


def as_key(value: Any, key_format: str | None) -> Any:
    """A key as the store takes it, from what its column shows."""
    return uuid.UUID(value) if key_format == "uuid" else value


def key_from_text(text: str, key_format: str) -> Any:
    """A key from an option, which is text: numbers in digits, bytes in base64.

    >>> key_from_text("7", "bigint"), key_from_text("YWI=", "binary")
    (7, b'ab')
    """
    return key_of(int(text) if key_format in _WHOLE else text, key_format)


def key_bytes(key: Any, key_format: str) -> bytes:
    """A key as its serde writes it."""
    raw = _SERIALIZERS[key_format]("", key)
    assert raw is not None
    return raw


def ranges_of(low: Any, high: Any, key_format: str) -> list[tuple[Any, Any]]:
    """The ranges of the keys' bytes that together are one of the keys: negative numbers come behind the others as bytes.

    >>> ranges_of("a", None, "string"), ranges_of(-3, 5, "int"), ranges_of(3, 2, "int")
    ([('a', None)], [(0, 5), (-3, -1)], [])
    """
    if key_format not in _WHOLE:
        return [] if low is not None and high is not None and low > high else [(low, high)]
    least, most = -(1 << _WHOLE[key_format]), (1 << _WHOLE[key_format]) - 1
    low, high = least if low is None else low, most if high is None else high
    found = [(max(low, 0), high), (low, min(high, -1))]
    return [(first, last) for first, last in found if first <= last]


def read_of_options(options: Mapping[str, str], key_format: str | None) -> TableRead:
    """What the options `key`, `key.from`, `key.to`, `window.from` and `window.to` of a table ask for."""
    texts = {name: options.get(name) for name in ("key", "key.from", "key.to")}
    if any(text is not None for text in texts.values()) and key_format is None:
        raise ValueError("keys of this store cannot be given as an option: only its serde knows their bytes; filter the table")
    key, low, high = (None if text is None else key_from_text(text, str(key_format)) for text in texts.values())
    times = [None if options.get(name) is None else int(options[name]) for name in ("window.from", "window.to")]
    if key_format == "uuid" and (low is not None or high is not None):
        raise ValueError("keys of this store are not in the order of their text: `key.from` and `key.to` are not for it")
    return TableRead(None if key is None else (key,), low, high, *times)


def _as_base64(value: Any) -> str:
    return base64.b64encode(value).decode()
