"""MockProcessorContext: the context of a processor under test. It records forwarded records and scheduled punctuators."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Generic, TypeVar

from penstock.config.streams_config import StreamsConfig
from penstock.errors import StreamsError
from penstock.ids import TaskId
from penstock.metrics.registry import Metrics
from penstock.processor import Duration, FixedKeyProcessorContext, ProcessorContext, PunctuationType, Punctuator
from penstock.query.position import Position
from penstock.record import FixedKeyRecord, Headers, RecordContext, RecordMetadata
from penstock.state.cache import RecordCache
from penstock.state.store import RestoreCallback, StateStore, StateStoreContext

K = TypeVar("K")
V = TypeVar("V")

_TASK_ID = TaskId(0, 0)
_DEFAULTS = {"application.id": "dummy-mock-app-id", "bootstrap.servers": "dummy-bootstrap-host:0"}


class CapturedPunctuator:
    """A punctuator that the processor scheduled. The test can call it."""

    def __init__(
        self, interval: Duration, punctuation_type: PunctuationType, punctuator: Punctuator, start_time: int | datetime | None
    ) -> None:
        self.interval = interval
        self.type = punctuation_type
        self.punctuator = punctuator
        self.start_time = start_time
        self.cancelled = False

    def cancel(self) -> None:
        """Cancel the punctuator."""
        self.cancelled = True


@dataclass(frozen=True)
class CapturedForward(Generic[K, V]):
    """A record that the processor forwarded, and its child (None for all children)."""

    record: FixedKeyRecord[K, V]
    child_name: str | None = None


class MockProcessorContext(ProcessorContext[Any, Any], FixedKeyProcessorContext[Any, Any]):
    """A context without a task that records the processor's calls.

    >>> from penstock.processor import Processor
    >>> from penstock.record import Record
    >>> class Double(Processor):
    ...     def process(self, record):
    ...         self.context.forward(record.with_value(record.value * 2))
    >>> context, processor = MockProcessorContext(), Double()
    >>> processor.init(context)
    >>> processor.process(Record("a", 21, timestamp=0))
    >>> context.forwarded()[0].record.value
    42
    """

    def __init__(
        self, config: Mapping[str, Any] | None = None, task_id: TaskId = _TASK_ID, state_dir: str | Path | None = None
    ) -> None:
        given = config.originals if isinstance(config, StreamsConfig) else (config or {})
        self._config = StreamsConfig.partial({**_DEFAULTS, **given})
        self._task_id = task_id
        self._state_dir = None if state_dir is None else Path(state_dir)
        self._metrics = Metrics("DEBUG")
        self._record_metadata: RecordMetadata | None = None
        self._position = Position()
        self._system_time_ms: int | None = None
        self._stream_time_ms: int | None = None
        self._stores: dict[str, StateStore] = {}
        self._punctuators: list[CapturedPunctuator] = []
        self._forwards: list[CapturedForward[Any, Any]] = []
        self._metadata: dict[str, int] = {}
        self._committed = False

    # Called by the processor

    @property
    def application_id(self) -> str:
        """The `application.id`."""
        name: str = self._config["application.id"]
        return name

    @property
    def task_id(self) -> TaskId:
        """The task id of the constructor."""
        return self._task_id

    @property
    def record_metadata(self) -> RecordMetadata | None:
        """The metadata of `set_record_metadata`, or None."""
        return self._record_metadata

    @property
    def app_configs(self) -> Mapping[str, Any]:
        """The configuration of the constructor."""
        return self._config

    @property
    def key_serde(self) -> Any:
        """The configured default key serde."""
        return self._config.default_key_serde

    @property
    def value_serde(self) -> Any:
        """The configured default value serde."""
        return self._config.default_value_serde

    @property
    def metrics(self) -> Metrics:
        """The context's registry."""
        return self._metrics

    @property
    def state_dir(self) -> Path:
        """The folder of the constructor."""
        if self._state_dir is None:
            raise StreamsError(
                "a state_dir is needed (probably for a state store) but was not given: use an in-memory store, or pass "
                "a state_dir to MockProcessorContext"
            )
        return self._state_dir

    def current_system_time_ms(self) -> int:
        """Return the time of `set_current_system_time_ms`."""
        if self._system_time_ms is None:
            raise StreamsError("System time must be set before use via set_current_system_time_ms().")
        return self._system_time_ms

    def current_stream_time_ms(self) -> int:
        """Return the time of `set_current_stream_time_ms`."""
        if self._stream_time_ms is None:
            raise StreamsError("Stream time must be set before use via set_current_stream_time_ms().")
        return self._stream_time_ms

    def get_state_store(self, name: str) -> Any:
        """Return the added or registered store with this name, or None."""
        return self._stores.get(name)

    def schedule(
        self,
        interval: Duration,
        punctuation_type: PunctuationType,
        callback: Punctuator,
        start_time: int | datetime | None = None,
    ) -> CapturedPunctuator:
        """Record a punctuator for `scheduled_punctuators`."""
        captured = CapturedPunctuator(interval, punctuation_type, callback, start_time)
        self._punctuators.append(captured)
        return captured

    def forward(self, record: FixedKeyRecord[Any, Any], child: str | None = None) -> None:
        """Record a record for `forwarded`."""
        self._forwards.append(CapturedForward(record, child))

    def commit(self) -> None:
        """Record that a commit was requested."""
        self._committed = True

    def add_processor_metadata_key_value(self, key: str, value: int) -> None:
        """Store a long value."""
        self._metadata[key] = value

    def processor_metadata_for_key(self, key: str) -> int | None:
        """Return a stored long value, or None."""
        return self._metadata.get(key)

    # Called by the test before processing

    def set_record_metadata(self, topic: str, partition: int, offset: int) -> None:
        """Set the origin of the current record."""
        self._record_metadata = RecordMetadata(topic, partition, offset)
        self._position.with_component(topic, partition, offset)

    def set_current_system_time_ms(self, milliseconds: int) -> None:
        """Set the wall-clock time."""
        self._system_time_ms = milliseconds

    def set_current_stream_time_ms(self, milliseconds: int) -> None:
        """Set stream time."""
        self._stream_time_ms = milliseconds

    def add_state_store(self, store: StateStore) -> None:
        """Add a store for the processor."""
        self._stores[store.name] = store

    def get_state_store_context(self) -> StateStoreContext:
        """Return a context for a store's `init`, which registers the store here. Changes are not logged."""
        return _MockStateStoreContext(self)

    # Called by the test after processing

    def scheduled_punctuators(self) -> list[CapturedPunctuator]:
        """Return all scheduled punctuators, cancelled or not."""
        return list(self._punctuators)

    def forwarded(self, child_name: str | None = None) -> list[CapturedForward[Any, Any]]:
        """Return all forwarded records, or those that a child with this name would get."""
        if child_name is None:
            return list(self._forwards)
        return [capture for capture in self._forwards if capture.child_name in (None, child_name)]

    def reset_forwards(self) -> None:
        """Forget forwarded records."""
        self._forwards.clear()

    @property
    def committed(self) -> bool:
        """True if a commit was requested."""
        return self._committed

    def reset_commit(self) -> None:
        """Forget requested commits."""
        self._committed = False


