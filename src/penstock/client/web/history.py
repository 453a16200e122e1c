"""What the application did in the last hour, for people who look at it: bounded, and kept whether somebody looks or not."""

from __future__ import annotations

import math
import re
import threading
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from penstock.client.web.log_book import LogBook
from penstock.clock import wall_time
from penstock.dead_letters import DeadLetter
from penstock.runtime.flow import Edge
from penstock.spark.messages import BatchReport, RestoreProgress, ThreadReport
from penstock.usage import Usage

BUCKET_SECONDS = 5
_HOUR = 3600
_MINUTES = 10
_RATE_SECONDS = 10.0
_MAX_DEAD_LETTERS = 50
_MAX_CAUSES = 100
# Ages of records are counted by their size, eight sizes for each power of two: told to within 9 percent.
_SIZES = 8


@dataclass
class _Bucket:
    """What happened in five seconds, and how things stood when they were over."""

    start: float
    turns: int = 0
    records: int = 0
    produced: int = 0
    slowest: float = 0.0
    total: float = 0.0
    commit: float = 0.0
    ages: Counter[int] = field(default_factory=Counter)
    lag: int | None = None
    usage: dict[str, tuple[float, int]] = field(default_factory=dict)
    point: list[float | None] | None = None
    """What the page is told of it, once nothing can be added any more."""


@dataclass
class _Recent:
    at: float
    topics: Counter[str] = field(default_factory=Counter)
    edges: Counter[Edge] = field(default_factory=Counter)
    busy: Counter[str] = field(default_factory=Counter)
    records: int = 0
    produced: int = 0


@dataclass
class _Restoring:
    progress: RestoreProgress
    since: float
    first: int


@dataclass
class LetterCause:
    """Dead letters that failed in the same way: how many, when the first and the last of them came, and where from."""

    exception: str | None
    message: str | None
    topic: str | None
    to: str
    count: int
    first: int
    last: int


