"""Global stores as processors see them: to read, not to write."""

from __future__ import annotations

from typing import Any, NoReturn

from penstock.errors import StreamsError
from penstock.state.store import StateStore

_WRITES = frozenset(
    {"init", "close", "flush", "commit", "flush_cache", "clear_cache", "put", "put_if_absent", "put_all", "delete", "remove"}
)


class ReadOnlyStore:
    """Reads go to the store, writes are refused.

    It passes `isinstance` as the store itself does, so code that asks what kind of store it has need not know.
    """

    def __init__(self, store: StateStore) -> None:
        self.__dict__["_store"] = store

    @property
    def __class__(self) -> Any:
        return type(self._store)

    @__class__.setter
    def __class__(self, value: Any) -> None:
        raise AttributeError("the class of a store cannot be changed")

    def __getattr__(self, name: str) -> Any:
        if name in _WRITES:
            return self._refuse
        found = getattr(self._store, name)
        if callable(found):
            # The next call finds the store's own method at once.
            self.__dict__[name] = found
        return found

    def __setattr__(self, name: str, value: Any) -> None:
        self._refuse()

    def _refuse(self, *_: Any, **__: Any) -> NoReturn:
        raise StreamsError(
            f"Global store {self._store.name} is read-only here: only the processor that was added with it may write to it."
        )

    def __repr__(self) -> str:
        return f"ReadOnlyStore({self._store!r})"
