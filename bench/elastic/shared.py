"""`python -m bench.elastic.shared`: WordCount with the defaults for repartitions, on one instance, on five, and on one again.

    scenario    1 → 5 → 1 instances under load: tasks and records of each, whether all is exact, the longest gaps
    throughput  how fast so many instances count a backlog, through the shuffle and through the topic

All instances share this machine, so more of them are no faster than its cores.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench.elastic.instances import Instance, penstock
from bench.elastic.measure import Load
from bench.elastic.scenarios import Stage
from penstock.kafka.dev_broker import DevBroker

PARTITIONS = 5
# An instance that is left alone goes back to the shuffle after a minute; here there is no rolling restart to wait for.
_SETTINGS: dict[str, Any] = {"words": "yes", "num.standby.replicas": 0, "repartition.transport.delay.ms": 3_000}


def _stage(brokers: str, folder: Path, rate: int, ahead: int, pause: float, **settings: Any) -> Stage:
    application = f"words-{time.time_ns()}"
    load = Load(*(brokers, f"{application}-in", f"{application}-out", rate, ahead, "penstock"), partitions=PARTITIONS, words=True)
    return Stage(penstock(), load, brokers, folder, application, {**_SETTINGS, **settings}, pause)


def _end(stage: Stage, logs: Path | None, folder: Path) -> None:
    for instance in stage.instances:
        instance.kill()
    for log in folder.glob("*/log.txt") if logs is not None else ():
        (logs / f"{stage.application}-{log.parent.name}.log").write_bytes(log.read_bytes())  # type: ignore[operator]


def scaled(brokers: str, rate: int, ahead: int, pause: float, logs: Path | None = None) -> None:
    """1 → 5 → 1 instances under load."""
    with tempfile.TemporaryDirectory(prefix="shared-", ignore_cleanup_errors=True) as name:
        stage = _stage(brokers, Path(name), rate, ahead, pause)
        load, curve = stage.load, stage.load.curve
        try:
            with load:
                first = stage.start()
                stage.wait_for(lambda: len(first.tasks) == PARTITIONS, "one shuffles")
                load.begin()
                time.sleep(pause)
                load.note("four more")
                for _ in range(4):
                    stage.start()
                stage.wait_for(lambda: _is_even(stage.instances), "each has a task of each sub-topology", 240.0)
                _tell(stage.instances, "shared after", load.now - curve.first_event)
                before = [instance.processed for instance in stage.instances]
                time.sleep(2 * pause)
                load.note("all stay")
                after = [instance.processed for instance in stage.instances]
                print(f"  records by instance in {2 * pause:.0f} s: {[b - a for a, b in zip(before, after)]}", flush=True)
                for instance in stage.instances[1:]:
                    at = load.note("one leaves")
                    instance.stop()
                    stage.wait_for(lambda at=at: load.all_flow(at), "all partitions have output again")
                    time.sleep(pause / 2)
                at = load.note("one is left")
                stage.wait_for(lambda: first.tasks == {f"1_{p}" for p in range(PARTITIONS)}, "it shuffles again")
                _tell([first], "shuffles again after", load.now - at)
                time.sleep(pause)
                load.finish()
            for gaps in curve.by_event():
                print(f"  {gaps.what}: longest gap {max(gap for gap in (gaps.stayed, gaps.moved) if gap is not None):.1f} s")
            start = curve.first_event
            print(
                f"1 to 5 to 1 instances: longest gap {curve.longest_gap(start):.1f} s, silence {curve.silence(start):.1f} s, "
                f"{curve.replayed(start):,} replayed; exact: {curve.exact}; {'; '.join(curve.notes)}",
                flush=True,
            )
        finally:
            _end(stage, logs, Path(name))


def _is_even(instances: list[Instance]) -> bool:
    return all(i.is_running and sorted(task[0] for task in i.tasks) == ["0", "1"] for i in instances)


def _tell(instances: list[Instance], what: str, seconds: float) -> None:
    print(f"  {what} {seconds:.1f} s: {[sorted(instance.tasks) for instance in instances]}", flush=True)


def throughput(brokers: str, transport: str, instances: int, records: int, logs: Path | None = None) -> float:
    """How many records a second so many instances count, of a backlog that is written while they wait."""
    with tempfile.TemporaryDirectory(prefix="shared-", ignore_cleanup_errors=True) as name:
        stage = _stage(brokers, Path(name), 0, records, 0.0, **{"repartition.transport": transport})
        try:
            with stage.load:
                for _ in range(instances):
                    stage.start()
                stage.wait_for(_all_work(stage, transport), "all work", 240.0)
                stage.load.begin()
                seconds = stage.load.now
                stage.load.finish()
                if not stage.load.curve.exact.startswith("yes"):
                    print(f"  {transport} on {instances}: {stage.load.curve.exact}", flush=True)
            return records / seconds
        finally:
            _end(stage, logs, Path(name))


def _all_work(stage: Stage, transport: str) -> Callable[[], bool]:
    tasks = PARTITIONS if transport == "shuffle" else 2 * PARTITIONS
    return lambda: (
        all(instance.is_running for instance in stage.instances)
        and sum(len(instance.tasks) for instance in stage.instances) == tasks
        and (transport == "shuffle" or all(len(instance.tasks) for instance in stage.instances))
    )


def main() -> None:
    parser = argparse.ArgumentParser(prog="bench.elastic.shared", description=__doc__)
    parser.add_argument("what", choices=["scenario", "throughput", "both"], nargs="?", default="both")
    parser.add_argument("--rate", type=int, default=1_000, help="records a second")
    parser.add_argument("--ahead", type=int, default=50_000, help="records that are written at once, before anything is done")
    parser.add_argument("--pause", type=float, default=10.0, help="seconds between two events")
    parser.add_argument("--records", type=int, default=1_000_000, help="the backlog that is counted")
    parser.add_argument("--instances", type=int, nargs="+", default=[1, 2, 3, 5])
    parser.add_argument("--logs", type=Path, help="a folder for what the instances say")
    arguments = parser.parse_args()
    if arguments.what != "throughput":
        with DevBroker() as broker:
            scaled(broker.bootstrap_servers, arguments.rate, arguments.ahead, arguments.pause, arguments.logs)
    if arguments.what != "scenario":
        print("| instances | shuffle (records/s) | topic (records/s) |\n|---:|---:|---:|", flush=True)
        for instances in arguments.instances:
            found = []
            for transport in ("shuffle", "topic"):
                with DevBroker() as broker:
                    found.append(throughput(broker.bootstrap_servers, transport, instances, arguments.records, arguments.logs))
            print(f"| {instances} | {found[0]:,.0f} | {found[1]:,.0f} |", flush=True)


if __name__ == "__main__":
    main()
