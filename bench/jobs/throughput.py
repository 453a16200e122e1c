"""What the jobs with a fixed input have in common: from RUNNING to the last committed result."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import nullcontext

from bench.application import Side
from bench.job import Job, Measures
from bench.probe import Expected, wait_until_finished
from bench.processes import CpuWatch, MemoryWatch, cpu_seconds


class Throughput(Job):
    """Measures `seconds` from RUNNING, `with start-up` from the start of the process, `cpu`, and on demand the peak of memory."""

    def measure(
        self,
        side: Side,
        topology: str,
        source: str,
        expected: Expected,
        other: str = "-",
        tick: Callable[[], None] = lambda: None,
        partitions: int | None = None,
        prepare: Callable[[str], None] | None = None,
        settings: Mapping[str, str] | None = None,
        watch_memory: bool = False,
    ) -> Measures:
        count = partitions or self.partitions
        with self.application(side, topology, source, other, count, prepare, settings) as (app, spec):
            up = app.wait_until_running()
            ran = app.started + up
            memory = MemoryWatch(app.pid)
            with memory if watch_memory else nullcontext(), CpuWatch(app.pid) as cpu:
                done = wait_until_finished(self.bench.bootstrap, spec.sink, count, expected, app.check_alive, tick=tick)
            return {
                "seconds": done.at - ran,
                "with start-up": done.at - app.started,
                "start-up": up,
                "cpu": cpu.cpu,
                "cpu with start-up": cpu_seconds(app.pid),
                "probe cpu": done.probe_cpu,
                "output records": float(done.records),
                "silence": done.silence,
                **({"pss": memory.peak_pss, "rss": memory.peak_rss} if watch_memory else {}),
            }
