"""What lies in stores, changelogs, committed offsets and the state folder: anything else is refused there or counts as none."""

from __future__ import annotations

import base64
import json
import logging
import uuid
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from penstock import Serdes, Stores, TaskId, TopicPartition
from penstock.errors import PenstockError, ProcessorStateError, SerializationError
from penstock.query.position import Position
from penstock.record import RawRecord, RecordContext
from penstock.runtime.offset_metadata import OffsetAndMetadata, ProcessorMetadata, TopicPartitionMetadata
from penstock.spark.vectors import Vector
from penstock.state.buffers.changelog import read_changelog_record
from penstock.state.buffers.values import BufferValue, Reader
from penstock.state.directory import PROCESS_FILE, StateDirectory
from penstock.state.engines.versioned_segment_value import SegmentValue, min_timestamp, next_timestamp
from penstock.state.restore import StoreRestorer
from penstock.state.value_formats import AGGREGATE_WITH_HEADERS, WITH_HEADERS
from penstock.state.value_timestamp_headers import serialize_headers, split_headers
from tests.abuse.hostile import assert_survives, confined, hostile
from tests.unit.state.contexts import FakeStoreContext

HEADERS = (("name", b"value"), ("ä", b""), ("none", None))
CONTEXT = RecordContext(5, 6, 0, "topic", HEADERS)


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """Thousands of warnings are expected, and read by nobody."""
    logging.disable(logging.WARNING)
    yield
    logging.disable(logging.NOTSET)


# -- stores


@pytest.mark.parametrize("read", [split_headers, WITH_HEADERS.split, AGGREGATE_WITH_HEADERS.split])
def test_should_read_or_refuse_any_value_with_headers(read: Callable[[bytes], Any]) -> None:
    valid = [serialize_headers(headers) + bytes(8) + b"v" for headers in ((), HEADERS, HEADERS * 20)]
    assert_survives(read, [*valid, AGGREGATE_WITH_HEADERS.join(b"v", 0, ())])


def test_should_not_walk_back_over_headers() -> None:
    """A name of a negative length leads back to itself: as many headers as are declared, out of a few bytes."""
    payload = b"\xfe\xff\xff\xff\x0f" + b"\x01" + b"\x03"  # 2**31 - 1 headers; -1 bytes; -2 bytes
    with confined(), pytest.raises(SerializationError):
        split_headers(bytes([2 * len(payload)]) + payload)


def test_should_read_or_refuse_any_row_of_versions() -> None:
    row = SegmentValue.with_record(b"old", 10, 20)
    row.insert_as_latest(20, 30, b"new")
    row.insert_as_latest(40, 50, None)
    valid = [row.serialize(), SegmentValue.with_record(None, 5, 5).serialize()]
    assert_survives(SegmentValue.deserialize, valid)
    assert_survives(next_timestamp, valid)
    assert_survives(min_timestamp, valid)


def test_should_keep_what_it_has_read_of_a_row_of_versions() -> None:
    """Values lie within the row, one behind the other: a row that is read is the row that is written."""
    row = SegmentValue.with_record(b"old", 10, 20)
    row.insert_as_latest(20, 30, b"new")
    for data in hostile([row.serialize()]):
        try:
            read = SegmentValue.deserialize(data)
        except SerializationError:
            continue
        assert len(read.serialize()) <= len(data)


# -- changelogs


@pytest.mark.parametrize("version", [None, b"\x01", b"\x02", b"\x03", b"", b"\x04", b"v" * 100])
def test_should_read_or_refuse_any_changelog_of_a_buffer(version: bytes | None) -> None:
    headers = () if version is None else (("v", version),)

    def read(data: bytes) -> Any:
        return read_changelog_record(RawRecord("topic", 0, 1, 2, b"k", data, headers), b"prior")

    value = BufferValue(b"prior", b"old", b"new", CONTEXT).serialize()
    known = version in (b"\x02", b"\x03")
    assert_survives(read, [value + bytes(8)] if known else [], ProcessorStateError)


def test_should_say_where_the_changelog_of_a_buffer_is_broken() -> None:
    record = RawRecord("app-buffer-changelog", 3, 41, 2, b"k", b"\x00\x01", (("v", b"\x03"),))
    with pytest.raises(ProcessorStateError, match="app-buffer-changelog-3 at offset 41"):
        read_changelog_record(record, None)


