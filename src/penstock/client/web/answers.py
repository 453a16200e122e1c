"""The answers of the query server, independent of HTTP: from local state or from the responsible instance."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from functools import partial
from heapq import heappop, heappush
from itertools import islice
from typing import Any
from urllib.parse import quote

import pyarrow as pa

from penstock.client.queries.queries import Queries
from penstock.client.web.errors import HttpError
from penstock.client.web.everywhere import BEYOND_HOME, Asked, Everywhere
from penstock.client.web.forwarding import Forwarder
from penstock.errors import SerializationError, StreamsRebalancingError
from penstock.ids import TaskId
from penstock.query.change_read import ChangeRead
from penstock.query.columns import as_json, from_json, is_text, sql_type
from penstock.query.metadata import HostInfo
from penstock.query.table_read import ALL, TableRead, key_format_of
from penstock.runtime.queries.arrow_table import Columns, batches_of, columns_of, schema_of
from penstock.runtime.queries.changes import changelog_of
from penstock.runtime.queries.deadline import until_deadline
from penstock.runtime.queries.entries import MAX_TIME, Entry, entries_for, entry
from penstock.runtime.queries.opening import ReadableStore
from penstock.runtime.queries.partition import Lease, StorePartition
from penstock.serdes.codecs import parse_json
from penstock.serdes.serde import as_serializer
from penstock.spark.queries.store_changes import ChangeReader, Stretch

DEFAULT_LIMIT, MAX_LIMIT = 100, 1_000
MAX_ANSWER_BYTES = 8 * 1024 * 1024
"""The size limit of a page of entries. A page has at least one entry, and the place of the next one."""

_MOST_WINDOWS = 100_000

Parameters = Mapping[str, str]
Json = dict[str, Any]


class Answers:
    """One method for each path. `forwarded`: another instance asks and gets local results only."""

    def __init__(
        self,
        queries: Queries,
        here: HostInfo,
        forwarder: Forwarder,
        change_reader: Callable[[], ChangeReader] | None = None,
    ) -> None:
        self._queries = queries
        self._change_reader = change_reader
        self._here = here
        self._everywhere = Everywhere(queries, here, forwarder)

    # -- paths ---------------------------------------------------------------------------------------------------------

    def stores(self) -> Json:
        """List all stores."""
        found, stores = [], self._queries.stores
        for name in stores.names:
            try:
                store = stores.store(name)
            except Exception:  # noqa: BLE001, S112 - a buffer or a user's custom store cannot be queried
                continue
            hosts = self._queries.locations.for_store(name)
            found.append(
                {
                    "name": name,
                    "kind": store.kind.replace("_", "-"),
                    "global": stores.is_global(name),
                    "partitions": 1 if stores.is_global(name) else len(stores.tasks_of(name)),
                    "hosts": [str(metadata.host_info) for metadata in hosts],
                    "key_type": sql_type(store.key_serde),
                    "value_type": sql_type(store.value_serde),
                    "persistent": store.on_disk,
                }
            )
        return {"stores": found}

    def store(self, name: str) -> Json:
        """Describe a store: its columns, and the instance of each partition."""
        store, stores = self._store(name), self._queries.stores
        is_global = stores.is_global(name)
        hosts = [self._here] if is_global else [self._host_of(name, task) for task in stores.tasks_of(name)]
        return {
            "name": name,
            "kind": store.kind.replace("_", "-"),
            "global": is_global,
            "partitions": len(hosts),
            "active": [None if host == HostInfo.unavailable() else str(host) for host in hosts],
            "columns": [{"name": column, "type": kind} for column, kind in columns_of(store)],
            "key_format": key_format_of(store.key_serde),
        }

    def _host_of(self, name: str, task: TaskId) -> HostInfo:
        """Return the host of a task: from the event loop if it is local, otherwise from the group's assignment."""
        return self._here if task in self._queries.stores.owned(name) else self._queries.locations.host_of(task)

    def key(self, name: str, text: str, parameters: Parameters, forwarded: bool) -> Json:
        """Return the value of a key."""
        store = self._store(name)
        if store.kind not in ("key_value", "versioned"):
            raise HttpError(400, f"store {name} has windows: ask /api/stores/{name}/windows/{{key}}")
        key = parse_key(store, text)
        asked = _asked(store, f"keys/{quote(text, safe='')}", parameters, forwarded)
        found = self._everywhere.find(asked, self._everywhere.task_of(store, key), partial(self._value, store, key, parameters))
        if found.answer is None:
            raise HttpError(404, f"store {name} has no key {text}", found.partitions if forwarded else None)
        return found.answer

    def key_at_once(self, name: str, text: str, parameters: Parameters, forwarded: bool) -> Json | None:
        """Return the value of a key if that needs no waiting, otherwise None.

        It runs on the server's event loop, so it never calls a user's serde.
        """
        store = self._store(name)
        known = store.kind in ("key_value", "versioned") and store.has_builtin_serdes
        if not known or self._queries.stores.is_global(name) or BEYOND_HOME in parameters:
            return None
        key = parse_key(store, text)
        task = self._everywhere.task_of(store, key)
        if self._everywhere.is_elsewhere(task, forwarded):
            return None
        local = self._queries.stores.active(name, task)
        lease = local.reader.lease_at_once() if local is not None and local.running else None
        if lease is None:
            return None
        with lease:
            # if the key is missing here, all other instances must be asked
            return self._value(store, key, parameters, lease.store, task)

    def _value(self, store: ReadableStore, key: Any, parameters: Parameters, typed: Any, task: TaskId | None) -> Json | None:
        found = _get(typed, store, key, parameters)
        if found is None:
            return None
        return {
            "key": as_json(key),
            "value": as_json(found.value),
            "timestamp": found.timestamp,
            "partition": None if task is None else task.partition,
            "host": str(self._here),
        }

    def range(self, name: str, parameters: Parameters, forwarded: bool) -> Json:
        """Return entries between two keys in the order of the keys' bytes. `next` is the `from` of the next page."""
        store = self._store(name)
        if store.kind != "key_value":
            raise HttpError(400, f"store {name} is a {store.kind} store: only key-value stores have ranges of keys")
        limit = parse_limit(parameters, MAX_LIMIT + forwarded)
        low = parse_key(store, parameters["from"]) if parameters.get("from") else None
        high = parse_key(store, parameters["to"]) if parameters.get("to") else None
        if low is not None and high is not None and _raw(store, low) > _raw(store, high):
            raise HttpError(400, "the range ends before it begins: `from` is after `to` in the order of the keys' bytes")
        page, partitions = self._everywhere.merged(
            Asked(store, "range", {**parameters, "limit": str(limit + 1)}, forwarded),
            lambda typed: _page(typed, store, low, high),
            lambda answer: _page_of_other(store, answer),
            lambda found: _first_page(((entry, key) for _, key, entry in found), limit),
        )
        return {**page, "partitions": sorted(partitions)} if forwarded else page

    def windows(self, name: str, text: str, parameters: Parameters, forwarded: bool) -> Json:
        """Return a key's windows or sessions in a time range, oldest first."""
        store = self._store(name)
        if store.kind not in ("window", "session"):
            raise HttpError(400, f"store {name} has no windows: ask /api/stores/{name}/keys/{{key}}")
        key = parse_key(store, text)
        low, high = parse_time(parameters, "from", 0), parse_time(parameters, "to", MAX_TIME)
        if low > high:
            raise HttpError(400, f"the range ends before it begins: from={low}, to={high}")
        limit = parse_limit(parameters)

        def read(typed: Any, task: TaskId | None) -> Json | None:
            found = _first_page(((one, one["start"]) for one in _windows(typed, store, key, low, high)), limit)
            return found if found["entries"] else None

        asked = _asked(store, f"windows/{quote(text, safe='')}", parameters, forwarded)
        found = self._everywhere.find(asked, self._everywhere.task_of(store, key), read)
        page = found.answer or {"entries": [], "next": None}
        return {**page, "partitions": sorted(found.partitions)} if forwarded else page

    def all_windows(self, name: str, parameters: Parameters) -> Json:
        """Return windows or sessions of all keys that start in a time range, from local partitions, oldest first."""
        store = self._store(name)
        if store.kind not in ("window", "session"):
            raise HttpError(400, f"store {name} has no windows: ask /api/stores/{name}/range")
        low, high = parse_time(parameters, "from", 0), parse_time(parameters, "to", MAX_TIME)
        if low > high:
            raise HttpError(400, f"the range ends before it begins: from={low}, to={high}")
        limit, read = parse_limit(parameters), TableRead(start_low=low, start_high=high)
        here = self._everywhere.local(name)
        if not here:
            raise HttpError(503, f"no partition of store {name} is here now; ask again later")
        oldest = _OldestWindows(limit)
        for partition in here:
            with partition.lease() as lease:
                starts = (
                    one for one in until_deadline(entries_for(store, lease.store, read)) if low <= (one.window_start or 0) <= high
                )
                for one in islice(starts, _MOST_WINDOWS):
                    oldest.add(one)
        total = len(self._queries.stores.tasks_of(name)) or 1
        return {**oldest.page(), "here": len(here), "partitions": total}

    def table(self, name: str, parameters: Parameters) -> Generator[bytes, None, None]:
        """Yield the local part of a store, or of one partition, as an Arrow stream. Stores on disk show one commit.

        `read` selects rows, `columns` selects columns.
        """
        store = self._store(name)
        columns, read = parse_columns(store, parameters.get("columns")), parse_read(store, parameters.get("read"))
        leases: list[Lease] = []
        try:
            leases.extend(partition.lease() for partition in self._wanted(name, parameters.get("partition")))
        except BaseException:
            for lease in leases:
                lease.close()
            raise
        stream = _arrow_stream(store, leases, columns, read)
        next(stream)  # enters the generator, which then returns the leases even if nobody reads it
        return stream

    def changes(self, name: str, parameters: Parameters) -> bytes:
        """A page of the changes of a partition, as an Arrow stream; it says where the next one begins.

        Without `offset` and `end` it is the first page: it fixes the end.
        """
        store, partition = self._store(name), self._partition(name, parameters.get("partition") or "0")
        changelog_of(store)
        read = ChangeRead(parse_time(parameters, "from", 0), parse_time(parameters, "to", MAX_TIME))
        if self._change_reader is None:
            raise HttpError(404, "changes of stores cannot be read here")
        first, last = parse_time(parameters, "offset", 0), parse_time(parameters, "end", MAX_TIME)
        reader = self._change_reader()
        there = reader.stretch(store, partition, read)
        return reader.page(store, partition, read, Stretch(max(first, there.start), min(last, there.end)))

    def metadata(self, name: str, text: str) -> Json:
        """Return the location of a key."""
        store = self._store(name)
        found = self._queries.metadata_for_key(name, parse_key(store, text), store.key_serde)
        if found.active_host == HostInfo.unavailable():
            raise HttpError(503, f"the location of this key of store {name} is not known yet; ask again later")
        standbys = sorted(str(host) for host in found.standby_hosts)
        return {"partition": found.partition, "active": str(found.active_host), "standbys": standbys}

    def _store(self, name: str) -> ReadableStore:
        """Return a store of a running application."""
        self._queries.check_running()
        return self._queries.stores.store(name)

    def _partition(self, name: str, text: str) -> int:
        """The number of a partition that the store has."""
        if not text.isascii() or not text.isdigit() or len(text) > 9:
            raise HttpError(400, f"partition={text[:50]!r} is not the number of a partition")
        stores = self._queries.stores
        count = 1 if stores.is_global(name) else len(stores.tasks_of(name))
        if int(text) >= count:
            raise HttpError(404, f"store {name} has no partition {text}: it has {count}, counted from 0")
        return int(text)

    def _wanted(self, name: str, partition: str | None) -> list[StorePartition]:
        if not partition:
            here = self._everywhere.local(name)
            if not here:
                raise HttpError(503, f"no partition of store {name} is here now; ask again later")
            return here
        number, stores = self._partition(name, partition), self._queries.stores
        found = [local for local in stores.partitions(name) if local.active and local.partition == number]
        if not found:
            raise HttpError(503, f"partition {partition} of store {name} is not here now; ask again later")
        if not found[0].running:
            raise StreamsRebalancingError(f"partition {partition} of store {name} is being opened or restored; ask again later")
        return [found[0].reader]


