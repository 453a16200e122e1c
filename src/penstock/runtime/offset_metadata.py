"""What a task must not forget between two commits, in the metadata of its committed offsets.

The text is Kafka Streams' own (version 2): base64 of a version byte, the partition time, and a map of names to longs
that belongs to the whole task. A Java application reads what is written here, and the other way round.

What only penstock keeps follows behind that map, where Java does not look: a second map (operators' stream time), and
positions behind a shuffle (`spark/vectors.py`), compressed. So Java writes none of it back, and what was true before Java had the
task is not taken for true after it. Names in Java's map are those of stores; ours have a character in them that no store's name
has. Earlier versions wrote the names of operators' times in full; they are shortened when they are read (`time_key`).

Brokers keep 4,096 bytes (`offset.metadata.max.bytes`). Positions and Java's map have to fit; operators' stream times are left out
as far as they do not (`to_committed`). Kafka Streams commits none of them.
"""

from __future__ import annotations

import base64
import binascii
import logging
import re
import struct
import zlib
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from penstock.errors import StreamsError
from penstock.ids import TaskId
from penstock.operators.time_tracker import time_key
from penstock.record import NO_TIMESTAMP

_log = logging.getLogger(__name__)

LATEST_VERSION = 2

MAX_LENGTH = 4096
"""The longest text that brokers keep: their default for offset.metadata.max.bytes."""

# Which logs the positions of a vector belong to: entries of this name and a topic's, as far as there is room for them.
_LOG = "penstock.log:"
_LOG_BYTES = 512

# What penstock commits for a source before a shuffle says so, with the offset it was committed with.
_OWN_OFFSET = "penstock.offset:"

_INT = struct.Struct(">i")
_LONG = struct.Struct(">q")
_HEAD = 1 + _LONG.size
_EMPTY_MAP = _INT.pack(0)

# What begins with neither of these was written by an earlier version.
_OWN_NAMES = ("@", "penstock.")

# Which names stores can have.
_STORE_NAME = re.compile(r"[a-zA-Z0-9._-]*")

# How positions are written behind the maps. Digits take less than half their room when they are compressed.
_PLAIN, _DEFLATED = b"\0", b"\1"
_WORTH_IT = 64
_MOST_POSITIONS = 1 << 20


# What an operator's time takes in a map.
_TIME_BYTES = _INT.size + len(time_key("")) + _LONG.size


class OffsetAndMetadata(NamedTuple):
    """The next offset to consume, and what the task wants to know when it is opened again."""

    offset: int
    metadata: str = ""


class ProcessorMetadata:
    """Longs that processors keep under a name; they are committed with the task's offsets.

    A processor claims its names when it is initialized. Names that no processor has claimed by then are dropped: those of
    operators that were removed or renamed, and those that earlier versions kept.

    >>> metadata = ProcessorMetadata({"count-store": 7, "removed-store": 9})
    >>> metadata.claim("count-store")
    7
    >>> metadata.drop_unclaimed()
    >>> metadata.put("count-store", 1000)
    >>> metadata.as_dict(), metadata.needs_commit
    ({'count-store': 1000}, True)
    """

    __slots__ = ("_claimed", "_entries", "needs_commit")

    def __init__(self, entries: Mapping[str, int] | None = None) -> None:
        self._entries = dict(entries or {})
        self._claimed: set[str] = set()
        self.needs_commit = False

    def claim(self, key: str) -> int | None:
        """Return the value that was committed under a name, or None; the name belongs to the caller from now on."""
        if key in self._claimed:
            raise StreamsError(f"two processors of a task commit a time under the name {key!r}: each needs a name of its own")
        self._claimed.add(key)
        return self._entries.get(key)

    def drop_unclaimed(self) -> None:
        """Forget the values whose names nobody has claimed."""
        self._entries = {key: value for key, value in self._entries.items() if key in self._claimed}

    def check_length(self, task_id: TaskId) -> None:
        """Raise StreamsError if brokers would refuse what is claimed; warn if operators' stream times have to be left out."""
        required = [key for key in self._claimed if not _is_own(key)]
        if (needed := _length(required)) > MAX_LENGTH:
            raise StreamsError(
                f"task {task_id} cannot be opened: {len(required)} stores emit results on window close, and the times of these "
                f"results take {needed:,} bytes beside each committed offset, of {MAX_LENGTH:,} that brokers keep "
                "(offset.metadata.max.bytes). Give the stores shorter names, or put a repartition() before some of the windows."
            )
        if (needed := _length(self._claimed)) > MAX_LENGTH:
            _log.warning(
                "task %s: the stream times of %d operators take %d bytes beside a committed offset, of %d that brokers keep "
                "(offset.metadata.max.bytes). Some are left out: after a restart these operators start at the time of their next "
                "record, as in Kafka Streams. Put a repartition() before some of the operators.",
                *(task_id, len(self._claimed) - len(required), needed, MAX_LENGTH),
            )

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
        return cls(_read_map(data, 0)[0])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ProcessorMetadata) and self._entries == other._entries

    __hash__ = None  # type: ignore[assignment]  # it changes

    def __repr__(self) -> str:
        return f"ProcessorMetadata({self._entries!r})"


