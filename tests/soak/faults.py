"""How each fault is done. Each returns what happened, or None where there was nobody it could happen to."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from confluent_kafka import KafkaException
from confluent_kafka.admin import NewPartitions

from tests.faults.dying import order
from tests.harness.kafka import Message, unique
from tests.harness.line import Line
from tests.harness.processes import Processes
from tests.soak.disturbance import disturb_user

if TYPE_CHECKING:
    from tests.soak.plan import Fault
    from tests.soak.run import Run

_ORDER_SECONDS, _START_SECONDS = 20.0, 90.0


class Faults:
    """Does what a plan says to the parts of a run."""

    def __init__(self, run: Run) -> None:
        self._run = run

    def do(self, fault: Fault) -> str | None:
        """Do it, wait until it is over, and tell what it was."""
        what, _, whom = fault.kind.partition(" ")
        if " at " in fault.kind:
            return self._at_a_step(fault)
        done: str | None = getattr(self, f"_{what}_{whom}" if whom else f"_{what}")(fault)
        if whom in ("driver", "jvm") and what == "kill" and fault.choose % 3:
            # Sometimes the next fault meets a start; more often it should meet something that works.
            self._wait(lambda: all(instance.runs for instance in self._run.instances), _START_SECONDS)
        return done

    def repair(self) -> None:
        """Bring everything back that is still away, so that all of the input can be processed."""
        self._run.brokers.cluster.start(300)
        for lines in self._run.brokers.lines.values():
            for line in lines:
                line.mend()
        for disk in self._run.disks:
            disk.empty()
        if self._run.clock is not None:
            self._run.clock.be_wrong_by(0)
        for path in self._run.orders.iterdir():
            path.unlink(missing_ok=True)

    # -- processes -----------------------------------------------------------------------------------------------------

    def _kill_worker(self, fault: Fault) -> str | None:
        return self._kill(self._workers(), fault)

    def _stop_worker(self, fault: Fault) -> str | None:
        return self._stop(self._workers(), fault)

    def _workers(self) -> list[int]:
        return Processes.now().workers([*self._drivers(), *self._executors()])

    def _drivers(self) -> list[int]:
        return [instance.pid for instance in self._run.instances if instance.is_alive]

    def _executors(self) -> list[int]:
        return sorted(self._run.cluster.executors().values()) if self._run.cluster is not None else []

    def _kill_driver(self, fault: Fault) -> str | None:
        """Whoever watches the instance starts it again."""
        number = fault.choose % len(self._run.instances)
        instance = self._run.instances[number]
        if not instance.is_alive:
            return None
        self._run.away.add(number)
        try:
            instance.kill()
            instance.start()
        finally:
            self._run.away.discard(number)
        return f"instance {number}"

    def _stop_driver(self, fault: Fault) -> str | None:
        return self._stop(self._drivers(), fault)

    def _kill_jvm(self, fault: Fault) -> str | None:
        return self._kill(Processes.now().jvms(self._drivers()), fault)

    def _stop_jvm(self, fault: Fault) -> str | None:
        return self._stop(Processes.now().jvms(self._drivers()), fault)

    def _kill_executor(self, fault: Fault) -> str | None:
        return self._kill(self._executors(), fault)

    def _stop_executor(self, fault: Fault) -> str | None:
        return self._stop(self._executors(), fault)

    def _kill_daemon(self, fault: Fault) -> str | None:
        """The host goes with all that is on it, and another comes."""
        cluster = self._run.cluster
        assert cluster is not None
        number = sorted(cluster.worker_pids)[fault.choose % len(cluster.worker_pids)]
        cluster.kill_worker(number)
        cluster.add_workers(1)
        return f"host {number} with its executors; another has come"

    def _stop_daemon(self, fault: Fault) -> str | None:
        assert self._run.cluster is not None
        return self._stop(self._run.cluster.worker_pids.values(), fault, group=True)

    def _kill_master(self, _: Fault) -> str | None:
        assert self._run.cluster is not None
        self._run.cluster.replace_master()
        return "it is back"

    def _stop_master(self, fault: Fault) -> str | None:
        assert self._run.cluster is not None
        return self._stop([self._run.cluster.master_pid], fault, group=True)

    def _kill_broker(self, fault: Fault) -> str | None:
        cluster = self._run.brokers.cluster
        number = fault.choose % len(cluster.brokers)
        cluster.kill(number)
        time.sleep(fault.choose % 5)
        cluster.start(300)
        return f"broker {number}, away for {fault.choose % 5} s"

    def _stop_broker(self, fault: Fault) -> str | None:
        number = fault.choose % len(self._run.brokers.cluster.brokers)
        return self._stop([self._run.brokers.pid(number)], fault, group=True)

    def _leave(self, fault: Fault) -> str | None:
        """An instance closes in order, and comes back."""
        number = fault.choose % len(self._run.instances)
        instance = self._run.instances[number]
        if not instance.is_alive:
            return None
        self._run.away.add(number)
        try:
            code = instance.stop()
            time.sleep(fault.choose % 4)
            instance.start()
        finally:
            self._run.away.discard(number)
        assert code == 0, f"instance {number} closed with code {code}"
        return f"instance {number}, and came back"

    @staticmethod
    def _kill(pids: list[int], fault: Fault) -> str | None:
        if not pids:
            return None
        victim = pids[fault.choose % len(pids)]
        os.kill(victim, signal.SIGKILL)
        return f"process {victim}, one of {len(pids)}"

    @staticmethod
    def _stop(pids: Iterable[int], fault: Fault, group: bool = False) -> str | None:
        """Let it stand still for a while, and go on as if nothing had been."""
        found = sorted(pids)
        if not found:
            return None
        victim = found[fault.choose % len(found)]
        send = os.killpg if group else os.kill
        send(victim, signal.SIGSTOP)
        try:
            time.sleep(fault.seconds)
        finally:
            with contextlib.suppress(ProcessLookupError):
                send(victim, signal.SIGCONT)
        return f"process {victim}, one of {len(found)}"

    # -- network, disk and clock ---------------------------------------------------------------------------------------

    def _lines(self, fault: Fault, names: list[str]) -> tuple[str, list[Line]]:
        """The lines of an instance to all brokers or to one of them, or those between brokers to one of them."""
        lines = self._run.brokers.lines
        name = names[fault.choose % len(names)]
        one = fault.choose // 7 % (len(lines[name]) + 1)
        return (
            (name, list(lines[name]))
            if one == len(lines[name]) and name != "BETWEEN"
            else (
                f"{name} to broker {one % len(lines[name])}",
                [lines[name][one % len(lines[name])]],
            )
        )

    def _cut_line(self, fault: Fault) -> str | None:
        return self._cut(fault, [name for name in self._run.brokers.lines if name != "BETWEEN"])

    def _cut_brokers(self, fault: Fault) -> str | None:
        return self._cut(fault, ["BETWEEN"])

    def _cut(self, fault: Fault, names: list[str]) -> str | None:
        where, lines = self._lines(fault, names)
        for line in lines:
            line.cut()
        time.sleep(fault.seconds)
        for line in lines:
            line.mend()
        return where.lower()

    def _slow_line(self, fault: Fault) -> str | None:
        where, lines = self._lines(fault, list(self._run.brokers.lines))
        for line in lines:
            line.slow(0.05 + fault.choose % 10 / 20)
        time.sleep(fault.seconds)
        for line in lines:
            line.mend()
        return where.lower()

    def _full_disk(self, fault: Fault) -> str | None:
        """Of an instance, which may end of it and is started again when there is room."""
        number = fault.choose % len(self._run.instances)
        instance, disk = self._run.instances[number], self._run.disks[number]
        if not disk.can_be_full or not instance.is_alive:
            return None
        instance.ends_are_fine = True
        self._run.away.add(number)  # it is not started again before there is room
        try:
            disk.fill()
            time.sleep(fault.seconds)
            disk.empty()
            # A failure shows when its turn has ended.
            ended = self._wait(lambda: not instance.is_alive, 20.0)
        finally:
            disk.empty()
            self._run.away.discard(number)
        if not ended:
            instance.ends_are_fine = False
        return f"instance {number}, which {'ended' if ended else 'lived on'}"

    def _busy_disk(self, fault: Fault) -> str | None:
        with self._run.disks[0].busy(self._run.folder):
            time.sleep(fault.seconds)
        return "of all"

    def _step_clock(self, fault: Fault) -> str | None:
        if self._run.clock is None:
            return None
        by = (-1 if fault.choose % 2 else 1) * (1 + fault.choose % 90)
        self._run.clock.be_wrong_by(by)
        time.sleep(fault.seconds)
        self._run.clock.be_wrong_by(0)
        return f"by {by} s and back"

    # -- topics --------------------------------------------------------------------------------------------------------

    def _grow_topic(self, _: Fault) -> str | None:
        kafka = self._run.kafka
        name = next((name for name, kind in self._run.names.items() if kind == "growing"), None)
        if name is None or kafka.topics()[f"{name}-in"] >= 9:
            return None
        more = kafka.topics()[f"{name}-in"] + 1
        kafka.admin.create_partitions([NewPartitions(f"{name}-in", more)])[f"{name}-in"].result(60)
        return f"{name}-in has {more} partitions"

    def _delete_topic(self, fault: Fault) -> str | None:
        """Of a neighbour in the same process: it fails, and the others go on."""
        kafka, name = self._run.kafka, unique("victim")
        instance = self._run.instances[fault.choose % len(self._run.instances)]
        if not instance.is_alive:
            return None
        kafka.create(f"{name}-in", f"{name}-out", partitions=1)
        instance.tell(do="victim", name=name)
        kafka.feed(f"{name}-in", [Message(b"k", b"v", int(time.time() * 1000))])
        self._wait(lambda: instance.status.get("victim") == "RUNNING", 40.0)
        kafka.delete(f"{name}-in")
        self._wait(lambda: instance.status.get("victim") in ("ERROR", "NOT_RUNNING"), 40.0)
        kafka.delete(f"{name}-out")
        return f"of a neighbour, which is in {instance.status.get('victim')}"

    # -- applications --------------------------------------------------------------------------------------------------

    def _add_thread(self, fault: Fault) -> str | None:
        return self._tell("add thread", fault)

    def _remove_thread(self, fault: Fault) -> str | None:
        return self._tell("remove thread", fault)

    def _tell(self, what: str, fault: Fault) -> str | None:
        alive = [instance for instance in self._run.instances if instance.is_alive]
        if not alive:
            return None
        alive[fault.choose % len(alive)].tell(do=what, choose=fault.choose // 3)
        return "of an application"

    def _user_raise(self, _: Fault) -> str | None:
        return self._user("raise")

    def _user_sleep(self, _: Fault) -> str | None:
        return self._user("sleep")

    def _user_eat(self, _: Fault) -> str | None:
        return self._user("eat")

    def _user(self, action: str) -> str | None:
        return self._carried_out(disturb_user(self._run.orders, action))

    def _at_a_step(self, fault: Fault) -> str | None:
        """A worker dies at a step, or waits there while threads come and go."""
        what, _, step = fault.kind.partition(" at ")
        done = order(self._run.orders, step, "die" if what == "die" else "wait")
        if step in ("opened", "restored"):  # nobody comes there by itself
            self._kill(self._workers(), fault)
        elif step == "closed":
            self._tell("change threads", fault)
        found = self._carried_out(done)
        if found is not None and what != "die":
            self._tell("change threads", fault)
        return found

    def _carried_out(self, done: Path) -> str | None:
        """Wait for it; an order that nobody comes to is taken back."""
        self._wait(done.exists, _ORDER_SECONDS)
        if done.exists():
            return "a worker"
        done.with_suffix("").unlink(missing_ok=True)
        return "a worker" if done.exists() else None

    @staticmethod
    def _wait(condition: object, seconds: float) -> bool:
        deadline = time.monotonic() + seconds
        while True:
            with contextlib.suppress(KafkaException):
                if condition():  # type: ignore[operator]
                    return True
            if time.monotonic() > deadline:
                return False
            time.sleep(0.1)