def _asked(store: ReadableStore, path: str, parameters: Parameters, forwarded: bool) -> Asked:
    """Return the request for one key."""
    beyond_home = forwarded and parse_flag(parameters, BEYOND_HOME)
    passed_on = {name: value for name, value in parameters.items() if name != BEYOND_HOME}
    return Asked(store, path, passed_on, forwarded, parse_flag(parameters, "stale"), beyond_home)


def _arrow_stream(store: ReadableStore, leases: list[Lease], columns: Columns, read: TableRead) -> Generator[bytes, None, None]:
    sink = io.BytesIO()
    try:
        yield b""
        with pa.ipc.new_stream(sink, schema_of(columns)) as writer:
            for lease in leases:
                for batch in batches_of(until_deadline(entries_for(store, lease.store, read)), columns):
                    writer.write_batch(batch)
                    yield sink.getvalue()
                    sink.seek(0)
                    sink.truncate()
        yield sink.getvalue()
    finally:
        for lease in leases:
            lease.close()


def parse_key(store: ReadableStore, text: str) -> Any:
    """Parse a key from text (string serdes) or JSON. Raises status 400 for an invalid key."""
    serde = store.key_serde
    try:
        key = from_json(text if is_text(serde) else parse_json(text), serde)
        if key is None:
            raise ValueError("a key cannot be null")
        _raw(store, key)
    except (ValueError, TypeError, RecursionError, SerializationError, AttributeError, OverflowError, KeyError) as exc:
        how = "text" if is_text(serde) else "JSON"
        raise HttpError(
            400, f"{text[:200]!r} is not a key of store {store.name}, whose keys are {how} for {serde!r}: {exc}"
        ) from exc
    return key


