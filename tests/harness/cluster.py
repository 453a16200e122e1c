"""A standalone Spark cluster on loopback, from the installed pyspark: a master, workers, and executors that can be killed."""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

import pyspark

from penstock.kafka.guard import GuardedProcess
from tests.harness.kafka import wait_until

_HOST = "127.0.0.1"
_SPARK_HOME = Path(pyspark.__file__).parent


class Cluster:
    """A master and workers of one core each; also a context manager. All of it ends with this process.

    With `recovers` a master that comes back knows what it knew.
    With `decommissions` workers can be told to leave.
    With `apart` each worker is a host by itself, as far as Spark and penstock can tell: an address and a state folder of its own.
    """

    def __init__(
        self,
        workers: int = 2,
        cores: int = 1,
        memory: str = "1g",
        *,
        apart: bool = False,
        recovers: bool = False,
        decommissions: bool = False,
    ) -> None:
        self._decommissions = decommissions
        self._count, self._cores, self._memory, self._apart, self._recovers = workers, cores, memory, apart, recovers
        self._folder = Path(tempfile.mkdtemp(prefix="penstock-cluster-"))
        self._master: GuardedProcess | None = None
        self._workers: list[GuardedProcess] = []
        self._port = 0

    @property
    def master(self) -> str:
        """For `spark.master`."""
        return f"spark://{_HOST}:{self._port}"

    @property
    def settings(self) -> dict[str, str]:
        """What an application needs besides its own settings."""
        return {
            "spark.master": self.master,
            "spark.executor.cores": str(self._cores),
            "spark.executor.memory": "512m",
            "spark.driver.host": _HOST,
            "spark.driver.bindAddress": _HOST,
        }

    @property
    def environment(self) -> dict[str, str]:
        """The environment of the cluster's processes, and of a driver beside it."""
        return {
            **os.environ,
            "SPARK_HOME": str(_SPARK_HOME),
            "SPARK_SCALA_VERSION": "2.13",  # asked for where the launcher finds no release file, as in the pip package
            "SPARK_LOCAL_IP": _HOST,
            "SPARK_LOCAL_DIRS": str(self._folder),
            "PYSPARK_PYTHON": sys.executable,
        }

    def start(self) -> Cluster:
        """Start everything; returns when all workers are registered."""
        self._port = _free_port()
        self._start_master()
        self.add_workers(self._count)
        return self

    def _start_master(self) -> None:
        (self._folder / "master.log").unlink(missing_ok=True)
        arguments = ["--host", _HOST, "--port", str(self._port), "--webui-port", "0"]
        self._master = self._launch("master", "org.apache.spark.deploy.master.Master", *arguments)
        wait_until(lambda: self._said("master", "I have been elected leader"), "the master leads")

    def replace_master(self) -> None:
        """End the master at once, and start it again at the same address."""
        assert self._master is not None
        self._master.kill()
        self._start_master()

    @property
    def master_pid(self) -> int:
        """The process group of the master."""
        assert self._master is not None
        return self._master.pid

    @property
    def worker_pids(self) -> dict[int, int]:
        """The process groups of the workers that run, by their number."""
        return {number: worker.pid for number, worker in enumerate(self._workers) if worker.is_running}

    @property
    def workers(self) -> int:
        """How many workers were started."""
        return len(self._workers)

    def add_workers(self, count: int = 1) -> None:
        """So many more machines, as far as Spark can tell."""
        for name in [self._add_worker() for _ in range(count)]:
            wait_until(lambda name=name: self._said(name, "Successfully registered with master"), f"{name} is registered")

    def _add_worker(self) -> str:
        name = f"worker-{len(self._workers)}"
        host = f"127.0.0.{len(self._workers) + 2}" if self._apart else _HOST
        arguments = ["--host", host, "--webui-port", "0", "--cores", str(self._cores), "--memory", self._memory]
        work = ["--work-dir", str(self._folder / name)]
        main = "org.apache.spark.deploy.worker.Worker"
        own = {"PENSTOCK_STATE_DIR": str(self._folder / name / "state"), "SPARK_LOCAL_IP": host} if self._apart else {}
        self._workers.append(self._launch(name, main, *arguments, *work, self.master, environment=own))
        return name

    def stop(self) -> None:
        """Stop everything and remove what it wrote."""
        for process in [*self._workers, *([self._master] if self._master else [])]:
            process.kill()
        self._workers, self._master = [], None
        shutil.rmtree(self._folder, ignore_errors=True)

    def __enter__(self) -> Cluster:
        try:
            return self.start()
        except BaseException:
            self.stop()
            raise

    def __exit__(self, *_: object) -> None:
        self.stop()

    # -- executors -----------------------------------------------------------------------------------------------------

    def executors(self) -> dict[str, int]:
        """The executors' process ids by Spark's id for them."""
        groups = {process.pid for process in self._workers}
        found = {}
        for folder in Path("/proc").iterdir():
            if folder.name.isdigit():
                try:
                    command = (folder / "cmdline").read_bytes().decode(errors="replace")
                    match = re.search(r"CoarseGrainedExecutorBackend.*--executor-id\0(\w+)\0", command, re.DOTALL)
                    if match and os.getpgid(int(folder.name)) in groups:
                        found[match.group(1)] = int(folder.name)
                except OSError:
                    continue  # it ended while we looked
        return found

    def kill_executor(self, executor: str) -> None:
        """End one executor at once; its worker starts another under a new id."""
        os.kill(self.executors()[executor], signal.SIGKILL)

    def kill_worker(self, index: int) -> None:
        """End a worker with its executors: the machine is gone."""
        self._workers[index].kill()

    def kill_host_of(self, executor: str) -> None:
        """End the worker that has an executor, with all that is on it."""
        group = os.getpgid(self.executors()[executor])
        next(worker for worker in self._workers if worker.pid == group).kill()

    def decommission_worker_of(self, executor: str) -> None:
        """Tell a worker that its machine is taken away soon, as cloud providers do: its executor gets no more tasks."""
        group = os.getpgid(self.executors()[executor])
        for folder in Path("/proc").iterdir():
            if folder.name.isdigit():
                try:
                    is_worker = b"deploy.worker.Worker\0" in (folder / "cmdline").read_bytes().partition(b"java")[2]
                    if is_worker and os.getpgid(int(folder.name)) == group:
                        os.kill(int(folder.name), signal.SIGPWR)
                except OSError:
                    continue

    def logs(self) -> str:
        """The ends of what everything wrote, for a test that fails."""
        paths = [*self._folder.glob("*.log"), *self._folder.glob("worker-*/*/*/stderr")]
        return "\n".join(f"--- {path}\n{path.read_text(errors='replace')[-3000:]}" for path in paths)

    def _launch(self, name: str, main: str, *arguments: str, environment: Mapping[str, str] | None = None) -> GuardedProcess:
        java = shutil.which("java")
        assert java is not None, "the cluster needs Java 17 or newer on the PATH"
        command = [
            java,
            "-Xmx256m",
            "-XX:TieredStopAtLevel=1",
            "-XX:+UseSerialGC",
            *self._recovery,
            f"-Dspark.decommission.enabled={str(self._decommissions).lower()}",
            "-cp",
            f"{_SPARK_HOME}/jars/*",
            main,
            *arguments,
        ]
        return GuardedProcess(command, self._folder / f"{name}.log", {**self.environment, **(environment or {})})

    @property
    def _recovery(self) -> list[str]:
        folder = self._folder / "recovery"
        settings = {"recoveryMode": "FILESYSTEM", "recoveryDirectory": str(folder)} if self._recovers else {}
        return [f"-Dspark.deploy.{name}={value}" for name, value in settings.items()]

    def _said(self, name: str, text: str) -> bool:
        path = self._folder / f"{name}.log"
        if text in path.read_text(errors="replace"):
            return True
        running = self._master if name == "master" else self._workers[int(name.rpartition("-")[2])]
        assert running is not None
        assert running.is_running, path.read_text(errors="replace")[-2000:]
        return False


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((_HOST, 0))
        port: int = probe.getsockname()[1]
        return port
