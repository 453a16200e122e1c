"""Looking through the layers of a store, for those who read it beside the task that owns it."""

from __future__ import annotations

from typing import Any

from penstock.state.engines.key_value_parts import key_value_parts
from penstock.state.engines.lru import LruKeyValueStore
from penstock.state.engines.memory import InMemoryKeyValueStore
from penstock.state.engines.session_memory import InMemorySessionStore
from penstock.state.engines.session_parts import session_parts
from penstock.state.engines.window_memory import InMemoryWindowStore
from penstock.state.engines.window_parts import window_parts
from penstock.state.parts import PartReader


def bytes_below_cache(store: Any) -> Any:
    """The byte-level store below the typed layer, the cache and the changelog of an open store."""
    below = store if store.layer_below is None else store.layer_below
    while below.passes_bytes:
        below = below.layer_below
    return below


def part_reader(store: Any, method: str, arguments: tuple[Any, ...]) -> PartReader | None:
    """Reads what a method of a byte-level store in memory gives, in parts; None for a single value or another kind of store."""
    while store.passes_bytes:
        store = store.layer_below
    if isinstance(store, (InMemoryKeyValueStore, LruKeyValueStore)):
        return key_value_parts(*store.contents, method, arguments)
    if isinstance(store, InMemoryWindowStore):
        return window_parts(store, method, arguments)
    if isinstance(store, InMemorySessionStore):
        return session_parts(store, method, arguments)
    return None