def parse_read(store: ReadableStore, text: str | None) -> TableRead:
    """Parse the selection of rows."""
    if not text:
        return ALL
    try:
        return TableRead.from_text(text, key_format_of(store.key_serde))
    except ValueError as exc:
        raise HttpError(400, f"read={text[:200]!r} is not a valid selection of store {store.name}: {exc}") from exc


def parse_columns(store: ReadableStore, text: str | None) -> Columns:
    """Parse the selection of columns, in order."""
    known = dict(columns_of(store))
    wanted = text.split(",") if text else list(known)
    if not {*wanted} <= {*known} or len({*wanted}) < len(wanted):
        raise HttpError(400, f"columns={str(text)[:200]!r}: store {store.name} has {', '.join(known)}")
    return [(name, known[name]) for name in wanted]


def parse_flag(parameters: Parameters, name: str) -> bool:
    """Parse a boolean parameter."""
    text = parameters.get(name, "").lower()
    if text not in ("", "true", "false"):
        raise HttpError(400, f"{name}={text[:50]!r} is neither true nor false")
    return text == "true"


def parse_limit(parameters: Parameters, most: int = MAX_LIMIT) -> int:
    """Parse the number of entries, limited to `most`."""
    text = parameters.get("limit") or str(DEFAULT_LIMIT)
    if not text.isascii() or not text.isdigit() or len(text) > 9 or int(text) < 1:
        raise HttpError(400, f"limit={text[:50]!r} is not a number from 1 to {MAX_LIMIT}")
    return min(int(text), most)