class _MockStateStoreContext(StateStoreContext):
    """The store context of a `MockProcessorContext`."""

    def __init__(self, owner: MockProcessorContext) -> None:
        self._owner = owner
        self._cache = RecordCache(0)
        self._record_context: RecordContext | None = None

    @property
    def application_id(self) -> str:
        return self._owner.application_id

    @property
    def task_id(self) -> TaskId:
        return self._owner.task_id

    @property
    def state_dir(self) -> Path:
        return self._owner.state_dir

    @property
    def app_configs(self) -> Mapping[str, Any]:
        return self._owner.app_configs

    @property
    def key_serde(self) -> Any:
        return self._owner.key_serde

    @property
    def value_serde(self) -> Any:
        return self._owner.value_serde

    @property
    def record_context(self) -> RecordContext | None:
        return self._record_context

    def set_record_context(self, context: RecordContext | None) -> None:
        self._record_context = context

    @property
    def position(self) -> Position:
        """The highest offset of `set_record_metadata` for each partition."""
        return self._owner._position.copy()

    @property
    def metrics(self) -> Metrics:
        return self._owner.metrics

    @property
    def cache(self) -> RecordCache:
        """An empty cache."""
        return self._cache

    def changelog_for(self, store_name: str) -> str | None:
        """Return None: stores have no changelog here."""
        return None

    def register(self, store: StateStore, restore: RestoreCallback) -> None:
        """Add the store to the context."""
        self._owner.add_state_store(store)

    def log_change(self, store_name: str, key: bytes, value: bytes | None, timestamp: int, headers: Headers = ()) -> None:
        """Do nothing: changes are not logged."""

    def current_system_time_ms(self) -> int:
        """Return the context's wall-clock time, 0 if not set."""
        return self._owner._system_time_ms or 0

    def current_stream_time_ms(self) -> int:
        """Return the context's stream time, 0 if not set."""
        return self._owner._stream_time_ms or 0
