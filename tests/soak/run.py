"""One run: a set-up under load, its faults one after the other, and what is verified in between and at the end."""

from __future__ import annotations

import contextlib
import math
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from confluent_kafka import KafkaException

from tests.faults.verifier import stores_that_differ
from tests.harness.clock import NoClockError, WrongClock
from tests.harness.cluster import Cluster
from tests.harness.kafka import Kafka, unique
from tests.soak import samples
from tests.soak.applications import APPLICATIONS, PARTITIONS, Application
from tests.soak.faults import Faults
from tests.soak.instance import InstanceProcess
from tests.soak.load import Load, Output
from tests.soak.plan import CLUSTER, Fault, Plan, settings
from tests.soak.surroundings import Brokers, Disk
from tests.soak.truth import Finding, Kind, Truth, findings, hanging, uncommitted

_PATIENCE = 420.0


@dataclass
class Outcome:
    """What came of a run."""

    plan: Plan
    done: list[tuple[float, str]] = field(default_factory=list)
    missed: list[tuple[float, str, str]] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    samples: list[dict[str, float]] = field(default_factory=list)
    verified: dict[str, int] = field(default_factory=dict)
    queries: dict[str, int] = field(default_factory=dict)
    restarts: int = 0
    minutes: float = 0.0
    records: int = 0
    words: str = ""

    @property
    def is_good(self) -> bool:
        """Whether nothing was wrong."""
        return not self.findings


