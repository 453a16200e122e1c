"""Where a batch's time goes: penstock's side of a job alone, seen by its own timings, by Spark's event log and by py-spy."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import tempfile
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench import environment, report, tools
from bench.application import Application
from bench.job import Bench
from bench.jobs import JOBS
from bench.penstock_app import BATCHES_FILE
from bench.processes import ProcessStat, session_of
from bench.runner import BROKER_SETTINGS
from penstock.kafka.dev_broker import DevBroker

_RATE = 100
_SHOWN = 15


def run(number: int, scale: float, only: frozenset[str] = frozenset()) -> str:
    """Run a job's first variant on penstock, of those that are wanted; the breakdown as a page."""
    with tempfile.TemporaryDirectory(prefix="bench-profile-") as name, DevBroker(overrides=BROKER_SETTINGS).start(300) as broker:
        folder = Path(name)
        (folder / "events").mkdir()
        os.environ[BATCHES_FILE] = str(folder / "batches.jsonl")
        job = JOBS[number](Bench(broker.bootstrap_servers, scale, quick=True, only=only))
        job.extra_settings = {
            "spark.eventLog.enabled": "true",
            "spark.eventLog.compress": "false",
            "spark.eventLog.rolling.enabled": "false",
            "spark.eventLog.dir": (folder / "events").as_uri(),
        }
        snapshots: list[list[ProcessStat]] = []
        job.observe = lambda app: _spying(app, folder, snapshots)
        job.feed()
        variant = job.variants()[0]
        measures = job.run_penstock(variant)
        told = ", ".join(f"{key} {report.number(value)}" for key, value in measures.items())
        parts = [
            f"# Profile of job {number}: {job.title}",
            f"penstock, {variant}, sizes times {scale:g}, commit {environment.describe()['commit']}; slowed down by py-spy.",
            told,
        ]
        if (folder / "batches.jsonl").exists():
            parts += ["## Batches", batches((folder / "batches.jsonl").read_text().splitlines())]
        if len(snapshots) == 2:
            parts += ["## Processes", processes(*snapshots)]
        for log in (folder / "events").rglob("*"):
            if log.is_file() and log.stat().st_size and not log.name.startswith("."):
                parts += ["## Spark", spark_tasks(log.read_text().splitlines())]
        for phase in ("start-up", "running"):
            stacks = {path.stem.split("@")[1]: path.read_text() for path in sorted(folder.glob(f"{phase}@*.raw"))}
            if stacks:
                parts += [f"## Python, {phase}", hot_functions(stacks)]
        return "\n\n".join(parts) + "\n"


def processes(at_running: list[ProcessStat], at_end: list[ProcessStat]) -> str:
    """CPU seconds of each process, at RUNNING and from then on."""
    before = {stat.pid: stat.cpu_seconds for stat in at_running}
    rows = [
        [str(stat.pid), stat.command, f"{before.get(stat.pid, 0.0):.1f}", f"{stat.cpu_seconds - before.get(stat.pid, 0.0):.1f}"]
        for stat in sorted(at_end, key=lambda stat: stat.pid)
    ]
    return report.table(["pid", "process", "CPU s until RUNNING", "CPU s from then on"], rows)


# -- penstock's own timings --------------------------------------------------------------------------------------------


def batches(lines: list[str]) -> str:
    """Return a table of what the steps of a batch took, for large and for small batches."""
    all_batches = [json.loads(line) for line in lines]
    parts = []
    for label, chosen in (
        ("over 1,000 records", [batch for batch in all_batches if batch["records"] > 1000]),
        ("up to 1,000 records", [batch for batch in all_batches if batch["records"] <= 1000]),
    ):
        if not chosen:
            continue
        seconds, records = sum(batch["seconds"] for batch in chosen), sum(batch["records"] for batch in chosen)
        steps: Counter[str] = Counter()
        for batch in chosen:
            steps.update(batch["steps"])
        steps["rest"] = seconds - sum(steps.values())
        parts.append(
            f"{len(chosen)} batches {label}: {seconds:.2f} s, {records:,} records, "
            f"{1000 * seconds / len(chosen):.1f} ms a batch\n\n"
            + report.table(
                ["step", "s", "ms a batch", "%"],
                [
                    [step, f"{total:.2f}", f"{1000 * total / len(chosen):.1f}", f"{100 * total / seconds:.0f}"]
                    for step, total in steps.most_common()
                ],
            )
        )
    return "\n\n".join(parts) or "no batches"


# -- Spark's event log -------------------------------------------------------------------------------------------------


