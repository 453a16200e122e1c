"""State on disk that was written in one format and is opened as a store of another."""

from __future__ import annotations

from itertools import count, product
from pathlib import Path
from typing import Any

import pytest
from rocksdict import Options, Rdict, WriteBatch

from penstock.errors import ProcessorStateError
from penstock.record import Record
from penstock.serdes.serde import Serdes
from penstock.state.aggregation_with_headers import AggregationWithHeaders
from penstock.state.buffers.stream_buffer import RocksDBTimeOrderedKeyValueBufferBuilder
from penstock.state.capabilities import rocksdb_of
from penstock.state.engines import format_change
from penstock.state.engines.format_change import META_COLUMN_FAMILY
from penstock.state.engines.store_format import Change, StoreFormat
from penstock.state.restore import StoreRestorer
from penstock.state.store import ValueAndTimestamp
from penstock.state.stores import Stores
from penstock.state.value_timestamp_headers import ValueTimestampHeaders
from penstock.state.windowed_suppliers import SessionSupplier, StoreLayout, WindowSupplier
from penstock.windows import SessionWindow, Windowed
from tests.unit.state.contexts import FakeStoreContext

_STRING = Serdes.string()
_HOUR = 3_600_000
_AT = 10 * _HOUR
_ENTRIES = [("a", "v0", _AT), ("b", "v1", _AT + _HOUR // 2), ("c", "v2", _AT + _HOUR)]
_ALL = ["v0", "v1", "v2"]


def _window(interval_hours: int = 1, duplicates: bool = False, values: str = "timestamped", order: str = "") -> Any:
    retention = 2 * interval_hours * _HOUR
    if order:
        supplier: Any = WindowSupplier.create(
            "s", retention, _HOUR, duplicates, StoreLayout.TIME_WITH_INDEX if order == "indexed" else StoreLayout.TIME
        )
        return Stores.timestamped_window_store_builder(supplier, _STRING, _STRING)
    if values == "plain":
        return Stores.window_store_builder(Stores.persistent_window_store("s", retention, _HOUR, duplicates), _STRING, _STRING)
    if values == "headers":
        supplier = Stores.persistent_timestamped_window_store_with_headers("s", retention, _HOUR, duplicates)
        return Stores.timestamped_window_store_with_headers_builder(supplier, _STRING, _STRING)
    supplier = Stores.persistent_timestamped_window_store("s", retention, _HOUR, duplicates)
    return Stores.timestamped_window_store_builder(supplier, _STRING, _STRING)


def _session(interval_hours: int = 1, headers: bool = False, in_order_of_time: bool = False) -> Any:
    retention = 2 * interval_hours * _HOUR
    if in_order_of_time:
        return Stores.session_store_builder(SessionSupplier("s", retention, StoreLayout.TIME_WITH_INDEX), _STRING, _STRING)
    if headers:
        supplier = Stores.persistent_session_store_with_headers("s", retention)
        return Stores.session_store_with_headers_builder(supplier, _STRING, _STRING)
    return Stores.session_store_builder(Stores.persistent_session_store("s", retention), _STRING, _STRING)


def _versioned(interval: int = _HOUR) -> Any:
    supplier = Stores.persistent_versioned_key_value_store("s", 24 * _HOUR, interval)
    return Stores.versioned_key_value_store_builder(supplier, _STRING, _STRING)


def _key_value(values: str) -> Any:
    if values == "plain":
        return Stores.key_value_store_builder(Stores.persistent_key_value_store("s"), _STRING, _STRING)
    if values == "timestamped":
        supplier = Stores.persistent_timestamped_key_value_store("s")
        return Stores.timestamped_key_value_store_builder(supplier, _STRING, _STRING)
    supplier = Stores.persistent_timestamped_key_value_store_with_headers("s")
    return Stores.timestamped_key_value_store_with_headers_builder(supplier, _STRING, _STRING)


_KINDS: dict[str, Any] = {
    "key-value": lambda: _key_value("plain"),
    "timestamped key-value": lambda: _key_value("timestamped"),
    "key-value with headers": lambda: _key_value("headers"),
    "versioned": _versioned,
    "versioned, short segments": lambda: _versioned(_HOUR // 7),
    "window": lambda: _window(values="plain"),
    "window, long segments": lambda: _window(5, values="plain"),
    "window with duplicates": lambda: _window(values="plain", duplicates=True),
    "timestamped window": lambda: _window(1),
    "timestamped window, long segments": lambda: _window(5),
    "window with headers": lambda: _window(values="headers"),
    "time-ordered window": lambda: _window(order="plain"),
    "time-ordered window, long segments": lambda: _window(5, order="plain"),
    "indexed window": lambda: _window(order="indexed"),
    "indexed window, long segments": lambda: _window(5, order="indexed"),
    "session": _session,
    "session, long segments": lambda: _session(5),
    "session with headers": lambda: _session(headers=True),
    "time-ordered session": lambda: _session(in_order_of_time=True),
    "time-ordered session, long segments": lambda: _session(5, in_order_of_time=True),
    "buffer": lambda: RocksDBTimeOrderedKeyValueBufferBuilder("s", _STRING, _STRING, _HOUR, "topic"),
}
_CONVERTED = {
    ("key-value", "timestamped key-value"),
    ("key-value", "key-value with headers"),
    ("timestamped key-value", "key-value with headers"),
    *product(["window", "window, long segments"], ["window", "window, long segments"]),
    *product(["window", "window, long segments"], ["timestamped window", "timestamped window, long segments"]),
    *product(["timestamped window", "timestamped window, long segments"], repeat=2),
    *product(
        ["window", "window, long segments", "timestamped window", "timestamped window, long segments"], ["window with headers"]
    ),
    ("window", "window with duplicates"),
    ("window, long segments", "window with duplicates"),
    *product(["time-ordered window", "time-ordered window, long segments"], repeat=2),
    *product(["indexed window", "indexed window, long segments"], repeat=2),
    *product(["session", "session, long segments"], repeat=2),
    *product(["session", "session, long segments"], ["session with headers"]),
    *product(["time-ordered session", "time-ordered session, long segments"], repeat=2),
} - {(kind, kind) for kind in _KINDS}


def _family(kind: str) -> str:
    return next((word for word in ("window", "session", "buffer") if word in kind), "key-value")


def _format(store: Any) -> StoreFormat:
    db = rocksdb_of(store) or store._engine  # the buffer has no layers
    return db.store_format


def _open(builder: Any, context: FakeStoreContext) -> Any:
    store = builder.build()
    store.init(context, store)
    return store


def _fill(store: Any, kind: str, context: FakeStoreContext) -> None:
    """Put three entries, of keys a, b and c, half an hour apart; each is logged."""
    for key, value, at in _ENTRIES:
        context.at(at)
        if kind == "buffer":
            assert context.record_context is not None
            store.put(at, Record(key, value, at, ()), context.record_context)
        elif kind.startswith("versioned"):
            store.put(key, value, at)
        elif _family(kind) == "session":
            aggregate = AggregationWithHeaders(value, ()) if "headers" in kind else value
            store.put(Windowed(key, SessionWindow(at, at + 5)), aggregate)
        elif _family(kind) == "window":
            store.put(key, _typed(kind, value, at), at)
        else:
            store.put(key, _typed(kind, value, at))


def _typed(kind: str, value: str, at: int) -> Any:
    if "headers" in kind:
        return ValueTimestampHeaders(value, at, ())
    if kind in ("key-value", "window", "window, long segments", "window with duplicates"):
        return value
    return ValueAndTimestamp(value, at)


def _contents(store: Any, kind: str) -> list[Any]:
    """The values that are found under the keys and times of the entries."""
    return [_found(store, kind, key, at) for key, _, at in _ENTRIES] if kind != "buffer" else [store.num_records]


def _found(store: Any, kind: str, key: str, at: int) -> str | None:
    if kind.startswith("versioned"):
        return _plain(store.get(key, at))
    if _family(kind) == "key-value":
        return _plain(store.get(key))
    if _family(kind) == "session":
        with store.find_sessions(key, at, at + 5) as entries:
            values = [_plain(value) for _, value in entries]
        one = store.fetch_session(key, at, at + 5)
    else:
        with store.fetch_range(key, at, at) as entries:
            values = [_plain(value) for _, value in entries]
        one = values[0] if "duplicates" in kind and values else store.fetch(key, at)
    assert values == ([] if one is None else [_plain(one)])
    return _plain(one)


def _plain(value: Any) -> str | None:
    if isinstance(value, AggregationWithHeaders):
        return value.aggregation  # type: ignore[no-any-return]
    return value if value is None or isinstance(value, str) else value.value  # type: ignore[no-any-return]


def _written(kind: str, path: Path, logged: bool = True) -> FakeStoreContext:
    context = FakeStoreContext(path, logged=logged)
    builder = _KINDS[kind]()
    if not logged:
        builder.with_logging_disabled()
    store = _open(builder, context)
    _fill(store, kind, context)
    store.flush()
    store.commit({context.changelog_partition("s"): 2} if logged else {})
    store.close()
    return context


def test_should_know_for_each_pair_of_formats_whether_one_becomes_the_other() -> None:
    formats = {kind: _format(make().build()) for kind, make in _KINDS.items()}
    for before, after in product(_KINDS, repeat=2):
        change = formats[before].change_to(formats[after])
        if before == after:
            assert change is Change.NONE
        elif _family(before) != _family(after) or before == "window with duplicates":
            assert change is Change.REFUSE, (before, after)
        else:
            assert change is (Change.CONVERT if (before, after) in _CONVERTED else Change.REBUILD), (before, after)


@pytest.mark.parametrize("kind", _KINDS)
def test_should_save_the_format_of_each_kind_of_store(kind: str, tmp_path: Path) -> None:
    _written(kind, tmp_path)
    store = _open(_KINDS[kind](), FakeStoreContext(tmp_path))

    assert _contents(store, kind) == ([3] if kind == "buffer" else _ALL)
    store.close()


@pytest.mark.parametrize(("before", "after"), sorted(_CONVERTED))
def test_should_convert_state_of_an_earlier_format(before: str, after: str, tmp_path: Path) -> None:
    _written(before, tmp_path, logged=False)
    store = _open(_KINDS[after](), FakeStoreContext(tmp_path, logged=False))

    assert _contents(store, after) == _ALL
    store.close()


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("timestamped key-value", "key-value"),
        ("key-value with headers", "versioned"),
        ("versioned", "timestamped key-value"),
        ("versioned", "versioned, short segments"),
        ("window with headers", "timestamped window, long segments"),
        ("timestamped window", "indexed window, long segments"),
        ("indexed window", "time-ordered window"),
        ("session with headers", "time-ordered session, long segments"),
    ],
)
def test_should_rebuild_state_of_another_format_from_its_changelog(before: str, after: str, tmp_path: Path) -> None:
    written = _written(before, tmp_path)
    unlogged = FakeStoreContext(tmp_path, logged=False)
    with pytest.raises(ProcessorStateError, match=r"not '1 .*', and it has no changelog to be rebuilt from\. .* another name$"):
        _open(_KINDS[after](), unlogged)
    context = FakeStoreContext(tmp_path)

    store = _open(_KINDS[after](), context)

    changelog = context.changelog_partition("s")
    assert store.committed_offset(changelog) is None
    StoreRestorer(store, context.restore_callbacks["s"], changelog).restore(written.changelog_records("s"))
    assert _contents(store, after) == _ALL
    store.close()


@pytest.mark.parametrize(
    ("before", "after"),
    [("key-value", "window"), ("session", "window"), ("buffer", "key-value"), ("window with duplicates", "window")],
)
def test_should_refuse_state_whose_changelog_is_of_no_use(before: str, after: str, tmp_path: Path) -> None:
    _written(before, tmp_path)

    with pytest.raises(
        ProcessorStateError, match=r"cannot be used either. Reset the application, or give the store another name$"
    ):
        _open(_KINDS[after](), FakeStoreContext(tmp_path))

    store = _open(_KINDS[before](), FakeStoreContext(tmp_path))
    assert _contents(store, before) == ([3] if before == "buffer" else _ALL)
    store.close()


def test_should_keep_the_changelog_position_of_converted_state(tmp_path: Path) -> None:
    _written("timestamped window", tmp_path)
    context = FakeStoreContext(tmp_path)
    store = _open(_KINDS["timestamped window, long segments"](), context)

    assert store.committed_offset(context.changelog_partition("s")) == 2
    store.close()


def test_should_read_values_without_a_timestamp_with_an_unknown_one(tmp_path: Path) -> None:
    _written("key-value", tmp_path)
    store = _open(_key_value("timestamped"), FakeStoreContext(tmp_path))

    assert store.get("a") == ValueAndTimestamp("v0", -1)
    store.close()


def test_should_keep_timestamps_where_headers_are_added(tmp_path: Path) -> None:
    _written("timestamped key-value", tmp_path)
    store = _open(_key_value("headers"), FakeStoreContext(tmp_path))

    assert store.get("b") == ValueTimestampHeaders("v1", _AT + _HOUR // 2, ())
    store.close()


def test_should_move_segments_whose_interval_was_not_saved(tmp_path: Path) -> None:
    """Earlier versions saved no interval."""
    _written("timestamped window", tmp_path)
    _save_format(tmp_path, b"1 timestamped-window")
    store = _open(_KINDS["timestamped window, long segments"](), FakeStoreContext(tmp_path))

    assert _contents(store, "timestamped window, long segments") == _ALL
    store.close()


def test_should_refuse_a_format_of_a_later_version(tmp_path: Path) -> None:
    _written("key-value", tmp_path)
    _save_format(tmp_path, b"2 key-value compressed")

    with pytest.raises(ProcessorStateError, match="this version does not know that format"):
        _open(_key_value("plain"), FakeStoreContext(tmp_path))


def test_should_take_up_a_conversion_where_it_was_interrupted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _written("window", tmp_path)
    _interrupt_second_batch(monkeypatch)
    with pytest.raises(ProcessorStateError, match="cannot convert store s"):
        _open(_KINDS["timestamped window, long segments"](), FakeStoreContext(tmp_path))
    monkeypatch.undo()

    store = _open(_KINDS["timestamped window, long segments"](), FakeStoreContext(tmp_path))

    assert _contents(store, "timestamped window, long segments") == _ALL
    store.close()


@pytest.mark.parametrize("logged", [True, False])
def test_should_not_read_values_of_two_formats(logged: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A conversion was interrupted, and the store is of its earlier format again."""
    _written("key-value", tmp_path, logged)
    _interrupt_second_batch(monkeypatch)
    with pytest.raises(ProcessorStateError, match="cannot convert store s"):
        _open(_key_value("timestamped"), FakeStoreContext(tmp_path, logged=logged))
    monkeypatch.undo()
    context = FakeStoreContext(tmp_path, logged=logged)
    if not logged:
        with pytest.raises(ProcessorStateError, match="it has no changelog to be rebuilt from"):
            _open(_key_value("plain"), context)
        return

    store = _open(_key_value("plain"), context)

    assert store.committed_offset(context.changelog_partition("s")) is None
    assert _contents(store, "key-value") == [None, None, None]
    store.close()


def _interrupt_second_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    begun = count()

    def begin(raw_mode: bool) -> WriteBatch:
        if next(begun) == 1:
            raise OSError("interrupted")
        return WriteBatch(raw_mode=raw_mode)

    monkeypatch.setattr(format_change, "BATCH_BYTES", 1)
    monkeypatch.setattr(format_change, "WriteBatch", begin)


def _save_format(path: Path, text: bytes) -> None:
    options = Options(raw_mode=True)
    db = Rdict(str(path / "rocksdb" / "s"), options, column_families={META_COLUMN_FAMILY: options})
    db.get_column_family(META_COLUMN_FAMILY)[b"format"] = text
    db.close()
