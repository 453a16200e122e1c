"""What a task must not forget between two commits, in the metadata of its committed offsets.

The text is Kafka Streams' own (version 2): base64 of a version byte, the partition time, and a map of names to longs
that belongs to the whole task. A Java application reads what is written here, and the other way round.
"""

from __future__ import annotations

import base64
import binascii
import logging
import struct
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from penstock.record import NO_TIMESTAMP

_log = logging.getLogger(__name__)

LATEST_VERSION = 2

# Which logs the positions of a vector belong to: entries of this name and a topic's, as far as there is room for them.
_LOG = "penstock.log:"
_LOG_BYTES = 512

# What penstock commits for a source before a shuffle says so, with the offset it was committed with.
_OWN_OFFSET = "penstock.offset:"

_INT = struct.Struct(">i")
_LONG = struct.Struct(">q")


class OffsetAndMetadata(NamedTuple):
    """The next offset to consume, and what the task wants to know when it is opened again."""

    offset: int
    metadata: str = ""


class ProcessorMetadata:
    """Longs that processors keep under a name; they are committed with the task's offsets.

    >>> metadata = ProcessorMetadata()
    >>> metadata.put("count-store", 1000)
    >>> metadata.get("count-store"), metadata.needs_commit
    (1000, True)
    """

    __slots__ = ("_entries", "needs_commit")

    def __init__(self, entries: Mapping[str, int] | None = None) -> None:
        self._entries = dict(entries or {})
        self.needs_commit = False

    def put(self, key: str, value: int) -> None:
        """Keep a value, and have it committed next time."""
        if self._entries.get(key) != value:
            self._entries[key] = value
            self.needs_commit = True

    def get(self, key: str) -> int | None:
        """The value kept under a name, or None."""
        return self._entries.get(key)

    def update(self, other: ProcessorMetadata) -> None:
        """Merge what another partition's offset carried: the higher value wins."""
        for key, value in other._entries.items():
            mine = self._entries.get(key)
            if mine is None or mine < value:
                self._entries[key] = value

    def as_dict(self) -> dict[str, int]:
        """A copy of all that is kept."""
        return dict(self._entries)

    def serialize(self) -> bytes:
        """Kafka Streams' bytes: the number of entries, then name length, name and value of each."""
        if not self._entries:
            return b""
        parts = [_INT.pack(len(self._entries))]
        for key, value in self._entries.items():
            name = key.encode()
            parts += [_INT.pack(len(name)), name, _LONG.pack(value)]
        return b"".join(parts)

    @classmethod
    def deserialize(cls, data: bytes) -> ProcessorMetadata:
        """What `serialize` wrote."""
        return cls(dict(_entries(data))) if data else cls()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ProcessorMetadata) and self._entries == other._entries

    __hash__ = None  # type: ignore[assignment]  # it changes

    def __repr__(self) -> str:
        return f"ProcessorMetadata({self._entries!r})"


def _entries(data: bytes) -> Iterator[tuple[str, int]]:
    (count,) = _INT.unpack_from(data)
    position = _INT.size
    for _ in range(count):
        (length,) = _INT.unpack_from(data, position)
        position += _INT.size
        if length < 0 or position + length + _LONG.size > len(data):
            raise ValueError("the entries end too early")
        name = data[position : position + length].decode()
        (value,) = _LONG.unpack_from(data, position + length)
        position += length + _LONG.size
        yield name, value


