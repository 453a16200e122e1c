"""The context of the processors that keep global stores."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

from penstock.clock import Clock
from penstock.errors import StreamsError
from penstock.ids import TaskId
from penstock.processor import Cancellable, Duration, ProcessorContext, PunctuationType, Punctuator
from penstock.record import Record
from penstock.runtime.store_context import AbstractTaskContext
from penstock.runtime.task_metrics import TaskMetrics
from penstock.state.cache import RecordCache

if TYPE_CHECKING:
    from penstock.config.streams_config import StreamsConfig
    from penstock.runtime.global_state import GlobalStateManager

GLOBAL_TASK_ID = TaskId(-1, -1)


class GlobalProcessorContext(AbstractTaskContext, ProcessorContext[Any, Any]):
    """Stores can be written, records go from the source to the processor; there is no time, no timer and no output."""

    state_manager: GlobalStateManager

    def __init__(
        self, config: StreamsConfig, state_manager: GlobalStateManager, metrics: TaskMetrics, cache: RecordCache, clock: Clock
    ) -> None:
        super().__init__(GLOBAL_TASK_ID, config, state_manager, metrics, cache)
        self._clock = clock

    def forward(self, record: Any, child: str | None = None) -> None:
        """Hand a record to the children of the current node."""
        if child is not None:
            self._unsupported(f"forward to {child}")
        node = self.current_node
        if node is None:
            raise StreamsError("forward() was called outside of the processing of a record of a global store")
        if type(record) is not Record:
            record = Record(record.key, record.value, record.timestamp, record.headers)
        node.forwarded += 1
        try:
            for receiver in node.children:
                self.current_node = receiver
                try:
                    receiver.run(record)
                except Exception as exc:
                    if not receiver.on_error(exc, record):
                        raise
        finally:
            self.current_node = node

    def get_state_store(self, name: str) -> Any:
        """The global store of that name."""
        store = self.state_manager.store(name)
        if store is None:
            raise StreamsError(
                f"Processor {self.current_node_name} of a global store asked for store {name}, which is not a global store"
            )
        return store

    def schedule(
        self,
        interval: Duration,
        punctuation_type: PunctuationType,
        callback: Punctuator,
        start_time: int | datetime | None = None,
    ) -> Cancellable:
        """There are no punctuators here."""
        self._unsupported("schedule")

    def commit(self) -> None:
        """Nothing to ask for: global stores are committed by the clock."""

    def current_system_time_ms(self) -> int:
        """Wall-clock time."""
        return self._clock.now_ms()

    def current_stream_time_ms(self) -> int:
        """There is no stream time here."""
        self._unsupported("current_stream_time_ms")
