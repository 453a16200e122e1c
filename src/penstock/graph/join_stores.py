"""The stores that joins keep: windows of both streams, results still waiting for a match, subscriptions, buffers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from penstock.errors import TopologyError
from penstock.graph.dsl_stores import DslKeyValueParams, DslStoreFormat, DslStoreSuppliers, DslWindowParams
from penstock.graph.materialize import DslStoreBuilder
from penstock.graph.naming import STREAM_JOINTHIS, STREAM_OUTERSHARED, STREAM_OUTERTHIS
from penstock.operators import LeftOrRightValueSerde, TimestampedKeyAndJoinSideSerde
from penstock.serdes.serde import Serdes
from penstock.state.builders import ListValueStoreBuilder
from penstock.state.store import StoreBuilder
from penstock.state.stores import Stores
from penstock.state.windowed_suppliers import StoreLayout, WindowSupplier
from penstock.windows import JoinWindows


class StreamJoinedStoreBuilder(DslStoreBuilder):
    """The window store of one side of a stream-stream join: keeps duplicates, is never cached.

    Its changelog is not compacted, because a key may be in it many times.
    """

    _default_format = DslStoreFormat.PLAIN

    def __init__(
        self,
        name: str,
        windows: JoinWindows,
        key_serde: Any,
        value_serde: Any,
        suppliers: DslStoreSuppliers | None,
        logged: bool,
        topic_config: Mapping[str, str],
    ) -> None:
        super().__init__(name + "-store", suppliers, logged, False, {**topic_config, "cleanup.policy": "delete"})
        self._windows = windows
        # Records are needed as long as a late one may still join them.
        self.retention_period = self._retention_ms = windows.size + windows.grace_period_ms
        self._key_serde = key_serde
        self._value_serde = value_serde

    def with_caching_enabled(self) -> StreamJoinedStoreBuilder:
        """Does nothing: the order of duplicates would be lost."""
        return self

    def _builder(self) -> StoreBuilder[Any]:
        supplier = self._engines().window_store(
            DslWindowParams(
                self.name,
                self._retention_ms,
                self._windows.size,
                retain_duplicates=True,
                store_format=self._format,
            )
        )
        return Stores.timestamped_window_store_with_headers_builder(supplier, self._key_serde, self._value_serde)


def supplied_join_store(supplier: Any, windows: JoinWindows, key_serde: Any, value_serde: Any) -> StoreBuilder[Any]:
    """The builder around a window store the user supplies; it is logged whatever `StreamJoined` says."""
    if not supplier.retain_duplicates:
        raise TopologyError(f"the store {supplier.name} of a stream-stream join must have retain_duplicates=True")
    needed = windows.size + windows.grace_period_ms
    if supplier.retention_period != needed or supplier.window_size != windows.size:
        raise TopologyError(
            f"the store {supplier.name} does not fit {windows}: it has window_size={supplier.window_size} and "
            f"retention={supplier.retention_period}, but the join needs window_size={windows.size} and retention={needed}"
        )
    return Stores.timestamped_window_store_with_headers_builder(supplier, key_serde, value_serde)


def check_unique_store_names(this_supplier: Any, other_supplier: Any) -> None:
    """Refuse two supplied stores of one name."""
    if this_supplier is not None and other_supplier is not None and this_supplier.name == other_supplier.name:
        raise TopologyError(f"both sides of the join have the store name {this_supplier.name}: give each its own")


class OuterStreamJoinStoreBuilder(DslStoreBuilder):
    """The store of results of a left or outer join that have found no match yet; both sides share it."""

    def __init__(
        self,
        name: str,
        key_serde: Any,
        value_serde: Any,
        other_value_serde: Any,
        suppliers: DslStoreSuppliers | None,
        this_store_supplier: Any,
        logged: bool,
        topic_config: dict[str, str],
    ) -> None:
        super().__init__(name, suppliers, logged, False, topic_config)
        self._key_serde = key_serde
        self._value_serde = value_serde
        self._other_value_serde = other_value_serde
        # Where the user supplied the window stores, this one is kept where they are.
        self._in_memory: bool | None = None
        if isinstance(this_store_supplier, WindowSupplier) and not this_store_supplier.layout.is_by_time:
            self._in_memory = this_store_supplier.layout is StoreLayout.MEMORY

    def with_caching_enabled(self) -> OuterStreamJoinStoreBuilder:
        """Does nothing: a list of values has no cache."""
        return self

    def _builder(self) -> StoreBuilder[Any]:
        if self._in_memory is None:
            supplier = self._engines().key_value_store(DslKeyValueParams(self.name, DslStoreFormat.PLAIN))
        elif self._in_memory:
            supplier = Stores.in_memory_key_value_store(self.name)
        else:
            supplier = Stores.persistent_key_value_store(self.name)
        key_serde = TimestampedKeyAndJoinSideSerde(self._key_serde)
        return ListValueStoreBuilder(supplier, key_serde, LeftOrRightValueSerde(self._value_serde, self._other_value_serde))


def outer_join_store_name(store_name: str | None, this_store_supplier: Any, this_generated_name: str, right_outer: bool) -> str:
    """The name of the shared store of a left or outer join."""
    suffix = "-outer-shared-join" if right_outer else "-left-shared-join"
    base: str
    if this_store_supplier is not None and this_store_supplier.name:
        base = this_store_supplier.name + suffix
    elif store_name is not None:
        base = store_name + suffix
    else:
        prefix = STREAM_OUTERTHIS if right_outer else STREAM_JOINTHIS
        base = STREAM_OUTERSHARED + this_generated_name[len(prefix) :]
    return base + "-store"


class SubscriptionStoreBuilder(DslStoreBuilder):
    """Who is interested in a foreign key: combined keys to subscriptions; never cached."""

    def __init__(self, name: str, subscription_serde: Any, suppliers: DslStoreSuppliers | None) -> None:
        super().__init__(name, suppliers, True, False, {})
        self._subscription_serde = subscription_serde

    def with_caching_enabled(self) -> SubscriptionStoreBuilder:
        """Does nothing: subscriptions are looked up by prefix."""
        return self

    def _builder(self) -> StoreBuilder[Any]:
        supplier = self._engines().key_value_store(DslKeyValueParams(self.name, self._format))
        return Stores.timestamped_key_value_store_with_headers_builder(supplier, Serdes.bytes(), self._subscription_serde)