def parse_time(parameters: Parameters, name: str, default: int) -> int:
    """Parse a time in milliseconds."""
    text = parameters.get(name)
    if not text:
        return default
    digits = text.removeprefix("-")
    if not digits.isascii() or not digits.isdigit() or len(digits) > 19 or abs(int(text)) > MAX_TIME:
        raise HttpError(400, f"{name}={text[:50]!r} is not a time in milliseconds since the epoch")
    return max(0, int(text))


def _raw(store: ReadableStore, key: Any) -> bytes:
    serialize = as_serializer(store.key_serde)
    assert serialize is not None
    raw = serialize(store.changelog or store.name, key)
    if raw is None:
        raise ValueError("its serializer returned None")
    return bytes(raw)


def _get(typed: Any, store: ReadableStore, key: Any, parameters: Parameters) -> Entry | None:
    if store.kind == "versioned":
        as_of = parse_time(parameters, "as_of", MAX_TIME) if parameters.get("as_of") else None
        record = typed.get(key, as_of)
        return None if record is None else Entry(key, record.value, record.timestamp)
    value = typed.get(key)
    return None if value is None else entry(key, value, store.values)


def _page(typed: Any, store: ReadableStore, low: Any, high: Any) -> Iterator[tuple[bytes, Any, Json | None]]:
    with typed.range(low, high) as entries:
        for key, value in until_deadline(entries):
            found, shown = entry(key, value, store.values), as_json(key)
            answer = {"key": shown, "value": as_json(found.value)}
            yield _raw(store, key), shown, answer if found.timestamp is None else {**answer, "timestamp": found.timestamp}


