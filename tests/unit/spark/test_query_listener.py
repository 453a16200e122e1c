"""Readers that ask a thread: real sockets, real stores, in one process."""

from __future__ import annotations

import shutil
import socket
import tempfile
import threading
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from penstock import (
    FailureReason,
    InvalidStateStoreError,
    KeyQuery,
    Materialized,
    Position,
    PositionBound,
    Processor,
    Query,
    QueryConfig,
    QueryResult,
    Serdes,
    SessionWindow,
    SessionWindows,
    StateStore,
    StateStoreContext,
    StateStoreNotAvailableError,
    StoreBuilder,
    Stores,
    StreamsBuilder,
    StreamsConfig,
    TaskId,
    TimeWindows,
    ValueAndTimestamp,
    Windowed,
)
from penstock.dsl.options import Consumed, Grouped
from penstock.query.custom_queries import decode_query
from penstock.query.queries import RangeQuery
from penstock.runtime.queries.entries import all_entries
from penstock.runtime.queries.execution import run_query
from penstock.runtime.queries.reader_context import ReaderContext
from penstock.runtime.queries.views import ReadOnlyKeyValueStore, ReadOnlySessionStore, ReadOnlyWindowStore
from penstock.spark.messages import Application, ThreadReport
from penstock.spark.plan import make_plan
from penstock.spark.queries.channel import answer_of, connect
from penstock.spark.queries.live_store import FIRST_PART
from penstock.spark.queries.query_client import WorkerPartition, ask_doing, ask_report, ask_to_leave
from penstock.spark.queries.query_listener import CODEC, QueryListener, readable_store, store_to_query
from penstock.spark.worker.current_work import CurrentWork, Doing
from penstock.state.capabilities import innermost
from penstock.state.read_order import ReadOrder
from penstock.state.reading import bytes_below_cache
from tests.harness.identities import openssl_identity
from tests.harness.waiting import LIMIT

string, long = Serdes.string(), Serdes.long()
TASK = TaskId(0, 0)


@dataclass(frozen=True)
class WordsLike(Query[list[str]]):
    """A query that only the store below knows."""

    start: str
    most: int = 10


class WordSets(StateStore):
    """A store of the user's own kind."""

    persistent = False
    is_open = True

    def __init__(self, name: str) -> None:
        self._name = name
        self.words: set[str] = set()

    @property
    def name(self) -> str:
        return self._name

    def init(self, context: StateStoreContext, root: StateStore) -> None: ...

    def close(self) -> None: ...

    def query(self, query: Query[Any], position_bound: PositionBound, config: QueryConfig) -> QueryResult[Any]:
        if isinstance(query, KeyQuery):
            return QueryResult.for_result(query.key in self.words)
        if not isinstance(query, WordsLike):
            return super().query(query, position_bound, config)
        if not query.start:
            return QueryResult.for_result({1, 2})
        found = QueryResult[Any].for_result(
            iter(sorted(word for word in self.words if word.startswith(query.start))[: query.most])
        )
        if config.collect_execution_info:
            found.add_execution_info(f"{len(self.words)} words")
        return found


class WordSetsBuilder(StoreBuilder[WordSets]):
    def build(self) -> WordSets:
        return WordSets(self.name)


class Idle(Processor[Any, Any, Any, Any]):
    def process(self, record: Any) -> None: ...


