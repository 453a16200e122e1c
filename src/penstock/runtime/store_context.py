"""What every kind of task context shares: who the task is, its configuration, its stores' side of things."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from penstock.dead_letters import ErrorHandlerContext
from penstock.errors import StreamsError
from penstock.ids import TaskId
from penstock.record import Headers, ProducedRecord, RecordContext, RecordMetadata
from penstock.runtime.current_record import CurrentRecord
from penstock.runtime.offset_metadata import ProcessorMetadata
from penstock.runtime.task_metrics import TaskMetrics
from penstock.state.cache import RecordCache
from penstock.state.store import RestoreCallback, StateStore, StateStoreContext

if TYPE_CHECKING:
    from penstock.config.streams_config import StreamsConfig
    from penstock.runtime.nodes import Node

_log = logging.getLogger("penstock.runtime")


class AbstractTaskContext(CurrentRecord, StateStoreContext):
    """The part of a context that stores use, and the record that is being processed.

    Used as it is by standby tasks, which only put changelog records into stores.
    """

    # Plain attributes where the interface has properties: they are read for every record.
    record_context: RecordContext | None = None
    task_id: TaskId = TaskId(-1, -1)
    application_id: str = ""
    app_configs: Mapping[str, Any] = {}
    metrics: Any = None
    cache: Any = None

    def __init__(
        self, task_id: TaskId, config: StreamsConfig, state_manager: Any, metrics: TaskMetrics, cache: RecordCache | None
    ) -> None:
        self.task_id = task_id
        self.application_id = config["application.id"]
        self.app_configs = config
        self.metrics = metrics.registry
        self.task_metrics = metrics
        self.cache = cache
        self.state_manager = state_manager
        self.record_context = None
        self.current_node: Node | None = None
        self.system_time_ms = -1
        self.processor_metadata = ProcessorMetadata()
        self._config = config

    @property
    def key_serde(self) -> Any:
        """The configured default key serde, or None."""
        return self._config.default_key_serde

    @property
    def value_serde(self) -> Any:
        """The configured default value serde, or None."""
        return self._config.default_value_serde

    @property
    def state_dir(self) -> Path:
        """The task's folder."""
        found: Path = self.state_manager.base_dir
        return found

    @property
    def record_metadata(self) -> RecordMetadata | None:
        """Topic, partition and offset of the record being processed; None where there is none."""
        context = self.record_context
        if context is None or context.topic is None:
            return None
        return RecordMetadata(context.topic, context.partition, context.offset)

    @property
    def current_node_name(self) -> str | None:
        """The node that is at work now."""
        return None if self.current_node is None else self.current_node.name

    def changelog_for(self, store_name: str) -> str | None:
        """The changelog topic of a store; None where it has none."""
        found: str | None = self.state_manager.changelog_for(store_name)
        return found

    def register(self, store: StateStore, restore: RestoreCallback) -> None:
        """A store says that it exists and how records of its changelog are put back into it."""
        self.state_manager.register_store(store, restore)

    def log_change(self, store_name: str, key: bytes, value: bytes | None, timestamp: int, headers: Headers = ()) -> None:
        """Write one change to the store's changelog partition."""
        self._unsupported("log_change")

    def current_system_time_ms(self) -> int:
        """Wall-clock time as the task sees it: it stands still while a record is processed."""
        return self.system_time_ms

    def current_stream_time_ms(self) -> int:
        """The task's stream time; -1 before the first record."""
        return -1

    def add_processor_metadata_key_value(self, key: str, value: int) -> None:
        """Keep a long that is committed with the task's offsets."""
        self.processor_metadata.put(key, value)

    def processor_metadata_for_key(self, key: str) -> int | None:
        """A long that was committed before the task was opened; None where there is none. A processor asks in `init`, once."""
        return self.processor_metadata.claim(key)

    def set_processor_metadata(self, metadata: ProcessorMetadata) -> None:
        """Bring back what was committed."""
        self.processor_metadata = metadata

    def record_dropped(self, reason: str) -> None:
        """Count a record that is left out, and log why, with where it came from."""
        if "topic=[" not in reason:
            text = reason if reason.startswith("Skipping") else f"Skipping record due to {reason}"
            origin = self.record_context
            where = (
                "Topic, partition, and offset not known."
                if origin is None or origin.topic is None
                else f"topic=[{origin.topic}] partition=[{origin.partition}] offset=[{origin.offset}]"
            )
            reason = f"{text.removesuffix('.')}. {where}"
        _log.warning(reason)
        self.task_metrics.dropped_records.record()

    def count_dropped(self) -> None:
        """Count a record that is left out where the log already says why."""
        self.task_metrics.dropped_records.record()

    def send_dead_letters(self, records: Iterable[ProducedRecord], error_context: ErrorHandlerContext | None = None) -> None:
        """Write a handler's dead letter records; a context without outputs can only say that it does not."""
        if records:
            _log.warning(
                "Dead letter queue records cannot be sent for global stores and standby tasks. Record context: %s", error_context
            )

    def _unsupported(self, operation: str) -> NoReturn:
        raise StreamsError(f"{operation}() is not supported in {type(self).__name__} (task {self.task_id})")
