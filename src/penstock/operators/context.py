"""What operators of the DSL ask of the task they run in."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager
from typing import Any, Protocol, TypeVar, cast

from penstock.batches.record_batch import RecordBatch
from penstock.ids import TaskId
from penstock.metrics.registry import Metrics
from penstock.operators.joins.lookup_table import LookupTables
from penstock.processor import (
    Cancellable,
    Duration,
    FixedKeyProcessor,
    FixedKeyProcessorContext,
    Processor,
    ProcessorContext,
    PunctuationType,
    Punctuator,
)
from penstock.record import RecordContext, RecordMetadata
from penstock.state.cache import RecordCache

KIn = TypeVar("KIn")
VIn = TypeVar("VIn")
KOut = TypeVar("KOut")
VOut = TypeVar("VOut")


class OperatorContext(Protocol):
    """A processor's context as operators use it: what a user's processor has, and many records at a time.

    `runtime.context.InternalProcessorContext` is the one of a task; tests have smaller ones.
    Operators' processors are given it by `set_up`: `init`, which is that of a user's processor, knows less of it.
    That of global tables has records one at a time only; the one operator there, the table source, asks for no more.
    """

    task_id: TaskId
    record_context: RecordContext | None
    """Where the record that is being processed came from."""
    current_node: Any
    app_configs: Mapping[str, Any]
    metrics: Metrics
    cache: RecordCache
    is_only_run: bool
    """Whether this batch has all rows until the commit, so that the last result of a key can be forwarded."""

    lookup_tables: LookupTables
    """The DataFrames that streams are joined with."""

    holds_changes: bool
    """Whether changes of a table that are written past its cache wait for the flush all the same."""

    @property
    def key_serde(self) -> Any:
        """The configured default key serde, or None."""

    @property
    def value_serde(self) -> Any:
        """The configured default value serde, or None."""

    @property
    def record_metadata(self) -> RecordMetadata | None:
        """Topic, partition and offset of the record being processed; None where there is none."""

    @property
    def current_node_name(self) -> str | None:
        """The node that is at work now."""

    def set_record_context(self, context: RecordContext | None) -> None:
        """Make another record the current one."""

    def at(self, node: Any, record: RecordContext | None) -> AbstractContextManager[None]:
        """Work at another node with another record in a `with` block."""

    def enter_row(self, batch: RecordBatch, row: int) -> None:
        """Make a row the current record, until the next row or the end of its batch."""

    def forward(self, record: Any, child: str | None = None) -> None:
        """Hand a record to all children of the current node, or to the one named."""

    def forward_batch(self, batch: RecordBatch, child: str | None = None) -> None:
        """Hand many records to all children of the current node, one child after the other, or to the one named."""

    def row_failed(self, batch: RecordBatch, row: int, exception: Exception, at: Any = None) -> None:
        """Ask the processing exception handler about one row; returns where it is to be left out, raises otherwise.

        `at` is the node that failed, where forwarding may have left another one as the current node.
        """

    def rows_dropped(self, batch: RecordBatch, rows: Iterable[int], reason: str) -> None:
        """Count and log rows that an operator leaves out."""

    def record_dropped(self, reason: str) -> None:
        """Count a record that is left out, and log why."""

    def count_dropped(self) -> None:
        """Count a record that is left out where the log already says why."""

    def get_state_store(self, name: str) -> Any:
        """The store of that name."""

    def current_system_time_ms(self) -> int:
        """Wall-clock time as the task sees it: it stands still while a record is processed."""

    def take_part_in_commits(self, hooks: CommitHooks) -> None:
        """Call the hooks of the current node's processor at each commit of the task from now on."""

    def schedule(self, interval: Duration, punctuation_type: PunctuationType, callback: Punctuator) -> Cancellable:
        """Call `callback(timestamp)` every interval of the given time."""

    def add_processor_metadata_key_value(self, key: str, value: int) -> None:
        """Keep a long that is committed with the task's offsets."""

    def processor_metadata_for_key(self, key: str) -> int | None:
        """A long that was committed before the task was opened; None where there is none. A processor asks in `init`, once."""


class CommitHooks(ABC):
    """A processor that takes part in the commits of its task; it says so in `set_up`, by `context.take_part_in_commits(self)`."""

    @abstractmethod
    def before_commit(self) -> bool:
        """Called when the caches are flushed; returns whether it has written to its stores.

        What it writes is part of the commit. If it returns True, the commit carries the offsets of all inputs, so that the broker
        refuses it from a thread that has lost the task.
        """

    @abstractmethod
    def after_commit(self) -> None:
        """Called when the commit is in Kafka and in the stores."""


class OperatorProcessor(Processor[KIn, VIn, KOut, VOut]):
    """A processor of an operator: a user's processor whose context is known to be that of a task."""

    def init(self, context: ProcessorContext[KOut, VOut]) -> None:
        """Called by the task, with its own context."""
        self.set_up(cast("OperatorContext", context))

    @abstractmethod
    def set_up(self, context: OperatorContext) -> None:
        """Keep what is needed of the context and of the stores, before the first record."""


class OperatorFixedKeyProcessor(FixedKeyProcessor[KIn, VIn, VOut]):
    """The same, for one that leaves keys as they are."""

    def init(self, context: FixedKeyProcessorContext[KIn, VOut]) -> None:
        """Called by the task, with its own context."""
        self.set_up(cast("OperatorContext", context))

    @abstractmethod
    def set_up(self, context: OperatorContext) -> None:
        """Keep what is needed of the context and of the stores, before the first record."""
