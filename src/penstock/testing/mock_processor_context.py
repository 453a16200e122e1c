"""MockProcessorContext: a processor under test gets it in `init`; the test looks at what it forwarded and scheduled."""

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
    """A punctuator that the processor scheduled; the test calls it when it likes."""

    def __init__(
        self, interval: Duration, punctuation_type: PunctuationType, punctuator: Punctuator, start_time: int | datetime | None
    ) -> None:
        self.interval = interval
        self.type = punctuation_type
        self.punctuator = punctuator
        self.start_time = start_time
        self.cancelled = False

    def cancel(self) -> None:
        """What the processor calls to take the punctuator back."""
        self.cancelled = True


@dataclass(frozen=True)
class CapturedForward(Generic[K, V]):
    """A record that the processor forwarded, and the child it named (None: all children)."""

    record: FixedKeyRecord[K, V]
    child_name: str | None = None


class MockProcessorContext(ProcessorContext[Any, Any], FixedKeyProcessorContext[Any, Any]):
    """A context without a task: it keeps what the processor does.

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

    # What the processor asks

    @property
    def application_id(self) -> str:
        """The `application.id`."""
        name: str = self._config["application.id"]
        return name

    @property
    def task_id(self) -> TaskId:
        """The task id given to the constructor."""
        return self._task_id

    @property
    def record_metadata(self) -> RecordMetadata | None:
        """What `set_record_metadata` was called with, or None."""
        return self._record_metadata

    @property
    def app_configs(self) -> Mapping[str, Any]:
        """The configuration given to the constructor."""
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
        """A registry of its own."""
        return self._metrics

    @property
    def state_dir(self) -> Path:
        """The folder given to the constructor."""
        if self._state_dir is None:
            raise StreamsError(
                "a state_dir is needed (probably for a state store) but was not given: use an in-memory store, or give "
                "MockProcessorContext a state_dir"
            )
        return self._state_dir

    def current_system_time_ms(self) -> int:
        """What `set_current_system_time_ms` was called with."""
        if self._system_time_ms is None:
            raise StreamsError("System time must be set before use via set_current_system_time_ms().")
        return self._system_time_ms

    def current_stream_time_ms(self) -> int:
        """What `set_current_stream_time_ms` was called with."""
        if self._stream_time_ms is None:
            raise StreamsError("Stream time must be set before use via set_current_stream_time_ms().")
        return self._stream_time_ms

    def get_state_store(self, name: str) -> Any:
        """The store that was added or registered under that name, or None."""
        return self._stores.get(name)

    def schedule(
        self,
        interval: Duration,
        punctuation_type: PunctuationType,
        callback: Punctuator,
        start_time: int | datetime | None = None,
    ) -> CapturedPunctuator:
        """Keep the punctuator for `scheduled_punctuators`."""
        captured = CapturedPunctuator(interval, punctuation_type, callback, start_time)
        self._punctuators.append(captured)
        return captured

    def forward(self, record: FixedKeyRecord[Any, Any], child: str | None = None) -> None:
        """Keep the record for `forwarded`."""
        self._forwards.append(CapturedForward(record, child))

    def commit(self) -> None:
        """Note that a commit was asked for."""
        self._committed = True

    def add_processor_metadata_key_value(self, key: str, value: int) -> None:
        """Keep a long."""
        self._metadata[key] = value

    def processor_metadata_for_key(self, key: str) -> int | None:
        """A long that was kept, or None."""
        return self._metadata.get(key)

    # What the test sets

    def set_record_metadata(self, topic: str, partition: int, offset: int) -> None:
        """Say where the record being processed comes from."""
        self._record_metadata = RecordMetadata(topic, partition, offset)
        self._position.with_component(topic, partition, offset)

    def set_current_system_time_ms(self, milliseconds: int) -> None:
        """Set the wall clock."""
        self._system_time_ms = milliseconds

    def set_current_stream_time_ms(self, milliseconds: int) -> None:
        """Set stream time."""
        self._stream_time_ms = milliseconds

    def add_state_store(self, store: StateStore) -> None:
        """Give the processor a store."""
        self._stores[store.name] = store

    def get_state_store_context(self) -> StateStoreContext:
        """What a store's `init` takes; the store is then known to this context. Its changes are logged nowhere."""
        return _MockStateStoreContext(self)

    # What the test looks at

    def scheduled_punctuators(self) -> list[CapturedPunctuator]:
        """All that was scheduled, cancelled or not."""
        return list(self._punctuators)

    def forwarded(self, child_name: str | None = None) -> list[CapturedForward[Any, Any]]:
        """All that was forwarded, or what a child of that name would have got."""
        if child_name is None:
            return list(self._forwards)
        return [capture for capture in self._forwards if capture.child_name in (None, child_name)]

    def reset_forwards(self) -> None:
        """Forget what was forwarded."""
        self._forwards.clear()

    @property
    def committed(self) -> bool:
        """Whether a commit was asked for."""
        return self._committed

    def reset_commit(self) -> None:
        """Forget that a commit was asked for."""
        self._committed = False


class _MockStateStoreContext(StateStoreContext):
    """The store's side of a `MockProcessorContext`."""

    def __init__(self, owner: MockProcessorContext) -> None:
        self._owner = owner
        self._cache = RecordCache(0)
        self._record_context: RecordContext | None = None

    @property
    def application_id(self) -> str:
        """The `application.id`."""
        return self._owner.application_id

    @property
    def task_id(self) -> TaskId:
        """The task id of the context."""
        return self._owner.task_id

    @property
    def state_dir(self) -> Path:
        """The folder given to the context."""
        return self._owner.state_dir

    @property
    def app_configs(self) -> Mapping[str, Any]:
        """The configuration of the context."""
        return self._owner.app_configs

    @property
    def key_serde(self) -> Any:
        """The configured default key serde."""
        return self._owner.key_serde

    @property
    def value_serde(self) -> Any:
        """The configured default value serde."""
        return self._owner.value_serde

    @property
    def record_context(self) -> RecordContext | None:
        """What was set last."""
        return self._record_context

    def set_record_context(self, context: RecordContext | None) -> None:
        """Make another record the current one."""
        self._record_context = context

    @property
    def position(self) -> Position:
        """The highest offset that `set_record_metadata` was called with for each partition."""
        return self._owner._position.copy()

    @property
    def metrics(self) -> Metrics:
        """The registry of the context."""
        return self._owner.metrics

    @property
    def cache(self) -> RecordCache:
        """A cache that holds nothing."""
        return self._cache

    def changelog_for(self, store_name: str) -> str | None:
        """No store has a changelog here."""
        return None

    def register(self, store: StateStore, restore: RestoreCallback) -> None:
        """Make the store known to the context."""
        self._owner.add_state_store(store)

    def log_change(self, store_name: str, key: bytes, value: bytes | None, timestamp: int, headers: Headers = ()) -> None:
        """Changes are logged nowhere."""

    def current_system_time_ms(self) -> int:
        """The wall clock of the context; 0 where it is not set."""
        return self._owner._system_time_ms or 0

    def current_stream_time_ms(self) -> int:
        """The stream time of the context; 0 where it is not set."""
        return self._owner._stream_time_ms or 0
