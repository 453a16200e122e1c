"""What is done to the applications, and what is waited for meanwhile."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.elastic.instances import Instance, Library
from bench.elastic.measure import PARTITIONS, Curve, Load
from tests.harness.cluster import Cluster

_TASKS = PARTITIONS


@dataclass
class Stage:
    """One library in one scenario: starts instances with the scenario's settings."""

    library: Library
    load: Load
    brokers: str
    folder: Path
    application: str
    settings: Mapping[str, Any]
    pause: float
    instances: list[Instance] = field(default_factory=list)

    def start(self, cluster: Cluster | None = None) -> Instance:
        """One more instance; a driver of a cluster where there is one."""
        own = self.folder / str(len(self.instances))

        def restored(records: int) -> None:
            self.load.curve.restored.append((self.load.now, records))

        def placed(places: dict[int, str]) -> None:
            self.load.curve.places.append((self.load.now, places))

        settings = {**self.settings, **(cluster.settings if cluster else {})}
        environment = cluster.environment if cluster else None
        made = self.library.start(self.application, self.brokers, own, settings, restored, environment, placed)
        self.instances.append(made)
        return made

    def wait_for(self, condition: Callable[[], bool], what: str, timeout: float = 120.0) -> bool:
        """Until something holds; an instance that ended by itself ends the scenario."""

        def holds() -> bool:
            for instance in self.instances:
                if not instance.is_alive and not instance.is_gone:
                    raise RuntimeError(f"an instance of {self.library.name} ended by itself: see {self.folder}")
            return condition()

        return self.load.wait(holds, what, timeout)

    def wait_until_shared(self, instances: int, copies: bool) -> None:
        """Until the tasks are dealt out evenly and all copies are there."""
        alive = [instance for instance in self.instances if not instance.is_gone]

        def shared() -> bool:
            even = sorted(len(instance.tasks) for instance in alive) == [_TASKS // instances] * instances
            kept = sum(len(instance.standbys - instance.tasks) for instance in alive)
            return even and all(instance.is_running for instance in alive) and (not copies or kept >= _TASKS)

        started = self.load.now
        # Kafka Streams warms up two tasks at a time, and looks once a minute at most whether they are ready.
        if self.wait_for(shared, f"the tasks are shared by {instances}", 240.0) and self.load.curve.events:
            self.load.curve.notes.append(f"the tasks were shared by {instances} after {self.load.now - started:.0f} s")


def killed(stage: Stage) -> None:
    """Two instances, each with half of the tasks; one is killed."""
    first, second = stage.start(), stage.start()
    stage.wait_until_shared(2, bool(stage.settings["num.standby.replicas"]))
    stage.load.begin()
    time.sleep(stage.pause)
    stage.wait_until_shared(2, bool(stage.settings["num.standby.replicas"]))
    had = first.tasks
    at = stage.load.note("kill -9 of one of two")
    first.kill()
    stage.wait_for(lambda: stage.load.all_flow(at) and len(second.tasks) == _TASKS, "all partitions have output again")
    time.sleep(stage.pause / 2)
    stage.load.finish()
    stage.load.curve.notes.append(f"the one that was killed had tasks {', '.join(sorted(had))}")


def scaled(stage: Stage) -> None:
    """1 → 3 → 1; one that leaves does so in order."""
    stage.start()
    stage.wait_for(lambda: len(stage.instances[0].tasks) == _TASKS, "one has all tasks")
    stage.load.begin()
    time.sleep(stage.pause)
    stage.load.note("two more")
    stage.start()
    stage.start()
    stage.wait_until_shared(3, bool(stage.settings["num.standby.replicas"]))
    time.sleep(stage.pause)
    for instance in stage.instances[:2]:
        at = stage.load.note("one leaves")
        instance.stop()
        stage.wait_for(lambda at=at: stage.load.all_flow(at), "all partitions have output again")
        time.sleep(stage.pause / 2)
    stage.wait_for(lambda: len(stage.instances[2].tasks) == _TASKS, "one has all tasks")
    time.sleep(stage.pause / 2)
    stage.load.finish()


def lost_host(stage: Stage) -> None:
    """One instance over three executors on hosts of their own; one host is lost."""
    with Cluster(workers=3, cores=2, apart=True) as cluster:
        driver = stage.start(cluster)
        stage.wait_for(lambda: len(driver.tasks) == _TASKS, "the tasks run")
        stage.load.begin()
        stage.wait_for(lambda: len(driver.executors) == 3, "tasks run on three executors")
        time.sleep(stage.pause)
        at = stage.load.note("one of three executors is lost with its host")
        cluster.kill_host_of(driver.executors[0].rpartition("_")[2])
        stage.wait_for(lambda: stage.load.all_flow(at + 1.0), "all partitions have output again")
        time.sleep(stage.pause / 2)
        stage.load.finish()
        driver.stop()


def scaled_executors(stage: Stage) -> None:
    """1 → 3 → 1 executors, on hosts of their own."""
    with Cluster(workers=1, cores=2, apart=True) as cluster:
        driver = stage.start(cluster)
        stage.wait_for(lambda: len(driver.tasks) == _TASKS, "the tasks run")
        stage.load.begin()
        time.sleep(stage.pause)
        stage.load.note("two more executors")
        cluster.add_workers(2)
        stage.wait_for(lambda: len(driver.executors) == 3, "tasks run on three executors")
        time.sleep(stage.pause)
        for left in (2, 1):
            at = stage.load.note("one goes")
            cluster.kill_host_of(driver.executors[0].rpartition("_")[2])
            stage.wait_for(
                lambda at=at, left=left: stage.load.all_flow(at + 1.0) and len(driver.executors) == left,
                f"all partitions have output again, on {left}",
            )
            time.sleep(stage.pause)
        stage.load.finish()
        driver.stop()


def lost_jvm(stage: Stage) -> None:
    """One instance in a session of its own, whose JVM is killed."""
    driver = stage.start()
    stage.wait_for(lambda: len(driver.tasks) == _TASKS and driver.jvm > 0, "the tasks run")
    stage.load.begin()
    time.sleep(stage.pause)
    at = stage.load.note("kill -9 of Spark's JVM")
    driver.kill_jvm()
    stage.wait_for(lambda: stage.load.all_flow(at + 1.0), "all partitions have output again")
    time.sleep(stage.pause / 2)
    stage.load.finish()
    driver.stop()


@dataclass(frozen=True)
class Scenario:
    """What is done, with which settings; `java` says what Kafka Streams does beside it: itself, or what is most like it."""

    run: Callable[[Stage], None]
    settings: Mapping[str, Any]
    java: str | None = None
    java_settings: Mapping[str, Any] = field(default_factory=dict)
    only_penstock: bool = False

    def settings_for(self, library: Library) -> dict[str, Any]:
        """What differs from the defaults."""
        return {**self.settings, **(self.java_settings if library.name == "Kafka Streams" else {})}


SCENARIOS = {
    "instance killed, with a standby": Scenario(killed, {"num.standby.replicas": 1}),
    "instance killed, without a standby": Scenario(killed, {"num.standby.replicas": 0}),
    "instance killed, with a standby and the same session": Scenario(
        killed, {"num.standby.replicas": 1}, java_settings={"session.timeout.ms": 10_000}
    ),
    "1 to 3 to 1 instances": Scenario(
        scaled,
        {"num.standby.replicas": 1},
        # By default Kafka Streams looks after ten minutes whether a warm-up is ready; a minute is the least it allows.
        java_settings={"probing.rebalance.interval.ms": 60_000},
    ),
    "executor lost, with a standby": Scenario(
        lost_host, {"num.standby.replicas": 1, "num.stream.threads": 3}, "instance killed, with a standby", only_penstock=True
    ),
    "executor lost, without a standby": Scenario(
        lost_host, {"num.standby.replicas": 0, "num.stream.threads": 3}, "instance killed, without a standby", only_penstock=True
    ),
    "1 to 3 to 1 executors": Scenario(
        scaled_executors, {"num.standby.replicas": 1, "num.stream.threads": 3}, "1 to 3 to 1 instances", only_penstock=True
    ),
    "Spark's JVM killed": Scenario(lost_jvm, {"num.stream.threads": 2}, only_penstock=True),
}


def play(library: Library, name: str, brokers: str, rate: int, ahead: int, pause: float, logs: Path | None = None) -> Curve:
    """One scenario with one library; what is still alive at the end is killed. `logs` is a folder for what instances say."""
    scenario = SCENARIOS[name]
    application = f"{library.name.replace(' ', '-')}-{time.time_ns()}".lower()
    settings = scenario.settings_for(library)
    with tempfile.TemporaryDirectory(prefix="elastic-", ignore_cleanup_errors=True) as folder:
        load = Load(brokers, f"{application}-in", f"{application}-out", rate, ahead, library.name)
        stage = Stage(library, load, brokers, Path(folder), application, settings, pause)
        try:
            with load:
                scenario.run(stage)
        except Exception:
            for log in sorted(Path(folder).glob("*/log.txt")):
                print(f"--- {log}\n{log.read_text(errors='replace')[-3000:]}", flush=True)
            raise
        finally:
            for instance in stage.instances:
                instance.kill()
            if logs is not None:
                logs.mkdir(parents=True, exist_ok=True)
                for log in Path(folder).glob("*/log.txt"):
                    shutil.copy(log, logs / f"{application}-{log.parent.name}.log")
    return load.curve
