from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import textwrap
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rocksdict import Options, Rdict

from penstock.errors import InvalidStateStoreError, LockError, ProcessorStateError
from penstock.ids import TopicPartition
from penstock.record import RawRecord
from penstock.state.engines.rocksdb import RocksDBStore
from penstock.state.iterators import PeekingIterator
from penstock.state.value_formats import TIMESTAMPED
from tests.harness.waiting import LIMIT

CHANGELOG = TopicPartition("app-store-changelog", 0)
_SHORT = st.lists(st.sampled_from([b"a", b"b"]), min_size=2, max_size=2).map(b"".join)


def _open(path: Path, **kwargs: Any) -> RocksDBStore:
    store = RocksDBStore("store", **kwargs)
    store.open_db({}, path)
    return store


def test_should_keep_what_was_committed_and_forget_the_rest(tmp_path: Path) -> None:
    store = _open(tmp_path)
    store.put(b"a", b"1")
    store.put(b"b", b"1")
    store.commit({CHANGELOG: 7})
    store.put(b"a", b"2")
    store.delete(b"b")
    store.put(b"c", b"3")
    assert list(store.all()) == [(b"a", b"2"), (b"c", b"3")]
    store.close()

    store = _open(tmp_path)

    assert list(store.all()) == [(b"a", b"1"), (b"b", b"1")]
    assert store.committed_offset(CHANGELOG) == 7
    assert store.committed_offset(TopicPartition("other", 0)) is None
    store.close()


def test_should_lie_at_the_place_of_its_name(tmp_path: Path) -> None:
    store = _open(tmp_path)

    assert store.folder == tmp_path / "rocksdb" / "store"
    assert (store.folder / "CURRENT").exists()
    store.close()


def test_should_not_know_its_folder_before_it_was_opened() -> None:
    with pytest.raises(ProcessorStateError, match="has not been opened"):
        _ = RocksDBStore("store").folder


def test_should_keep_the_position_when_a_commit_names_none(tmp_path: Path) -> None:
    store = _open(tmp_path)
    store.commit({CHANGELOG: 3})
    store.put(b"a", b"1")
    store.commit({})
    store.commit({})
    store.close()

    store = _open(tmp_path)
    assert store.committed_offset(CHANGELOG) == 3
    assert store.get(b"a") == b"1"
    store.close()


def test_should_write_data_and_position_in_one_step_even_when_killed(tmp_path: Path) -> None:
    # The child counts its commits in the store and in the position; wherever the kill hits, both must agree.
    script = textwrap.dedent(
        f"""
        from pathlib import Path
        from penstock.ids import TopicPartition
        from penstock.state.engines.rocksdb import RocksDBStore
        store = RocksDBStore("store")
        store.open_db({{}}, Path({str(tmp_path)!r}))
        for number in range(1_000_000):
            for key in range(50):
                store.put(b"%d" % key, b"%d" % number)
            store.commit({{TopicPartition("app-store-changelog", 0): number}})
            if number == 100:
                print("running", flush=True)
        """
    )
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "running\n"
        os.kill(child.pid, signal.SIGKILL)
        child.wait()

    store = _open(tmp_path)
    position = store.committed_offset(CHANGELOG)
    assert position is not None
    assert position >= 100
    assert {value for _, value in store.all()} == {b"%d" % position}
    store.close()


def test_should_see_deleted_ranges_in_every_read(tmp_path: Path) -> None:
    store = _open(tmp_path)
    for key in (b"a", b"b", b"c", b"d"):
        store.put(key, b"1")
    store.commit({})
    store.put(b"bb", b"2")

    store.delete_range(b"b", b"d")
    store.put(b"c", b"3")

    for _ in range(2):
        assert list(store.all()) == [(b"a", b"1"), (b"c", b"3"), (b"d", b"1")]
        assert list(store.reverse_all()) == [(b"d", b"1"), (b"c", b"3"), (b"a", b"1")]
        assert store.get(b"b") is None
        assert store.get(b"bb") is None
        assert store.multi_get([b"a", b"b", b"bb", b"c", b"d", b"x"]) == [b"1", None, None, b"3", b"1", None]
        store.commit({})
    store.close()


