"""A real single-node Kafka (KRaft) for development and tests, without Docker or Maven."""

from __future__ import annotations

import base64
import os
import shlex
import shutil
import socket
import subprocess
import tempfile
import time
import uuid
from collections.abc import Mapping
from pathlib import Path

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from penstock.errors import BrokerError
from penstock.kafka.broker_jars import broker_class_path
from penstock.kafka.guard import GuardedProcess

_HOST = "127.0.0.1"
_FORMAT_SECONDS = 120.0  # it takes about 1 s

_SERVER = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "4",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "group.initial.rebalance.delay.ms": "0",
    # A killed broker can register again only after its old session has expired: 2 s instead of 9.
    "broker.session.timeout.ms": "2000",
    "broker.heartbeat.interval.ms": "500",
    "auto.create.topics.enable": "false",
    "num.partitions": "1",
    "log.cleaner.dedupe.buffer.size": "16777216",
}

_LOGGING = """status = error
appender.file.type = File
appender.file.name = file
appender.file.fileName = {log}
appender.file.layout.type = PatternLayout
appender.file.layout.pattern = %d %p %m (%c)%n
rootLogger.level = warn
rootLogger.appenderRef.file.ref = file
"""


class DevBroker:
    """A Kafka broker on this machine.

    Also a context manager. Without `data_dir` its data are in a temporary folder, which `stop` removes. With `data_dir`, a
    broker that was stopped or killed continues with its data. `overrides` are settings of Kafka's `server.properties`; the
    environment variable `KAFKA_OPTS` has options for its JVM.

        with DevBroker() as broker:
            KafkaStreams(topology, {"application.id": "demo", "bootstrap.servers": broker.bootstrap_servers})
    """

    # Overridden for the brokers of a cluster, see dev_cluster.py.
    _controller, _cluster_id, _heap = 0, "", "768m"

    def __init__(
        self, port: int = 0, data_dir: str | os.PathLike[str] | None = None, *, overrides: Mapping[str, str] | None = None
    ) -> None:
        self._port = port
        self._overrides = dict(overrides or {})
        self._temporary = data_dir is None
        self._data_dir = None if data_dir is None else Path(data_dir)
        self._process: GuardedProcess | None = None

    @property
    def bootstrap_servers(self) -> str:
        """`host:port` for `bootstrap.servers`."""
        if self._port == 0:
            raise BrokerError("the development broker has no address yet. Call start() first")
        return f"{_HOST}:{self._port}"

    @property
    def is_running(self) -> bool:
        """True while the broker's process is alive."""
        return self._process is not None and self._process.is_running

    def start(self, timeout: float = 60.0) -> DevBroker:
        """Start the broker and return when it answers. Does nothing if the broker runs.

        1. Find the jars (downloaded on a user's first start) and two free ports.
        2. Format the data folder, unless it was used before.
        3. Start the broker. A guard ends it with this process.
        4. Wait until it answers.
        """
        if not self.is_running:
            self._begin()
            try:
                self._wait_until_it_answers(time.monotonic() + timeout)
            except BaseException:
                self.kill()
                raise
        return self

    def _begin(self) -> None:
        """Run the steps 1 to 3 of a start."""
        class_path = broker_class_path()
        self._port = self._port or free_port()
        if self._data_dir is None:
            self._data_dir = Path(tempfile.mkdtemp(prefix="penstock-broker-"))
        (self._data_dir / "tmp").mkdir(parents=True, exist_ok=True)
        properties = self._write_properties(self._data_dir)
        self._format(class_path, properties)
        self._process = self._launch(class_path, properties)

    def stop(self, timeout: float = 30.0) -> None:
        """Stop cleanly, or by force after `timeout`. Temporary data are removed."""
        if self._process is not None:
            self._process.stop(timeout)
            self._process = None
        if self._data_dir is not None:
            shutil.rmtree(self._data_dir if self._temporary else self._data_dir / "tmp", ignore_errors=True)
            self._data_dir = None if self._temporary else self._data_dir

    def kill(self) -> None:
        """Kill the broker, as a crash would. `start()` continues with its data."""
        if self._process is not None:
            self._process.kill()
            self._process = None

    def __enter__(self) -> DevBroker:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    # -- steps of start ------------------------------------------------------------------------------------------------

    def _write_properties(self, folder: Path) -> Path:
        controller = self._controller or free_port()
        settings = {
            **_SERVER,
            "controller.quorum.voters": f"1@{_HOST}:{controller}",
            "listeners": f"PLAINTEXT://{_HOST}:{self._port},CONTROLLER://{_HOST}:{controller}",
            "advertised.listeners": f"PLAINTEXT://{_HOST}:{self._port}",
            "log.dirs": str(folder / "data"),
            **{
                key: value.replace("{port}", str(self._port)).replace("{controller}", str(controller))
                for key, value in self._overrides.items()
            },
        }
        (folder / "log4j2.properties").write_text(_LOGGING.format(log=folder / "broker.log"))
        properties = folder / "server.properties"
        properties.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        return properties

    def _format(self, class_path: str, properties: Path) -> None:
        if (properties.parent / "data" / "meta.properties").exists():
            return
        cluster_id = self._cluster_id or new_cluster_id()
        # Without optimised compilation: half the time for a program that runs for a second.
        command = [*_java(properties.parent), "-XX:TieredStopAtLevel=1", "-cp", class_path, "kafka.tools.StorageTool"]
        formatting = [*command, "format", f"--cluster-id={cluster_id}", "-c", str(properties)]
        try:
            done = subprocess.run(  # noqa: S603 - java of the PATH, with the caller's settings
                formatting, capture_output=True, text=True, check=False, timeout=_FORMAT_SECONDS
            )
        except subprocess.TimeoutExpired as exc:
            raise BrokerError(
                f"Formatting {properties.parent / 'data'} for the development broker took longer than {_FORMAT_SECONDS:.0f} s"
            ) from exc
        if done.returncode != 0:
            said = "\n".join(line for line in done.stderr.strip().splitlines() if not line.startswith("\tat "))
            raise BrokerError(f"Formatting {properties.parent / 'data'} for the development broker failed: {said[-500:]}")

    def _launch(self, class_path: str, properties: Path) -> GuardedProcess:
        command = [*_java(properties.parent), f"-Xmx{self._heap}", "-cp", class_path, "kafka.Kafka", str(properties)]
        return GuardedProcess(command, properties.parent / "broker.out")

    def _wait_until_it_answers(self, deadline: float) -> None:
        """Wait for an answer: step 4 of a start."""
        if self._overrides.get("listener.security.protocol.map"):
            answers = self._port_is_open  # a secured listener needs a client with its settings
        else:
            admin = AdminClient({"bootstrap.servers": self.bootstrap_servers, "log_level": 0, "reconnect.backoff.max.ms": 100})

            def answers() -> bool:
                try:
                    return bool(admin.list_topics(timeout=0.5).brokers)
                except KafkaException:
                    return False

        while not answers():
            if not self.is_running or time.monotonic() > deadline:
                raise BrokerError(f"the development broker does not answer on {self.bootstrap_servers}: {self._last_words()}")
            time.sleep(0.02)

    def _port_is_open(self) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex((_HOST, self._port)) == 0

    def _last_words(self) -> str:
        assert self._data_dir is not None
        written = "\n".join(path.read_text(errors="replace")[-800:] for path in self._data_dir.glob("broker.*"))
        return written.strip() or "it logged nothing"


def _java(folder: Path) -> list[str]:
    java = shutil.which("java")
    if java is None:
        raise BrokerError("the development broker needs Java 17 or newer on the PATH")
    options = shlex.split(os.environ.get("KAFKA_OPTS", ""))  # as in Kafka's own scripts
    # The JVM unpacks native libraries into its temporary folder, so a killed broker's are removed with its data.
    folders = (f"-Dlog4j2.configurationFile={folder / 'log4j2.properties'}", f"-Djava.io.tmpdir={folder / 'tmp'}")
    return [java, *folders, *options]


def new_cluster_id() -> str:
    """Return a random UUID in Kafka's format."""
    return base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind((_HOST, 0))
        port: int = probe.getsockname()[1]
        return port
