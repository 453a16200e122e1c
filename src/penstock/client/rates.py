"""Records per second, from the stream threads' reports, which arrive about once a second.

A report covers the time since the thread's last one. Its counts are spread evenly over that time, so that a rate does not
depend on the number of reports in its window.
"""

from __future__ import annotations

import threading
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from penstock.clock import wall_time
from penstock.runtime.flow import Edge
from penstock.spark.messages import ThreadReport

RATE_SECONDS = 10.0
REPORT_DELAY = 2.0
"""Work of this age has certainly been reported."""


class Span(NamedTuple):
    """The time that a report covers."""

    start: float
    end: float

    def part(self, start: float, end: float) -> float:
        """Return the fraction of the span between two times.

        >>> Span(10.0, 12.0).part(11.0, 20.0)
        0.5
        """
        if self.end <= self.start:
            return float(start < self.end <= end)
        return max(0.0, min(self.end, end) - max(self.start, start)) / (self.end - self.start)


class ReportSpans:
    """The time since the last report of each thread."""

    def __init__(self) -> None:
        self._last: dict[int, float] = {}

    def next(self, thread: int, now: float) -> Span:
        """Return the span of a thread's report. After a pause it covers only the last moments."""
        start = max(self._last.get(thread, now - 1.0), now - REPORT_DELAY)
        self._last[thread] = now
        return Span(min(start, now), now)


@dataclass
class _Reported:
    span: Span
    records: int = 0
    produced: int = 0
    topics: Counter[str] = field(default_factory=Counter)
    edges: Counter[Edge] = field(default_factory=Counter)
    busy: Counter[str] = field(default_factory=Counter)


class Rates:
    """The work of stream threads in the last ten seconds for which all have reported."""

    def __init__(self, clock: Callable[[], float] = wall_time) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._spans = ReportSpans()
        self._reports: deque[_Reported] = deque()
        self._began: float | None = None
        self._totals = Counter[str]()

    def reported(self, reports: Mapping[int, ThreadReport]) -> None:
        now = self._clock()
        with self._lock:
            for thread, report in reports.items():
                made = _Reported(self._spans.next(thread, now))
                for batch in report.batches:
                    made.records += batch.records
                    made.produced += batch.produced
                    made.topics.update(batch.read)
                if report.flow is not None:
                    made.edges, made.busy = report.flow.edges, report.flow.busy
                    self._totals["dead_letters"] += report.flow.dead
                self._totals.update({"records": made.records, "produced": made.produced, "turns": len(report.batches)})
                if self._began is None and made.records:
                    self._began = made.span.start
                self._reports.append(made)
            while self._reports and self._reports[0].span.end < now - REPORT_DELAY - RATE_SECONDS:
                self._reports.popleft()

    def per_second(self) -> dict[str, Any]:
        """Return records per second in total, by input topic and by edge of the topology, and totals since the start."""
        topics: Counter[str] = Counter()
        edges: Counter[Edge] = Counter()
        records = produced = 0.0
        with self._lock:
            seconds = self._seconds()
            for part, made in self._parts():
                _add(topics, made.topics, part)
                _add(edges, made.edges, part)
                records, produced = records + part * made.records, produced + part * made.produced
            totals = dict(self._totals)
        return {
            "records_per_second": round(records / seconds, 1),
            "produced_per_second": round(produced / seconds, 1),
            "topics": {topic: round(count / seconds, 1) for topic, count in sorted(topics.items())},
            "edges": {edge: count / seconds for edge, count in edges.items()},
            "totals": totals,
        }

    def busy(self) -> dict[str, float]:
        """Return each node's fraction of a thread's time. Steps of a batch that are no node are in brackets."""
        found: Counter[str] = Counter()
        with self._lock:
            for part, made in self._parts():
                _add(found, made.busy, part)
        return {name: round(ms / 1000 / RATE_SECONDS, 3) for name, ms in found.items()}

    def _window(self) -> tuple[float, float]:
        end = self._clock() - REPORT_DELAY
        return end - RATE_SECONDS, end

    def _seconds(self) -> float:
        """Return the window's length: ten seconds, or less right after the start."""
        start, end = self._window()
        return RATE_SECONDS if self._began is None else min(RATE_SECONDS, max(1.0, end - max(start, self._began)))

    def _parts(self) -> Iterator[tuple[float, _Reported]]:
        start, end = self._window()
        return ((part, made) for made in self._reports if (part := made.span.part(start, end)))


def _add(total: Counter[Any], counts: Mapping[Any, int], part: float) -> None:
    for name, count in counts.items():
        total[name] += part * count  # type: ignore[assignment]  # a Counter of floats
