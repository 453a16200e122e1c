"""What the query server answers, free of HTTP: from local state, or by asking the instance that has it."""

from __future__ import annotations

import contextlib
import heapq
import io
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from functools import partial
from itertools import islice
from typing import Any
from urllib.parse import quote

import pyarrow as pa

from penstock.client.queries.queries import Queries
from penstock.client.web.errors import HttpError, http_error
from penstock.client.web.forwarding import Forwarder
from penstock.errors import PenstockError, SerializationError, StreamsRebalancingError
from penstock.ids import TaskId
from penstock.query.columns import as_json, from_json, is_text, sql_type
from penstock.query.metadata import HostInfo
from penstock.runtime.queries.arrow_table import Columns, batches_of, columns_of, schema_of
from penstock.runtime.queries.entries import MAX_TIME, Entry, all_entries, entry
from penstock.runtime.queries.opening import ReadableStore
from penstock.runtime.queries.partition import Lease, StorePartition
from penstock.serde_codecs import parse_json
from penstock.serdes import as_serializer

DEFAULT_LIMIT, MAX_LIMIT = 100, 1_000

Parameters = Mapping[str, str]
Json = dict[str, Any]


class Answers:
    """One method for each path. `forwarded` says that another instance asks: it gets what is here and nothing else."""

    def __init__(self, queries: Queries, here: HostInfo, forwarder: Forwarder) -> None:
        self._queries = queries
        self._here = here
        self._forward = forwarder

    # -- paths ---------------------------------------------------------------------------------------------------------

    def stores(self) -> Json:
        """Names, kinds, partitions, hosts."""
        found, stores = [], self._queries.stores
        for name in stores.names:
            try:
                store = stores.store(name)
            except Exception:  # noqa: BLE001, S112 - a buffer, or a kind of the user's own: not for queries
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

    def key(self, name: str, text: str, parameters: Parameters, forwarded: bool) -> Json:
        """The value of a key."""
        store = self._store(name)
        if store.kind not in ("key_value", "versioned"):
            raise HttpError(400, f"store {name} has windows: ask /api/stores/{name}/windows/{{key}}")
        key = parse_key(store, text)
        task = self._task_of(store, key)
        read = partial(self._value, store, key, text, task, parameters)
        return self._read(name, task, f"keys/{quote(text, safe='')}", parameters, forwarded, read)

    def key_at_once(self, name: str, text: str, parameters: Parameters, forwarded: bool) -> Json | None:
        """The same where it is here and nothing has to be waited for; None where it has to be asked for with patience."""
        store = self._store(name)
        if store.kind not in ("key_value", "versioned") or self._queries.stores.is_global(name):
            return None
        key = parse_key(store, text)
        task = self._task_of(store, key)
        if self._elsewhere(task, forwarded) is not None:
            return None
        local = self._queries.stores.active(name, task)
        lease = local.reader.lease_at_once() if local is not None and local.running else None
        if lease is None:
            return None
        with lease:
            return self._value(store, key, text, task, parameters, lease.store)

    def _value(self, store: ReadableStore, key: Any, text: str, task: TaskId | None, parameters: Parameters, typed: Any) -> Json:
        found = _get(typed, store, key, parameters)
        if found is None:
            raise HttpError(404, f"store {store.name} has no key {text}")
        return {
            "key": as_json(key),
            "value": as_json(found.value),
            "timestamp": found.timestamp,
            "partition": None if task is None else task.partition,
            "host": str(self._here),
        }

    def range(self, name: str, parameters: Parameters, forwarded: bool) -> Json:
        """Entries between two keys in the order of the keys' bytes; `next` is the key to go on `from`."""
        store = self._store(name)
        if store.kind != "key_value":
            raise HttpError(400, f"store {name} is a {store.kind} store: only key-value stores have ranges of keys")
        limit = parse_limit(parameters, MAX_LIMIT + forwarded)
        low = parse_key(store, parameters["from"]) if parameters.get("from") else None
        high = parse_key(store, parameters["to"]) if parameters.get("to") else None
        if low is not None and high is not None and _raw(store, low) > _raw(store, high):
            raise HttpError(400, "the range ends before it begins: `from` is after `to` in the order of the keys' bytes")
        sources: list[Iterable[tuple[bytes, Json]]] = []
        leases: list[Lease] = []
        try:
            for partition in self._local(name):
                lease = partition.lease()
                leases.append(lease)
                sources.append(_page(lease.store, store, low, high, limit + 1))
            if not forwarded:
                sources += self._pages_of_others(store, parameters, limit)
            merged = list(islice(heapq.merge(*sources, key=lambda found: found[0]), limit + 1))
        finally:
            for lease in leases:
                lease.close()
        following = merged[limit][1]["key"] if len(merged) > limit else None
        return {"entries": [found for _, found in merged[:limit]], "next": following}

    def windows(self, name: str, text: str, parameters: Parameters, forwarded: bool) -> Json:
        """The windows or sessions of a key in a range of time, oldest first."""
        store = self._store(name)
        if store.kind not in ("window", "session"):
            raise HttpError(400, f"store {name} has no windows: ask /api/stores/{name}/keys/{{key}}")
        key = parse_key(store, text)
        low, high = parse_time(parameters, "from", 0), parse_time(parameters, "to", MAX_TIME)
        if low > high:
            raise HttpError(400, f"the range ends before it begins: from={low}, to={high}")
        limit = parse_limit(parameters)

        def read(typed: Any) -> Json:
            found = list(islice(_windows(typed, store, key, low, high), limit + 1))
            return {"entries": found[:limit], "next": found[limit]["start"] if len(found) > limit else None}

        return self._read(name, self._task_of(store, key), f"windows/{quote(text, safe='')}", parameters, forwarded, read)

    def table(self, name: str, parameters: Parameters) -> Generator[bytes, None, None]:
        """What is here of a store, all or one partition, as the parts of an Arrow stream; each partition is of one commit."""
        store = self._store(name)
        columns = columns_of(store)
        leases: list[Lease] = []
        try:
            leases.extend(partition.lease() for partition in self._wanted(name, parameters.get("partition")))
        except BaseException:
            for lease in leases:
                lease.close()
            raise
        stream = _arrow_stream(leases, columns)
        next(stream)  # from now on it gives the leases back, even if nobody reads it
        return stream

    def metadata(self, name: str, text: str) -> Json:
        """Where a key is."""
        store = self._store(name)
        found = self._queries.metadata_for_key(name, parse_key(store, text), store.key_serde)
        if found.active_host == HostInfo.unavailable():
            raise HttpError(503, f"the group has not told yet who holds this key of store {name}; ask again later")
        standbys = sorted(str(host) for host in found.standby_hosts)
        return {"partition": found.partition, "active": str(found.active_host), "standbys": standbys}

    # -- where ---------------------------------------------------------------------------------------------------------

    def _read(
        self,
        name: str,
        task: TaskId | None,
        path: str,
        parameters: Parameters,
        forwarded: bool,
        read: Callable[[Any], Json],
    ) -> Json:
        """Read here, or let the instance do it that has the task.

        Where neither can be done now, callers that allow it (`stale=true`) get what a copy has, and are told so.
        """
        try:
            elsewhere = self._elsewhere(task, forwarded)
            if elsewhere is not None:
                return self._forward.get(elsewhere, f"/api/stores/{quote(name, safe='')}/{path}", parameters)
            with self._lease(name, task) as lease:
                return read(lease.store)
        except (HttpError, PenstockError) as exc:
            if http_error(exc).status != 503 or not parse_flag(parameters, "stale"):
                raise
            copy = next((local.reader for local in self._queries.stores.partitions(name) if local.reader.task_id == task), None)
            if copy is not None:
                with copy.lease() as lease:
                    return {**read(lease.store), "stale": True}
            return self._read_standby(name, task, path, parameters, forwarded, exc)

    def _read_standby(
        self, name: str, task: TaskId | None, path: str, parameters: Parameters, forwarded: bool, reason: Exception
    ) -> Json:
        """What another instance's copy has; the reason why it is needed where there is none."""
        for host in () if task is None or forwarded else self._queries.locations.standby_hosts_of(task):
            if host != self._here:
                with contextlib.suppress(HttpError):
                    return self._forward.get(host, f"/api/stores/{quote(name, safe='')}/{path}", parameters)
        raise reason

    def _store(self, name: str) -> ReadableStore:
        """A store of an application that runs."""
        self._queries.check_running()
        return self._queries.stores.store(name)

    def _task_of(self, store: ReadableStore, key: Any) -> TaskId | None:
        """The task of a key; None where every instance has all of the store."""
        if self._queries.stores.is_global(store.name):
            return None
        return self._queries.locations.task_of_key(store.name, key, store.key_serde)

    def _elsewhere(self, task: TaskId | None, forwarded: bool) -> HostInfo | None:
        """The other instance that has a task; None where it is here, or has to be."""
        if task is None or forwarded:
            return None
        host = self._queries.locations.host_of(task)
        return None if host in (self._here, HostInfo.unavailable()) else host

    def _local(self, name: str) -> list[StorePartition]:
        """The local partitions that may be read, which is all there are."""
        found = self._queries.stores.partitions(name)
        if any(not local.running for local in found if local.active):
            raise StreamsRebalancingError(f"store {name} is being opened or restored; ask again later")
        return [local.reader for local in found if local.active]

    def _wanted(self, name: str, partition: str | None) -> list[StorePartition]:
        if not partition:
            return self._local(name)
        if not partition.isascii() or not partition.isdigit() or len(partition) > 9:
            raise HttpError(400, f"partition={partition[:50]!r} is not the number of a partition")
        found = [local for local in self._queries.stores.partitions(name) if local.active and local.partition == int(partition)]
        if not found:
            raise HttpError(503, f"partition {partition} of store {name} is not here now; ask again later")
        if not found[0].running:
            raise StreamsRebalancingError(f"partition {partition} of store {name} is being opened or restored; ask again later")
        return [found[0].reader]

    def _lease(self, name: str, task: TaskId | None) -> Lease:
        local = self._queries.stores.active(name, task)
        if local is None:
            raise HttpError(
                503, f"partition {task.partition if task else 0} of store {name} is not here now: it moves; ask again later"
            )
        if not local.running:
            raise StreamsRebalancingError(
                f"partition {local.partition} of store {name} is being opened or restored; ask again later"
            )
        return local.reader.lease()

    def _pages_of_others(self, store: ReadableStore, parameters: Parameters, limit: int) -> list[list[tuple[bytes, Json]]]:
        if self._queries.stores.is_global(store.name):
            return []
        locations = self._queries.locations
        hosts = {locations.host_of(task) for task in self._queries.stores.tasks_of(store.name)} - {self._here}
        if HostInfo.unavailable() in hosts:
            local = {reader.task_id for reader in self._local(store.name)}
            if set(self._queries.stores.tasks_of(store.name)) - local:
                raise HttpError(503, f"some partitions of store {store.name} have no known host now; ask again later")
            hosts.discard(HostInfo.unavailable())
        pages = []
        for host in sorted(hosts):
            asked = {**parameters, "limit": str(limit + 1)}
            page = self._forward.get(host, f"/api/stores/{quote(store.name, safe='')}/range", asked)
            pages.append([(_raw(store, from_json(found["key"], store.key_serde)), found) for found in page["entries"]])
        return pages


