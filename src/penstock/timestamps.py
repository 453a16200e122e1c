"""Where a record's time comes from: the timestamp extractors.

An extractor is a callable `(record, partition_time) -> int`; `record` is a consumed record with `topic`, `partition`,
`offset`, `timestamp`, `key`, `value`, `headers`, `partition_time` the highest timestamp seen in its partition (-1: none).
A negative result makes the task drop the record.
"""

from __future__ import annotations

import dis
import logging
import time
from collections.abc import Callable, Mapping
from typing import Any, Final

from penstock.errors import ConfigError, StreamsError
from penstock.import_paths import imported

_log = logging.getLogger(__name__)

ExtractTimestamp = Callable[[Any, int], int]
"""What an extractor is in the end: a callable of the record and the partition's time."""


class TimestampExtractor:
    """The base of extractors that are classes: they implement `extract`, and can be called.

    >>> class Created(TimestampExtractor):
    ...     def extract(self, record, partition_time):
    ...         return record.value["created"]
    >>> from penstock.record import RawRecord
    >>> Created()(RawRecord("topic", 0, 0, 42, None, {"created": 7}), -1)
    7
    """

    __slots__ = ()

    def extract(self, record: Any, partition_time: int) -> int:
        """The time of a record in milliseconds; negative: the record is dropped."""
        raise TypeError(f"{type(self).__name__} must implement extract(record, partition_time)")

    def __call__(self, record: Any, partition_time: int) -> int:
        """The time of a record."""
        return self.extract(record, partition_time)


class _ExtractRecordMetadataTimestamp(TimestampExtractor):
    """The record's own timestamp; subclasses decide what to do where it is negative."""

    __slots__ = ()

    def extract(self, record: Any, partition_time: int) -> int:
        """The timestamp of a record."""
        timestamp: int = record.timestamp
        if timestamp < 0:
            return self.on_invalid_timestamp(record, timestamp, partition_time)
        return timestamp

    __call__ = extract

    def on_invalid_timestamp(self, record: Any, timestamp: int, partition_time: int) -> int:
        """What is used where the record's own timestamp is negative."""
        raise TypeError(f"{type(self).__name__} must implement on_invalid_timestamp")

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self)

    def __hash__(self) -> int:
        return hash(type(self))

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


class FailOnInvalidTimestamp(_ExtractRecordMetadataTimestamp):
    """The record's own timestamp; a negative one stops the application (the default).

    >>> from penstock.record import RawRecord
    >>> FailOnInvalidTimestamp()(RawRecord("topic", 0, 0, 42, None, None), -1)
    42
    """

    __slots__ = ()

    def on_invalid_timestamp(self, record: Any, timestamp: int, partition_time: int) -> int:
        """Fails and says what can be done."""
        raise StreamsError(
            f"input record at {record.topic}-{record.partition} offset {record.offset} has the invalid (negative) timestamp "
            f"{timestamp}: it was perhaps written by a producer that sets none, or the topic was made before Kafka 0.10. "
            "Set default.timestamp.extractor to LogAndSkipOnInvalidTimestamp, UsePartitionTimeOnInvalidTimestamp, "
            "WallclockTimestampExtractor or one of your own."
        )


class LogAndSkipOnInvalidTimestamp(_ExtractRecordMetadataTimestamp):
    """The record's own timestamp; a record with a negative one is logged and dropped."""

    __slots__ = ()

    def on_invalid_timestamp(self, record: Any, timestamp: int, partition_time: int) -> int:
        """The negative timestamp itself, for which the task drops the record."""
        _log.warning(
            "Input record will be dropped because it has an invalid (negative) timestamp. "
            "topic=[%s] partition=[%s] offset=[%s] timestamp=[%s]",
            record.topic,
            record.partition,
            record.offset,
            timestamp,
        )
        return timestamp