class TopicPartitionMetadata(NamedTuple):
    """What is committed beside the offset of one input partition.

    >>> text = TopicPartitionMetadata(5, ProcessorMetadata({"store": 7})).encode()
    >>> TopicPartitionMetadata.decode(text)
    TopicPartitionMetadata(partition_time=5, processor_metadata=ProcessorMetadata({'store': 7}))
    """

    partition_time: int
    processor_metadata: ProcessorMetadata

    def encode(self) -> str:
        """The text to commit with the offset."""
        head = bytes((LATEST_VERSION,)) + _LONG.pack(self.partition_time)
        return base64.b64encode(head + self.processor_metadata.serialize()).decode("ascii")

    @classmethod
    def decode(cls, text: str | None) -> TopicPartitionMetadata:
        """What was committed; a text that is not understood counts as nothing, with a warning."""
        carried = cls._decode(text)
        entries = carried.processor_metadata.as_dict()
        if not any(name.startswith((_LOG, _OWN_OFFSET)) for name in entries):
            return carried
        kept = {name: value for name, value in entries.items() if not name.startswith((_LOG, _OWN_OFFSET))}
        return carried._replace(processor_metadata=ProcessorMetadata(kept))

    @classmethod
    def _decode(cls, text: str | None) -> TopicPartitionMetadata:
        nothing = cls(NO_TIMESTAMP, ProcessorMetadata())
        if not text:
            return nothing
        try:
            data = base64.b64decode(text, validate=True)
            version = data[0]
            if version not in (1, LATEST_VERSION):
                _log.warning(
                    "Unsupported offset metadata version found. Supported version <= %d. Found version %d.",
                    LATEST_VERSION,
                    version,
                )
                return nothing
            (partition_time,) = _LONG.unpack_from(data, 1)
            entries = data[1 + _LONG.size :] if version == LATEST_VERSION else b""
            return cls(partition_time, ProcessorMetadata.deserialize(entries))
        except (binascii.Error, ValueError, IndexError, struct.error):
            _log.warning("Unsupported offset metadata found")
            return nothing


def with_logs(committed: OffsetAndMetadata, logs: Mapping[str, int]) -> OffsetAndMetadata:
    """The same commit, with the ids of the topics its positions belong to; whatever follows a bar is left as it is.

    >>> committed = with_logs(OffsetAndMetadata(0, "|7|3,4"), {"lines": 4711})
    >>> logs_of(committed), committed.metadata.partition("|")[2]
    ({'lines': 4711}, '7|3,4')
    """
    text, bar, rest = committed.metadata.partition("|")
    carried = TopicPartitionMetadata.decode(text)
    entries = carried.processor_metadata.as_dict()
    room = _LOG_BYTES
    for topic, log in sorted(logs.items()):
        name = _LOG + topic
        room -= _INT.size + len(name) + _LONG.size
        if room < 0:
            break
        entries[name] = log
    marked = carried._replace(processor_metadata=ProcessorMetadata(entries)).encode() if entries else text
    return committed._replace(metadata=f"{marked}{bar}{rest}")


def logs_of(committed: OffsetAndMetadata) -> dict[str, int]:
    """The ids of topics that a commit carries."""
    entries = TopicPartitionMetadata._decode(committed.metadata.partition("|")[0]).processor_metadata.as_dict()
    return {name[len(_LOG) :]: log for name, log in entries.items() if name.startswith(_LOG)}


def with_own_offset(committed: OffsetAndMetadata) -> OffsetAndMetadata:
    """The same commit, marked as the application's own; its times stay, in Kafka Streams' format.

    >>> committed = with_own_offset(OffsetAndMetadata(7))
    >>> is_anothers(committed), is_anothers(committed._replace(offset=3)), is_anothers(OffsetAndMetadata(7))
    (False, True, True)
    """
    carried = TopicPartitionMetadata._decode(committed.metadata)
    entries = {**carried.processor_metadata.as_dict(), _OWN_OFFSET: committed.offset}
    return committed._replace(metadata=carried._replace(processor_metadata=ProcessorMetadata(entries)).encode())


def is_anothers(committed: OffsetAndMetadata) -> bool:
    """Whether an offset was committed by neither penstock nor Kafka Streams: by a tool, or by a consumer of the same group.

    Those commit it without a word; a mark of another offset was copied from a commit that said something else.
    """
    if not committed.metadata:
        return True
    if "|" in committed.metadata:
        return False
    own = own_offset(committed)
    return own is not None and own != committed.offset


def own_offset(committed: OffsetAndMetadata) -> int | None:
    """The offset that a commit was marked with; None where it was not."""
    return TopicPartitionMetadata._decode(committed.metadata.partition("|")[0]).processor_metadata.get(_OWN_OFFSET)
