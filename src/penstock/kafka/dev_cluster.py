"""Several real Kafka brokers that replicate each other, for tests in which the death of a broker is an ordinary event."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from penstock.errors import BrokerError
from penstock.kafka.dev_broker import DevBroker, free_port, new_cluster_id

_HOST = "127.0.0.1"

_REPLICATED = {
    "auto.leader.rebalance.enable": "true",
    "leader.imbalance.check.interval.seconds": "30",
    "broker.session.timeout.ms": "6000",  # a single broker has 2 s; here a busy machine would fence those that are well
    "num.network.threads": "2",
    "num.io.threads": "4",
    "log.cleaner.threads": "1",
}


class _Member(DevBroker):
    """One broker of a cluster, which is also one of its controllers."""

    _heap = "320m"

    def __init__(self, folder: Path, port: int, controller: int, cluster_id: str, overrides: Mapping[str, str]) -> None:
        super().__init__(port, folder, overrides=overrides)
        self._controller, self._cluster_id = controller, cluster_id

    def begin(self) -> None:
        """Start, and do not wait: none answers before most are there."""
        self._begin()

    def wait(self, deadline: float) -> None:
        """Until it answers."""
        self._wait_until_it_answers(deadline)


class DevCluster:
    """Kafka brokers of your own, on this machine: three of them, unless you say otherwise, each a process.

    Topics have a replica on each broker and take writes while all but one of them are there (`min.insync.replicas`), so one
    broker of three can be away without anybody noticing. Otherwise it is like a `DevBroker`: a context manager, with its data
    in a temporary folder or in `data_dir`, and settings of Kafka's `server.properties` in `overrides`.

        with DevCluster() as cluster:
            KafkaStreams(topology, {"application.id": "demo", "bootstrap.servers": cluster.bootstrap_servers}).start()
            cluster.kill(1)
    """

    def __init__(
        self,
        brokers: int = 3,
        data_dir: str | os.PathLike[str] | None = None,
        *,
        overrides: Mapping[str, str] | None = None,
    ) -> None:
        if brokers < 1:
            raise ValueError(f"a cluster has at least one broker, not {brokers}")
        self._temporary = data_dir is None
        self._data_dir = Path(tempfile.mkdtemp(prefix="penstock-cluster-")) if data_dir is None else Path(data_dir)
        ports = _free_ports(2 * brokers)
        clients, controllers = ports[:brokers], ports[brokers:]
        settings, cluster_id = cluster_settings(controllers), new_cluster_id()
        self._members = [
            _Member(
                self._data_dir / f"broker-{number + 1}",
                clients[number],
                controllers[number],
                cluster_id,
                {**settings, "node.id": str(number + 1), **(overrides or {})},
            )
            for number in range(brokers)
        ]

    @property
    def bootstrap_servers(self) -> str:
        """All brokers, for `bootstrap.servers`."""
        return ",".join(member.bootstrap_servers for member in self._members)

    @property
    def brokers(self) -> Sequence[DevBroker]:
        """The brokers one by one."""
        return tuple(self._members)

    @property
    def running(self) -> list[int]:
        """Which brokers are alive, counted from 0."""
        return [number for number, member in enumerate(self._members) if member.is_running]

    def start(self, timeout: float = 120.0) -> DevCluster:
        """Start the brokers that do not run and return when all of them answer."""
        missing = [member for member in self._members if not member.is_running]
        deadline = time.monotonic() + timeout
        try:
            with ThreadPoolExecutor(len(self._members)) as threads:
                for begun in [threads.submit(member.begin) for member in missing]:
                    begun.result(timeout)
            for member in missing:
                member.wait(deadline)
        except BaseException:
            for member in missing:
                member.kill()
            raise
        return self

    def stop(self, timeout: float = 30.0) -> None:
        """Stop all brokers cleanly, by force after `timeout`; temporary data are removed."""
        with ThreadPoolExecutor(len(self._members)) as threads:  # the last ones alone have no controller to ask
            list(threads.map(lambda member: member.stop(timeout), self._members))
        if self._temporary:
            shutil.rmtree(self._data_dir, ignore_errors=True)

    def kill(self, number: int) -> None:
        """End a broker at once, as a crash would; `start()` lets it go on from its data."""
        if not 0 <= number < len(self._members):
            raise BrokerError(f"there is no broker {number} in a development cluster of {len(self._members)}, counted from 0")
        self._members[number].kill()

    def __enter__(self) -> DevCluster:
        try:
            return self.start()
        except BaseException:
            self.stop()
            raise

    def __exit__(self, *_: object) -> None:
        self.stop()


def cluster_settings(controllers: Sequence[int]) -> dict[str, str]:
    """What all brokers of a cluster have in common: who votes, and how much is replicated.

    >>> settings = cluster_settings([9093, 9094, 9095])
    >>> settings["controller.quorum.voters"]
    '1@127.0.0.1:9093,2@127.0.0.1:9094,3@127.0.0.1:9095'
    >>> settings["default.replication.factor"], settings["min.insync.replicas"]
    ('3', '2')
    """
    replicas, in_sync = str(len(controllers)), str(max(1, len(controllers) - 1))
    return {
        **_REPLICATED,
        "controller.quorum.voters": ",".join(f"{n}@{_HOST}:{port}" for n, port in enumerate(controllers, 1)),
        "default.replication.factor": replicas,
        "min.insync.replicas": in_sync,
        **{
            f"{topic}.replication.factor": replicas
            for topic in ("offsets.topic", "transaction.state.log", "share.coordinator.state.topic")
        },
        **{f"{topic}.min.isr": in_sync for topic in ("transaction.state.log", "share.coordinator.state.topic")},
    }


def _free_ports(count: int) -> list[int]:
    """So many different ports."""
    found: set[int] = set()
    while len(found) < count:
        found.add(free_port())
    return sorted(found)
