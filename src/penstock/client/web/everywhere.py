"""Reads a store across all instances.

An answer is given only if all partitions were read: each instance lists the partitions that it has read. During a rebalance a
partition may have no owner or two owners for a moment; then the answer is 503.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from penstock.client.queries.queries import Queries
from penstock.client.web.errors import HttpError, http_error
from penstock.client.web.forwarding import Forwarder
from penstock.errors import PenstockError, StreamsRebalancingError
from penstock.ids import TaskId
from penstock.query.metadata import HostInfo
from penstock.runtime.queries.opening import ReadableStore
from penstock.runtime.queries.partition import Lease, StorePartition

BEYOND_HOME = "beyond_home"
"""The parameter of a request between instances for keys outside of their default partition."""

Json = dict[str, Any]
Page = Iterable[tuple[bytes, Any, Json | None]]
"""Serialized key, key as JSON, entry. A None entry means that the instance has more entries from this key on."""


@dataclass(frozen=True)
class Asked:
    """A request in the form for other instances: the path below the store's, and the parameters.

    `forwarded`: another instance asks and gets local results only. `beyond_home`: it has already read the key's default
    partition. `stale`: standbys may answer.
    """

    store: ReadableStore
    path: str
    parameters: Mapping[str, str]
    forwarded: bool
    stale: bool = False
    beyond_home: bool = False


@dataclass(frozen=True)
class Found:
    """An answer (None if no partition has one), and the partitions that were read."""

    answer: Json | None
    partitions: frozenset[int]


class Everywhere:
    """Reads all partitions of a store, on this and other instances."""

    def __init__(self, queries: Queries, here: HostInfo, forwarder: Forwarder) -> None:
        self._queries = queries
        self._here = here
        self._forward = forwarder

    # -- one key -------------------------------------------------------------------------------------------------------

    def task_of(self, store: ReadableStore, key: Any) -> TaskId | None:
        """Return the task of a key by the default partitioner, None for a global store."""
        if self._queries.stores.is_global(store.name):
            return None
        return self._queries.locations.task_of_key(store.name, key, store.key_serde)

    def find(self, asked: Asked, home: TaskId | None, read: Callable[[Any, TaskId | None], Json | None]) -> Found:
        """Return the first partition's answer: the key's default partition, then all others.

        Other partitions may have the key if a user's partitioner, or a producer that ignores keys, chose the partition.
        """
        if home is None:
            with self._lease(asked.store.name, None) as lease:
                return Found(read(lease.store, None), frozenset())
        looked: set[int] = set()
        missed: dict[HostInfo | None, HttpError] = {}
        for task in self._in_order(asked, home):
            if task.partition in looked:
                continue
            try:
                found = self._look(asked, task, home, read, missed)
            except (HttpError, PenstockError) as exc:
                error = http_error(exc)
                if error.status != 503 or task == home:
                    raise
                missed.setdefault(self._elsewhere(task, asked.forwarded), error)
                continue
            looked |= found.partitions
            if found.answer is not None:
                return Found(found.answer, frozenset(looked))
        if missed and not asked.forwarded:
            raise HttpError(
                503,
                f"it is not in partitions {_listed(looked)} of store {asked.store.name}, and the others cannot be read now: "
                f"{next(iter(missed.values())).reason}",
            )
        return Found(None, frozenset(looked))

    def _in_order(self, asked: Asked, home: TaskId) -> Iterator[TaskId]:
        """Yield tasks in reading order: the key's default, local ones, then remote ones. A forwarded request reads local ones
        only.
        """
        if not asked.beyond_home:
            yield home
        name, stores = asked.store.name, self._queries.stores
        others = [task for task in stores.tasks_of(name) if task != home]
        here = stores.owned(name)
        if asked.stale:
            here |= {local.reader.task_id for local in stores.partitions(name)}
        yield from (task for task in others if task in here)
        if not asked.forwarded:
            yield from (task for task in others if task not in here)

    def _look(
        self,
        asked: Asked,
        task: TaskId,
        home: TaskId,
        read: Callable[[Any, TaskId | None], Json | None],
        missed: Mapping[HostInfo | None, HttpError],
    ) -> Found:
        """Read a task's partition, locally or through its instance, which reads all its partitions.

        If neither is possible now and `stale` is set, read a standby; the answer is marked as stale.
        """
        try:
            elsewhere = self._elsewhere(task, asked.forwarded)
            if elsewhere is not None:
                if elsewhere in missed:
                    raise missed[elsewhere]
                return self._ask(asked, elsewhere, task, home)
            with self._lease(asked.store.name, task) as lease:
                return Found(read(lease.store, task), frozenset({task.partition}))
        except (HttpError, PenstockError) as exc:
            if http_error(exc).status != 503 or not asked.stale:
                raise
            return self._look_into_copy(asked, task, home, read, exc)

    def _look_into_copy(
        self,
        asked: Asked,
        task: TaskId,
        home: TaskId,
        read: Callable[[Any, TaskId | None], Json | None],
        reason: Exception,
    ) -> Found:
        """Read a standby, here or on another instance. Without one, raise `reason`."""
        copies = (local.reader for local in self._queries.stores.partitions(asked.store.name))
        copy = next((reader for reader in copies if reader.task_id == task), None)
        if copy is not None:
            with copy.lease() as lease:
                found = read(lease.store, task)
            return Found(None if found is None else {**found, "stale": True}, frozenset({task.partition}))
        for host in () if asked.forwarded else self._queries.locations.standby_hosts_of(task):
            if host != self._here:
                try:
                    return self._ask(asked, host, task, home)
                except HttpError:
                    continue
        raise reason

    def _ask(self, asked: Asked, host: HostInfo, task: TaskId, home: TaskId) -> Found:
        """Return another instance's answer. It should have read the task's partition."""
        target = f"/api/stores/{quote(asked.store.name, safe='')}/{asked.path}"
        beyond = {} if task == home else {BEYOND_HOME: "true"}
        try:
            answer = self._forward.get(host, target, {**asked.parameters, **beyond})
            told, empty = answer.pop("partitions", None), answer.get("entries") == []
        except HttpError as exc:
            if exc.status != 404:
                raise
            answer, told, empty = {}, exc.partitions, True
        # An instance of an older version reads only the key's default partition, and does not list it.
        partitions = _partitions(told, host) if told is not None else frozenset({home.partition} if task == home else ())
        if empty and task.partition not in partitions:
            raise HttpError(503, f"partition {task.partition} of store {asked.store.name} is not at {host} now; ask again later")
        return Found(None if empty else answer, partitions)

    # -- many keys -----------------------------------------------------------------------------------------------------

    def merged(
        self, asked: Asked, page: Callable[[Any], Page], page_of_other: Callable[[Json], Page], take: Callable[[Page], Json]
    ) -> tuple[Json, frozenset[int]]:
        """Return the result of `take` on the sorted entries of all partitions, and the local partitions."""
        name = asked.store.name
        readers = self.local(name)
        here = frozenset(reader.partition for reader in readers)
        alone = asked.forwarded or self._queries.stores.is_global(name)
        # Others are asked first, so that no lease is held while waiting.
        pages = [] if alone else [page_of_other(answer) for answer in self._answers_of_others(asked, here)]
        with ExitStack() as leases:
            pages += [page(leases.enter_context(reader.lease()).store) for reader in readers]
            if {reader.partition for reader in self.local(name)} != here:
                raise StreamsRebalancingError(f"partitions of store {name} have moved while it was read; ask again later")
            return take(heapq.merge(*pages, key=lambda found: found[0])), here

    def _answers_of_others(self, asked: Asked, here: frozenset[int]) -> list[Json]:
        """Return the answers of other instances. With the local partitions they must cover every partition once."""
        name, locations = asked.store.name, self._queries.locations
        tasks = self._queries.stores.tasks_of(name)
        missing = {task.partition: locations.host_of(task) for task in tasks if task.partition not in here}
        nowhere = [partition for partition, host in missing.items() if host in (self._here, HostInfo.unavailable())]
        if nowhere:
            raise HttpError(503, f"partitions {_listed(nowhere)} of store {name} have no known host now; ask again later")
        looked, pages = list(here), []
        for host in sorted(set(missing.values())):
            answer = self._forward.get(host, f"/api/stores/{quote(name, safe='')}/{asked.path}", asked.parameters)
            looked += _partitions(answer.get("partitions", ()), host)
            pages.append(answer)
        if sorted(looked) != sorted(task.partition for task in tasks):
            raise HttpError(
                503,
                f"partitions of store {name} are being moved between instances ({_listed(looked)} were read); ask again later",
            )
        return pages

    # -- here ----------------------------------------------------------------------------------------------------------

    def local(self, name: str) -> list[StorePartition]:
        """Return the readers of all local active partitions. Raises if one is not ready."""
        found = self._queries.stores.partitions(name)
        if any(not local.running for local in found if local.active):
            raise StreamsRebalancingError(f"store {name} is being opened or restored; ask again later")
        return [local.reader for local in found if local.active]

    def is_elsewhere(self, task: TaskId | None, forwarded: bool) -> bool:
        """Return True if another instance owns the task."""
        return self._elsewhere(task, forwarded) is not None

    def _elsewhere(self, task: TaskId | None, forwarded: bool) -> HostInfo | None:
        """Return the other instance that owns a task. None if it is local or must be."""
        if task is None or forwarded:
            return None
        host = self._queries.locations.host_of(task)
        return None if host in (self._here, HostInfo.unavailable()) else host

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


def _partitions(told: Any, host: HostInfo) -> frozenset[int]:
    if not isinstance(told, list | tuple) or not all(type(partition) is int for partition in told):
        raise HttpError(502, f"the instance at {host} did not list the partitions that it has read")
    return frozenset(told)


def _listed(partitions: Iterable[int]) -> str:
    return ", ".join(map(str, sorted(partitions))) or "none"