def _page_of_other(store: ReadableStore, answer: Json) -> Iterator[tuple[bytes, Any, Json | None]]:
    """Yield another instance's entries, then the next key without an entry if it has more."""
    for found in answer["entries"]:
        yield _raw(store, from_json(found["key"], store.key_serde)), found["key"], found
    following = answer.get("next")
    if following is not None:
        yield _raw(store, from_json(following, store.key_serde)), following, None


def _first_page(found: Iterable[tuple[Json | None, Any]], limit: int) -> Json:
    """Return the first entries within `limit` and `MAX_ANSWER_BYTES`, and the place of the next one.

    `found` has entries with their places. A None entry means that more entries must be requested.
    """
    entries: list[Json] = []
    size = 0
    for one, place in found:
        size += 0 if one is None else size_of(one)
        if one is None or len(entries) == limit or (entries and size > MAX_ANSWER_BYTES):
            return {"entries": entries, "next": place}
        entries.append(one)
    return {"entries": entries, "next": None}


class _OldestWindows:
    """Keeps the oldest of all added windows: one page."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._kept: list[tuple[int, int, int, int, Json]] = []  # a heap with the latest window first
        self._size = self._added = 0
        self._next: int | None = None

    def add(self, one: Entry) -> None:
        """Add a window if it is among the oldest. Later ones are dropped if the page is full."""
        start, end = one.window_start or 0, one.window_end or 0
        if self._next is not None and start >= self._next:
            return
        shown = {
            "key": as_json(one.key),
            "start": one.window_start,
            "end": one.window_end,
            "value": as_json(one.value),
            **({} if one.timestamp is None else {"timestamp": one.timestamp}),
        }
        self._added += 1
        size = size_of(shown)
        heappush(self._kept, (-start, -end, -self._added, size, shown))
        self._size += size
        while len(self._kept) > self._limit or (self._size > MAX_ANSWER_BYTES and len(self._kept) > 1):
            latest = heappop(self._kept)
            self._size -= latest[3]
            self._next = -latest[0]

    def page(self) -> Json:
        """Return the kept windows, oldest first, and the start of the first dropped one."""
        oldest_first = sorted(self._kept, key=lambda found: found[:3], reverse=True)
        return {"entries": [found[4] for found in oldest_first], "next": self._next}


def size_of(entry: Json) -> int:
    """Return the size of an entry in an answer."""
    return len(json.dumps(entry, ensure_ascii=False).encode("utf-8", "backslashreplace"))


def _windows(typed: Any, store: ReadableStore, key: Any, low: int, high: int) -> Iterator[Json]:
    if store.kind == "session":
        with typed.find_sessions(key, low, high) as sessions:
            for windowed, value in until_deadline(sessions):
                found = entry(key, value, store.values, session=True)
                yield {
                    "key": as_json(key),
                    "start": windowed.window.start,
                    "end": windowed.window.end,
                    "value": as_json(found.value),
                }
        return
    size = store.window_size or 0
    with typed.fetch_range(key, low, high) as windows:
        for start, value in until_deadline(windows):
            found = entry(key, value, store.values)
            answer = {"key": as_json(key), "start": start, "end": min(start + size, MAX_TIME), "value": as_json(found.value)}
            yield answer if found.timestamp is None else {**answer, "timestamp": found.timestamp}
