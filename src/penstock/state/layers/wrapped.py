"""The base of every layer: a store around a store."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any, TypeVar

from penstock.errors import InvalidStateStoreError
from penstock.ids import TopicPartition
from penstock.query.position import Position, PositionBound
from penstock.query.queries import Query
from penstock.query.result import QueryConfig, QueryResult
from penstock.state.capabilities import layers
from penstock.state.queries import answer_query
from penstock.state.store import StateStore, StateStoreContext

S = TypeVar("S", bound=StateStore)
L = TypeVar("L", bound="WrappedStateStore")


class WrappedStateStore(StateStore):
    """Delegates everything to the store it wraps; layers override what they change."""

    _wrapped: Any  # what it can do depends on the kind of its keys, and on its capabilities

    def __init__(self, wrapped: StateStore) -> None:
        self._wrapped = wrapped
        self._name = wrapped.name
        self._task: StateStoreContext | None = None

    @property
    def wrapped(self) -> Any:
        """The store one layer down."""
        return self._wrapped

    @property
    def layer_below(self) -> Any:
        return self._wrapped

    @property
    def name(self) -> str:
        return self._name

    @property
    def persistent(self) -> bool:
        return bool(self._wrapped.persistent)

    @property
    def is_open(self) -> bool:
        return bool(self._wrapped.is_open)

    def init(self, context: StateStoreContext, root: StateStore) -> None:
        self._task = context
        self._wrapped.init(context, root)

    def flush(self) -> None:
        self._wrapped.flush()

    def commit(self, changelog_offsets: Mapping[TopicPartition, int]) -> None:
        self._wrapped.commit(changelog_offsets)

    def committed_offset(self, partition: TopicPartition) -> int | None:
        offset: int | None = self._wrapped.committed_offset(partition)
        return offset

    def close(self) -> None:
        self._wrapped.close()

    def query(self, query: Query[Any], position_bound: PositionBound, config: QueryConfig) -> QueryResult[Any]:
        """Answer a query: a typed layer reads the answer, and hands on what it does not know."""
        if self.query_kind is not None:
            return answer_query(self, query, position_bound, config)
        result: QueryResult[Any] = self._wrapped.query(query, position_bound, config)
        return result

    def get_position(self) -> Position:
        """The offset of the last record of each input partition that the store's task has processed or is processing."""
        return Position() if self._task is None else self._task.position

    @property
    def partition(self) -> int | None:
        """The partition of the store's task; None before `init`."""
        return None if self._task is None else self._task.task_id.partition

    def past_cache(self: L) -> L:
        """A view of this store that reads what the record cache has written, and not what it still holds."""
        if not self._wrapped.is_cache:
            return self
        view = copy.copy(self)
        view._wrapped = self._wrapped.layer_below
        return view

    def set_flush_listener(self, listener: Any, send_old_values: bool) -> bool:
        """Hand the listener to the caching layer below; False where there is none."""
        return bool(self._wrapped.set_flush_listener(listener, send_old_values))

    def flush_cache(self) -> None:
        self._wrapped.flush_cache()

    def clear_cache(self) -> None:
        self._wrapped.clear_cache()

    def forget_before(self, time: int) -> None:
        self._wrapped.forget_before(time)

    def find_expired(self) -> None:
        self._wrapped.find_expired()

    @property
    def takes_rows(self) -> bool:
        """Whether the store below takes many at once; layers that change what comes back do not."""
        return bool(self._wrapped.takes_rows)

    @property
    def writes_rows(self) -> bool:
        return bool(self._wrapped.writes_rows)

    @property
    def takes_duplicates(self) -> bool:
        """Whether the store below takes many values of one key and time."""
        return bool(self._wrapped.takes_duplicates)

    @property
    def observes_deletions(self) -> bool:
        return bool(self._wrapped.observes_deletions)

    @property
    def changelog_seqnum(self) -> int:
        """The sequence number that the engine keeps of its changelog."""
        return int(self._wrapped.changelog_seqnum)

    @changelog_seqnum.setter
    def changelog_seqnum(self, seqnum: int) -> None:
        self._wrapped.changelog_seqnum = seqnum

    def validate_store_open(self) -> None:
        """Raise if the store is closed."""
        if not self._wrapped.is_open:
            raise InvalidStateStoreError(f"Store {self._name} is currently closed.")

    def find_inner(self, inner_type: type[S]) -> S | None:
        """The first wrapped store of a type; None where there is none."""
        return next((layer for layer in layers(self._wrapped) if isinstance(layer, inner_type)), None)
