"""The Processor API: what a user writes to process records one at a time, and what the runtime hands to it."""

from __future__ import annotations

import enum
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

from penstock.ids import TaskId
from penstock.record import FixedKeyRecord, Record, RecordMetadata

KIn = TypeVar("KIn")
VIn = TypeVar("VIn")
KOut = TypeVar("KOut")
VOut = TypeVar("VOut")

Duration = timedelta | int
Punctuator = Callable[[int], None]


class PunctuationType(enum.Enum):
    """What drives a punctuator: the records' time, or the clock on the wall."""

    STREAM_TIME = "STREAM_TIME"
    WALL_CLOCK_TIME = "WALL_CLOCK_TIME"


class Cancellable(Protocol):
    """A scheduled punctuation that can be taken back."""

    def cancel(self) -> None:
        """No further call of the punctuator after this one."""
        ...


class ProcessingContext(ABC):
    """What every processor can ask of the task that runs it."""

    @property
    @abstractmethod
    def application_id(self) -> str:
        """The `application.id` of this application."""

    @property
    @abstractmethod
    def task_id(self) -> TaskId:
        """The task that runs this processor."""

    @property
    @abstractmethod
    def record_metadata(self) -> RecordMetadata | None:
        """Topic, partition and offset of the record being processed; None inside a punctuator."""

    @property
    @abstractmethod
    def app_configs(self) -> Mapping[str, Any]:
        """The application's configuration, with the user's own keys."""

    def app_configs_with_prefix(self, prefix: str) -> dict[str, Any]:
        """The configuration entries whose key starts with a prefix, without it."""
        return {key[len(prefix) :]: value for key, value in self.app_configs.items() if key.startswith(prefix)}

    @property
    @abstractmethod
    def key_serde(self) -> Any:
        """The configured default key serde."""

    @property
    @abstractmethod
    def value_serde(self) -> Any:
        """The configured default value serde."""

    @property
    @abstractmethod
    def state_dir(self) -> Path:
        """The task's folder."""

    @property
    @abstractmethod
    def metrics(self) -> Any:
        """The registry, for metrics of the user's own."""

    @abstractmethod
    def get_state_store(self, name: str) -> Any:
        """The store of that name; it must be connected to this processor."""

    @abstractmethod
    def schedule(
        self,
        interval: Duration,
        punctuation_type: PunctuationType,
        callback: Punctuator,
        start_time: int | datetime | None = None,
    ) -> Cancellable:
        """Call `callback(timestamp)` every `interval` of the given time, from `start_time` on where that is given."""

    @abstractmethod
    def commit(self) -> None:
        """Ask for a commit as soon as possible."""

    @abstractmethod
    def current_stream_time_ms(self) -> int:
        """The highest timestamp this task has seen; -1 before the first record."""

    @abstractmethod
    def current_system_time_ms(self) -> int:
        """Wall-clock time as this task sees it."""


class ProcessorContext(ProcessingContext, Generic[KOut, VOut]):
    """The context of a `Processor`."""

    @abstractmethod
    def forward(self, record: Record[KOut, VOut], child: str | None = None) -> None:
        """Hand a record to all children, or to the one named."""


class FixedKeyProcessorContext(ProcessingContext, Generic[KOut, VOut]):
    """The context of a `FixedKeyProcessor`: the key of what is forwarded stays."""

    @abstractmethod
    def forward(self, record: FixedKeyRecord[KOut, VOut], child: str | None = None) -> None:
        """Hand a record to all children, or to the one named."""


class Processor(Generic[KIn, VIn, KOut, VOut]):
    """A node of the topology, written by the user: one instance per task, called with one record at a time.

    A supplier (a zero-argument callable, often the class itself) makes the instances. Subclasses
    implement `process`; `init` keeps the context, `close` releases what `init` took.
    """

    context: ProcessorContext[KOut, VOut]

    def init(self, context: ProcessorContext[KOut, VOut]) -> None:
        """Called once before the first record."""
        self.context = context

    def process(self, record: Record[KIn, VIn]) -> None:
        """Called for each record."""
        raise TypeError(f"{type(self).__name__} must implement process(record)")

    def close(self) -> None:
        """Called once when the task closes."""


class FixedKeyProcessor(Generic[KIn, VIn, VOut]):
    """Like `Processor`, for records whose key stays, so that no repartition is needed after it."""

    context: FixedKeyProcessorContext[KIn, VOut]

    def init(self, context: FixedKeyProcessorContext[KIn, VOut]) -> None:
        """Called once before the first record."""
        self.context = context

    def process(self, record: FixedKeyRecord[KIn, VIn]) -> None:
        """Called for each record."""
        raise TypeError(f"{type(self).__name__} must implement process(record)")

    def close(self) -> None:
        """Called once when the task closes."""


class ValueTransformerWithKey(Generic[KIn, VIn, VOut]):
    """Turns the values of a table into others, with stores at hand (`KTable.transform_values`)."""

    context: ProcessingContext

    def init(self, context: ProcessingContext) -> None:
        """Called once before the first record."""
        self.context = context

    def transform(self, key: KIn, value: VIn) -> VOut:
        """The new value."""
        raise TypeError(f"{type(self).__name__} must implement transform(key, value)")

    def close(self) -> None:
        """Called once when the task closes."""