class Tasks:
    """The tasks of a thread, as far as readers know them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.stores: dict[str, Any] = {}

    def folder_of(self, task_id: TaskId) -> Path:
        return self.folder / str(task_id)

    def live_store(self, task_id: TaskId, name: str) -> Any:
        if name not in self.stores:
            raise StateStoreNotAvailableError(f"{name} is not open")
        return self.stores[name]

    def position_of(self, task_id: TaskId) -> Position:
        return Position({"in": {0: 5}})


class ThreadWorker:
    """A thread with stores in memory and on disk."""

    def __init__(self, folder: Path, on_this_host: bool) -> None:
        config = StreamsConfig({"application.id": "app", "bootstrap.servers": "localhost:9", "state.dir": str(folder)})
        builder = StreamsBuilder()
        by_key = builder.stream("in", Consumed(string, string)).group_by_key(Grouped(key_serde=string, value_serde=string))
        for kind in ("in_memory", "rocksdb"):
            by_key.count(Materialized(f"{kind}-counts", string, long, store_type=kind))
            by_key.windowed_by(TimeWindows(1000, grace=0)).count(
                Materialized(f"{kind}-windows", string, long, store_type=kind, retention=100_000)
            )
            by_key.windowed_by(SessionWindows(1000, grace=0)).count(
                Materialized(f"{kind}-sessions", string, long, store_type=kind)
            )
        by_key.reduce(lambda old, new: new, Materialized("in_memory-raw", string, Serdes.bytes(), store_type="in_memory"))
        builder.add_state_store(WordSetsBuilder("words"))
        builder.stream("in", Consumed(string, string)).process(Idle, "words")
        versions = Stores.persistent_versioned_key_value_store("versions", 1_000_000)
        builder.stream("in", Consumed(string, string)).to_table(Materialized(None, string, string, supplier=versions))
        topology = builder.build().internal_topology_builder
        topology.rewrite_topology(config)
        plan = make_plan(topology.subtopologies("app", {}), {"in": 1}, config)
        identity = None if on_this_host else openssl_identity()
        self.application = Application("key", config, plan, None, "p", "c", (), b"secret", identity)
        self.tasks = Tasks(folder)
        self.work = CurrentWork()
        host = None if on_this_host else "127.0.0.1"
        self.reports = [ThreadReport("worker", iterations=7)]
        self.listener = QueryListener(self.application, self.tasks, host, self.work, self.reports.pop)  # type: ignore[arg-type]

    @property
    def address(self) -> Any:
        return self.listener.address if isinstance(self.listener.address, str) else ("127.0.0.1", self.listener.address)

    def open(self, name: str) -> Any:
        """The store as its task has it open, without changelog."""
        readable = readable_store(self.application, TASK, name)
        store = readable.builder.build_reader(readable.builder.build_engine())
        store.init(ReaderContext(self.application.config, TASK, self.tasks.folder_of(TASK), None), store)
        self.tasks.stores[name] = store
        return store

    def partition(self, name: str, key: bytes = b"secret", patience: float = 5.0) -> WorkerPartition:
        store = store_to_query(self.application, TASK, name)
        application = replace(self.application, query_key=key)
        return WorkerPartition(store, TASK, application, lambda: self.address, patience=patience)


@pytest.fixture(params=[True, False], ids=["socket file", "port"])
def thread(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ThreadWorker]:
    thread = ThreadWorker(tmp_path, request.param)
    yield thread
    thread.listener.close()
    for store in thread.tasks.stores.values():
        store.close()


@pytest.mark.parametrize("kind", ["in_memory", "rocksdb"])
def test_should_read_every_kind_through_the_thread(thread: ThreadWorker, kind: str) -> None:
    counts, windows, sessions = (thread.open(f"{kind}-{what}") for what in ("counts", "windows", "sessions"))
    for number in range(2_500):
        counts.put(f"k{number:04}", ValueAndTimestamp(number, number))
    windows.put("a", ValueAndTimestamp(1, 1000), 1000)
    windows.put("a", ValueAndTimestamp(2, 2000), 2000)
    sessions.put(Windowed("a", SessionWindow(5, 9)), 3)
    for store in (counts, windows, sessions):
        store.commit({})
    readers = [thread.partition(f"{kind}-{what}") for what in ("counts", "windows", "sessions")]

    view: Any = ReadOnlyKeyValueStore("counts", lambda: [readers[0]], lambda value: value.value)
    assert view.get("k0007") == 7
    assert view.get("nobody") is None
    assert [value for _, value in view.all()] == list(range(2_500))
    assert [value for _, value in view.reverse_range("k0001", "k0003")] == [3, 2, 1]
    assert [key for key, _ in view.prefix_scan("k001", string)] == [f"k001{n}" for n in range(10)]
    assert view.approximate_num_entries() == 2_500
    with view.all() as entries:
        assert next(entries) == ("k0000", 0)
    view.all().close()
    assert view.get("k0008") == 8

    windowed: Any = ReadOnlyWindowStore("windows", lambda: [readers[1]])
    assert windowed.fetch("a", 2000).value == 2
    assert [start for start, _ in windowed.fetch_range("a", 0, 9999)] == [1000, 2000]
    assert [w.window.start for w, _ in windowed.backward_all()] == [2000, 1000]
    sessioned: Any = ReadOnlySessionStore("sessions", lambda: [readers[2]])
    assert [(w.window.start, w.window.end, value) for w, value in sessioned.fetch("a")] == [(5, 9, 3)]
    for reader in readers:
        reader.close()


def test_should_read_versions_through_the_thread(thread: ThreadWorker) -> None:
    store = thread.open("versions")
    store.put("a", "old", 1)
    store.put("a", "new", 2)
    store.commit({})
    reader = thread.partition("versions")
    with reader.lease() as lease:
        assert lease.store.get("a").value == "new"
        assert lease.store.get("a", 1).value == "old"
        assert [v.value for v in lease.store.get_versions("a")] == ["new", "old"]
        assert [(key, v.value) for key, v in lease.store.scan_latest()] == [("a", "new")]
    reader.close()


def test_should_tell_what_it_does_in_the_midst_of_a_turn(thread: ThreadWorker) -> None:
    with thread.listener.batch, thread.work.turn("fetch"):
        doing = ask_doing(thread.address, thread.application, 30)
    assert doing is not None
    assert doing.step == "fetch"
    assert ask_doing(thread.address, thread.application, 30) == Doing()


def test_should_report_what_was_done_in_the_residency_that_is_asked_for(thread: ThreadWorker) -> None:
    thread.listener.begin(3)
    assert ask_report(thread.address, thread.application, 2, 30) is None
    assert ask_report(thread.address, thread.application, 3, 30) == ThreadReport("worker", iterations=7)
    assert not thread.reports


def test_should_hear_that_it_is_called_back(thread: ThreadWorker) -> None:
    thread.listener.begin(3)
    assert ask_to_leave(thread.address, thread.application, 2, 30)
    assert not thread.listener.is_called_back(3)
    assert not thread.listener.leave.is_set()
    assert ask_to_leave(thread.address, thread.application, 3, 30)
    assert thread.listener.is_called_back(3)
    assert thread.listener.leave.is_set()
    thread.listener.begin(4)
    assert not thread.listener.is_called_back(4)
    assert not thread.listener.leave.is_set()


def test_should_be_called_back_from_a_residency_before_it_begins(thread: ThreadWorker) -> None:
    assert ask_to_leave(thread.address, thread.application, 5, 30)
    thread.listener.begin(5)
    assert thread.listener.is_called_back(5)
    assert thread.listener.leave.is_set()


def test_should_neither_report_nor_hear_a_call_where_a_thread_is_gone(thread: ThreadWorker) -> None:
    thread.listener.close()
    assert ask_report(thread.address, thread.application, 3) is None
    assert not ask_to_leave(thread.address, thread.application, 3)


def test_should_know_nothing_of_a_thread_that_is_gone_or_not_ours(thread: ThreadWorker) -> None:
    assert ask_doing(thread.address, replace(thread.application, query_key=b"another")) is None
    thread.listener.close()
    assert ask_doing(thread.address, thread.application) is None


def test_should_not_wait_for_a_thread_that_cannot_answer(thread: ThreadWorker, tmp_path: Path) -> None:
    """Code that is not Python may keep the whole process busy: connections are taken by the system, and nobody answers."""
    silent = socket.socket(socket.AF_UNIX)
    silent.bind(str(tmp_path / "silent"))
    silent.listen(1)
    assert ask_doing(str(tmp_path / "silent"), thread.application, 0.2) is None
    silent.close()


def test_should_wait_for_the_end_of_a_turn_before_it_reads_memory(thread: ThreadWorker) -> None:
    store = thread.open("in_memory-counts")
    reader = thread.partition("in_memory-counts")
    view: Any = ReadOnlyKeyValueStore("counts", lambda: [reader], lambda value: value.value)
    found: list[Any] = []
    with thread.listener.batch:
        store.put("a", ValueAndTimestamp(1, 1))  # half of a turn
        asking = threading.Thread(target=lambda: found.append(view.get("a")))
        asking.start()
        asking.join(0.3)
        assert found == []
        store.put("a", ValueAndTimestamp(2, 2))
    asking.join(LIMIT)
    assert found == [2]
    reader.close()


def test_should_tell_positions(thread: ThreadWorker) -> None:
    thread.open("in_memory-counts")
    reader = thread.partition("in_memory-counts")
    with reader.lease() as lease:
        assert lease.position == Position({"in": {0: 5}})
    reader.close()


def test_should_pass_errors_on_and_go_on(thread: ThreadWorker) -> None:
    reader = thread.partition("in_memory-counts", patience=0.2)
    with pytest.raises(StateStoreNotAvailableError, match="not open"):
        reader.lease()
    thread.open("in_memory-counts")
    with reader.lease() as lease:
        assert lease.store.get("a") is None
        with pytest.raises(Exception, match="not a method for readers"):
            lease.engine.delete(b"a")  # type: ignore[attr-defined]
    reader.close()


def test_should_refuse_readers_without_the_key(thread: ThreadWorker) -> None:
    thread.open("in_memory-counts")
    with pytest.raises(StateStoreNotAvailableError, match="does not answer"):
        thread.partition("in_memory-counts", key=b"wrong", patience=0.1).lease()
    family = socket.AF_UNIX if isinstance(thread.address, str) else socket.AF_INET
    with socket.socket(family) as stranger:
        stranger.connect(thread.address)
        stranger.sendall(b"\x00\x00\x00\x08GET / HT")
    reader = thread.partition("in_memory-counts")
    with reader.lease() as lease:
        assert lease.store.get("a") is None
    reader.close()


def test_should_say_that_the_thread_is_gone_and_have_it_opened(thread: ThreadWorker) -> None:
    store = readable_store(thread.application, TASK, "in_memory-counts")
    lost: list[bool] = []
    reader = WorkerPartition(store, TASK, thread.application, lambda: None, lambda: lost.append(True), patience=0.2)
    with pytest.raises(StateStoreNotAvailableError, match="ask again later"):
        reader.lease()
    assert lost == [True]


# -- readers do not hold up turns


class Counting(dict):  # type: ignore[type-arg]
    """Counts the entries that are looked at."""

    looked_at = 0
    copied = 0

    def get(self, key: Any, default: Any = None) -> Any:
        self.looked_at += 1
        return super().get(key, default)

    def __getitem__(self, key: Any) -> Any:
        self.looked_at += 1
        return super().__getitem__(key)

    def __iter__(self) -> Iterator[Any]:
        self.copied += 1
        return super().__iter__()


def counted(thread: ThreadWorker, kind: str, many: int) -> Counting:
    """A store of so many entries; what it keeps them in."""
    store = thread.open(f"in_memory-{kind}")
    engine = innermost(store)
    keys = [b"k%06d" % ((number * 7919) % many) for number in range(many)]
    if kind == "counts":
        engine._map = Counting(dict.fromkeys(keys, bytes(16)))
        counting: Counting = engine._map
    elif kind == "windows":
        engine.put(b"first", bytes(16), 1000)
        counting = engine._segments[1000] = Counting(dict.fromkeys(keys, bytes(16)))
    else:
        engine.put(Windowed(b"first", SessionWindow(5, 9)), bytes(8))
        counting = engine._segments[9] = Counting({key: {5: bytes(8)} for key in keys})
    return counting


@pytest.mark.parametrize("kind", ["counts", "windows", "sessions"])
def test_should_look_at_a_part_of_memory_for_who_wants_one_entry(
    thread: ThreadWorker, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    counting = counted(thread, kind, 200_000)
    build, held = ReadOrder.build, []

    def watched(order: ReadOrder) -> None:
        held.append(thread.listener.batch.locked())
        build(order)

    monkeypatch.setattr(ReadOrder, "build", watched)
    reader = thread.partition(f"in_memory-{kind}")
    for _ in range(3):
        with reader.lease() as lease:
            typed = lease.store
            entries = typed.find_sessions_key_range(None, None, 0, 10**9) if kind == "sessions" else typed.all()
            with entries:
                key, _ = next(entries)
        assert (key if kind == "counts" else key.key) == "k000000"
    assert 3 <= counting.looked_at <= 3 * FIRST_PART
    assert counting.copied == 1  # for the first reader, and put in order while turns may run
    assert held == [False]
    reader.close()


@pytest.mark.parametrize("kind", ["counts", "windows", "sessions"])
def test_should_let_turns_run_between_the_parts_of_a_table(thread: ThreadWorker, kind: str) -> None:
    counted(thread, kind, 40_000)
    reader = thread.partition(f"in_memory-{kind}")
    lock, taken = thread.listener.batch, 0
    with reader.lease() as lease:
        for number, _ in enumerate(all_entries(lease.store)):
            if number % 500 == 0:
                assert lock.acquire(timeout=LIMIT)  # a turn begins while the table is read
                lock.release()
                taken += 1
    assert number == 39_999
    assert taken == 80
    reader.close()


def test_should_read_a_page_of_one_commit(thread: ThreadWorker) -> None:
    store = thread.open("in_memory-counts")
    for number in range(5_000):
        store.put(f"k{number:04}", ValueAndTimestamp(0, 0))
    reader = thread.partition("in_memory-counts")
    view: Any = ReadOnlyKeyValueStore("counts", lambda: [reader], lambda value: value.value)
    with view.all() as entries:
        page = [next(entries)]
        with thread.listener.batch:
            for number in range(5_000):
                store.put(f"k{number:04}", ValueAndTimestamp(1, 0))
            store.put("k00001", ValueAndTimestamp(1, 0))
        page += [next(entries) for _ in range(1_001)]
        assert {value for _, value in page} == {0}
        assert [key for key, _ in page] == [f"k{number:04}" for number in range(1_002)]
        rest = list(entries)
    assert len(rest) == 5_000 - 1_002
    assert rest[-1] == ("k4999", 1)
    reader.close()


def test_should_say_that_a_store_was_opened_anew_while_it_was_read(thread: ThreadWorker) -> None:
    for _ in range(2):
        store = thread.open("in_memory-counts")
        for number in range(5_000):
            store.put(f"k{number:04}", ValueAndTimestamp(0, 0))
        if not _:
            reader = thread.partition("in_memory-counts")
            lease = reader.lease()
            entries = lease.store.all()
            next(entries)
    with pytest.raises(StateStoreNotAvailableError, match="opened anew"):
        list(entries)
    lease.close()
    with reader.lease() as again:
        assert len(list(again.store.all())) == 5_000
    reader.close()


def test_should_send_large_values_in_small_parts(thread: ThreadWorker) -> None:
    store = thread.open("in_memory-raw")
    for number in range(40):
        store.put(f"k{number:02}", ValueAndTimestamp(bytes([number]) * 300_000, 0))
    sizes: list[int] = []
    reader = thread.partition("in_memory-raw")
    with reader.lease() as lease:
        channel = lease.engine._channel  # type: ignore[attr-defined]
        receive = channel.receive

        def measured(seconds: float) -> Any:
            message = receive(seconds)
            sizes.append(sum(len(value) for _, value in message[2]))
            return message

        channel.receive = measured
        assert [value.value[0] for _, value in lease.store.all()] == list(range(40))
    assert max(sizes) < 2_000_000
    reader.close()


def test_should_leave_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    thread = ThreadWorker(tmp_path, True)
    for name in ("rocksdb-counts", "in_memory-counts"):
        store = thread.open(name)
        for number in range(5_000):
            store.put(f"k{number:04}", ValueAndTimestamp(0, 0))
        store.commit({})
    readers = [thread.partition("rocksdb-counts"), thread.partition("in_memory-counts")]
    leases = [reader.lease() for reader in readers]
    iterators = [lease.store.all() for lease in leases]
    for entries in iterators:
        next(entries)
    assert [path.name[:11] for path in temporary.iterdir()] == ["penstock-q-"]
    thread.listener.close()
    assert list(temporary.iterdir()) == []
    for entries in iterators:
        with pytest.raises(StateStoreNotAvailableError, match="disconnected"):
            list(entries)
    for lease, reader in zip(leases, readers):
        lease.close()
        reader.close()
    for store in thread.tasks.stores.values():
        store.close()


def test_should_keep_its_files_where_spark_removes_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker that Spark ends after a while of idleness has no time to."""
    short, long_name = Path(tempfile.mkdtemp(prefix="blockmgr-", dir="/tmp")), tmp_path / ("x" * 80)
    long_name.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(short / "temporary"))
    (short / "temporary").mkdir()
    for folders, expected in (
        (f"{short},/elsewhere", short),
        (str(long_name), short / "temporary"),  # too long for the path of a socket
        ("/no/such/folder", short / "temporary"),
        ("", short / "temporary"),
    ):
        monkeypatch.setenv("SPARK_LOCAL_DIRS", folders)
        thread = ThreadWorker(tmp_path, True)
        assert Path(thread.address).parents[1] == expected
        thread.listener.close()
    shutil.rmtree(short)


