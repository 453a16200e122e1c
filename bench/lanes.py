"""`python -m bench.lanes`: what a turn costs the driver, over the number of lanes and of map partitions.

No record is read and no broker is asked: the tasks have nothing to do, so what is left is what penstock and Spark spend on a turn
itself. CPU is that of the driver's two processes, Python and the JVM; with a local master the JVM is the executor too.

Writes `lanes.md` and `lanes.json` into `bench/results`, the latter with every run by its label, so that two can be compared.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, wait
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from penstock.client.scheduling.positions import Positions
from penstock.client.scheduling.stages import Stage, StagePart, front_window, plan_stage
from penstock.client.scheduling.turns import plan_turn
from pyspark import SparkContext

from bench import environment
from bench.processes import parse_stat
from penstock import Consumed, Repartitioned, Serdes, StreamsBuilder, StreamsConfig
from penstock.clock import SystemClock
from penstock.ids import TaskId, TopicPartition
from penstock.runtime.offset_metadata import with_logs
from penstock.spark.driver.lane_jobs import LaneJobs, LaneWork
from penstock.spark.driver.session import end_session, make_session
from penstock.spark.messages import Application, LaneAnswer, TaskWork
from penstock.spark.plan import Plan, make_plan

_RESULTS = Path(__file__).parent / "results"
LANES = (1, 2, 4, 8, 16, 32)
PARTITIONS = (1, 4, 16, 64, 200)
_SHUFFLE_LANES = 2
_NAME = "bench-lanes"


@dataclass(frozen=True)
class Cost:
    """What a turn takes: milliseconds of CPU and of the clock, and the bytes that Python sends to the JVM for it."""

    lanes: int
    partitions: int
    python_ms: float
    jvm_ms: float
    workers_ms: float
    wall_ms: float
    sent_bytes: int
    answer_bytes: int

    @property
    def driver_ms(self) -> float:
        """CPU of the driver's two processes."""
        return self.python_ms + self.jvm_ms


def main() -> None:
    parser = argparse.ArgumentParser(prog="bench.lanes", description=__doc__)
    parser.add_argument("--label", default="after", help="the name under which the run is kept beside others")
    parser.add_argument("--lanes", type=_numbers, default=LANES, help="how many lanes, as 1,2,4; none leaves them out")
    parser.add_argument("--partitions", type=_numbers, default=PARTITIONS, help="how many map partitions, as 1,16; likewise")
    parser.add_argument("--seconds", type=float, default=4.0, help="how long a block of turns is measured at least")
    parser.add_argument("--blocks", type=int, default=5, help="how many blocks; the median of them counts")
    parser.add_argument("--master", help="a master other than as many local cores as there are lanes")
    parser.add_argument("--results", type=Path, default=_RESULTS)
    arguments = parser.parse_args()
    found: dict[str, list[Cost]] = {"turns": [], "shuffles": []}
    kinds = (("turns", arguments.lanes, _stateless, None), ("shuffles", arguments.partitions, _shuffled, _SHUFFLE_LANES))
    for kind, sizes, plan_of, fixed_lanes in kinds:
        if sizes:
            master = arguments.master or f"local[{fixed_lanes or max(2, *sizes)}]"
            session = make_session(_NAME, {"spark.master": master})
            try:
                with _Running(session, plan_of(2), 2) as running:
                    running.measure(20.0, 1)  # the JVM compiles what it meets often: the first is not to be charged with it
                for size in sizes:
                    with _Running(session, plan_of(size), fixed_lanes or size) as running:
                        found[kind].append(running.measure(arguments.seconds, arguments.blocks))
                        print(found[kind][-1], flush=True)
            finally:
                end_session(session)
    write(arguments.results, arguments.label, found)


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(",") if part)


# -- what runs


def _config() -> StreamsConfig:
    folder = tempfile.mkdtemp(prefix="bench-lanes-")
    return StreamsConfig({"application.id": _NAME, "bootstrap.servers": "localhost:9", "state.dir": folder})