def _length(names: Iterable[str]) -> int:
    return len(TopicPartitionMetadata(0, ProcessorMetadata(dict.fromkeys(names, 0))).encode())


def _is_own(name: str) -> bool:
    """Whether an entry is nothing to Java."""
    return _STORE_NAME.fullmatch(name) is None


def _own_name(name: str) -> str:
    return name if name.startswith(_OWN_NAMES) else time_key(name)


def _read_map(data: bytes, at: int) -> tuple[dict[str, int], int]:
    """The map that begins at a position, and where it ends; an empty one where nothing is left."""
    found: dict[str, int] = {}
    if at == len(data):
        return found, at
    (count,) = _INT.unpack_from(data, at)
    at += _INT.size
    for _ in range(count):
        (length,) = _INT.unpack_from(data, at)
        at += _INT.size
        if length < 0 or at + length + _LONG.size > len(data):
            raise ValueError("the entries end too early")
        name = data[at : at + length].decode()
        (found[name],) = _LONG.unpack_from(data, at + length)
        at += length + _LONG.size
    return found, at


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
        entries = self.processor_metadata.as_dict()
        own = ProcessorMetadata({name: value for name, value in entries.items() if _is_own(name)}).serialize()
        java = ProcessorMetadata({name: value for name, value in entries.items() if not _is_own(name)}).serialize()
        head = bytes((LATEST_VERSION,)) + _LONG.pack(self.partition_time)
        return base64.b64encode(head + (java or _EMPTY_MAP if own else java) + own).decode("ascii")

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
            if version != LATEST_VERSION:
                return cls(partition_time, ProcessorMetadata())
            java, at = _read_map(data, _HEAD)
            own = {_own_name(name): value for name, value in _read_map(data, at)[0].items()}
            return cls(partition_time, ProcessorMetadata({**java, **own}))
        except (binascii.Error, ValueError, IndexError, struct.error):
            _log.warning("Unsupported offset metadata found")
            return nothing


def to_committed(metadata: str) -> str:
    """The text to commit: positions that follow a bar go where Java does not look.

    Operators' stream times are left out as far as the text is longer than brokers keep, always the same ones.

    >>> text = to_committed("|7|lines=3,4")
    >>> TopicPartitionMetadata.decode(text), from_committed(text)
    (TopicPartitionMetadata(partition_time=-1, processor_metadata=ProcessorMetadata({})), '|7|lines=3,4')
    """
    times, bar, positions = metadata.partition("|")
    if not bar and len(metadata) <= MAX_LENGTH:
        return metadata
    carried = TopicPartitionMetadata._decode(times)
    packed = _packed(positions) if bar else b""
    text = _with_positions(carried, packed)
    if len(text) <= MAX_LENGTH:
        return text
    entries = carried.processor_metadata.as_dict()
    kept = {name: value for name, value in entries.items() if not name.startswith("@")}
    needed = _with_positions(carried._replace(processor_metadata=ProcessorMetadata(kept)), packed)
    # Four characters for three bytes, and the second map's number of entries, which may be missing now.
    room = (MAX_LENGTH - len(needed)) // 4 * 3 - 2 * _INT.size
    names = sorted(entries.keys() - kept.keys())[: max(0, room) // _TIME_BYTES]
    kept |= {name: entries[name] for name in names}
    return _with_positions(carried._replace(processor_metadata=ProcessorMetadata(kept)), packed)


def _packed(positions: str) -> bytes:
    plain = positions.encode()
    return _DEFLATED + zlib.compress(plain, 1) if len(plain) > _WORTH_IT else _PLAIN + plain


def _with_positions(carried: TopicPartitionMetadata, packed: bytes) -> str:
    data = base64.b64decode(carried.encode())
    if packed:
        at = _HEAD
        for _ in range(2):
            if at == len(data):
                data += _EMPTY_MAP
            _, at = _read_map(data, at)
    return base64.b64encode(data + packed).decode("ascii")


def from_committed(text: str) -> str:
    """What was committed, with positions behind a bar; a text without any is left as it is, also one that is not understood."""
    if "|" in text or not text:
        return text
    try:
        data = base64.b64decode(text, validate=True)
        if data[0] != LATEST_VERSION:
            return text
        _, at = _read_map(data, _HEAD)
        _, at = _read_map(data, at)
        if at == len(data):
            return text
        positions = _positions(data[at : at + 1], data[at + 1 :])
    except (binascii.Error, ValueError, IndexError, struct.error, zlib.error):
        return text
    times = "" if data[:at] == _NO_TIMES else base64.b64encode(data[:at]).decode("ascii")
    return f"{times}|{positions}"


_NO_TIMES = bytes((LATEST_VERSION,)) + _LONG.pack(NO_TIMESTAMP) + _EMPTY_MAP + _EMPTY_MAP


def _positions(form: bytes, data: bytes) -> str:
    if form == _PLAIN:
        return data.decode()
    if form != _DEFLATED:
        raise ValueError(f"positions of a form that is not known: {form!r}")
    unpacking = zlib.decompressobj()
    plain = unpacking.decompress(data, _MOST_POSITIONS)
    if not unpacking.eof:
        raise ValueError("positions that do not end")
    return plain.decode()


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
