"""`python -m bench.elastic`: fail-over with and without a standby, and 1 → 3 → 1 instances, under load, beside Kafka Streams.

Writes a picture for each scenario and a table of the longest gaps in the output into `bench/results`.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from bench.elastic.draw import svg
from bench.elastic.measure import Curve, Load
from bench.kafka_streams import _PROJECT, _class_path
from penstock.kafka.dev_broker import DevBroker

_RESULTS = Path(__file__).parents[1] / "results"


class Instance:
    """A process that runs one instance; ended by closing its input, or killed."""

    def __init__(self, command: Sequence[str]) -> None:
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def wait(self) -> Instance:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.strip() == "RUNNING":
                return self
        raise RuntimeError("an instance ended before it ran")

    def stop(self) -> None:
        assert self._process.stdin is not None
        if self._process.poll() is None:
            self._process.stdin.close()
            self._process.wait(60)

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()


class Library:
    """How instances of one of the two are started."""

    def __init__(self, name: str, command: Sequence[str]) -> None:
        self.name, self._command = name, command

    def start(self, application: str, brokers: str, folder: Path, standbys: int, static_id: str = "") -> Instance:
        arguments = [application, brokers, str(folder), f"{application}-in", f"{application}-out", str(standbys), static_id]
        return Instance([*self._command, *arguments])


Scenario = Callable[[Load, Callable[[int], Instance], float], None]


def killed(load: Load, start: Callable[[int], Instance], pause: float) -> None:
    """Two instances; one is killed."""
    first, second = start(0).wait(), start(1).wait()
    time.sleep(pause)
    load.note("kill -9")
    first.kill()
    time.sleep(60)
    second.stop()


def scaled(load: Load, start: Callable[[int], Instance], pause: float) -> None:
    """1 → 3 → 1."""
    instances = [start(0).wait()]
    time.sleep(pause)
    load.note("3 instances")
    instances += [start(1), start(2)]
    for instance in instances[1:]:
        instance.wait()
    time.sleep(2 * pause)
    load.note("1 instance")
    for instance in instances[:2]:
        instance.stop()
    time.sleep(pause)
    instances[2].stop()


SCENARIOS: dict[str, tuple[Scenario, int]] = {
    "killed with a standby": (killed, 1),
    "killed without a standby": (killed, 0),
    "from one to three instances and back": (scaled, 0),
}


def run(library: Library, name: str, brokers: str, rate: int, pause: float) -> Curve:
    """One scenario with one library; what is still alive at the end is killed."""
    scenario, standbys = SCENARIOS[name]
    application, started = f"{library.name.replace(' ', '-')}-{time.time_ns()}".lower(), list[Instance]()
    with tempfile.TemporaryDirectory() as folder:

        def start(index: int) -> Instance:
            started.append(library.start(application, brokers, Path(folder) / str(index), standbys))
            return started[-1]

        try:
            with Load(brokers, f"{application}-in", f"{application}-out", rate, library.name) as load:
                scenario(load, start, pause)
        finally:
            for instance in started:
                instance.kill()
    return load.curve


def main() -> None:
    parser = argparse.ArgumentParser(prog="bench.elastic", description=__doc__)
    parser.add_argument("--rate", type=int, default=2_000, help="records a second")
    parser.add_argument("--pause", type=float, default=15.0, help="seconds between two events")
    parser.add_argument("--only", choices=list(SCENARIOS))
    parser.add_argument("--penstock-only", action="store_true")
    arguments = parser.parse_args()
    libraries = [Library("penstock", [sys.executable, "-m", "bench.elastic.instance"])]
    if not arguments.penstock_only:
        java = ["java", "-cp", f"{_PROJECT}/target/classes:{_class_path()}", "bench.Elastic"]
        libraries.append(Library("Kafka Streams", java))
    _RESULTS.mkdir(exist_ok=True)
    rows = ["| scenario | " + " | ".join(f"{library.name}: longest gap (s)" for library in libraries) + " |"]
    rows.append("|---" * (len(libraries) + 1) + "|")
    with DevBroker() as broker:
        for name in [arguments.only] if arguments.only else SCENARIOS:
            curves = [run(library, name, broker.bootstrap_servers, arguments.rate, arguments.pause) for library in libraries]
            (_RESULTS / f"elastic-{name.replace(' ', '-')}.svg").write_text(svg(name, curves))
            gaps = [curve.longest_gap(curve.events[0][0]) for curve in curves]
            rows.append(f"| {name} | " + " | ".join(f"{gap:.1f}" for gap in gaps) + " |")
            print(rows[-1], flush=True)
    (_RESULTS / "elastic.md").write_text("# Longest time without output\n\n" + "\n".join(rows) + "\n")


if __name__ == "__main__":
    main()