def test_should_refuse_what_readers_must_not_ask(thread: ThreadWorker) -> None:
    thread.open("in_memory-counts")
    with connect(thread.address, b"secret", CODEC, thread.application.identity) as channel:
        for request, error in (
            (("call", "get", (b"a",)), "out of order"),
            (("lease",), "argument"),
            (("lease", TaskId("../..", 1), "rocksdb-counts", True), "not a task"),  # type: ignore[arg-type]
            (("lease", (0, 0), "rocksdb-counts", True), "not a task"),
            (("lease", TASK, "no-such", True), "no store"),
            (("lease", TaskId(7, 0), "rocksdb-counts", True), "no store"),
            (("next",), "out of order"),
            (("__class__",), "out of order"),
        ):
            channel.send(*request)
            with pytest.raises(InvalidStateStoreError, match=error):
                answer_of(channel.receive(10))
        channel.send("lease", TASK, "in_memory-counts", False)
        assert channel.receive(10)[0] == "value"
        for request, error in (
            (("call", "put", (b"a", b"b")), "not a method"),
            (("call", "__init__", ()), "not a method"),
            (("call", ["get"], ()), "unhashable"),
            (("call", "get", (b"a", b"b")), "argument"),
            (("call", "range", (1, "a")), "failed to answer"),
            (("call", "range", (b"a",)), "failed to answer"),
        ):
            channel.send(*request)
            with pytest.raises(InvalidStateStoreError, match=error):
                answer_of(channel.receive(10))
        channel.send("call", "get", (b"a",))
        assert answer_of(channel.receive(10)) == ("value", None)


