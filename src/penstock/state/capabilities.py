"""What a store says of itself to the layers above it, to operators and to its task, so that nobody asks for its class."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from penstock.state.engines.rocksdb import RocksDBStore
    from penstock.state.value_formats import ValueFormat


class StoreCapabilities:
    """The base of all stores. One of the user's own that says nothing takes and gives single entries, and has no cache."""

    value_format: ValueFormat | None = None
    """What an engine keeps in front of its values; None: nothing. A store in memory keeps what its builder says."""
    versioned: bool = False
    """Whether it holds versions, and so has `get_versions` and `scan_latest`."""
    changelog_seqnum: int = 0
    """The sequence number of the last change in the changelog, where entries of one key and time are told apart by one."""
    serdes_take_headers: bool = False
    """Whether a serde takes headers: then the processors that use the store get their records one by one, not as columns."""
    passes_bytes: bool = False
    """Whether what is committed reads the same below this layer."""
    is_changelog: bool = False
    """Whether this layer logs what is written."""
    is_cache: bool = False
    """Whether this layer is a record cache, which holds writes back."""
    keeps_timestamps: bool = True
    """False for a layer that drops the timestamps of values, since the store below has no room for them."""

    takes_direction: bool = False
    """Whether the methods for ranges take the direction, as `KeyValueRanges` and the like do."""

    @property
    def query_kind(self) -> tuple[str, str] | None:
        """What a typed store holds and how its values look, for queries; None: it cannot be read from outside."""
        return None

    @property
    def layer_below(self) -> Any:
        """The store that this one is a layer around; None for an engine."""
        return None

    @property
    def rocksdb(self) -> RocksDBStore | None:
        """The RocksDB in which an engine keeps all it has; None where there is none."""
        return None

    @property
    def restores_columns(self) -> bool:
        """Whether keys and values of the changelog go into it as they are, by `commit_column`."""
        return False

    @property
    def takes_rows(self) -> bool:
        """Whether reads and writes of many entries at once give the results of single ones: what is put comes back as it was."""
        return False

    def fetch_small_windows(self, key: bytes, time_from: int, time_to: int) -> list[tuple[int, bytes]] | None:
        """What `fetch_range` of a window store finds where that is little and at hand; None where it has to be asked.

        A layer that changes what is found, or has some of it itself, leaves this as it is.
        """
        return None

    put_at: Callable[[int, bytes, bytes | None], None] | None = None
    """Where the keys of a window store are those of its changelog: sets the value of such a key, whose time is given too."""

    @property
    def writes_rows(self) -> bool:
        """Whether many rows that are written at once give the results of single ones, whatever comes back of them."""
        return False

    @property
    def writes_rows_with_headers(self) -> bool:
        """Whether rows with headers can be written many at once: nothing but the log is on the way to the engine."""
        return False

    @property
    def takes_table_rows(self) -> bool:
        """Whether the rows of a table are read and written many at once: `raw_keys`, `rows_of`, `write_rows_around`."""
        return False

    @property
    def takes_duplicates(self) -> bool:
        """Whether many values can be put and found at once where a key and a time may have several, as joins of streams need."""
        return False

    @property
    def observes_deletions(self) -> bool:
        """Whether a put of None moves stream time also where it changes nothing, since duplicates are kept."""
        return False

    @property
    def gives_headers(self) -> bool:
        """Whether a processor gets, and puts, values with their headers."""
        return False

    def through_bytes(self, value: Any) -> Any:
        """The value as it would come back; a copy where the store's serde is not at hand."""
        return copy.deepcopy(value)

    def set_flush_listener(self, listener: Any, send_old_values: bool) -> bool:
        """Have the cache tell of the entries it flushes; False where there is no cache."""
        return False

    def flush_cache(self) -> None:
        """Write and forward what a cache holds."""

    def clear_cache(self) -> None:
        """Drop what a cache holds."""

    def forget_before(self, time: int) -> None:
        """Nobody will ask for windows any more that start before this time."""

    def find_expired(self) -> None:
        """Find entries of a key also when they have expired since now, for as long as their segment is there.

        A cache has them for as long as it has room; who goes past it with many rows at a time has to find them as well.
        """

    def set_when_eldest_removed(self, listener: Any) -> None:
        """Tell `listener(key, value)` of entries that have to make room for others."""


def layers(store: StoreCapabilities) -> Iterator[Any]:
    """A store, and all that it is a layer around, down to the engine."""
    layer: Any = store
    while layer is not None:
        yield layer
        layer = layer.layer_below


def innermost(store: StoreCapabilities) -> Any:
    """The engine below all layers and adapters."""
    *_, engine = layers(store)
    return engine


def rocksdb_of(store: StoreCapabilities) -> RocksDBStore | None:
    """The RocksDB at the bottom of a store; None where it has none."""
    found: RocksDBStore | None = innermost(store).rocksdb
    return found


def is_versioned(store: StoreCapabilities) -> bool:
    """Whether the engine below holds versions."""
    return any(layer.versioned for layer in layers(store))
