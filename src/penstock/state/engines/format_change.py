"""Converting the entries of a RocksDB from one format to another, in place.

Both steps are written in batches and go on after a crash. Values are converted in the order of their keys, and each batch
saves how far it has come. Entries are moved to the segments of another interval; an entry that has been moved is left alone
by the next attempt. The format is saved last.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

from rocksdict import Rdict, WriteBatch

from penstock.state.engines.store_format import Change, StoreFormat
from penstock.state.value_formats import value_converter

META_COLUMN_FAMILY: Final = "penstock"
FORMAT_KEY: Final = b"format"
CONVERTED_KEY: Final = b"converted"
"""Under which a conversion of values saves its target format, a line feed, and the last key that it has converted."""

BATCH_BYTES: Final = 4_000_000
# Ids of segments are not negative; what is kept beside them has negative ones, which sort behind.
_SEGMENTS: Final = b"\x00", b"\x80"
_ALL: Final = b"", None


def needed_change(meta: Rdict, found: StoreFormat, wanted: StoreFormat) -> Change:
    """What it takes to open the RocksDB as a store of another format."""
    change, progress = found.change_to(wanted), meta.get(CONVERTED_KEY)
    if progress is not None and change is not Change.REFUSE and progress.partition(b"\n")[0] != _target(found, wanted):
        return Change.REBUILD  # a conversion to a third format was interrupted
    return change


def convert(db: Rdict, meta: Rdict, found: StoreFormat, wanted: StoreFormat, place: Callable[[bytes], bytes] | None) -> None:
    """Convert all entries: first their values, then the segments they lie in.

    `place` returns the key that an entry of a segmented store has to have; None for stores without segments.
    """
    if found.values is not wanted.values:
        _convert_values(db, meta, found, wanted)
    if place is not None and found.segment_interval != wanted.segment_interval:
        _move(db, place)
    meta[FORMAT_KEY] = wanted.text.encode()


def _convert_values(db: Rdict, meta: Rdict, found: StoreFormat, wanted: StoreFormat) -> None:
    handle, target, to_value = (
        db.get_column_family_handle(META_COLUMN_FAMILY),
        _target(found, wanted),
        value_converter(found.values, wanted.values),
    )
    first, end = _ALL if wanted.segment_interval is None else _SEGMENTS
    progress = meta.get(CONVERTED_KEY)
    done = None if progress is None else progress.partition(b"\n")[2]
    batch, size = WriteBatch(raw_mode=True), 0
    for key, value in _entries(db, first if done is None else done, end):
        if key == done:
            continue
        batch.put(key, to_value(value))
        size += len(key) + len(value)
        if size >= BATCH_BYTES:
            batch.put(CONVERTED_KEY, target + b"\n" + key, handle)
            db.write(batch)
            batch, size = WriteBatch(raw_mode=True), 0
    batch.put(FORMAT_KEY, target, handle)
    batch.delete(CONVERTED_KEY, handle)
    db.write(batch)


def _target(found: StoreFormat, wanted: StoreFormat) -> bytes:
    return found.with_values_of(wanted).text.encode()


def _move(db: Rdict, place: Callable[[bytes], bytes]) -> None:
    batch, size = WriteBatch(raw_mode=True), 0
    for key, value in _entries(db, *_SEGMENTS):
        right = place(key)
        if right == key:
            continue
        batch.delete(key)
        batch.put(right, value)
        size += 2 * len(key) + len(value)
        if size >= BATCH_BYTES:
            db.write(batch)
            batch, size = WriteBatch(raw_mode=True), 0
    db.write(batch)


def _entries(db: Rdict, first: bytes, end: bytes | None) -> Iterator[tuple[bytes, bytes]]:
    items: Any = db.items(from_key=first)
    for key, value in items:
        if end is not None and key >= end:
            return
        yield key, value
