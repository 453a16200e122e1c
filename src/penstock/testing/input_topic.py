"""The input topics of a test."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Generic, Protocol, TypeVar

from penstock.processor import Duration
from penstock.record import FixedKeyRecord, Headers
from penstock.serdes.arguments import is_type
from penstock.serdes.contract import as_serializer, call_with_headers
from penstock.serdes.serde import Serdes
from penstock.testing.records import TestRecord, Timestamp, as_timestamp
from penstock.windows import to_ms

K = TypeVar("K")
V = TypeVar("V")

_VALUE_ONLY: Any = object()


class _Pipe(Protocol):
    def pipe_record(self, topic: str, timestamp: int, key: bytes | None, value: bytes | None, headers: Headers) -> None: ...


class TestInputTopic(Generic[K, V]):
    """Writes records to one topic of a `TopologyTestDriver`. Each is processed before the call returns.

    A record without a timestamp gets the topic's time. That begins at `start_timestamp`, and advances by `auto_advance` with
    each such record, and by `advance_time`.
    """

    __test__ = False  # not a test class of pytest

    def __init__(
        self, driver: _Pipe, topic: str, key_serde: Any, value_serde: Any, start_timestamp: Timestamp, auto_advance: Duration
    ) -> None:
        if topic is None:
            raise ValueError("the topic of create_input_topic() cannot be None: give its name")
        self._driver = driver
        self._topic = topic
        self._key_serializer = _required(as_serializer(as_serde(key_serde)), "key_serde", topic)
        self._value_serializer = _required(as_serializer(as_serde(value_serde)), "value_serde", topic)
        self._now = as_timestamp(start_timestamp)
        self._auto_advance = _forward(auto_advance, "auto_advance")

    def advance_time(self, advance: Duration) -> None:
        """Advance the topic's time."""
        self._now += _forward(advance, "advance")

    def pipe_input(
        self,
        key: K | FixedKeyRecord[K, V] | V | None,
        value: V | None = _VALUE_ONLY,
        timestamp: Timestamp | None = None,
        headers: Iterable[tuple[str, bytes | None]] = (),
    ) -> None:
        """Write one record: key and value, a value alone, or a whole `Record` or `TestRecord`.

        A `TestRecord` without a timestamp gets the topic's time.
        """
        if value is _VALUE_ONLY and isinstance(key, FixedKeyRecord):
            record: FixedKeyRecord[Any, Any] = key
        else:
            value_alone = value is _VALUE_ONLY
            record = TestRecord(None if value_alone else key, key if value_alone else value, timestamp, tuple(headers))
        time = self._next_time() if record.timestamp is None else record.timestamp
        raw = serialized(self._topic, record, self._key_serializer, self._value_serializer)
        self._driver.pipe_record(self._topic, time, *raw)

    def pipe_value(
        self, value: V | None, timestamp: Timestamp | None = None, headers: Iterable[tuple[str, bytes | None]] = ()
    ) -> None:
        """Write one record without a key."""
        self.pipe_input(None, value, timestamp, headers)

    def pipe_key_values(
        self,
        key_values: Iterable[tuple[K | None, V | None]],
        start_timestamp: Timestamp | None = None,
        advance: Duration = 0,
    ) -> None:
        """Write several records. With `start_timestamp` they get their own timestamps, `advance` apart."""
        for (key, value), timestamp in _timed(key_values, start_timestamp, advance):
            self.pipe_input(key, value, timestamp)

    def pipe_values(self, values: Iterable[V | None], start_timestamp: Timestamp | None = None, advance: Duration = 0) -> None:
        """Write several records without keys. With `start_timestamp` they get their own timestamps, `advance` apart."""
        for value, timestamp in _timed(values, start_timestamp, advance):
            self.pipe_input(None, value, timestamp)

    def pipe_records(self, records: Iterable[FixedKeyRecord[K, V]]) -> None:
        """Write several records unchanged."""
        for record in records:
            self.pipe_input(record)

    # Kafka Streams' names
    pipe_key_value_list = pipe_key_values
    pipe_value_list = pipe_values
    pipe_record_list = pipe_records

    def _next_time(self) -> int:
        now = self._now
        self._now += self._auto_advance
        return now

    def __repr__(self) -> str:
        return f"TestInputTopic(topic={self._topic!r})"


def as_serde(given: Any) -> Any:
    """Return the serde of a type. Other values are returned unchanged."""
    return Serdes.serde_from(given) if is_type(given) else given


def serialized(
    topic: str, record: FixedKeyRecord[Any, Any], key_serializer: Any, value_serializer: Any
) -> tuple[bytes | None, bytes | None, Headers]:
    """Serialize key and value. Serializers may add headers."""
    key_half = _required(as_serializer(as_serde(key_serializer)), "key_serializer", topic)
    value_half = _required(as_serializer(as_serde(value_serializer)), "value_serializer", topic)
    headers = list(record.headers)
    key = call_with_headers(key_half, topic, record.key, headers)
    value = call_with_headers(value_half, topic, record.value, headers)
    return key, value, tuple(headers)


def _timed(entries: Iterable[Any], start_timestamp: Timestamp | None, advance: Duration) -> Iterable[tuple[Any, int | None]]:
    if start_timestamp is None:
        return ((entry, None) for entry in entries)
    start, step = as_timestamp(start_timestamp), to_ms(advance, "advance")
    return ((entry, start + index * step) for index, entry in enumerate(entries))


def _forward(duration: Duration, what: str) -> int:
    milliseconds = to_ms(duration, what)
    if milliseconds < 0:
        raise ValueError(f"{what} must not be negative, got {duration!r}")
    return milliseconds


def _required(half: Callable[..., Any] | None, what: str, topic: str) -> Callable[..., Any]:
    if half is None:
        raise ValueError(f"topic {topic} needs a {what}: pass a serde or a serializer")
    return half