def test_should_read_or_refuse_any_buffered_value() -> None:
    values = [BufferValue(b"prior", b"old", b"new", CONTEXT), BufferValue(None, None, None, CONTEXT)]
    assert_survives(lambda data: Reader(data).buffer_value(), [value.serialize() for value in values])


STORES: dict[str, Any] = {
    "window": Stores.window_store_builder(Stores.persistent_window_store("s", 1000, 10), Serdes.bytes(), Serdes.bytes()),
    "window in memory": Stores.window_store_builder(Stores.in_memory_window_store("s", 1000, 10), Serdes.bytes(), Serdes.bytes()),
    "session": Stores.session_store_builder(Stores.persistent_session_store("s", 1000), Serdes.bytes(), Serdes.bytes()),
    "session in memory": Stores.session_store_builder(Stores.in_memory_session_store("s", 1000), Serdes.bytes(), Serdes.bytes()),
    "versioned": Stores.versioned_key_value_store_builder(
        Stores.persistent_versioned_key_value_store("s", 1000), Serdes.bytes(), Serdes.bytes()
    ),
    "timestamped": Stores.timestamped_key_value_store_builder(
        Stores.persistent_timestamped_key_value_store("s"), Serdes.bytes(), Serdes.bytes()
    ),
}


@pytest.mark.parametrize("kind", STORES)
def test_should_restore_or_refuse_any_changelog(kind: str, tmp_path: Path) -> None:
    context = FakeStoreContext(tmp_path)
    store = STORES[kind].with_caching_disabled().build()
    store.init(context, store)
    partition = TopicPartition("app-s-changelog", 0)
    restorer = StoreRestorer(store, context.restore_callbacks["s"], partition)
    offsets = iter(range(10_000))

    def restore(key: bytes) -> None:
        restorer.restore([RawRecord(*partition, next(offsets), len(key), key, key[:20])])

    start, sequence = bytes(7) + b"\x32", bytes(4)
    valid = b"key" + start + (start if "session" in kind else sequence)
    assert_survives(restore, [valid], ProcessorStateError)
    for read in ("all", "reverse_all", "backward_all"):
        if hasattr(store, read):
            with suppress(PenstockError), getattr(store, read)() as entries:
                for _ in entries:
                    pass
    store.close()


def test_should_say_where_a_changelog_is_broken(tmp_path: Path) -> None:
    context = FakeStoreContext(tmp_path)
    store = STORES["window"].with_caching_disabled().build()
    store.init(context, store)
    restorer = StoreRestorer(store, context.restore_callbacks["s"], TopicPartition("app-s-changelog", 2))
    with pytest.raises(ProcessorStateError, match=r"store s.*app-s-changelog-2.*offsets 7 to 7"):
        restorer.restore([RawRecord("app-s-changelog", 2, 7, 0, b"short", b"value")])
    store.close()


# -- committed offsets


def test_should_take_any_metadata_of_an_offset_for_nothing_that_is_none() -> None:
    valid = [
        TopicPartitionMetadata(5, ProcessorMetadata({"store": 7, "ä": -1})).encode(),
        TopicPartitionMetadata(-1, ProcessorMetadata()).encode(),
    ]
    assert_survives(lambda data: TopicPartitionMetadata.decode(data.decode("latin-1")), [text.encode() for text in valid], ())
    inner = [base64.b64decode(text) for text in valid]
    assert_survives(lambda data: TopicPartitionMetadata.decode(base64.b64encode(data).decode()), inner, ())


SOURCES = [TopicPartition("lines", 0), TopicPartition("lines", 1)]


def test_should_read_or_refuse_any_vector() -> None:
    vectors = [
        Vector(0, dict.fromkeys(SOURCES, 0)),
        Vector(7, {SOURCES[0]: 3, SOURCES[1]: 4}, {SOURCES[0]: 1}),
        Vector(2**50, dict.fromkeys(SOURCES, 2**40)),
    ]
    times = TopicPartitionMetadata(5, ProcessorMetadata({"store": 7})).encode()
    valid = [vector.committed(text, SOURCES).metadata.encode() for vector in vectors for text in ("", times)]

    def read(data: bytes) -> None:
        for decoded in (data.decode("latin-1"), data.decode(errors="replace")):
            committed = OffsetAndMetadata(0, decoded)
            vector = Vector.of(committed, SOURCES)
            numbers = (vector.number, *vector.positions.values(), *vector.begun.values())
            assert all(0 <= number < 2**63 for number in numbers)

    assert_survives(read, valid)