class Run:
    """A context manager that starts everything a plan needs, and leaves nothing behind."""

    def __init__(self, plan: Plan, folder: Path, say: Callable[[str], None] = print) -> None:
        self.plan, self.folder, self.say = plan, folder, say
        self.outcome = Outcome(plan)
        self._stack = ExitStack()
        self._ended = threading.Event()
        self.names = {unique(kind): kind for kind in plan.setup.applications}
        self.applications: dict[str, Application] = {name: APPLICATIONS[kind] for name, kind in self.names.items()}
        self.orders = folder / "orders"
        self.cluster: Cluster | None = None
        self.clock: WrongClock | None = None
        self.disks: list[Disk] = []
        self.instances: list[InstanceProcess] = []
        self.away: set[int] = set()

    def __enter__(self) -> Run:
        try:
            self._start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        for instance in self.instances:
            instance.end()
        self._stack.close()

    @property
    def now(self) -> float:
        """Seconds since the start of the load."""
        return time.monotonic() - self._started

    def _start(self) -> None:
        setup = self.plan.setup
        self.orders.mkdir(parents=True)
        self.brokers = self._stack.enter_context(Brokers(setup.brokers, setup.instances, self.folder / "brokers"))
        self.kafka = self.brokers.kafka
        self.load = Load(self.kafka, self.applications, setup, self.plan.seed)
        self._stack.callback(self.load.close)
        self.outputs = {name: Output(self.kafka, f"{name}-out") for name in self.applications}
        environment: dict[str, str] = {}
        config = {**settings(setup), "spark.master": "local[4]"}
        if setup.spark == CLUSTER:
            self.cluster = self._stack.enter_context(Cluster(workers=2, cores=4, memory="2g", recovers=True))
            config |= {**self.cluster.settings, "spark.executor.memory": "768m", "spark.cores.max": "8"}
            environment |= self.cluster.environment
        with contextlib.suppress(NoClockError):
            self.clock = WrongClock(self.folder)
            environment |= self.clock.environment
        for number in range(setup.instances):
            folder = self.folder / f"instance-{number}"
            disk = Disk(folder / "state")
            self._stack.callback(disk.close)
            self.disks.append(disk)
            own = {"bootstrap.servers": self.brokers.address_for(number), "state.dir": str(folder / "state")}
            given = {"applications": self.names, "orders": str(self.orders), "config": {**config, **own}}
            self.instances.append(InstanceProcess(folder, given, environment))
        self._started = time.monotonic()
        self.faults = Faults(self)
        for instance in self.instances:
            instance.start()
        watcher = threading.Thread(target=self._watch, name="watcher", daemon=True)
        watcher.start()
        self._stack.callback(watcher.join, 30)
        self._wait_until_all_run()
        self.load.flow()

    def _wait_until_all_run(self, timeout: float = _PATIENCE) -> None:
        deadline = time.monotonic() + timeout
        while not all(instance.runs for instance in self.instances):
            if time.monotonic() > deadline or self.outcome.findings:
                states = [instance.status.get("states") for instance in self.instances]
                raise AssertionError(f"not all applications run: {states}\n{self.words()}")
            time.sleep(0.5)

    # -- what goes on all the time -------------------------------------------------------------------------------------

    def _watch(self) -> None:
        """Once a second: start again what has ended; once a minute: a sample."""
        due = time.monotonic() + 60
        while not self._ended.wait(1.0):
            for number, instance in enumerate(self.instances):
                if number not in self.away and not instance.is_alive and not self._ended.is_set():
                    if not instance.ends_are_fine:
                        self.outcome.findings.append(Finding(Kind.ENDED, f"instance {number}", "it ended by itself"))
                        self.outcome.words = self.words()
                    self.outcome.restarts += 1
                    self.say(f"  instance {number} has ended and is started again")
                    instance.start()
                    instance.ends_are_fine = False
            if time.monotonic() > due:
                due += 60
                self.sample()

    def sample(self) -> None:
        """Record what everything needs now."""
        alive = [instance for instance in self.instances if instance.is_alive]
        executors = list(self.cluster.executors().values()) if self.cluster is not None else []
        taken = samples.take([i.pid for i in alive], [i.folder for i in self.instances], executors)
        jobs = sum(instance.status.get("jobs", 0) for instance in alive)
        self.outcome.samples.append({"minute": self.now / 60, **taken, "jobs since the session began": jobs})

    # -- faults --------------------------------------------------------------------------------------------------------

    def play(self, verify_every: float = 180.0, at_most: float = math.inf) -> Outcome:
        """The faults of the plan, for at most so many seconds, verified now and then; then the last verification, and the end."""
        checked = time.monotonic()
        for number, fault in enumerate(self.plan.faults, 1):
            if self.now > at_most:
                break
            time.sleep(fault.after)
            self._do(number, fault)
            if self.outcome.findings:
                break
            if time.monotonic() - checked > verify_every:
                self.verify()
                checked = time.monotonic()
                self.load.flow()
            if self.outcome.findings:
                break
        self.finish()
        return self.outcome

    def _do(self, number: int, fault: Fault) -> None:
        at = self.now
        try:
            what = self.faults.do(fault)
        except (AssertionError, OSError, KafkaException) as exc:
            what = None
            self.outcome.missed.append((at, fault.kind, str(exc).splitlines()[0][:200]))
        if what is not None:
            self.outcome.done.append((at, fault.kind))
        self.say(f"{at:7.1f} s  {number:4} {fault}: {what or 'could not be done'}")

    # -- verification --------------------------------------------------------------------------------------------------

    def verify(self) -> list[Finding]:
        """Let everything be processed; then outputs, transactions and offsets must be right."""
        self.faults.repair()
        self.load.pause()
        self._look_anew()
        truths = {name: app.truth(self.load.inputs[name], PARTITIONS) for name, app in self.applications.items()}
        wrong = self._settle(lambda: self._outputs(truths), _PATIENCE)
        if not wrong:
            time.sleep(1.5)  # what comes too much comes now
            wrong = self._outputs(truths)
        if not wrong:
            wrong = self._settle(lambda: [*self._transactions(), *self._offsets()], 120.0)
        self.outcome.findings += wrong
        self.outcome.records = self.load.records
        failed = [q for instance in self.instances for q in instance.status.get("failed queries", ())]
        self.outcome.findings += [Finding(Kind.WRONG, "query", text) for text in failed]
        if self.outcome.findings and not self.outcome.words:
            self.outcome.words = self.words()
        counted = sum(len(output.messages) for output in self.outputs.values())
        self.outcome.verified = {"records in": self.load.records, "results": counted}
        verdict = "; ".join(map(str, self.outcome.findings[:5])) or "nothing is wrong"
        self.say(f"{self.now:7.1f} s       verified {counted:,} results of {self.load.records:,} records: {verdict}")
        return self.outcome.findings

    def finish(self) -> None:
        """The last verification; then everything is closed in order, and stores must hold what their changelogs say."""
        if not self.outcome.findings:
            self.verify()
        self.sample()
        self._ended.set()
        self.outcome.minutes = self.now / 60
        queries = [instance.queries for instance in self.instances]
        self.outcome.queries = {name: sum(q[name] for q in queries) for name in ("answered", "refused")}
        if self.outcome.findings:
            return
        for number, instance in enumerate(self.instances):
            code = instance.stop()
            if code != 0:
                self.outcome.findings.append(Finding(Kind.ENDED, f"instance {number}", f"it closed with code {code}"))
        self.outcome.findings += [*self._settle(self._transactions, 60.0), *self._stores()]
        if self.outcome.findings:
            self.outcome.words = self.words()

    def words(self) -> str:
        """The end of what the instances said."""
        return "\n".join(f"--- instance {number}\n{i.last_words()}" for number, i in enumerate(self.instances))

    def _settle(self, check: Callable[[], list[Finding]], patience: float) -> list[Finding]:
        deadline = time.monotonic() + patience
        while True:
            try:
                wrong = check()
            except (KafkaException, AssertionError) as exc:
                wrong = [Finding(Kind.UNKNOWN, "brokers", str(exc))]
                self._look_anew()
            if not wrong or time.monotonic() > deadline:
                return wrong
            time.sleep(1.0)

    def _look_anew(self) -> None:
        """With a client that has seen none of what happened to the brokers: an old one may not find them again."""
        self.kafka = Kafka(self.brokers.cluster.bootstrap_servers)
        for output in self.outputs.values():
            output.kafka = self.kafka

    def _outputs(self, truths: Mapping[str, Truth]) -> list[Finding]:
        wrong: list[Finding] = []
        for name, truth in truths.items():
            wrong += findings(name, truth, self.outputs[name].read(), self.plan.setup.exactly_once)
        return wrong

    def _topics(self) -> list[str]:
        return [topic for topic in self.kafka.topics() if topic.startswith(tuple(self.applications))]

    def _transactions(self) -> list[Finding]:
        wrong: list[Finding] = []
        for topic in self._topics():
            wrong += hanging(topic, self.kafka.ends(topic), self.kafka.ends(topic, committed=False))
        return wrong

    def _offsets(self) -> list[Finding]:
        wrong: list[Finding] = []
        for name, application in self.applications.items():
            read = [topic for topic in application.inputs if not (application.name == "global" and topic == "right")]
            ends = {(f"{name}-{t}", p): end for t in read for p, end in self.kafka.ends(f"{name}-{t}").items()}
            wrong += uncommitted(name, self.kafka.committed(name), ends)
        return wrong

    def _stores(self) -> list[Finding]:
        """Only of a single instance on this machine: others have copies, which may be behind."""
        setup = self.plan.setup
        if not setup.exactly_once or setup.instances > 1 or setup.spark == CLUSTER:
            return []
        folder, wrong = self.instances[0].folder / "state", list[str]()
        for name, application in self.applications.items():
            given: Any = application
            wrong += stores_that_differ(given, name, self.kafka, folder)
        return [Finding(Kind.STORE, "closed application", text) for text in wrong]
