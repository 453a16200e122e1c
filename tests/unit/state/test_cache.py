from __future__ import annotations

import pytest

from penstock.record import RecordContext
from penstock.state.cache import CacheEntry, DirtyEntry, RecordCache

SPACE = "0_0-store"
OTHER = "0_0-other"


def _cache(size: int, *spaces: str) -> tuple[RecordCache, list[tuple[bytes, bytes | None]]]:
    flushed: list[tuple[bytes, bytes | None]] = []
    cache = RecordCache(size)
    for space in spaces or (SPACE,):
        cache.add_dirty_entry_flush_listener(
            space, lambda entries: flushed.extend((entry.key, entry.new_value) for entry in entries)
        )
    return cache, flushed


def _dirty(value: bytes | None) -> CacheEntry:
    return CacheEntry(value, RecordContext(0, 0, 0, ""), dirty=True)


def test_should_count_bytes_as_kafka_streams_does() -> None:
    # key, three references of 8 bytes, dirty flag, value, timestamp and offset of 8, partition of 4, topic, headers
    context = RecordContext(1, 2, 3, "topic", (("header", b"ab"), ("empty", None)))
    cache, _ = _cache(1000)

    cache.put(SPACE, b"key", CacheEntry(b"value", context, dirty=True))

    assert cache.size_bytes == 3 + 24 + 1 + 5 + 8 + 8 + 4 + len("topic") + len("header") + 2 + len("empty")
    cache.put(SPACE, b"key", CacheEntry(b"v", context, dirty=True))
    assert cache.size_bytes == 3 + 24 + 1 + 1 + 8 + 8 + 4 + len("topic") + len("header") + 2 + len("empty")
    assert len(cache) == 1


def test_should_flush_in_the_order_of_last_updates() -> None:
    cache, flushed = _cache(10_000)
    for key in (b"a", b"b", b"c", b"a"):
        cache.put(SPACE, key, _dirty(key))
    cache.get(SPACE, b"b")

    cache.flush(SPACE)

    assert flushed == [(b"b", b"b"), (b"c", b"c"), (b"a", b"a")]
    flushed.clear()
    cache.flush(SPACE)
    assert flushed == []
    assert cache.get(SPACE, b"a") is not None


def test_should_keep_flushed_entries_as_clean_but_forget_deletions() -> None:
    cache, flushed = _cache(10_000)
    cache.put(SPACE, b"a", _dirty(b"1"))
    cache.put(SPACE, b"b", _dirty(None))

    cache.flush(SPACE)

    assert flushed == [(b"a", b"1"), (b"b", None)]
    entry = cache.get(SPACE, b"a")
    assert entry is not None
    assert not entry.dirty
    assert cache.get(SPACE, b"b") is None


def test_should_evict_the_least_recently_used_and_flush_all_dirty_with_it() -> None:
    one = 1 + 24 + 21 + 1
    cache, flushed = _cache(3 * one)
    for key in (b"a", b"b", b"c"):
        cache.put(SPACE, key, _dirty(b"x"))
    cache.get(SPACE, b"a")

    cache.put(SPACE, b"d", _dirty(b"x"))

    assert flushed == [(b"b", b"x"), (b"a", b"x"), (b"c", b"x"), (b"d", b"x")]
    assert cache.get(SPACE, b"b") is None
    assert cache.evicts == 1
    assert cache.size_bytes == 3 * one


def test_should_not_flush_when_a_clean_entry_is_evicted() -> None:
    one = 1 + 24 + 21 + 1
    cache, flushed = _cache(2 * one)
    cache.put(SPACE, b"a", CacheEntry(b"x"))
    cache.put(SPACE, b"b", _dirty(b"x"))

    cache.put(SPACE, b"c", _dirty(b"x"))

    assert flushed == []
    assert cache.get(SPACE, b"a") is None


def test_should_pass_every_put_through_without_room() -> None:
    cache, flushed = _cache(0)

    cache.put(SPACE, b"a", _dirty(b"1"))
    cache.put(SPACE, b"a", _dirty(b"2"))

    assert flushed == [(b"a", b"1"), (b"a", b"2")]
    assert len(cache) == 0
    assert cache.size_bytes == 0


def test_should_refuse_a_clean_entry_over_a_dirty_one() -> None:
    cache, _ = _cache(1000)
    cache.put(SPACE, b"a", _dirty(b"1"))

    with pytest.raises(RuntimeError, match="clean entry"):
        cache.put(SPACE, b"a", CacheEntry(b"2"))


def test_should_refuse_to_flush_without_listener() -> None:
    cache = RecordCache(1000)
    cache.put(SPACE, b"a", _dirty(b"1"))

    with pytest.raises(RuntimeError, match="No listener for namespace"):
        cache.flush(SPACE)