def _arrow_stream(leases: list[Lease], columns: Columns) -> Generator[bytes, None, None]:
    sink = io.BytesIO()
    try:
        yield b""
        with pa.ipc.new_stream(sink, schema_of(columns)) as writer:
            for lease in leases:
                for batch in batches_of(all_entries(lease.store), columns):
                    writer.write_batch(batch)
                    yield sink.getvalue()
                    sink.seek(0)
                    sink.truncate()
        yield sink.getvalue()
    finally:
        for lease in leases:
            lease.close()


def parse_key(store: ReadableStore, text: str) -> Any:
    """A key from its text (string serdes) or JSON; raises with status 400 where it does not fit the store."""
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


def parse_flag(parameters: Parameters, name: str) -> bool:
    """Whether something is wanted."""
    text = parameters.get(name, "").lower()
    if text not in ("", "true", "false"):
        raise HttpError(400, f"{name}={text[:50]!r} is neither true nor false")
    return text == "true"


def parse_limit(parameters: Parameters, most: int = MAX_LIMIT) -> int:
    """How many entries a page has; more than the most is cut to it."""
    text = parameters.get("limit") or str(DEFAULT_LIMIT)
    if not text.isascii() or not text.isdigit() or len(text) > 9 or int(text) < 1:
        raise HttpError(400, f"limit={text[:50]!r} is not a number from 1 to {MAX_LIMIT}")
    return min(int(text), most)


