"""KStream.to_files: rows are staged with each commit, and published as files after it.

A **roll** is what is published together: one Parquet file, or one commit of a Delta table. Its rows are appended to one staging
file. The store of the sink maps the id of each roll to the length that is committed of its staging file. Its changelog is part of
Kafka's transaction, so the transaction decides which rows count:

    process ─► rows in memory ─► stage: append, fsync ─► store: length ─► Kafka's commit ─► publish, if the roll is full ─► mark
                                        │                      │                │                  │
    a crash after it:            bytes without a length,   aborted         published by the   published again:
                                 removed at the next open                  next open          changes nothing

A task that opens publishes what the store names, and begins a new roll in a new file. So the rows of a roll do not change once
another task has read its entry, and it does not matter who publishes it, or how often. The entry leaves the store with the first
commit of the next roll.
"""

from __future__ import annotations

import logging
import uuid
from typing import Any

import pyarrow as pa

from penstock.batches.batch_processor import BatchProcessor, Operator
from penstock.batches.record_batch import RecordBatch
from penstock.errors import StreamsError, TopologyError
from penstock.operators.context import CommitHooks, OperatorContext, OperatorProcessor
from penstock.operators.files.delta import DeltaTarget, check_table, has_deltalake
from penstock.operators.files.options import STAGING, FilesOptions, check_parquet
from penstock.operators.files.parquet import ParquetTarget, check_folder
from penstock.operators.files.rows import RowConverter
from penstock.operators.files.staging import StagedRows
from penstock.operators.files.target import Roll, SinkPart, Target
from penstock.operators.rows import row_by_row
from penstock.processor import Cancellable, PunctuationType
from penstock.record import Record

_log = logging.getLogger(__name__)

_NO_VALUE = "Skipping record without a value: it makes no row of a file."


class KStreamToFiles(Operator):
    """Supplies the processors of a sink; `check_before_start` is called once, before anything is processed."""

    def __init__(self, options: FilesOptions, sink: str, store_name: str) -> None:
        self.options = options
        self.sink = sink
        self.store_name = store_name

    def __call__(self) -> FilesProcessor:
        return FilesProcessor(self.options, self.sink, self.store_name)

    def check_before_start(self, application: str) -> None:
        """TopologyError or StreamsError if files could not be written to the path."""
        options = self.options
        folder = options.path / STAGING / application / self.sink
        try:
            folder.mkdir(parents=True, exist_ok=True)
            probe = folder / f".{uuid.uuid4().hex}"
            probe.touch()
            probe.unlink()
        except OSError as exc:
            raise TopologyError(
                f"to_files(): cannot write to {options.path}: {exc.strerror or exc}. Give the user of this process "
                "the right to write there, or use another path."
            ) from exc
        if options.format == "delta":
            check_table(options)
        else:
            check_folder(options)


def check_format(options: FilesOptions) -> None:
    """TopologyError if the format's library is missing, or if the format lacks a type."""
    if options.format == "delta" and not has_deltalake():
        raise TopologyError('to_files(): format="delta" needs an extra. Install it: pip install "penstock-streams[delta]".')
    check_parquet(options.schema)


class FilesProcessor(BatchProcessor, CommitHooks, OperatorProcessor[Any, Any, Any, Any]):
    """Writes the rows of one task."""

    def __init__(self, options: FilesOptions, sink: str, store_name: str) -> None:
        self._options = options
        self._sink = sink
        self._store_name = store_name
        self._converter = RowConverter(options.schema)
        self._rows: list[pa.RecordBatch] = []
        self._roll: Roll | None = None
        """The roll that rows are added to; None until the next row."""
        self._staged: StagedRows | None = None
        self._timer: Cancellable | None = None
        self._is_due = self._is_closed = False
        self._is_uncommitted = False
        """Whether the store has changes of which nobody knows yet whether they are committed."""
        self._published: set[str] = set()
        """Rolls that are published and still in the store."""
        self._forgotten: set[str] = set()
        """Rolls that the commit under way takes out of the store."""

    def set_up(self, context: OperatorContext) -> None:
        """Publish what the task that had the partition before has committed and not published."""
        self._context = context
        context.take_part_in_commits(self)
        self._store = context.get_state_store(self._store_name)
        part = SinkPart(str(context.app_configs["application.id"]), self._sink, context.task_id.partition)
        self._target: Target = (DeltaTarget if self._options.format == "delta" else ParquetTarget)(self._options, part)
        self._target.staging.make()
        with self._store.all() as entries:
            left = [Roll(key, entry["version"], entry["length"]) for key, entry in entries]
        self._target.staging.keep_only({roll.id for roll in left})
        for roll in sorted(left, key=lambda roll: roll.version):
            self._publish(roll)
        self._version = max([self._target.last_version(), *(roll.version for roll in left)])

    # -- rows ----------------------------------------------------------------------------------------------------------

    def process(self, record: Record[Any, Any]) -> None:
        """Keep one row until the commit."""
        if record.value is None:
            self._context.record_dropped(_NO_VALUE)
            return
        self._rows.append(self._converter.batch_of([record.value]))

    def process_batch(self, batch: RecordBatch) -> None:
        """Keep many rows; where one does not fit, row by row, so that the handler decides on that one alone."""
        values = batch.values
        if None not in values:
            try:
                self._rows.append(self._converter.batch_of(values))
                return
            except StreamsError:
                pass
        row_by_row(self._context, batch, self.process)

    # -- commit --------------------------------------------------------------------------------------------------------

    def before_commit(self) -> bool:
        """Stage the rows, and let the store name them; returns whether it does."""
        if not self._rows:
            return False
        rows = pa.Table.from_batches(self._rows).combine_chunks().to_batches()
        self._rows = []
        if self._roll is None:
            self._begin_roll()
        assert self._roll is not None
        assert self._staged is not None
        length = 0
        for batch in rows:
            length = self._staged.append(batch)
        self._roll = Roll(self._roll.id, self._roll.version, length)
        for roll in self._published:
            self._store.delete(roll)
        self._forgotten, self._published = self._published, set()
        self._store.put(self._roll.id, {"version": self._roll.version, "length": length})
        self._is_uncommitted = True
        return True

    def _begin_roll(self) -> None:
        self._version += 1
        self._roll = Roll(uuid.uuid4().hex, self._version, 0)
        self._staged = StagedRows(self._target.staging.rows_of(self._roll.id), self._options.schema)
        self._timer = self._context.schedule(self._options.roll_ms, PunctuationType.WALL_CLOCK_TIME, self._time_is_over)

    def _time_is_over(self, now: int) -> None:
        self._is_due = True
        self._stop_timer()

    def after_commit(self) -> None:
        """The rows are committed: publish them if the roll is full, or its time over."""
        self._is_uncommitted = False
        self._target.staging.forget(self._forgotten)
        self._forgotten = set()
        roll = self._roll
        if roll is not None and (self._is_due or self._is_closed or roll.length >= self._options.roll_bytes):
            self._end_roll(roll)

    def _end_roll(self, roll: Roll) -> None:
        self._stop_timer()
        assert self._staged is not None
        self._staged.close()
        self._roll, self._staged, self._is_due = None, None, False
        self._publish(roll)

    def _publish(self, roll: Roll) -> None:
        if not self._target.is_published(roll):
            self._target.publish(roll, self._target.staging.read(roll.id, roll.length))
        self._published.add(roll.id)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def close(self) -> None:
        """Publish what is committed. After a failure nobody knows what is, so that the next task does it."""
        self._is_closed = True
        if self._roll is not None and not self._is_uncommitted and not self._rows:
            self._end_roll(self._roll)
