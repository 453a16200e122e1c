"""`python -m bench.elastic.neighbours`: what trouble in one of four tasks does to the other three.

One task sleeps two seconds a record, or meets a record that it cannot process and whose thread is replaced again and again; the
three others get a steady load. Writes data and a page into `bench/results`.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench import environment
from bench.elastic.instances import Instance, troubled
from bench.elastic.watched import NEIGHBOURS, PARTITIONS, TROUBLED, Load, names_in, percentile
from penstock.kafka.dev_broker import DevBroker

_RESULTS = Path(__file__).parents[1] / "results"
_DATA, _PAGE = _RESULTS / "neighbours.json", _RESULTS / "neighbours.md"
_START_SECONDS, _REST_SECONDS, _WARM_UP_SECONDS = 180.0, 120.0, 8.0
_MOST_SLOWED, _LONGEST_GAP = 1.5, 1.0
_SETTINGS = {"num.stream.threads": PARTITIONS}


@dataclass(frozen=True)
class Scenario:
    """One kind of trouble in one kind of topology."""

    run: Callable[[Load, Instance, Path, float], dict[str, Any]]
    kind: str
    guarantee: str

    @property
    def settings(self) -> dict[str, Any]:
        """What the application is started with."""
        return {**_SETTINGS, "processing.guarantee": self.guarantee, "kind": self.kind}


def slow(load: Load, _: Instance, __: Path, seconds: float) -> dict[str, Any]:
    """First the troubled task has nothing that takes long, then everything it gets does."""
    (calm,), (slow_key,) = names_in(TROUBLED, "calm"), names_in(TROUBLED, "slow")
    load.also(calm, every=2.0)
    time.sleep(_WARM_UP_SECONDS)
    marks = [time.time()]
    time.sleep(seconds)
    load.also(slow_key, every=2.0)
    marks.append(time.time())
    time.sleep(seconds)
    marks.append(time.time())
    load.stop()
    load.wait_for_rest(range(PARTITIONS), _REST_SECONDS)
    found: dict[str, Any] = {}
    for name, start, end in (("calm", *marks[:2]), ("trouble", *marks[1:])):
        latencies = load.output.latencies(NEIGHBOURS, start, end)
        found[name] = {
            "records": len(latencies),
            "p50": percentile(latencies, 0.5),
            "p99": percentile(latencies, 0.99),
            "gap": load.output.gap(NEIGHBOURS, start, end),
        }
    return found


def poison(load: Load, instance: Instance, folder: Path, seconds: float) -> dict[str, Any]:
    """A record that cannot be processed, until it is said to be repaired; what is behind it in its partition waits."""
    (fine,), (poisoned,) = names_in(TROUBLED, "fine"), names_in(TROUBLED, "poison")
    load.also(fine, every=0.1)
    time.sleep(_WARM_UP_SECONDS)
    marks = [time.time()]
    time.sleep(min(seconds, 15.0))
    marks.append(time.time())
    load.write(poisoned)
    time.sleep(seconds)
    marks.append(time.time())
    failures = instance.failures
    repeated = load.output.repeated(NEIGHBOURS)
    (folder / "repaired").touch()
    time.sleep(5.0)
    load.stop()
    load.wait_for_rest(range(PARTITIONS), _REST_SECONDS)
    output = load.output
    found: dict[str, Any] = {
        name: {"gap": output.gap(NEIGHBOURS, start, end), "records": len(output.latencies(NEIGHBOURS, start, end))}
        for name, start, end in (("calm", *marks[:2]), ("trouble", *marks[1:]))
    }
    found["failures"] = failures
    found["neighbours"] = {"repeated": output.repeated(NEIGHBOURS), "meanwhile": repeated, "missing": output.missing(NEIGHBOURS)}
    found["troubled"] = {"repeated": output.repeated([TROUBLED]), "missing": output.missing([TROUBLED])}
    return found


SCENARIOS = {
    "slow task": Scenario(slow, "map", "at_least_once"),
    "slow task, exactly-once": Scenario(slow, "map", "exactly_once_v2"),
    "slow task behind a shuffle": Scenario(slow, "shuffled", "exactly_once_v2"),
    "poison, at-least-once": Scenario(poison, "count", "at_least_once"),
    "poison, exactly-once": Scenario(poison, "count", "exactly_once_v2"),
    "poison behind a shuffle, exactly-once": Scenario(poison, "shuffled", "exactly_once_v2"),
}


def play(scenario: Scenario, rate: float, seconds: float, logs: Path | None = None) -> dict[str, Any]:
    """One scenario on a broker of its own; what is left of the application at the end is killed."""
    application = f"neighbours-{time.time_ns()}"
    with tempfile.TemporaryDirectory(prefix="neighbours-", ignore_cleanup_errors=True) as folder, DevBroker() as broker:
        load = Load(
            broker.bootstrap_servers,
            f"{application}-in",
            f"{application}-out",
            rate,
            shuffled=scenario.kind == "shuffled",
            counted=scenario.kind != "map",
            committed=scenario.guarantee != "at_least_once",
        )
        started = troubled().start(application, broker.bootstrap_servers, Path(folder), scenario.settings, lambda _: None)
        with _ended(started, Path(folder), logs):
            _wait_until_running(started)
            with load:
                return scenario.run(load, started, Path(folder), seconds)


def _wait_until_running(instance: Instance) -> None:
    deadline = time.monotonic() + _START_SECONDS
    while not instance.is_running:
        if not instance.is_alive or time.monotonic() > deadline:
            raise RuntimeError("the application did not start")
        time.sleep(0.1)


@contextmanager
def _ended(instance: Instance, folder: Path, logs: Path | None) -> Iterator[None]:
    """Whatever happens meanwhile, the application is gone afterwards; its last words are shown where it failed."""
    log = folder / "log.txt"
    try:
        yield
    except BaseException:
        print(log.read_text(errors="replace")[-3000:], flush=True)
        raise
    finally:
        instance.kill()
        if logs is not None:
            logs.mkdir(parents=True, exist_ok=True)
            (logs / f"neighbours-{time.time_ns()}.log").write_bytes(log.read_bytes())


# -- the page ----------------------------------------------------------------------------------------------------------

_INTRODUCTION = """# Trouble in one of four tasks