def test_should_evict_only_from_the_cache_that_is_put_to() -> None:
    one = 1 + 24 + 21 + 1
    cache, flushed = _cache(2 * one, SPACE, OTHER)
    cache.put(SPACE, b"a", _dirty(b"1"))
    cache.put(SPACE, b"b", _dirty(b"1"))

    cache.put(OTHER, b"c", _dirty(b"1"))

    assert flushed == [(b"c", b"1")]
    assert cache.get(SPACE, b"a") is not None
    assert cache.get(OTHER, b"c") is None


def test_should_take_puts_that_a_flush_listener_makes() -> None:
    cache = RecordCache(10_000)
    seen: list[bytes] = []

    def forward(entries: list[DirtyEntry]) -> None:
        for entry in entries:
            seen.append(entry.key)
            if len(entry.key) < 3:
                cache.put(SPACE, entry.key + b"x", _dirty(b"1"))

    cache.add_dirty_entry_flush_listener(SPACE, forward)
    cache.put(SPACE, b"a", _dirty(b"1"))

    cache.flush(SPACE)
    assert seen == [b"a"]
    cache.flush(SPACE)
    cache.flush(SPACE)
    cache.flush(SPACE)

    assert seen == [b"a", b"ax", b"axx"]
    assert cache.size_bytes == cache.named(SPACE).size_in_bytes


def test_should_evict_from_all_caches_in_turn_when_it_shrinks() -> None:
    one = 1 + 24 + 21 + 1
    cache, flushed = _cache(10_000, SPACE, OTHER)
    for key in (b"a", b"b"):
        cache.put(SPACE, key, _dirty(b"1"))
        cache.put(OTHER, key, _dirty(b"2"))

    cache.resize(2 * one)

    assert len(cache) == 2
    assert cache.get(SPACE, b"a") is None
    assert cache.get(OTHER, b"a") is None
    assert sorted(flushed) == [(b"a", b"1"), (b"a", b"2"), (b"b", b"1"), (b"b", b"2")]
    cache.resize(20_000)
    assert cache.max_cache_size_bytes == 20_000


def test_should_give_ranges_in_order_and_skip_what_left_meanwhile() -> None:
    cache, _ = _cache(10_000)
    for key in (b"b", b"a", b"d", b"c"):
        cache.put(SPACE, key, _dirty(key))

    assert [key for key, _ in cache.range(SPACE, b"b", b"d")] == [b"b", b"c", b"d"]
    assert [key for key, _ in cache.range(SPACE, b"b", b"d", to_inclusive=False)] == [b"b", b"c"]
    assert [key for key, _ in cache.range(SPACE, None, b"b", forward=False)] == [b"b", b"a"]
    assert list(cache.range(SPACE, b"d", b"a")) == []
    assert list(cache.range(OTHER)) == []

    entries = cache.range(SPACE)
    assert next(entries)[0] == b"a"
    cache.delete(SPACE, b"b")
    assert [key for key, _ in entries] == [b"c", b"d"]


def test_should_delete_and_clear_without_flushing() -> None:
    cache, flushed = _cache(10_000)
    cache.put(SPACE, b"a", _dirty(b"1"))
    cache.put(SPACE, b"b", _dirty(b"1"))

    deleted = cache.delete(SPACE, b"a")
    assert deleted is not None
    assert cache.delete(SPACE, b"a") is None
    assert cache.delete(OTHER, b"a") is None
    cache.clear(SPACE)
    cache.flush(SPACE)

    assert flushed == []
    assert cache.size_bytes == 0
    cache.close(SPACE)
    assert cache.get(SPACE, b"b") is None


def test_should_put_only_where_absent() -> None:
    cache, _ = _cache(10_000)
    first, second = _dirty(b"1"), _dirty(b"2")

    assert cache.put_if_absent(SPACE, b"a", first) is None
    assert cache.put_if_absent(SPACE, b"a", second) is first
    cache.put_all(SPACE, [(b"b", second)])

    assert cache.get(SPACE, b"a") is first
    assert cache.get(SPACE, b"b") is second


def test_should_evict_later_from_the_caches_that_were_put_into() -> None:
    cache, flushed = _cache(120, SPACE, OTHER)
    cache.put(OTHER, b"o", _dirty(b"o"))

    with cache.evicting_later():
        for key in (b"a", b"b", b"c"):
            cache.put(SPACE, key, _dirty(key))
        assert flushed == []

    assert flushed == [(b"a", b"a"), (b"b", b"b"), (b"c", b"c")]
    assert cache.get(OTHER, b"o") is not None