def test_should_put_queries_to_a_store_of_ones_own_kind(thread: ThreadWorker) -> None:
    store = thread.tasks.stores["words"] = WordSets("words")
    store.words |= {"tea", "ten", "toe", "at"}
    words = thread.partition("words")
    found = run_query(words, WordsLike("te"), PositionBound.unbounded(), execution_info=True)
    assert found.result == ["tea", "ten"]
    assert found.position == Position({"in": {0: 5}})
    assert found.execution_info[0] == "4 words"
    assert run_query(words, WordsLike("t", most=1), PositionBound.unbounded()).result == ["tea"]
    assert run_query(words, KeyQuery("at"), PositionBound.unbounded()).result is True
    words.close()


def test_should_say_what_a_store_of_ones_own_kind_does_not_answer(thread: ThreadWorker) -> None:
    thread.tasks.stores["words"] = WordSets("words")
    words = thread.partition("words")
    unknown = run_query(words, RangeQuery(), PositionBound.unbounded())
    assert unknown.failure_reason is FailureReason.UNKNOWN_QUERY_TYPE
    assert "WordSets" in unknown.failure_message
    broken = run_query(words, WordsLike(""), PositionBound.unbounded())
    assert broken.failure_reason is FailureReason.STORE_EXCEPTION
    assert "a set is not plain data" in broken.failure_message
    behind = run_query(words, WordsLike("t"), PositionBound.at(Position({"in": {0: 6}})))
    assert behind.failure_reason is FailureReason.NOT_UP_TO_BOUND
    assert run_query(words, WordsLike("t"), PositionBound.unbounded()).result == []
    words.close()


def test_should_put_what_a_store_of_bytes_alone_knows_to_it(thread: ThreadWorker, monkeypatch: pytest.MonkeyPatch) -> None:
    counts, partition = thread.open("in_memory-counts"), thread.partition("in_memory-counts")
    plain = run_query(partition, WordsLike("t"), PositionBound.unbounded())
    assert plain.failure_reason is FailureReason.UNKNOWN_QUERY_TYPE
    assert "MeteredKeyValueStore" in plain.failure_message
    engine = type(bytes_below_cache(counts))
    monkeypatch.setattr(engine, "query", lambda self, query, bound, config: QueryResult.for_result(query.start), raising=False)
    assert run_query(partition, WordsLike("t"), PositionBound.unbounded()).result == "t"
    partition.close()


def test_should_refuse_a_query_whose_class_the_thread_does_not_know(thread: ThreadWorker) -> None:
    thread.tasks.stores["words"] = WordSets("words")
    with pytest.raises(InvalidStateStoreError, match=r"elsewhere\.Unknown is not known where the store is"):
        decode_query(("elsewhere", "Unknown", {}))
    with pytest.raises(InvalidStateStoreError, match="kind of its own"):
        readable_store(thread.application, TASK, "words")
