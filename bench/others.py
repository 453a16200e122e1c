"""Beside other libraries for Python, where they install and can do the job: WordCount on a part of job 1's input.

Spark Structured Streaming is left out: its Kafka connector is a package of its own that does not come with pyspark, and where it
cannot be resolved there is nothing to measure.
"""

from __future__ import annotations

import dataclasses
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from bench import tools
from bench.job import Bench
from bench.jobs.wordcount import EOS, LINES, feed_lines
from bench.load import create_topic
from bench.probe import Expected, wait_until_finished
from bench.processes import end_session
from bench.runner import Result

_HERE = Path(__file__).parent / "other_libraries"
# The name of the script and of its environment, and the part of the input: all of it would take Faust an hour.
_LIBRARIES = {"Quix Streams": ("quix", 0.1), "Faust": ("faust", 0.02)}
_SECONDS = 240.0


def add(result: Result, bench: Bench, log: Callable[[str], None]) -> None:
    """Run the other libraries and add them to the result of job 1."""
    times = {}
    for library, (name, share) in _LIBRARIES.items():
        part, source = dataclasses.replace(bench, scale=bench.scale * share), f"lines-{name}"
        try:
            seconds = _run(name, tools.environment(name), bench.bootstrap, source, feed_lines(part, source))
        except (RuntimeError, TimeoutError, AssertionError) as exc:
            result.notes.append(f"{library} could not do the job here: {str(exc).strip().splitlines()[-1]}")
            log(result.notes[-1])
            continue
        times[library] = seconds / share
        log(f"{library}: {seconds:.1f} s for {part.scaled(LINES):,} lines")
    result.notes.append(
        "Other libraries: one process with their defaults on a part of the input, from the first result to the last one, "
        "extrapolated to all of it. Quix Streams exactly-once, Faust at-least-once. Spark Structured Streaming is not measured: "
        "its Kafka connector does not come with pyspark and could not be resolved here."
    )
    result.rows = [dataclasses.replace(row, others=times) if row.label == f"{EOS}, from RUNNING" else row for row in result.rows]


def _run(name: str, binaries: Path, bootstrap: str, source: str, expected: Expected) -> float:
    """Seconds from the first result to the last one."""
    sink, folder = f"{name}-{time.time_ns()}-out", tempfile.mkdtemp(prefix="bench-state-")
    for topic in (sink, f"{name}-{sink}-words"):  # Faust reads its own topic before anybody has written to it
        create_topic(bootstrap, topic, 4)
    script = [str(binaries / "python"), str(_HERE / f"{name}_wordcount.py")]
    arguments = [bootstrap, source, sink, folder] if name == "quix" else ["worker", "-l", "error", "--without-web"]
    variables = dict(zip(("BOOTSTRAP", "SOURCE", "SINK", "STATE_DIR"), (bootstrap, source, sink, folder)))
    with tempfile.TemporaryFile("w+") as output:
        process = subprocess.Popen(
            [*script, *arguments], stdout=output, stderr=output, start_new_session=True, env={**os.environ, **variables}
        )

        def check_alive() -> None:
            if process.poll() is not None:
                output.seek(0)
                raise RuntimeError(output.read().strip()[-300:] or f"it ended with {process.returncode}")

        try:
            done = wait_until_finished(bootstrap, sink, 4, expected, check_alive, _SECONDS)
            return done.at - done.first
        finally:
            end_session(process.pid)
            process.wait()
            shutil.rmtree(folder, ignore_errors=True)
