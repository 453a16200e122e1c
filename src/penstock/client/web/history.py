"""The application's last hour, for the console. Bounded, and recorded whether or not a console is open."""

from __future__ import annotations

import math
import re
import threading
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from penstock.client.rates import REPORT_DELAY, Rates, ReportSpans, Span
from penstock.client.web.log_book import LogBook
from penstock.clock import wall_time
from penstock.dead_letters import DeadLetter
from penstock.spark.messages import BatchReport, RestoreProgress, ThreadReport
from penstock.usage import Usage

BUCKET_SECONDS = 5
_HOUR = 3600
_MINUTES = 10
_MAX_DEAD_LETTERS = 50
_MAX_CAUSES = 100
# Ages of records are counted in logarithmic size classes, eight per power of two: an error of at most 9 percent.
_SIZES = 8


@dataclass
class _Bucket:
    """The events of five seconds, and the values at their end."""

    start: float
    turns: int = 0
    records: float = 0
    produced: float = 0
    slowest: float = 0.0
    total: float = 0.0
    commit: float = 0.0
    ages: Counter[int] = field(default_factory=Counter)
    lag: int | None = None
    usage: dict[str, tuple[float, int]] = field(default_factory=dict)
    point: list[float | None] | None = None
    """The console's point, made when the bucket is complete."""


@dataclass
class _Restoring:
    progress: RestoreProgress
    since: float
    first: int


@dataclass
class DeadLetterCause:
    """Dead letters with the same cause: their number, times and topics."""

    exception: str | None
    message: str | None
    topic: str | None
    to: str
    count: int
    first: int
    last: int