def test_should_get_many_keys_at_once(tmp_path: Path) -> None:
    store = _open(tmp_path)
    store.put(b"a", b"1")
    store.put(b"b", b"1")
    store.commit({})
    store.put(b"b", None)
    store.put(b"c", b"2")

    assert store.multi_get([b"c", b"b", b"a", b"x", b"a"]) == [b"2", None, b"1", None, b"1"]
    assert store.multi_get([b"c"]) == [b"2"]
    assert store.multi_get([]) == []
    store.close()


def test_should_show_an_iterator_the_store_as_it_was(tmp_path: Path) -> None:
    store = _open(tmp_path)
    store.put(b"a", b"1")
    store.commit({})
    store.put(b"b", b"1")

    with store.all() as entries:
        store.put(b"a", b"2")
        store.put(b"b", b"2")
        store.put(b"c", b"2")
        store.commit({})
        assert list(entries) == [(b"a", b"1"), (b"b", b"1")]
    store.close()


def test_should_close_iterators_left_open(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    store = _open(tmp_path)
    store.put(b"a", b"1")
    store.commit({})
    entries = store.all()
    list(store.all())
    store.all().close()

    store.close()

    assert "Closing 1 open iterators for store store" in caplog.text
    with pytest.raises(InvalidStateStoreError):
        next(entries)
    _open(tmp_path).close()


def test_should_not_hold_the_folder_for_a_forgotten_iterator(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    store = _open(tmp_path)
    store.put(b"a", b"1")
    store.commit({})
    next(store.all())
    gc.collect()

    store.close()

    assert "open iterators" not in caplog.text
    _open(tmp_path).close()


def test_should_refuse_use_when_closed(tmp_path: Path) -> None:
    store = _open(tmp_path)
    store.close()
    store.close()

    assert not store.is_open
    for use in (
        lambda: store.get(b"a"),
        lambda: store.put(b"a", b"1"),
        lambda: store.put_all([(b"a", b"1")]),
        lambda: store.all(),
        lambda: store.range(b"a", b"b"),
        lambda: store.multi_get([b"a"]),
        lambda: store.commit({}),
        lambda: store.approximate_num_entries(),
        lambda: store.delete_range(b"a", b"b"),
    ):
        with pytest.raises(InvalidStateStoreError, match="Store store is currently closed"):
            use()


def test_should_count_entries_about_right(tmp_path: Path) -> None:
    store = _open(tmp_path)
    for number in range(100):
        store.put(b"%d" % number, b"1")
    assert store.approximate_num_entries() == 100
    store.commit({})
    assert store.approximate_num_entries() == 100
    store.put(b"1", None)
    assert store.approximate_num_entries() == 99
    assert store.property_value("rocksdb.estimate-num-keys") == "100"
    store.close()


def test_should_restore_batches_with_their_position(tmp_path: Path) -> None:
    store = _open(tmp_path)
    records = [
        RawRecord(CHANGELOG.topic, 0, offset, 0, key, value)
        for offset, (key, value) in enumerate([(b"a", b"1"), (b"b", b"1"), (b"a", b"2"), (b"b", None), (None, b"x")])
    ]

    store.restore_batch(records)
    store.commit({CHANGELOG: 4})
    store.close()

    store = _open(tmp_path)
    assert list(store.all()) == [(b"a", b"2")]
    assert store.committed_offset(CHANGELOG) == 4
    store.close()


def test_should_name_the_folder_of_a_store_that_is_open_elsewhere(tmp_path: Path) -> None:
    store = _open(tmp_path)

    with pytest.raises(LockError, match=str(tmp_path / "rocksdb" / "store")):
        _open(tmp_path)
    store.close()


def _filled(tmp_path: Path) -> Path:
    store = _open(tmp_path)
    for number in range(1000):
        store.put(b"%d" % number, b"v" * 100)
    store.commit({CHANGELOG: 1})
    store.close()
    return store.folder


@pytest.mark.parametrize("damage", ["CURRENT", "MANIFEST", "sst", "garbage-manifest", "garbage-sst"])
def test_should_refuse_a_damaged_folder_and_name_it(tmp_path: Path, damage: str) -> None:
    folder = _filled(tmp_path)
    for path in folder.iterdir():
        if (damage == "garbage-manifest" and path.name.startswith("MANIFEST")) or (
            damage == "garbage-sst" and path.suffix == ".sst"
        ):
            path.write_bytes(b"\x13" * 500)
        elif path.name == damage or path.name.startswith(damage) or path.suffix == f".{damage}":
            path.unlink()

    with pytest.raises(ProcessorStateError, match=str(folder)):
        _open(tmp_path)


def test_should_report_a_damaged_block_when_it_is_read(tmp_path: Path) -> None:
    folder = _filled(tmp_path)
    for path in folder.glob("*.sst"):
        content = bytearray(path.read_bytes())
        if len(content) > 50_000:
            content[100:40_000] = bytes(39_900)
            path.write_bytes(content)

    store = _open(tmp_path)
    with pytest.raises(ProcessorStateError, match=str(folder)):
        store.get(b"1")
    store.close()


def test_should_refuse_a_damaged_log_and_name_the_folder(tmp_path: Path) -> None:
    script = textwrap.dedent(
        f"""
        import os
        from pathlib import Path
        from penstock.state.engines.rocksdb import RocksDBStore
        store = RocksDBStore("store")
        store.open_db({{}}, Path({str(tmp_path)!r}))
        for number in range(100):
            store.put(b"%d" % number, b"v" * 100)
            store.commit({{}})
        os._exit(0)
        """
    )
    subprocess.run([sys.executable, "-c", script], check=True)
    folder = tmp_path / "rocksdb" / "store"
    log = max(folder.glob("*.log"), key=lambda path: path.stat().st_size)
    content = bytearray(log.read_bytes())
    content[3000:3010] = b"\x13" * 10
    log.write_bytes(content)

    with pytest.raises(ProcessorStateError, match=str(folder)):
        _open(tmp_path)


def test_should_refuse_a_folder_of_something_else(tmp_path: Path) -> None:
    folder = tmp_path / "rocksdb" / "store"
    folder.mkdir(parents=True)
    (folder / "holiday.jpg").write_bytes(b"jpg")

    with pytest.raises(ProcessorStateError, match=r"holiday\.jpg") as raised:
        _open(tmp_path)

    assert str(folder) in str(raised.value)
    assert (folder / "holiday.jpg").exists()


@pytest.mark.parametrize("families", [{}, {"keyValueWithTimestamp": Options(raw_mode=True)}])
def test_should_refuse_a_rocksdb_of_something_else(tmp_path: Path, families: dict[str, Options]) -> None:
    folder = tmp_path / "rocksdb" / "store"
    folder.parent.mkdir(parents=True)
    options = Options(raw_mode=True)
    options.create_missing_column_families(True)
    foreign = Rdict(str(folder), options, column_families=families)
    foreign[b"key"] = b"value"
    foreign.close()

    with pytest.raises(ProcessorStateError, match="penstock did not write") as raised:
        _open(tmp_path)

    assert str(folder) in str(raised.value)


def test_should_refuse_a_store_of_another_format(tmp_path: Path) -> None:
    _open(tmp_path, value_format=TIMESTAMPED).close()

    with pytest.raises(ProcessorStateError, match="'1 timestamped-key-value', not '1 key-value'"):
        _open(tmp_path)


def test_should_finish_a_creation_that_was_cut_short(tmp_path: Path) -> None:
    folder = tmp_path / "rocksdb" / "store"
    folder.mkdir(parents=True)
    for name in ("LOCK", "LOG", "IDENTITY", "MANIFEST-000001", "000001.dbtmp"):
        (folder / name).touch()

    store = _open(tmp_path)

    assert list(store.all()) == []
    store.close()


def test_should_say_when_the_folder_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "rocksdb").write_text("in the way")

    with pytest.raises(ProcessorStateError, match="cannot create folder"):
        _open(tmp_path)


@pytest.mark.parametrize("recent_bytes", [4 << 20, 1_000, 0])
@settings(max_examples=30, deadline=None)
@given(
    steps=st.lists(
        st.tuples(
            st.sampled_from(["put", "delete", "delete_range", "commit", "reopen"]),
            st.binary(max_size=2),
            st.binary(max_size=2),
        ),
        max_size=40,
    ),
    bounds=st.tuples(st.none() | st.binary(max_size=2), st.none() | st.binary(max_size=2)),
)
def test_should_equal_a_dict_of_commits(
    tmp_path_factory: pytest.TempPathFactory,
    steps: list[tuple[str, bytes, bytes]],
    bounds: tuple[bytes | None, bytes | None],
    recent_bytes: int,
) -> None:
    path = tmp_path_factory.mktemp("task")
    patch = pytest.MonkeyPatch()
    patch.setattr("penstock.state.engines.rocksdb._RECENT_BYTES", recent_bytes)
    store = _open(path)
    model: dict[bytes, bytes] = {}
    committed: dict[bytes, bytes] = {}
    try:
        for step, key, other in steps:
            if step == "put":
                store.put(key, other)
                model[key] = other
            elif step == "delete":
                assert store.delete(key) == model.pop(key, None)
            elif step == "delete_range" and key <= other:
                store.delete_range(key, other)
                model = {kept: value for kept, value in model.items() if not key <= kept < other}
            elif step == "commit":
                store.commit({CHANGELOG: 1})
                committed = dict(model)
            elif step == "reopen":
                store.close()
                store = _open(path)
                model = dict(committed)
            assert store.get(key) == model.get(key)
            assert store.multi_get([other, key]) == [model.get(other), model.get(key)]
        low, high = bounds
        if low is None or high is None or low <= high:
            inside = sorted(
                (key, value) for key, value in model.items() if (low is None or key >= low) and (high is None or key <= high)
            )
            assert list(store.range(low, high)) == inside
            assert list(store.reverse_range(low, high)) == inside[::-1]
            with store.scan(low, high, to_inclusive=False, forward=False) as entries:
                assert isinstance(entries, PeekingIterator)
                assert list(entries) == [entry for entry in inside[::-1] if entry[0] != high]
    finally:
        store.close()
        patch.undo()


def test_should_lend_the_iterator_of_few_entries_to_one_thread_only(tmp_path: Path) -> None:
    store = _open(tmp_path)
    store.put(b"xa", b"1")
    store.commit({})
    store.put(b"xb", b"2")
    both = [(b"a", b"1"), (b"b", b"2")]
    assert store.fetch_small(b"x", b"a", b"b", 2) == both
    assert store.fetch_small(b"x", b"a", b"b", 1) is None
    with ThreadPoolExecutor(1) as other:
        assert other.submit(store.fetch_small, b"x", b"a", b"b", 2).result(LIMIT) is None
    store.commit({})
    assert store.fetch_small(b"x", b"a", b"b", 2) == both
    store.close()


@settings(max_examples=50, deadline=None)
@given(
    steps=st.lists(
        st.tuples(
            st.sampled_from(["put", "delete", "drop", "commit", "ask"]),
            st.sampled_from([b"", b"a", b"ab", b"aba"]),
            _SHORT,
            _SHORT,
        ),
        max_size=30,
    )
)
def test_should_find_few_entries_of_a_stem_and_nothing_longer(tmp_path_factory: pytest.TempPathFactory, steps: Any) -> None:
    store, model = _open(tmp_path_factory.mktemp("few")), dict[bytes, bytes]()
    try:
        for step, stem, first, last in steps:
            key = stem + first
            if step == "put":
                model[key] = last
                store.put(key, last)
            elif step == "delete":
                model.pop(key, None)
                store.put(key, None)
            elif step == "drop":
                first, last = min(first, last), max(first, last)
                store.delete_range(first, last)
                model = {key: value for key, value in model.items() if not first <= key < last}
            elif step == "commit":
                store.commit({})
            else:
                ends = len(stem)
                found = [(k[ends:], v) for k, v in sorted(model.items()) if k.startswith(stem) and len(k) == ends + 2]
                assert store.fetch_small(stem, first, last, 50) == [(k, v) for k, v in found if first <= k <= last]
    finally:
        store.close()
