"""The LRU map: an in-memory store of at most so many entries; the least recently used one makes room."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence

from penstock.record import RawRecord
from penstock.state.engines.key_value_bytes import KeyValueBytesStore
from penstock.state.iterators import ByteIterator, PeekingIterator
from penstock.state.parts import THE_ONLY, Orders
from penstock.state.sorted_keys import SortedKeys
from penstock.state.store import StateStore, StateStoreContext

EldestRemovalListener = Callable[[bytes, bytes], None]


class LruKeyValueStore(KeyValueBytesStore):
    """Reads and writes both count as use; iterators see the entries there were when they were made."""

    writes_rows = False
    takes_rows = False  # every single read and write counts as a use

    def __init__(self, name: str, max_entries: int) -> None:
        super().__init__(name)
        self._max_entries = max_entries
        self._map: OrderedDict[bytes, bytes] = OrderedDict()
        self._listener: EldestRemovalListener | None = None
        self._orders = Orders()

    def set_when_eldest_removed(self, listener: EldestRemovalListener) -> None:
        """Who hears of an entry that had to make room (the changelog gets a tombstone for it)."""
        self._listener = listener

    def init(self, context: StateStoreContext, root: StateStore) -> None:
        self._open = True
        context.register(root, self.restore_batch)

    @property
    def persistent(self) -> bool:
        """False: memory is gone after `close`."""
        return False

    def close(self) -> None:
        self._map.clear()
        self._orders.clear()
        self._open = False

    def restore_batch(self, records: Sequence[RawRecord]) -> None:
        """Put records of the changelog back; what makes room meanwhile is not logged again."""
        listener, self._listener = self._listener, None
        try:
            for record in records:
                if record.key is not None:
                    self.put(record.key, record.value)
        finally:
            self._listener = listener

    def get(self, key: bytes) -> bytes | None:
        """The value of a key, which becomes the most recently used."""
        value = self._map.get(key)
        if value is not None:
            self._map.move_to_end(key)
        return value

    def put(self, key: bytes, value: bytes | None) -> None:
        """Set the value of a key, which becomes the most recently used; None deletes."""
        if value is None:
            self.delete(key)
            return
        if self._orders and key not in self._map:
            self._orders.added(THE_ONLY, key)
        self._map[key] = value
        self._map.move_to_end(key)
        if len(self._map) > self._max_entries:
            eldest, eldest_value = self._map.popitem(last=False)
            self._orders.removed(THE_ONLY, eldest)
            if self._listener is not None:
                self._listener(eldest, eldest_value)

    def delete(self, key: bytes) -> bytes | None:
        existing = self._map.pop(key, None)
        if existing is not None:
            self._orders.removed(THE_ONLY, key)
        return existing

    def scan(
        self, key_from: bytes | None, key_to: bytes | None, *, to_inclusive: bool = True, forward: bool = True
    ) -> ByteIterator:
        """Entries of a range in order; does not count as use."""
        keys = SortedKeys(self._map).range(key_from, key_to, to_inclusive)
        if not forward:
            keys.reverse()
        values = self._map
        return PeekingIterator([(key, values[key]) for key in keys], self._name)

    @property
    def contents(self) -> tuple[Mapping[bytes, bytes], Orders]:
        """The entries, and the order of their keys: for those who read in parts."""
        return self._map, self._orders

    def approximate_num_entries(self) -> int:
        return len(self._map)