def parse_time(parameters: Parameters, name: str, default: int) -> int:
    """A time in milliseconds."""
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
        raise ValueError("its serializer gave nothing")
    return bytes(raw)


def _get(typed: Any, store: ReadableStore, key: Any, parameters: Parameters) -> Entry | None:
    if store.kind == "versioned":
        as_of = parse_time(parameters, "as_of", MAX_TIME) if parameters.get("as_of") else None
        record = typed.get(key, as_of)
        return None if record is None else Entry(key, record.value, record.timestamp)
    value = typed.get(key)
    return None if value is None else entry(key, value, store.values)


def _page(typed: Any, store: ReadableStore, low: Any, high: Any, count: int) -> Iterator[tuple[bytes, Json]]:
    with typed.range(low, high) as entries:
        for key, value in islice(entries, count):
            found = entry(key, value, store.values)
            answer = {"key": as_json(key), "value": as_json(found.value)}
            yield _raw(store, key), answer if found.timestamp is None else {**answer, "timestamp": found.timestamp}


def _windows(typed: Any, store: ReadableStore, key: Any, low: int, high: int) -> Iterator[Json]:
    if store.kind == "session":
        with typed.find_sessions(key, low, high) as sessions:
            for windowed, value in sessions:
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
        for start, value in windows:
            found = entry(key, value, store.values)
            answer = {"key": as_json(key), "start": start, "end": min(start + size, MAX_TIME), "value": as_json(found.value)}
            yield answer if found.timestamp is None else {**answer, "timestamp": found.timestamp}