class History:
    """Keeps counts for each five seconds, restoring stores, dead letters by cause, and the last log lines."""

    def __init__(self, clock: Callable[[], float] = wall_time) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self.rates = Rates(clock)
        self._spans = ReportSpans()
        self._buckets: deque[_Bucket] = deque(maxlen=_HOUR // BUCKET_SECONDS)
        self._restoring: dict[tuple[str, str], _Restoring] = {}
        self._dead_letters: deque[DeadLetter] = deque(maxlen=_MAX_DEAD_LETTERS)
        self._causes: dict[tuple[str | None, ...], DeadLetterCause] = {}
        self._failed: Counter[str] = Counter()
        self._usage: dict[int, tuple[str, Usage]] = {}
        self.log = LogBook()

    def reported(self, reports: Mapping[int, ThreadReport]) -> None:
        """Record the reports of threads: batches, nodes, and resource usage."""
        now = self._clock()
        self.rates.reported(reports)
        with self._lock:
            for thread, report in reports.items():
                self._add_batches(report.batches, self._spans.next(thread, now))
                if report.usage is not None:
                    self._usage[thread] = report.worker, Usage(*report.usage)
                if report.flow is None:
                    continue
                flow = report.flow
                self._bucket(now).ages.update(map(_size, flow.ages))
                self._failed.update(flow.failed)
                self._dead_letters.extend(flow.dead_letters)
                for letter in flow.dead_letters:
                    self._count(letter)

    def _add_batches(self, batches: Sequence[BatchReport], span: Span) -> None:
        if not batches:
            return
        records, produced = sum(batch.records for batch in batches), sum(batch.produced for batch in batches)
        for start in {span.start - span.start % BUCKET_SECONDS, span.end - span.end % BUCKET_SECONDS}:
            part, bucket = span.part(start, start + BUCKET_SECONDS), self._bucket(start)
            bucket.records += part * records
            bucket.produced += part * produced
        bucket = self._bucket(span.end)
        for batch in batches:
            bucket.turns += 1
            bucket.slowest = max(bucket.slowest, batch.took)
            bucket.total += batch.took
            bucket.commit += batch.seconds.get("commit", 0.0) + batch.seconds.get("store", 0.0)

    def sample(self, lag: int | None, usage: Mapping[str, tuple[float, int]]) -> None:
        """Record the current lag and usage. `usage` has the cores and bytes of driver, JVM and workers."""
        with self._lock:
            bucket = self._bucket(self._clock())
            bucket.lag = lag
            bucket.usage = dict(usage)

    def workers(self) -> dict[int, tuple[str, Usage]]:
        """Return the name and last reported usage of each thread's worker."""
        with self._lock:
            return dict(self._usage)

    def restore(self, progress: RestoreProgress, what: str) -> None:
        """Record a step of a restore."""
        key = str(progress.task_id), progress.store
        with self._lock:
            if what in ("end", "done", "suspended"):
                self._restoring.pop(key, None)
                return
            known = self._restoring.get(key)
            if known is None:
                self._restoring[key] = _Restoring(progress, self._clock(), progress.position)
            else:
                known.progress = progress

    def failed(self) -> dict[str, int]:
        """Return the number of failed records of each node since the start."""
        with self._lock:
            return dict(self._failed)

    def minutes(self) -> list[dict[str, Any]]:
        """Return throughput and latency of the last minutes, for each five seconds with a batch."""
        since = self._clock() - _MINUTES * 60
        with self._lock:
            return [
                {
                    "time": round(bucket.start * 1000),
                    "turns": bucket.turns,
                    "records_per_second": bucket.records / BUCKET_SECONDS,
                    "turn_ms": round(1000 * bucket.total / bucket.turns, 1),
                    "slowest_ms": round(1000 * bucket.slowest, 1),
                }
                for bucket in self._buckets
                if bucket.turns and bucket.start >= since
            ]

    def points(self) -> dict[str, list[float | None]]:
        """Return the last hour for each five seconds, with the values of `SERIES`. Buckets that may be incomplete are
        omitted.
        """
        over = self._clock() - BUCKET_SECONDS - REPORT_DELAY
        with self._lock:
            found = [bucket for bucket in self._buckets if bucket.start <= over]
            for bucket in found:
                if bucket.point is None:
                    bucket.point = _point(bucket)  # cached: computing an hour of percentiles each second would take 20 ms
            return {str(round(bucket.start)): bucket.point for bucket in found if bucket.point is not None}

    def restoring(self) -> list[dict[str, Any]]:
        """Return the progress, start and remaining time of each restoring store."""
        now = self._clock()
        with self._lock:
            return [
                {
                    "task": task,
                    "store": store,
                    "position": found.progress.position,
                    "start": found.progress.start,
                    "end": found.progress.end,
                    "since": round(found.since * 1000),
                    "seconds_left": _left(found, now),
                }
                for (task, store), found in self._restoring.items()
            ]

    def dead_letters(self) -> list[dict[str, Any]]:
        """Return the last dead letters, newest first."""
        with self._lock:
            return [asdict(letter) for letter in reversed(self._dead_letters)]

    def causes(self) -> list[dict[str, Any]]:
        """Return dead letters by cause, latest first. DeadLetters of which only the number is known are not included."""
        with self._lock:
            return sorted((asdict(cause) for cause in self._causes.values()), key=lambda cause: -cause["last"])

    def errors(self) -> list[dict[str, Any]]:
        """Return the last warnings and errors of driver and workers, newest first."""
        return self.log.warnings()

    def close(self) -> None:
        """Remove the log handler."""
        self.log.close()

    def _bucket(self, at: float) -> _Bucket:
        """Return the five seconds around a recent moment."""
        start = at - at % BUCKET_SECONDS
        for bucket in reversed(self._buckets):
            if bucket.start == start:
                return bucket
            if bucket.start < start:
                break
        made = _Bucket(start)
        if self._buckets and self._buckets[-1].start > start:
            return self._buckets[-1]  # the clock was set back
        self._buckets.append(made)
        return made

    def _count(self, letter: DeadLetter) -> None:
        key = letter.exception, first_line(letter.message), letter.topic, letter.to
        cause = self._causes.get(key)
        if cause is None:
            if len(self._causes) >= _MAX_CAUSES:
                del self._causes[min(self._causes, key=lambda known: self._causes[known].last)]
            self._causes[key] = DeadLetterCause(letter.exception, key[1], letter.topic, letter.to, 1, letter.time, letter.time)
        else:
            cause.count += 1
            cause.last = max(cause.last, letter.time)


SERIES: Sequence[str] = (
    "records_in",
    "records_out",
    "age_p50",
    "age_p99",
    "lag",
    "turn_mean",
    "turn_max",
    "commit_mean",
    "cpu_driver",
    "cpu_jvm",
    "cpu_workers",
    "memory_driver",
    "memory_jvm",
    "memory_workers",
)
"""The values of a point of `History.points`: records per second, milliseconds, records, cores, bytes."""


def first_line(message: str | None) -> str | None:
    """Return a message's first line without numbers, which differ between records, to group causes.

    >>> first_line("order 4711 has no customer\\nask 12")
    'order # has no customer'
    """
    return re.sub(r"\d+", "#", message.splitlines()[0][:200]) if message and message.strip() else None


def _point(bucket: _Bucket) -> list[float | None]:
    turns = bucket.turns
    used = [bucket.usage.get(who) for who in ("driver", "jvm", "workers")]
    return [
        round(bucket.records / BUCKET_SECONDS, 1),
        round(bucket.produced / BUCKET_SECONDS, 1),
        _percentile(bucket.ages, 0.5),
        _percentile(bucket.ages, 0.99),
        bucket.lag,
        round(1000 * bucket.total / turns, 1) if turns else None,
        round(1000 * bucket.slowest, 1) if turns else None,
        round(1000 * bucket.commit / turns, 1) if turns else None,
        *(None if some is None else round(some[0], 3) for some in used),
        *(None if some is None else some[1] for some in used),
    ]


def _size(age_ms: int) -> int:
    return round(_SIZES * math.log2(age_ms + 1))


def _percentile(ages: Counter[int], part: float) -> float | None:
    """Return the age that a fraction of the records does not exceed."""
    if not ages:
        return None
    wanted, seen = part * ages.total(), 0
    for size in sorted(ages):
        seen += ages[size]
        if seen >= wanted:
            break
    return float(round(2 ** (size / _SIZES) - 1))


def _left(found: _Restoring, now: float) -> float | None:
    done, seconds = found.progress.position - found.first, now - found.since
    if done <= 0 or seconds < 1:
        return None
    return round((found.progress.end - found.progress.position) * seconds / done, 1)
