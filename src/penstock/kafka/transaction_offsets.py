"""Add offsets to a producer's transaction so that Kafka Streams (Java) can read their metadata.

confluent-kafka's `send_offsets_to_transaction` includes the terminating zero byte in the metadata. Kafka Streams ignores such
metadata and would lose partition times and window emit times. This module therefore calls librdkafka's function directly, in
the library that confluent-kafka has loaded. If that fails, it uses confluent-kafka's call: penstock reads either form.

The client's handle is the first field of confluent-kafka's object in all releases. Before use, librdkafka confirms the handle's
owner.
"""

from __future__ import annotations

import ctypes
import logging
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka import TopicPartition as ClientPartition

from penstock.ids import TopicPartition
from penstock.runtime.offset_metadata import OffsetAndMetadata

_log = logging.getLogger(__name__)

_READABLE = 1024  # bytes of librdkafka's handle, which is larger


class _Partition(ctypes.Structure):
    """librdkafka's `rd_kafka_topic_partition_t`, as in its public header."""

    _fields_ = [
        ("topic", ctypes.c_char_p),
        ("partition", ctypes.c_int32),
        ("offset", ctypes.c_int64),
        ("metadata", ctypes.c_void_p),
        ("metadata_size", ctypes.c_size_t),
        ("opaque", ctypes.c_void_p),
        ("error", ctypes.c_int),
        ("private", ctypes.c_void_p),
    ]


_POINTER, _TEXT, _INT = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int
# The result and argument types of the librdkafka functions in use.
_FUNCTIONS: dict[str, tuple[Any, list[Any]]] = {
    "rd_kafka_opaque": (_POINTER, [_POINTER]),
    "rd_kafka_topic_partition_list_new": (_POINTER, [_INT]),
    "rd_kafka_topic_partition_list_add": (ctypes.POINTER(_Partition), [_POINTER, _TEXT, ctypes.c_int32]),
    "rd_kafka_topic_partition_list_destroy": (None, [_POINTER]),
    "rd_kafka_consumer_group_metadata_read": (_POINTER, [ctypes.POINTER(_POINTER), _POINTER, ctypes.c_size_t]),
    "rd_kafka_consumer_group_metadata_destroy": (None, [_POINTER]),
    "rd_kafka_send_offsets_to_transaction": (_POINTER, [_POINTER, _POINTER, _POINTER, _INT]),
    "rd_kafka_error_code": (_INT, [_POINTER]),
    "rd_kafka_error_string": (_TEXT, [_POINTER]),
    "rd_kafka_error_is_fatal": (_INT, [_POINTER]),
    "rd_kafka_error_is_retriable": (_INT, [_POINTER]),
    "rd_kafka_error_txn_requires_abort": (_INT, [_POINTER]),
    "rd_kafka_error_destroy": (None, [_POINTER]),
}


class TransactionOffset(NamedTuple):
    """An offset to commit with a transaction."""

    partition: TopicPartition
    committed: OffsetAndMetadata


def send_offsets(producer: Producer, offsets: Sequence[TransactionOffset], group_metadata: bytes, timeout: float) -> None:
    """Add offsets to the open transaction of a producer. Raises KafkaException if librdkafka refuses."""
    handle = _handle_of(producer)
    if handle is None:
        positions = [ClientPartition(p.topic, p.partition, o.offset, o.metadata) for p, o in offsets]
        producer.send_offsets_to_transaction(positions, group_metadata, timeout)
        return
    library = _library()
    group = _POINTER()
    _check(library, library.rd_kafka_consumer_group_metadata_read(ctypes.byref(group), group_metadata, len(group_metadata)))
    texts = [committed.metadata.encode() for _, committed in offsets]
    listed = library.rd_kafka_topic_partition_list_new(len(offsets))
    entries = []
    try:
        for ((topic, number), committed), text in zip(offsets, texts):
            entry = library.rd_kafka_topic_partition_list_add(listed, topic.encode(), number).contents
            entry.offset = committed.offset
            if text:
                entry.metadata, entry.metadata_size = ctypes.cast(ctypes.c_char_p(text), _POINTER), len(text)
            entries.append(entry)
        error = library.rd_kafka_send_offsets_to_transaction(handle, listed, group, int(timeout * 1000))
    finally:
        for entry in entries:
            entry.metadata, entry.metadata_size = None, 0  # Python owns the texts: the list must not free them
        library.rd_kafka_topic_partition_list_destroy(listed)
        library.rd_kafka_consumer_group_metadata_destroy(group)
    _check(library, error)


def _check(library: Any, error: int | None) -> None:
    """Raise librdkafka's error, if any."""
    if not error:
        return
    try:
        raise KafkaException(
            KafkaError(
                library.rd_kafka_error_code(error),
                library.rd_kafka_error_string(error).decode(errors="replace"),
                bool(library.rd_kafka_error_is_fatal(error)),
                bool(library.rd_kafka_error_is_retriable(error)),
                bool(library.rd_kafka_error_txn_requires_abort(error)),
            )
        )
    finally:
        library.rd_kafka_error_destroy(error)


@lru_cache(maxsize=1)
def _library() -> Any:
    """Return the librdkafka that confluent-kafka has loaded, or None with one warning if its functions are unavailable."""
    try:
        from confluent_kafka import cimpl

        # Opened through the extension module that is linked with it, so neither its name nor its place matters.
        library = ctypes.CDLL(cimpl.__file__)
        for name, (result, arguments) in _FUNCTIONS.items():
            function = getattr(library, name)
            function.restype, function.argtypes = result, arguments
        return library
    except (ImportError, OSError, AttributeError, TypeError) as exc:
        _warn_fallback(f"librdkafka's functions are unavailable ({exc})")
        return None


def _handle_of(producer: Producer) -> int | None:
    """Return librdkafka's handle of a producer, or None if it is not found or the producer is closed."""
    library = _library()
    if library is None or not isinstance(producer, Producer):
        return None
    at = _POINTER.from_address(id(producer) + object.__basicsize__).value
    if at is None:
        return None  # closed: confluent-kafka reports that
    if not _is_mapped(at) or library.rd_kafka_opaque(at) != id(producer):
        _warn_fallback("confluent-kafka's producer has another memory layout")
        return None
    return int(at)


def _is_mapped(address: int) -> bool:
    """Return whether an address is readable, True if that is unknown."""
    try:
        with Path("/proc/self/mem").open("rb", 0) as file:
            try:
                file.seek(address)
                return len(file.read(_READABLE)) == _READABLE
            except (OSError, OverflowError, ValueError):
                return False
    except OSError:
        return True


@lru_cache(maxsize=1)
def _warn_fallback(reason: str) -> None:
    _log.warning(
        "%s: offset metadata under exactly-once ends in a zero byte. Kafka Streams (Java) cannot read the times in it; "
        "penstock can",
        reason,
    )
