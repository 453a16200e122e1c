"""A store context without a task: it records what stores register and log."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from penstock.ids import TaskId, TopicPartition
from penstock.record import Headers, RawRecord, RecordContext
from penstock.state.cache import RecordCache
from penstock.state.store import RestoreCallback, StateStore, StateStoreContext

APPLICATION_ID = "app"
FIRST_TASK = TaskId(0, 0)


class LoggedChange(NamedTuple):
    """One call of `log_change`."""

    store_name: str
    key: bytes
    value: bytes | None
    timestamp: int
    headers: Headers = ()


class FakeStoreContext(StateStoreContext):
    """What a store needs of a task, with everything it did left open to look at.

    `changes` holds every `log_change` call; `stores` and `restore_callbacks` what was registered, by name. `at(timestamp)` sets
    the record context as if a record of that time were being processed.
    """

    def __init__(
        self,
        tmp_path: Path,
        *,
        task_id: TaskId = FIRST_TASK,
        configs: Mapping[str, Any] | None = None,
        key_serde: Any = None,
        value_serde: Any = None,
        cache_size: int = 10 * 1024 * 1024,
        logged: bool = True,
        metrics: Any = None,
    ) -> None:
        self._task_id = task_id
        self._state_dir = Path(tmp_path)
        self._configs: Mapping[str, Any] = dict(configs or {})
        self._key_serde = key_serde
        self._value_serde = value_serde
        self._cache = RecordCache(cache_size)
        self._logged = logged
        self._metrics = metrics
        self._record_context: RecordContext | None = RecordContext(0, 0, task_id.partition, "input")
        self.wall_clock_ms = 0
        self.stream_time_ms = -1
        self.changes: list[LoggedChange] = []
        self.stores: dict[str, StateStore] = {}
        self.restore_callbacks: dict[str, RestoreCallback] = {}

    @property
    def application_id(self) -> str:
        return APPLICATION_ID

    @property
    def task_id(self) -> TaskId:
        return self._task_id

    @property
    def state_dir(self) -> Path:
        return self._state_dir

    @property
    def app_configs(self) -> Mapping[str, Any]:
        return self._configs

    @property
    def key_serde(self) -> Any:
        return self._key_serde

    @property
    def value_serde(self) -> Any:
        return self._value_serde

    @property
    def record_context(self) -> RecordContext | None:
        return self._record_context

    def set_record_context(self, context: RecordContext | None) -> None:
        self._record_context = context

    @property
    def metrics(self) -> Any:
        return self._metrics

    @property
    def cache(self) -> RecordCache:
        return self._cache

    def changelog_for(self, store_name: str) -> str | None:
        return f"{APPLICATION_ID}-{store_name}-changelog" if self._logged else None

    def register(self, store: StateStore, restore: RestoreCallback) -> None:
        self.stores[store.name] = store
        self.restore_callbacks[store.name] = restore

    def log_change(self, store_name: str, key: bytes, value: bytes | None, timestamp: int, headers: Headers = ()) -> None:
        self.changes.append(LoggedChange(store_name, key, value, timestamp, headers))

    def current_system_time_ms(self) -> int:
        return self.wall_clock_ms

    def current_stream_time_ms(self) -> int:
        return self.stream_time_ms

    def at(self, timestamp: int, offset: int = 0, headers: Headers = (), topic: str = "input") -> FakeStoreContext:
        """Act as if a record of this time were being processed."""
        self._record_context = RecordContext(timestamp, offset, self._task_id.partition, topic, headers)
        self.stream_time_ms = max(self.stream_time_ms, timestamp)
        return self

    def changelog_partition(self, store_name: str) -> TopicPartition:
        """The changelog partition of a store of this task."""
        return TopicPartition(f"{APPLICATION_ID}-{store_name}-changelog", self._task_id.partition)

    def changelog_records(self, store_name: str) -> list[RawRecord]:
        """What was logged for a store, as it would be read back from its changelog."""
        topic, partition = self.changelog_partition(store_name)
        changes = [change for change in self.changes if change.store_name == store_name]
        return [
            RawRecord(topic, partition, offset, change.timestamp, change.key, change.value, change.headers)
            for offset, change in enumerate(changes)
        ]
