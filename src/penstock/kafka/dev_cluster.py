"""Several Kafka brokers that replicate each other, for tests with broker failures."""

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
    "broker.session.timeout.ms": "6000",  # a single broker has 2 s; on a busy machine that would fence healthy brokers
    "num.network.threads": "2",
    "num.io.threads": "4",
    "log.cleaner.threads": "1",
}


class _Member(DevBroker):
    """One broker of a cluster, which is also a controller."""

    _heap = "320m"

    def __init__(self, folder: Path, port: int, controller: int, cluster_id: str, overrides: Mapping[str, str]) -> None:
        super().__init__(port, folder, overrides=overrides)
        self._controller, self._cluster_id = controller, cluster_id

    def begin(self) -> None:
        """Start without waiting: no broker answers before a majority runs."""
        self._begin()

    def wait(self, deadline: float) -> None:
        self._wait_until_it_answers(deadline)


class DevCluster:
    """Kafka brokers on this machine, three by default, each a process.

    Topics have a replica on each broker and accept writes while at most one broker is missing (`min.insync.replicas`).
    Otherwise like `DevBroker`: a context manager, with data in a temporary folder or in `data_dir`, and settings of Kafka's
    `server.properties` in `overrides`.

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
        """The addresses of all brokers."""
        return ",".join(member.bootstrap_servers for member in self._members)

    @property
    def brokers(self) -> Sequence[DevBroker]:
        """The brokers, one by one."""
        return tuple(self._members)

    @property
    def running(self) -> list[int]:
        """Return the running brokers, counted from 0."""
        return [number for number, member in enumerate(self._members) if member.is_running]

    def start(self, timeout: float = 120.0) -> DevCluster:
        """Start the brokers that do not run. Returns when all answer."""
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
        """Stop all brokers cleanly, or by force after `timeout`. Temporary data are removed."""
        with ThreadPoolExecutor(len(self._members)) as threads:  # in parallel: the last brokers alone have no controller
            list(threads.map(lambda member: member.stop(timeout), self._members))
        if self._temporary:
            shutil.rmtree(self._data_dir, ignore_errors=True)

    def kill(self, number: int) -> None:
        """Kill a broker, as a crash would. `start()` continues with its data."""
        if not 0 <= number < len(self._members):
            raise BrokerError(f"Broker {number} does not exist: the development cluster has {len(self._members)}, counted from 0")
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
    """Return the settings that all brokers of a cluster share: controllers and replication.

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
    found: set[int] = set()
    while len(found) < count:
        found.add(free_port())
    return sorted(found)