def _stateless(lanes: int) -> Plan:
    """A task for each lane that takes records and does nothing with them."""
    builder = StreamsBuilder()
    builder.stream("in", Consumed(Serdes.string(), Serdes.string())).foreach(_nothing)
    return _planned(builder, {"in": lanes})


def _shuffled(partitions: int) -> Plan:
    """As many tasks before a shuffle as behind it."""
    builder = StreamsBuilder()
    lines = builder.stream("in", Consumed(Serdes.string(), Serdes.string()))
    by_word = Repartitioned(name="words", key_serde=Serdes.string(), value_serde=Serdes.string())
    lines.select_key(_value).repartition(by_word).foreach(_nothing)
    return _planned(builder, {"in": partitions, f"{_NAME}-words-repartition": partitions})


def _nothing(key: Any, value: Any) -> None:
    return None


def _value(key: Any, value: Any) -> Any:
    return value


def _planned(builder: StreamsBuilder, partitions: dict[str, int]) -> Plan:
    config = _config()
    internal = builder.build().internal_topology_builder
    internal.rewrite_topology(config)
    return make_plan(internal.subtopologies(_NAME, {}), partitions, config)


class _Running:
    """A lane_jobs with all tasks of a plan open, spread over its lanes; every turn has something for each of them."""

    def __init__(self, session: Any, plan: Plan, lanes: int) -> None:
        self._plan, self._lanes = plan, lanes
        self._sources = {topic: count for topic, count in plan.partitions.items() if topic not in plan.shuffled}
        self._owners = {task: index % lanes for index, task in enumerate(plan.tasks())}
        self._positions = Positions(plan, _NAME, None, dict, None, "earliest", SystemClock())  # type: ignore[arg-type]
        for task in self._owners:
            for partition in self._positions.inputs(task):
                if partition.topic in plan.shuffled:
                    begun = {TopicPartition(t, p): 1_000_000 for t, count in self._sources.items() for p in range(count)}
                    self._positions.vectors[partition] = self._positions._loaded_vectors[partition] = begun
        application = Application(f"{_NAME}#{time.monotonic()}", _config(), plan, None, "process", _NAME)
        self._lane_jobs = LaneJobs(
            session.sparkContext, application, [f"{_NAME}-{lanes}-{time.monotonic()}-{lane}" for lane in range(lanes)]
        )

    def __enter__(self) -> _Running:
        owned: dict[int, dict[TaskId, Any]] = {lane: {} for lane in range(self._lanes)}
        for task, lane in self._owners.items():
            # The ids of topics are known, so that nobody asks for them.
            owned[lane][task] = {p: with_logs(o, {"in": 4711}) for p, o in self._positions.of_task(task).items()}
        self._checked([self._lane_jobs.open(lane, tasks) for lane, tasks in owned.items()])
        return self

    def __exit__(self, *_: object) -> None:
        self._lane_jobs.close(30.0)

    def measure(self, seconds: float, blocks: int) -> Cost:
        """The median of several blocks, after as many turns as the JVM needs to know them."""
        self._block(max(2 * seconds, 6.0))
        costs = [self._block(seconds) for _ in range(blocks)]
        names = [name for name in asdict(costs[0]) if name not in ("lanes", "partitions")]
        middle = {name: statistics.median(getattr(cost, name) for cost in costs) for name in names}
        return replace(costs[0], **{name: round(value, 1) for name, value in middle.items()})

    def _block(self, seconds: float) -> Cost:
        jvm, turns, ends, answered = _jvm_pid(), 0, time.monotonic() + seconds, 0
        with _Sent() as sent, _Answered() as answers:
            python, java, workers, wall = time.process_time(), _cpu(jvm), _cpu_below(jvm), time.monotonic()
            while time.monotonic() < ends or turns < 5:
                self._turn()
                turns += 1
            answered = answers.bytes
            parts = (time.process_time() - python, _cpu(jvm) - java, _cpu_below(jvm) - workers, time.monotonic() - wall)
        figures = [part * 1000 / turns for part in parts]
        return Cost(self._lanes, sum(self._sources.values()), *figures, sent.bytes // turns, answered // turns)

    def _turn(self) -> None:
        """A turn of each lane, all at once, behind a stage where there is a shuffle."""
        stage = self._stage()
        rows, checksums = None, dict[TaskId, int]()
        if stage is not None:
            targets = {partition: self._owners[task] for task, fed in stage.feeds.items() for partition in fed}
            # Planned as the conductor does, with ranges of all sources; run without them, as there is no broker.
            nothing = [replace(w, ranges=tuple(r._replace(start=r.end) for r in w.ranges)) for w in stage.upstream]
            staged = self._lane_jobs.stage(nothing, targets, str(stage)).result()
            if staged.failure is not None:
                raise RuntimeError(f"a stage has failed: {staged.failure}")
            rows, checksums = staged.rows, dict(staged.checksums)
        self._checked([self._lane_jobs.process(lane, self._work(lane, stage, checksums), rows) for lane in range(self._lanes)])

    def _stage(self) -> Stage | None:
        if not self._plan.shuffled:
            return None
        positions, ends = self._positions, dict.fromkeys(self._positions.sources(), 1_000_001)
        window = front_window({task: positions.fed(task) for task in self._owners}, positions.vectors, ends)
        stage = plan_stage(self._plan, _NAME, window, positions.vectors, lambda backlog: backlog)
        assert stage is not None
        return stage

    def _work(self, lane: int, stage: Stage | None, checksums: Mapping[TaskId, int]) -> LaneWork:
        tasks = [task for task, owner in self._owners.items() if owner == lane]
        if stage is None:
            return LaneWork({task: TaskWork() for task in tasks}, b"", with_metrics=False)
        part = StagePart(stage, {task: stage.feeds[task] for task in tasks})
        turn = plan_turn(self._plan, self._positions, {}, tasks, (), lambda backlog: backlog, part=part)
        assert turn is not None
        return LaneWork(turn.work, b"", stages=checksums, read=turn.read, with_metrics=False, description=str(turn))

    def _checked(self, asked: list[Future[LaneAnswer]]) -> None:
        wait(asked)
        for answer in map(self._lane_jobs.answer, asked):
            if answer.failure is not None or answer.lost:
                raise RuntimeError(f"a turn has failed: {answer.failure}")


# -- what is measured


class _Sent:
    """Bytes that this process hands to the JVM while it is entered: through sockets, and through files that the JVM reads."""

    def __enter__(self) -> _Sent:
        self._send: Callable[..., None] = socket.socket.sendall
        self._lock, self._through_sockets, self._written = threading.Lock(), 0, _written()

        def sendall(connection: socket.socket, data: Any, *flags: int) -> None:
            with self._lock:
                self._through_sockets += len(data)
            self._send(connection, data, *flags)

        socket.socket.sendall = sendall  # type: ignore[assignment,method-assign]
        return self

    def __exit__(self, *_: object) -> None:
        socket.socket.sendall = self._send  # type: ignore[assignment,method-assign]
        self.bytes = self._through_sockets + _written() - self._written


class _Answered:
    """Bytes of the lanes' answers while it is entered."""

    def __enter__(self) -> _Answered:
        from penstock.spark.driver import lane_jobs

        self.bytes, self._read = 0, lane_jobs.read_answer

        def read_answer(data: bytes) -> Any:
            self.bytes += len(data)
            return self._read(data)

        lane_jobs.read_answer = read_answer  # type: ignore[attr-defined]
        return self

    def __exit__(self, *_: object) -> None:
        from penstock.spark.driver import lane_jobs

        lane_jobs.read_answer = self._read  # type: ignore[attr-defined]


def _written() -> int:
    fields = dict(line.split(": ") for line in Path("/proc/self/io").read_text().splitlines())
    return int(fields["wchar"])


def _jvm_pid() -> int:
    gateway: Any = SparkContext._gateway
    return int(gateway.proc.pid)


def _cpu(pid: int) -> float:
    """CPU seconds of one process, without its children."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _cpu_below(parent: int) -> float:
    """CPU seconds of all that a process has started."""
    parents: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parents[int(entry.name)] = int((entry / "stat").read_text().rsplit(")", 1)[1].split()[1])
            except (OSError, ValueError):
                continue  # gone meanwhile
    found, new = set[int](), {parent}
    while new:
        new = {pid for pid, above in parents.items() if above in new} - found
        found |= new
    total = 0.0
    for pid in found:
        try:
            total += parse_stat(Path(f"/proc/{pid}/stat").read_text()).cpu_seconds
        except (OSError, ValueError):
            continue
    return total


# -- the page


def write(folder: Path, label: str, found: dict[str, list[Cost]]) -> None:
    """Keep the run beside the others, and write the tables of all of them."""
    folder.mkdir(parents=True, exist_ok=True)
    data = folder / "lanes.json"
    runs = json.loads(data.read_text()) if data.exists() else {}
    rows = {name: [asdict(cost) for cost in costs] for name, costs in found.items() if costs}
    runs[label] = {**runs.get(label, {}), "environment": environment.describe(), **rows}
    data.write_text(json.dumps(runs, indent=1) + "\n")
    (folder / "lanes.md").write_text(page(runs))
    print(page(runs))


def page(runs: dict[str, Any]) -> str:
    """The tables."""
    lines = [
        "# What a turn costs the driver",
        "",
        "No record is read and no broker is asked: what is left is what a turn takes itself, with as many local cores as "
        "lanes. CPU in milliseconds a turn: of Python and of the JVM, which together are the driver (with a local "
        "master the JVM is the executor too), and of the lanes' workers. Medians of blocks of turns. The machine does other "
        "things meanwhile, which CPU time hardly shows and the clock does. Sent: what Python hands to the JVM for a turn; "
        "answers: what lanes say.",
        "",
        "Without a shuffle, a task in each lane:",
        "",
        *_table(runs, "turns", "lanes"),
        "",
        f"Through a shuffle, as many tasks before it as behind it, {_SHUFFLE_LANES} lanes:",
        "",
        *_table(runs, "shuffles", "partitions"),
        "",
        *(
            f"{label}: {', '.join(f'{name} {value}' for name, value in run['environment'].items())}\n"
            for label, run in runs.items()
        ),
    ]
    return "\n".join(lines)


def _table(runs: dict[str, Any], kind: str, axis: str) -> list[str]:
    lines = [
        f"| {axis} | run | driver | a {axis.removesuffix('s')} | Python | JVM | workers | clock | sent | answers |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for size in sorted({row[axis] for run in runs.values() for row in run.get(kind, ())}):
        for label, run in runs.items():
            for row in run.get(kind, ()):
                if row[axis] == size:
                    cost = Cost(**row)
                    lines.append(
                        f"| {size} | {label} | {cost.driver_ms:.1f} ms | {cost.driver_ms / size:.1f} ms | {cost.python_ms:.1f} | "
                        f"{cost.jvm_ms:.1f} | {cost.workers_ms:.1f} | {cost.wall_ms:.0f} ms | {_size(cost.sent_bytes)} | "
                        f"{_size(cost.answer_bytes)} |"
                    )
    for label, run in runs.items():
        rows = run.get(kind, ())
        sizes, costs = [row[axis] for row in rows], [Cost(**row).driver_ms for row in rows]
        if len(set(sizes)) > 1:
            slope, fixed = statistics.linear_regression(sizes, costs)
            lines += ["", f"{label}: about {fixed:.0f} ms and {slope:.1f} ms a {axis.removesuffix('s')}."]
    return lines


def _size(count: float) -> str:
    return f"{count / 1024:.1f} KiB"


if __name__ == "__main__":
    main()