Four partitions and `num.stream.threads = 4`; all other settings are the defaults. Three partitions get a steady load; the
fourth is in trouble. Neighbours are the tasks of the three.

- **Slow task**: each of its records sleeps two seconds, and one comes every two seconds. Latency is from the write of a record to
  the read of its result, of the neighbours, before and meanwhile in the same run.
- **Poison**: a record fails whenever it is tried, and the handler answers REPLACE_THREAD, until it is repaired at the end. A gap
  is the longest time one of the neighbours was without output. Repeated are results that came more than once or were of records
  never written; missing are those that never came. Under at-least-once the troubled task may repeat.
"""
_SLOW = ["scenario", "calm: p50 (ms)", "p99", "meanwhile: p50", "p99", "ratio p50", "ratio p99", f"at most {_MOST_SLOWED}"]
_POISON = ["scenario", "tries", "calm: longest gap (s)", "meanwhile", f"at most {_LONGEST_GAP}"]
_POISON += ["neighbours: repeated", "missing", "troubled: repeated", "missing"]


def row(name: str, found: Mapping[str, Any]) -> str:
    """A line of the table."""
    calm, trouble = found["calm"], found["trouble"]
    if "p50" in calm:
        ratios = [trouble[p] / calm[p] for p in ("p50", "p99")]
        cells = [f"{phase[p] * 1000:,.0f}" for phase in (calm, trouble) for p in ("p50", "p99")]
        cells += [*(f"{ratio:.2f}" for ratio in ratios), "reached" if max(ratios) <= _MOST_SLOWED else "**missed**"]
    else:
        cells = [str(found["failures"]), f"{calm['gap']:.2f}", f"{trouble['gap']:.2f}"]
        cells.append("reached" if trouble["gap"] <= _LONGEST_GAP else "**missed**")
        cells += [f"{found[who][what]:,}" for who in ("neighbours", "troubled") for what in ("repeated", "missing")]
    return f"| {name} | {' | '.join(cells)} |"


def head(scenario: Scenario) -> str:
    """The top of the table that a scenario belongs to."""
    columns = _SLOW if scenario.run is slow else _POISON
    return f"| {' | '.join(columns)} |\n|---|{'---:|' * (len(columns) - 1)}"


def page(data: Mapping[str, Any]) -> str:
    """All that was measured so far."""
    lines, measured = [_INTRODUCTION], {name: SCENARIOS[name] for name in SCENARIOS if name in data}
    for top in dict.fromkeys(map(head, measured.values())):
        lines += [top, *(row(name, data[name]["found"]) for name, scenario in measured.items() if head(scenario) == top), ""]
    lines += ["## How it was made", "", "| scenario | commit | date | load | settings |", "|---|---|---|---|---|"]
    versions = ""
    for name, scenario in measured.items():
        made, settings = data[name]["made"], ", ".join(f"`{k} = {v}`" for k, v in scenario.settings.items() if k != "kind")
        load = f"{data[name]['rate']:g}/s in each partition for {data[name]['seconds']:g} s"
        lines.append(f"| {name} | {made['commit']} | {made['date']} | {load} | {settings} |")
        versions = ", ".join(f"{key} {value}" for key, value in made.items() if key not in ("commit", "date"))
    return "\n".join([*lines, "", versions, ""])


def main() -> None:
    """Measure, and write the page."""
    parser = argparse.ArgumentParser(prog="bench.elastic.neighbours", description=__doc__)
    parser.add_argument("--only", choices=list(SCENARIOS), action="append")
    parser.add_argument("--rate", type=float, default=20.0, help="records a second in each partition without trouble")
    parser.add_argument("--seconds", type=float, default=60.0, help="how long the trouble lasts")
    parser.add_argument("--logs", type=Path, help="a folder for what the applications say")
    parser.add_argument("--trial", action="store_true", help="show the tables and keep nothing")
    parser.add_argument("--page", action="store_true", help="write the page anew, and measure nothing")
    arguments = parser.parse_args()
    data: dict[str, Any] = json.loads(_DATA.read_text()) if _DATA.exists() else {}
    for name in () if arguments.page else arguments.only or SCENARIOS:
        scenario = SCENARIOS[name]
        found = play(scenario, arguments.rate, arguments.seconds, arguments.logs)
        data[name] = {"found": found, "rate": arguments.rate, "seconds": arguments.seconds, "made": environment.describe()}
        print(f"{head(scenario)}\n{row(name, found)}", flush=True)
        if not arguments.trial:
            _DATA.write_text(json.dumps(data, indent=1) + "\n")
    if not arguments.trial:
        _PAGE.write_text(page(data))


if __name__ == "__main__":
    main()