class History:
    """Keeps counts by five seconds, what is being restored, dead letters by cause, and the log's last lines."""

    def __init__(self, clock: Callable[[], float] = wall_time) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._buckets: deque[_Bucket] = deque(maxlen=_HOUR // BUCKET_SECONDS)
        self._recent: deque[_Recent] = deque()
        self._restoring: dict[tuple[str, str], _Restoring] = {}
        self._dead_letters: deque[DeadLetter] = deque(maxlen=_MAX_DEAD_LETTERS)
        self._causes: dict[tuple[str | None, ...], LetterCause] = {}
        self._failed: Counter[str] = Counter()
        self._totals = Counter[str]()
        self._usage: dict[int, tuple[str, Usage]] = {}
        self.log = LogBook()

    def batch(self, thread: int, batch: BatchReport) -> None:
        """A batch of a thread was committed."""
        now = self._clock()
        commit = batch.seconds.get("commit", 0.0) + batch.seconds.get("store", 0.0)
        with self._lock:
            bucket = self._bucket(now)
            bucket.turns += 1
            bucket.records += batch.records
            bucket.produced += batch.produced
            bucket.slowest = max(bucket.slowest, batch.took)
            bucket.total += batch.took
            bucket.commit += commit
            self._recent.append(_Recent(now, Counter(batch.read), records=batch.records, produced=batch.produced))
            self._totals.update({"records": batch.records, "produced": batch.produced, "turns": 1})
            self._forget(now)

    def reported(self, reports: Mapping[int, ThreadReport]) -> None:
        """Threads have reported what went through their nodes, and what their workers take."""
        now = self._clock()
        with self._lock:
            for thread, report in reports.items():
                if report.usage is not None:
                    self._usage[thread] = report.worker, Usage(*report.usage)
                if report.flow is None:
                    continue
                flow = report.flow
                self._bucket(now).ages.update(
                    _size(max(0, round(now * 1000) - timestamp)) for timestamp in flow.timestamps if timestamp >= 0
                )
                self._recent.append(_Recent(now, edges=flow.edges, busy=flow.busy))
                self._totals.update({"dead_letters": flow.dead})
                self._failed.update(flow.failed)
                self._dead_letters.extend(flow.dead_letters)
                for letter in flow.dead_letters:
                    self._count(letter)
            self._forget(now)

    def sample(self, lag: int | None, usage: Mapping[str, tuple[float, int]]) -> None:
        """How things stand now; `usage` tells of driver, JVM and workers the cores they take and the bytes they have."""
        with self._lock:
            bucket = self._bucket(self._clock())
            bucket.lag = lag
            bucket.usage = dict(usage)

    def workers(self) -> dict[int, tuple[str, Usage]]:
        """What the worker of each lane has said last: its name and what it takes."""
        with self._lock:
            return dict(self._usage)

    def restore(self, progress: RestoreProgress, what: str) -> None:
        """A store is being brought back."""
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

    def rates(self) -> dict[str, Any]:
        """Records per second over the last ten seconds, in all, by input topic, and by edge of the topology."""
        now = self._clock()
        with self._lock:
            self._forget(now)
            topics: Counter[str] = Counter()
            edges: Counter[Edge] = Counter()
            for recent in self._recent:
                topics.update(recent.topics)
                edges.update(recent.edges)
            records, produced = sum(r.records for r in self._recent), sum(r.produced for r in self._recent)
            return {
                "records_per_second": round(records / _RATE_SECONDS, 1),
                "produced_per_second": round(produced / _RATE_SECONDS, 1),
                "topics": {topic: round(count / _RATE_SECONDS, 1) for topic, count in sorted(topics.items())},
                "edges": {edge: count / _RATE_SECONDS for edge, count in edges.items()},
                "totals": dict(self._totals),
            }

    def busy(self) -> dict[str, float]:
        """Which part of a thread's time each node took in the last ten seconds; steps of a turn that are no node in brackets."""
        with self._lock:
            self._forget(self._clock())
            found: Counter[str] = Counter()
            for recent in self._recent:
                found.update(recent.busy)
        return {name: round(ms / 1000 / _RATE_SECONDS, 3) for name, ms in found.items()}

    def failed(self) -> dict[str, int]:
        """How many records each node could not process, since the start."""
        with self._lock:
            return dict(self._failed)

    def minutes(self) -> list[dict[str, Any]]:
        """Throughput and latency of the last minutes, by five seconds in which there was a turn."""
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
        """The last hour by five seconds, as `SERIES` names it; the seconds that are not over are left out."""
        over = self._clock() - BUCKET_SECONDS
        with self._lock:
            last = self._buckets[-1] if self._buckets else None
            for bucket in self._buckets:
                if bucket.point is None and bucket is not last:
                    bucket.point = _point(bucket)  # an hour of percentiles each second would take 20 ms
            found = [bucket for bucket in self._buckets if bucket.start <= over]
            return {str(round(bucket.start)): bucket.point or _point(bucket) for bucket in found}

    def restoring(self) -> list[dict[str, Any]]:
        """How far each store is that is being brought back, since when, and how long it will take."""
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
        """The last records that went to a dead letter topic, newest first."""
        with self._lock:
            return [asdict(letter) for letter in reversed(self._dead_letters)]

    def causes(self) -> list[dict[str, Any]]:
        """The same by what went wrong, the latest first; letters of which only their number is known are not among them."""
        with self._lock:
            return sorted((asdict(cause) for cause in self._causes.values()), key=lambda cause: -cause["last"])

    def errors(self) -> list[dict[str, Any]]:
        """The last warnings and errors of the driver and of its workers, newest first."""
        return self.log.warnings()

    def close(self) -> None:
        """Listen to the log no more."""
        self.log.close()

    def _bucket(self, now: float) -> _Bucket:
        start = now - now % BUCKET_SECONDS
        if not self._buckets or self._buckets[-1].start < start:
            self._buckets.append(_Bucket(start))
        return self._buckets[-1]

    def _count(self, letter: DeadLetter) -> None:
        key = letter.exception, first_line(letter.message), letter.topic, letter.to
        cause = self._causes.get(key)
        if cause is None:
            if len(self._causes) >= _MAX_CAUSES:
                del self._causes[min(self._causes, key=lambda known: self._causes[known].last)]
            self._causes[key] = LetterCause(letter.exception, key[1], letter.topic, letter.to, 1, letter.time, letter.time)
        else:
            cause.count += 1
            cause.last = max(cause.last, letter.time)

    def _forget(self, now: float) -> None:
        while self._recent and self._recent[0].at < now - _RATE_SECONDS:
            self._recent.popleft()


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
"""What `History.points` has for each five seconds: records per second, milliseconds, records, cores, bytes."""


def first_line(message: str | None) -> str | None:
    """What tells one cause from another: the first line, without the numbers in it, which differ from record to record.

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
    """The age that so many of a hundred records do not exceed."""
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
