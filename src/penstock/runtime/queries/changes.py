"""Records of a store's changelog as Arrow batches: a row for each change, with key and value as the store's serdes read them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from penstock.batches.record_batch import RawBatch
from penstock.batches.serdes import deserialize_column
from penstock.errors import InvalidStateStoreError, StreamsError
from penstock.query.change_read import ChangeRead, change_columns
from penstock.query.columns import as_column
from penstock.runtime.queries.arrow_table import BATCH_BYTES, columns_of, schema_of
from penstock.runtime.queries.opening import ReadableStore
from penstock.serdes.serde import as_deserializer
from penstock.state.keys.session import SessionKeySchema
from penstock.state.keys.window import WindowKeySchema

_ROWS = 10_000


def changes_columns_of(store: ReadableStore) -> tuple[tuple[str, str], ...]:
    """The columns of the changes of a store."""
    return change_columns(tuple(columns_of(store)))


def changelog_of(store: ReadableStore) -> str:
    """The topic with the changes of a store; InvalidStateStoreError if there is none."""
    if store.changelog is None:
        raise InvalidStateStoreError(
            f"store {store.name} has no changelog to read changes from: it is a global table, or its logging is disabled"
        )
    return store.changelog


def change_batches(store: ReadableStore, raw: RawBatch, read: ChangeRead) -> Iterator[pa.RecordBatch]:
    """The changes among some records of a changelog, in batches of a bounded size."""
    first = size = 0
    for row in range(len(raw)):
        size += len(raw.keys[row] or b"") + len(raw.values[row] or b"")
        if row + 1 - first == _ROWS or size > BATCH_BYTES:
            yield from _batch(store, raw.rows(first, row + 1), read)
            first, size = row + 1, 0
    if first < len(raw):
        yield from _batch(store, raw.rows(first, len(raw)), read)


def _batch(store: ReadableStore, raw: RawBatch, read: ChangeRead) -> Iterator[pa.RecordBatch]:
    rows = [n for n, (key, at) in enumerate(zip(raw.keys, raw.timestamps)) if key is not None and read.start <= at < read.end]
    if not rows:
        return
    keys, values = [bytes(raw.keys[n] or b"") for n in rows], [raw.values[n] for n in rows]
    headers = None if raw.headers is None else [raw.headers[n] for n in rows]
    try:
        found = _places(store, keys)
        found["key"] = deserialize_column(as_deserializer(store.key_serde), raw.topic, found["key"], headers)
        found["value"] = deserialize_column(as_deserializer(store.value_serde), raw.topic, values, headers)
    except Exception as exc:
        raise StreamsError(
            f"changes of store {store.name} cannot be read from {raw.topic}-{raw.partition}, offsets {raw.offsets[rows[0]]} to "
            f"{raw.offsets[rows[-1]]}: {type(exc).__name__}: {exc}"
        ) from exc
    found["timestamp"] = [raw.timestamps[n] for n in rows]
    found["deleted"] = [value is None for value in values]
    found["partition"] = [raw.partition] * len(rows)
    found["offset"] = [int(raw.offsets[n]) for n in rows]
    columns = changes_columns_of(store)
    schema = schema_of(columns)
    arrays = [
        pa.array([as_column(value, kind) for value in found[name]], field.type) for (name, kind), field in zip(columns, schema)
    ]
    yield pa.RecordBatch.from_arrays(arrays, schema=schema)


def _places(store: ReadableStore, keys: list[bytes]) -> dict[str, Any]:
    """The keys of records, and their windows where the store has some."""
    if store.kind not in ("window", "session"):
        return {"key": keys}
    size = store.window_size or 0
    is_session = store.kind == "session"
    windows = [
        SessionKeySchema.from_binary(key) if is_session else WindowKeySchema.from_store_bytes_key(key, size) for key in keys
    ]
    return {
        "key": [window.key for window in windows],
        "window_start": [window.window.start for window in windows],
        "window_end": [window.window.end for window in windows],
    }
