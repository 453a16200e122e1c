"""What the applications of a soak stand on: brokers behind lines that can be cut, disks that fill up, and hosts of Spark."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

from penstock import DevCluster
from penstock.kafka.dev_broker import free_port
from tests.harness.kafka import Kafka, wait_until
from tests.harness.line import Line

_HOST = "127.0.0.1"

# A broker that is killed and comes back while its session lasts leads its partitions twice: by what was decided before its death,
# and again when that session has ended. If its group coordinator still reads for the first time when the second begins, it takes
# the end of the first reading for that of the second, and serves groups and offsets of long ago (Kafka 4.2.2).
# Alone it is always the one that leads, so it gets time to read to the end.
_ALONE = {"broker.session.timeout.ms": "30000"}


class Brokers:
    """A cluster of brokers; instances reach each over a line of their own, and brokers each other, too."""

    def __init__(self, brokers: int, instances: int, folder: Path) -> None:
        self.cluster = DevCluster(brokers, folder, overrides={"log.retention.ms": "-1", **(_ALONE if brokers == 1 else {})})
        self._stack = ExitStack()
        names = [*(f"INSTANCE{i}" for i in range(instances)), "BETWEEN"]
        self.lines: dict[str, list[Line]] = {name: [] for name in names}
        for broker in self.cluster.brokers:
            ports = {name: free_port() for name in names}
            lines = {name: self._stack.enter_context(Line(port)) for name, port in ports.items()}
            for name, line in lines.items():
                self.lines[name].append(line)
            direct = f"PLAINTEXT://{_HOST}:{{port}}"
            broker._overrides |= {
                "listeners": ",".join(
                    [direct, *(f"{n}://{_HOST}:{p}" for n, p in ports.items()), f"CONTROLLER://{_HOST}:{{controller}}"]
                ),
                "advertised.listeners": ",".join([direct, *(f"{n}://{_HOST}:{line.port}" for n, line in lines.items())]),
                "listener.security.protocol.map": ",".join(f"{n}:PLAINTEXT" for n in ("CONTROLLER", "PLAINTEXT", *names)),
                "inter.broker.listener.name": "BETWEEN",
            }

    def __enter__(self) -> Brokers:
        try:
            self.cluster.start(300)
            self.kafka = Kafka(self.cluster.bootstrap_servers)
            wait_until(self._answer, "the brokers answer", 120)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.cluster.stop()
        self._stack.close()

    def address_for(self, instance: int) -> str:
        """For the `bootstrap.servers` of an instance."""
        return ",".join(f"{_HOST}:{line.port}" for line in self.lines[f"INSTANCE{instance}"])

    def pid(self, number: int) -> int:
        """The process group of a broker."""
        process = self.cluster.brokers[number]._process
        assert process is not None
        return process.pid

    def _answer(self) -> bool:
        with contextlib.suppress(Exception):
            return len(self.kafka.admin.list_topics(timeout=5).brokers) == len(self.cluster.brokers)
        return False


class Disk:
    """A file system of its own for an instance, which can be full; an ordinary folder where there are no rights to mount one."""

    _MEGABYTES = 600

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        options = ["-t", "tmpfs", "-o", f"size={self._MEGABYTES}m", "tmpfs", str(folder)]
        self.can_be_full = shutil.which("mount") is not None and _works(["mount", *options])

    def fill(self) -> None:
        """Leave nothing."""
        with contextlib.suppress(OSError), (self.folder / "ballast").open("wb", buffering=0) as file:
            while True:
                file.write(b"x" * 2**20)

    def empty(self) -> None:
        """As before."""
        (self.folder / "ballast").unlink(missing_ok=True)

    @contextlib.contextmanager
    def busy(self, folder: Path) -> Iterator[None]:
        """Somebody else writes to the machine's disk and waits for it, again and again."""
        ended = threading.Event()

        def write() -> None:
            path = folder / "neighbour"
            while not ended.is_set():
                with path.open("wb", buffering=0) as file:
                    for _ in range(32):
                        file.write(b"x" * 2**20)
                        os.fsync(file.fileno())
                        if ended.is_set():
                            break
            path.unlink(missing_ok=True)

        writers = [threading.Thread(target=write, daemon=True)]
        for writer in writers:
            writer.start()
        try:
            yield
        finally:
            ended.set()
            for writer in writers:
                writer.join(60)

    def close(self) -> None:
        """Give it up."""
        if self.can_be_full:
            deadline = time.monotonic() + 30
            while not _works(["umount", str(self.folder)]) and time.monotonic() < deadline:
                time.sleep(0.5)
            _works(["umount", "-l", str(self.folder)])
            self.can_be_full = False


def _works(command: list[str]) -> bool:
    return subprocess.run(command, capture_output=True, check=False).returncode == 0