@pytest.mark.parametrize(
    "text", ["|x|3,4", "|7|3,y", "|7|3+z,4", "|7|3+,4", "|7|-3,4", "|٣|3,4", "|1_0|3,4", "| 7|3,4", "|7|3,", f"|{'9' * 30}|3,4"]
)
def test_should_refuse_a_vector_that_cannot_be_read(text: str) -> None:
    with pytest.raises(SerializationError, match="The committed positions of a task"):
        Vector.of(OffsetAndMetadata(0, text), SOURCES)


@pytest.mark.parametrize("text", ["|x|3,4", "|-7|3,4", "||3,4"])
def test_should_refuse_a_number_of_records_that_cannot_be_read(text: str) -> None:
    with pytest.raises(SerializationError, match="The committed positions of a task"):
        Vector.of(OffsetAndMetadata(0, text), SOURCES)


# -- positions and files


def test_should_read_or_refuse_any_position() -> None:
    valid = [Position.from_map({"orders": {0: 41, 1: 7}}).to_json().encode(), b"{}"]

    def read(data: bytes) -> Any:
        position = Position.from_json(data)
        assert all(isinstance(topic, str) and partition >= 0 and isinstance(offset, int) for topic, partition, offset in position)
        return Position().merge(position).to_json()

    assert_survives(read, valid)


@pytest.mark.parametrize(
    "text",
    [
        "[]",
        "3",
        "null",
        '{"t": 3}',
        '{"t": {"a": 1}}',
        '{"t": {"0": "1"}}',
        '{"t": {"0": 1.5}}',
        '{"t": {"0": true}}',
        '{"t": {"-1": 1}}',
    ],
)
def test_should_refuse_what_is_no_position(text: str) -> None:
    with pytest.raises(SerializationError, match="position"):
        Position.from_json(text)


def test_should_get_a_new_process_id_where_the_file_is_broken(tmp_path: Path) -> None:
    directory = StateDirectory(tmp_path, "app")
    first = directory.initialize_process_id()
    file = directory.folder / PROCESS_FILE
    valid = [file.read_bytes(), json.dumps({"processId": str(uuid.uuid4()), "more": [1]}).encode(), b'{"processId": 12}']

    def read(data: bytes) -> None:
        file.write_bytes(data)
        assert isinstance(directory._read_process_id(), uuid.UUID | None)  # initialize_process_id writes each time

    assert_survives(read, valid, ())
    file.write_bytes(valid[-1])
    second = directory.initialize_process_id()
    assert second != first
    assert directory.initialize_process_id() == second
    file.write_text(json.dumps({"processId": str(first), "version": 1}))
    assert directory.initialize_process_id() == first
    directory.close()


def test_should_know_folders_of_tasks_by_their_names_alone(tmp_path: Path) -> None:
    directory = StateDirectory(tmp_path, "app")
    (directory.folder / "0_3").mkdir()
    names = [b"0_3", b"1_12"]
    made = set()
    for data in hostile(names, count=600):
        name = data[:100].replace(b"/", b"_").replace(b"\x00", b"0")
        if name not in (b"", b".", b".."):
            made.add(name)
    for extra in ("٣_٤", "²_1", "0_3 ", "-1_0", "00_3", "9" * 200 + "_1"):
        made.add(extra.encode())
    for name in made:
        (directory.folder / name.decode(errors="surrogateescape")).mkdir(exist_ok=True)
    found = directory.list_all_task_directories()
    assert all(str(task) == path.name for task, path in found.items())
    assert found[TaskId(0, 3)].name == "0_3"
    directory.clean_removed_tasks(-1)
    directory.close()


def test_should_have_errors_of_its_own_for_all_of_it() -> None:
    assert issubclass(SerializationError, PenstockError)
    assert issubclass(ProcessorStateError, PenstockError)
