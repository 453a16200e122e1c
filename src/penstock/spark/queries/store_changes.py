"""Reads the changelog of a store between two times: by tasks of Spark, or by a query server page by page."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Final, NamedTuple

import pyarrow as pa

from penstock.config.streams_config import StreamsConfig
from penstock.ids import TaskId, TopicPartition
from penstock.kafka.admin import Admin
from penstock.kafka.clients import admin_config, restore_consumer_config
from penstock.kafka.fetch import FetchRange, RangeFetcher
from penstock.query.change_read import ChangeRead
from penstock.runtime.queries.arrow_table import Columns, schema_of
from penstock.runtime.queries.changes import change_batches, changelog_of, changes_columns_of
from penstock.runtime.queries.opening import ReadableStore
from penstock.spark.messages import Application
from penstock.spark.queries.query_listener import readable_store
from penstock.spark.queries.remote_tables import checked

PAGE_OFFSETS: Final = 20_000
NEXT, END = b"penstock.next", b"penstock.end"
"""Where the next page begins and the last one ends, in the metadata of a page's schema."""


class Stretch(NamedTuple):
    """Offsets of a changelog partition; the second is not included."""

    start: int
    end: int


class ChangeReader:
    """Reads committed changes. Its clients stay open until it is closed."""

    def __init__(self, config: StreamsConfig, client_id: str) -> None:
        self._admin = Admin(admin_config(config, f"{client_id}-changes"))
        settings = restore_consumer_config(config, f"{client_id}-changes-consumer")
        self._fetcher = RangeFetcher({**settings, "isolation.level": "read_committed"})
        self._lock = threading.Lock()

    def stretch(self, store: ReadableStore, partition: int, read: ChangeRead) -> Stretch:
        """The offsets that may have changes of the time that is wanted, up to the last committed one.

        Times of changes need not rise, so the end is the log's end whatever the last time is.
        """
        log = TopicPartition(changelog_of(store), partition)
        with self._lock:
            bounds = self._admin.log_bounds([log], True)[log]
            start = bounds.start if read.start == 0 else self._admin.offsets_at([log], read.start, True)[log]
        return Stretch(min(max(start, bounds.start), bounds.stable_end), bounds.stable_end)

    def batches(self, store: ReadableStore, partition: int, read: ChangeRead) -> Iterator[pa.RecordBatch]:
        """All changes of a partition; no more than a part of the log is in memory."""
        log, wanted = TopicPartition(changelog_of(store), partition), self.stretch(store, partition, read)
        if wanted.start >= wanted.end:
            return
        for found, _ in self._fetcher.parts([FetchRange(*log, *wanted)]):
            yield from change_batches(store, found[log], read)

    def page(self, store: ReadableStore, partition: int, read: ChangeRead, wanted: Stretch) -> bytes:
        """The changes at the start of a stretch as an Arrow stream, which says where the next page begins."""
        log, behind = TopicPartition(changelog_of(store), partition), wanted.end
        batches: list[pa.RecordBatch] = []
        if wanted.start < wanted.end:
            first = FetchRange(*log, wanted.start, min(wanted.end, wanted.start + PAGE_OFFSETS))
            with self._lock:
                found, ends = next(self._fetcher.parts([first]))
                self._fetcher.rest()
            batches, behind = list(change_batches(store, found[log], read)), ends[log]
        marks = {NEXT: str(behind).encode(), END: str(wanted.end).encode()}
        schema, sink = schema_of(changes_columns_of(store)).with_metadata(marks), pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, schema) as writer:
            for batch in batches:
                writer.write_batch(batch.replace_schema_metadata(marks))
        data: bytes = sink.getvalue().to_pybytes()
        return data

    def close(self) -> None:
        """Close the clients."""
        with self._lock:
            self._fetcher.close()
            self._admin.let_go()


def located_changes(
    application: Application, store_name: str, task_id: TaskId, wanted: ChangeRead, columns: Columns
) -> Iterator[pa.RecordBatch]:
    """The changes of a partition, read by a task of Spark."""
    reader = ChangeReader(application.config, f"{application.client_id}-table")
    try:
        store = readable_store(application, task_id, store_name)
        yield from checked(reader.batches(store, task_id.partition, wanted), columns)
    finally:
        reader.close()