def spark_tasks(lines: list[str]) -> str:
    """Jobs and tasks by stage name, and where a task's time goes outside of Python."""
    jobs, tasks, names = 0, dict[str, list[dict[str, float]]](), dict[int, str]()
    for line in lines:
        event: dict[str, Any] = json.loads(line)
        kind = event.get("Event")
        if kind == "SparkListenerJobStart":
            jobs += 1
        elif kind == "SparkListenerStageSubmitted":
            names[event["Stage Info"]["Stage ID"]] = event["Stage Info"]["Stage Name"]
        elif kind == "SparkListenerTaskEnd" and event.get("Task Metrics"):
            info, metrics = event["Task Info"], event["Task Metrics"]
            whole = info["Finish Time"] - info["Launch Time"]
            run_time, read = metrics["Executor Run Time"], metrics["Executor Deserialize Time"]
            tasks.setdefault(names.get(event["Stage ID"], "?"), []).append(
                {
                    "whole": whole,
                    "run": run_time,
                    "deserialize": read,
                    "other": whole - run_time - read,
                    "gc": metrics["JVM GC Time"],
                }
            )
    columns = ["whole", "run", "deserialize", "other", "gc"]
    rows = [
        [name, str(len(group)), *(f"{sum(t[c] for t in group) / len(group):.1f}" for c in columns)]
        for name, group in tasks.items()
    ]
    return f"{jobs} jobs; means per task in ms\n\n" + report.table(["stage", "tasks", *columns], rows)


# -- py-spy ------------------------------------------------------------------------------------------------------------


@contextmanager
def _spying(app: Application, folder: Path, snapshots: list[list[ProcessStat]]) -> Iterator[None]:
    """py-spy on each Python process: one record until RUNNING, another from then on; the processes at RUNNING and at the end."""
    try:
        spy = tools.environment("tools") / "py-spy"
    except RuntimeError as exc:
        print(f"without py-spy: {exc}")
        yield
        return
    ended = threading.Event()
    recorders: dict[tuple[str, int], subprocess.Popen[bytes]] = {}

    def watch() -> None:
        while not ended.wait(0.2):
            phase = "running" if app.is_up.is_set() else "start-up"
            if app.is_up.is_set() and not snapshots:
                snapshots.append(session_of(app.pid))
            for old in [key for key in recorders if key[0] != phase]:
                _end(recorders.pop(old))
            for stat in session_of(app.pid):
                if stat.command.startswith("python") and (phase, stat.pid) not in recorders:
                    output = folder / f"{phase}@{_role(stat.pid, app.pid)}.raw"
                    options = [
                        "-r",
                        str(_RATE),
                        "-d",
                        "3600",
                        "-f",
                        "raw",
                        "-o",
                        str(output),
                        "--nonblocking",
                        "-p",
                        str(stat.pid),
                    ]
                    recorders[phase, stat.pid] = subprocess.Popen(
                        [str(spy), "record", *options], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
                    )

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
        snapshots.append(session_of(app.pid))
        for recorder in recorders.values():
            _end(recorder)


def _end(recorder: subprocess.Popen[bytes]) -> None:
    """py-spy writes what it has when it is interrupted."""
    if recorder.poll() is None:
        recorder.send_signal(signal.SIGINT)
    try:
        recorder.wait(20)
    except subprocess.TimeoutExpired:
        recorder.kill()
        recorder.wait()


def _role(pid: int, leader: int) -> str:
    return f"driver-{pid}" if pid == leader else f"worker-{pid}"


def hot_functions(stacks: dict[str, str]) -> str:
    """Functions by their own time and by the time in all they call, over the processes of a kind."""
    own, whole, samples = Counter[tuple[str, str]](), Counter[tuple[str, str]](), Counter[str]()
    for process, text in stacks.items():
        role = process.split("-")[0]
        for line in text.splitlines():
            stack, _, count = line.rpartition(" ")
            frames = [_function(frame) for frame in stack.split(";")]
            samples[role] += int(count)
            own[role, frames[-1]] += int(count)
            whole.update({(role, frame): int(count) for frame in set(frames)})
    parts = []
    for role, total in samples.most_common():
        for title, counts in (("own time", own), ("with what it calls", whole)):
            chosen = [(name, count) for (kind, name), count in counts.most_common() if kind == role][:_SHOWN]
            rows = [
                [f"`{name}`", f"{count / _RATE:.1f}", f"{100 * count / total:.0f}"]
                for name, count in chosen
                if count * 200 > total
            ]
            parts.append(f"{role}, {total / _RATE:.1f} s sampled, {title}\n\n" + report.table(["function", "s", "%"], rows))
    return "\n\n".join(parts)


def _function(frame: str) -> str:
    """A frame without its line number and machine's folders.

    >>> _function("count (/home/x/site-packages/penstock/a.py:12)")
    'count (penstock/a.py)'
    """
    name, _, place = frame.partition(" (")
    path = place.rstrip(")").rpartition(":")[0] or place.rstrip(")")
    for root in ("site-packages/", "/src/", "/lib/python3"):
        if root in path:
            path = path.split(root)[-1]
    return f"{name} ({path})"
