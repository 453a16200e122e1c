"""One interface to the two kinds of stores a table can be kept in: timestamped and versioned."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock.errors import InvalidStateStoreError
from penstock.operators.context import OperatorContext
from penstock.state.store import (
    PUT_RETURN_CODE_NOT_PUT,
    PUT_RETURN_CODE_VALID_TO_UNDEFINED,
    KeyValueStore,
    ValueAndTimestamp,
    VersionedKeyValueStore,
)

PUT_RETURN_CODE_IS_LATEST = PUT_RETURN_CODE_VALID_TO_UNDEFINED

__all__ = ["PUT_RETURN_CODE_IS_LATEST", "PUT_RETURN_CODE_NOT_PUT", "KeyValueStoreWrapper", "value_or_none"]


def value_or_none(value_and_timestamp: Any) -> Any:
    """The value alone; None for nothing."""
    return None if value_and_timestamp is None else value_and_timestamp.value


class KeyValueStoreWrapper:
    """A table's store.

    `get(key)` gives something with `value` and `timestamp`, or None; a versioned store also takes `get(key, as_of)`.
    `put(key, value, timestamp)` says whether the row is now the latest. Both are bound once to what the store can do, so
    that a record does not pay for the choice.
    """

    __slots__ = ("_put", "get", "is_versioned_store", "put", "store")

    get: Callable[..., Any]
    put: Callable[[Any, Any, int], int]

    def __init__(self, context: OperatorContext, store_name: str) -> None:
        store = context.get_state_store(store_name)
        self.store = store
        self.is_versioned_store = isinstance(store, VersionedKeyValueStore)
        if not self.is_versioned_store and not isinstance(store, KeyValueStore):
            raise InvalidStateStoreError(
                f"store {store_name} cannot keep a table: it must be a timestamped or a versioned key-value store, "
                f"got {type(store).__name__}"
            )
        self.get = store.get
        self._put = store.put
        self.put = self._put if self.is_versioned_store else self._put_timestamped

    @property
    def name(self) -> str:
        """The store's name."""
        return str(self.store.name)

    def _put_timestamped(self, key: Any, value: Any, timestamp: int) -> int:
        self._put(key, None if value is None else ValueAndTimestamp(value, timestamp))
        return PUT_RETURN_CODE_IS_LATEST
