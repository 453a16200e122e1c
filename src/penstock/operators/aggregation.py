"""What the unwindowed aggregations share: a store, its forwarder, and the table over it."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

from penstock.batches.batch_processor import Operator
from penstock.change import Change
from penstock.operators.context import OperatorContext, OperatorProcessor
from penstock.operators.forwarding import TimestampedCacheFlushListener, TimestampedTupleForwarder
from penstock.operators.old_values import old_value_keeper
from penstock.operators.store_wrapper import PUT_RETURN_CODE_IS_LATEST, PUT_RETURN_CODE_NOT_PUT, KeyValueStoreWrapper
from penstock.operators.value_getters import KTableMaterializedValueGetterSupplier, KTableValueGetterSupplier
from penstock.processor import Processor
from penstock.record import Record


class AggregationSupplier(Operator):
    """Supplies the processors of an aggregation that keeps its results in one store."""

    def __init__(self, store_name: str) -> None:
        self.store_name = store_name
        self.send_old_values = False

    @abstractmethod
    def __call__(self) -> Processor[Any, Any, Any, Any]:
        """Each task gets a processor of its own."""

    def enable_sending_old_values(self, force_materialization: bool = True) -> bool:
        """Changes carry the old value from now on; the store has it."""
        self.send_old_values = True
        return True

    def view(self) -> KTableValueGetterSupplier:
        """Rows are looked up in the store."""
        return KTableMaterializedValueGetterSupplier(self.store_name)


class AggregationProcessor(OperatorProcessor[Any, Any, Any, "Change[Any]"]):
    """Takes the store, writes new aggregates to it and sends the changes on."""

    def __init__(self, store_name: str, send_old_values: bool) -> None:
        self._store_name = store_name
        self._send_old_values = send_old_values

    def set_up(self, context: OperatorContext) -> None:
        self._context = context
        store = self._wrapper = KeyValueStoreWrapper(context, self._store_name)
        self._get = store.get
        self._put = store.put
        self._forwarder = TimestampedTupleForwarder(
            store.store, context, TimestampedCacheFlushListener(context), self._send_old_values
        )
        self._kept = old_value_keeper(store.store, self._send_old_values and not self._forwarder.caching_enabled)

    def _put_and_forward(self, record: Record[Any, Any], new: Any, old: Any, timestamp: int) -> None:
        code = self._put(record.key, new, timestamp)
        forwarder = self._forwarder
        if code == PUT_RETURN_CODE_NOT_PUT or forwarder.caching_enabled:
            return
        change = Change(new, old if self._send_old_values else None, code == PUT_RETURN_CODE_IS_LATEST)
        forwarder.maybe_forward(Record(record.key, change, timestamp, record.headers))
