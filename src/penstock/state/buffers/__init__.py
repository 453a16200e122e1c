"""Buffers that hold records back in the order of time: behind `suppress`, and behind stream-table joins with a grace period."""

from penstock.state.buffers.in_memory_change_buffer import (
    InMemoryTimeOrderedKeyValueChangeBuffer,
    InMemoryTimeOrderedKeyValueChangeBufferBuilder,
)
from penstock.state.buffers.stream_buffer import RocksDBTimeOrderedKeyValueBuffer, RocksDBTimeOrderedKeyValueBufferBuilder
from penstock.state.buffers.time_ordered import Eviction, TimeOrderedKeyValueBuffer

__all__ = [
    "Eviction",
    "InMemoryTimeOrderedKeyValueChangeBuffer",
    "InMemoryTimeOrderedKeyValueChangeBufferBuilder",
    "RocksDBTimeOrderedKeyValueBuffer",
    "RocksDBTimeOrderedKeyValueBufferBuilder",
    "TimeOrderedKeyValueBuffer",
]
