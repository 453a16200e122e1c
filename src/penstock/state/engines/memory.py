"""The in-memory key-value engine: a dict, and its keys in order from the first range on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from penstock.record import RawRecord
from penstock.state.engines.key_value_bytes import KeyValueBytesStore
from penstock.state.iterators import ByteEntry, ByteIterator, PeekingIterator
from penstock.state.parts import THE_ONLY, Orders
from penstock.state.sorted_keys import SortedKeys
from penstock.state.store import StateStore, StateStoreContext


class InMemoryKeyValueStore(KeyValueBytesStore):
    """Lives and dies with its process; what was lost comes back from the changelog.

    An iterator runs over the keys there were when it was made, skips those deleted since, and shows each value as it is
    when its turn comes.
    """

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self._map: dict[bytes, bytes] = {}
        self._sorted: SortedKeys | None = None
        self._orders = Orders()

    def init(self, context: StateStoreContext, root: StateStore) -> None:
        self._open = True
        context.register(root, self.restore_batch)

    @property
    def persistent(self) -> bool:
        """False: memory is gone after `close`."""
        return False

    def close(self) -> None:
        self._map.clear()
        self._sorted = None
        self._orders.clear()
        self._open = False

    def restore_batch(self, records: Sequence[RawRecord]) -> None:
        for record in records:
            if record.key is not None:
                self.put(record.key, record.value)

    def get(self, key: bytes) -> bytes | None:
        return self._map.get(key)

    def put(self, key: bytes, value: bytes | None) -> None:
        if value is None:
            self.delete(key)
            return
        if (self._sorted is not None or self._orders) and key not in self._map:
            self._added(key)
        self._map[key] = value

    def delete(self, key: bytes) -> bytes | None:
        existing = self._map.pop(key, None)
        if existing is not None and self._sorted is not None:
            self._sorted.remove(key)
        if existing is not None and self._orders:
            self._orders.removed(THE_ONLY, key)
        return existing

    def scan(
        self, key_from: bytes | None, key_to: bytes | None, *, to_inclusive: bool = True, forward: bool = True
    ) -> ByteIterator:
        """Entries of a range in order."""
        if self._sorted is None:
            self._sorted = SortedKeys(self._map)
        keys = self._sorted.range(key_from, key_to, to_inclusive)
        if not forward:
            keys.reverse()
        return PeekingIterator(self._live_entries(keys), self._name)

    @property
    def contents(self) -> tuple[Mapping[bytes, bytes], Orders]:
        """The entries, and the order of their keys: for those who read in parts."""
        return self._map, self._orders

    def approximate_num_entries(self) -> int:
        return len(self._map)

    def _live_entries(self, keys: list[bytes]) -> Iterator[ByteEntry]:
        get = self._map.get
        for key in keys:
            value = get(key)
            if value is not None:
                yield key, value

    def _added(self, key: bytes) -> None:
        if self._sorted is not None:
            self._sorted.add(key)
        self._orders.added(THE_ONLY, key)