class UsePartitionTimeOnInvalidTimestamp(_ExtractRecordMetadataTimestamp):
    """The record's own timestamp; for a negative one the highest of its partition so far."""

    __slots__ = ()

    def on_invalid_timestamp(self, record: Any, timestamp: int, partition_time: int) -> int:
        """The partition's time; an error where there is none yet."""
        if partition_time < 0:
            raise StreamsError(
                f"could not infer a timestamp for the record at {record.topic}-{record.partition} offset {record.offset}: "
                "the partition's time is not known yet. Set default.timestamp.extractor to another extractor."
            )
        return partition_time


class WallclockTimestampExtractor(TimestampExtractor):
    """The time at which the record is processed."""

    __slots__ = ()

    def extract(self, record: Any, partition_time: int) -> int:
        """The time on this machine's clock."""
        return time.time_ns() // 1_000_000

    __call__ = extract

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self)

    def __hash__(self) -> int:
        return hash(type(self))

    def __repr__(self) -> str:
        return "WallclockTimestampExtractor()"


_BY_NAME: Final[Mapping[str, type[Any]]] = {
    extractor.__name__: extractor
    for extractor in (
        FailOnInvalidTimestamp,
        LogAndSkipOnInvalidTimestamp,
        UsePartitionTimeOnInvalidTimestamp,
        WallclockTimestampExtractor,
    )
}


def uses_partition_time(extractor: Any) -> bool:
    """Whether what an extractor gives may depend on the partition's time; what cannot be looked into may.

    >>> uses_partition_time(lambda record, partition_time: record.value["at"]), uses_partition_time(max)
    (False, True)
    """
    if isinstance(extractor, (FailOnInvalidTimestamp, LogAndSkipOnInvalidTimestamp, WallclockTimestampExtractor)):
        return False  # the first two hand it on to what ignores it
    if isinstance(extractor, TimestampExtractor):
        extractor = extractor.extract
    function = extractor if hasattr(extractor, "__code__") or hasattr(extractor, "__func__") else type(extractor).__call__
    function = getattr(function, "__func__", function)
    code = getattr(function, "__code__", None)
    # A bound method, also that of an object, has `self` before the record.
    at = 1 + (function is not extractor)
    if code is None or code.co_argcount <= at:
        return True
    name = code.co_varnames[at]
    return name in code.co_cellvars or any(
        instruction.argval == name or (isinstance(instruction.argval, tuple) and name in instruction.argval)
        for instruction in dis.get_instructions(code)
        if "FAST" in instruction.opname or instruction.opname == "LOAD_DEREF"
    )


def resolve_timestamp_extractor(value: Any, what: str = "timestamp extractor") -> ExtractTimestamp:
    """The extractor a configuration value stands for; `what` names the key in the error.

    A value is a callable, a class, an object with `extract`, a name (also with Java's package), or an import path.

    >>> resolve_timestamp_extractor("org.apache.kafka.streams.processor.WallclockTimestampExtractor")
    WallclockTimestampExtractor()
    """
    if isinstance(value, str):
        value = _named(value, what)
    if isinstance(value, type):
        try:
            value = value()
        except Exception as exc:
            raise ConfigError(f"{what} = {value!r} could not be made without arguments: {exc}") from exc
    if isinstance(value, TimestampExtractor) and type(value).extract is TimestampExtractor.extract:
        raise ConfigError(f"{what} = {value!r} lacks its method extract(record, partition_time)")
    if callable(value):
        return value  # type: ignore[no-any-return]
    extract = getattr(value, "extract", None)
    if callable(extract):
        return extract  # type: ignore[no-any-return]
    raise ConfigError(f"{what} = {value!r} is not a timestamp extractor: expected {_expected()}")


def _named(name: str, what: str) -> Any:
    known = _BY_NAME.get(name.rpartition(".")[2])
    if known is not None:
        return known
    try:
        return imported(name)
    except (ImportError, AttributeError, ValueError) as exc:
        raise ConfigError(f"{what} = {name!r} is not a timestamp extractor: {exc}; expected {_expected()}") from exc


def _expected() -> str:
    return f"one of {', '.join(_BY_NAME)}, an import path, or a callable (record, partition_time) -> int"
