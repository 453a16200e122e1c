"""What the application did in the last minutes, for people who look at it."""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter, deque
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from penstock.client.turns import Turn
from penstock.dead_letters import LOGGER as DEAD_LETTERS
from penstock.dead_letters import DeadLetter
from penstock.runtime.flow import Edge, Flow
from penstock.spark.messages import LaneAnswer, RestoreProgress

_MINUTES = 10
_BUCKET_SECONDS = 5
_RATE_SECONDS = 10.0
_MAX_ERRORS = 50


@dataclass
class _Bucket:
    start: float
    turns: int = 0
    records: int = 0
    produced: int = 0
    slowest: float = 0.0
    total: float = 0.0


@dataclass
class _Recent:
    at: float
    topics: Counter[str] = field(default_factory=Counter)
    edges: Counter[Edge] = field(default_factory=Counter)
    records: int = 0
    produced: int = 0


class History:
    """Keeps counts by five seconds, what is being restored, and the last warnings and errors of the log."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._buckets: deque[_Bucket] = deque(maxlen=_MINUTES * 60 // _BUCKET_SECONDS)
        self._recent: deque[_Recent] = deque()
        self._restoring: dict[tuple[str, str], RestoreProgress] = {}
        self._errors: deque[dict[str, Any]] = deque(maxlen=_MAX_ERRORS)
        self._dead_letters: deque[DeadLetter] = deque(maxlen=_MAX_ERRORS)
        self._handler = _Collector(self._errors)
        self._totals = Counter[str]()
        logging.getLogger("penstock").addHandler(self._handler)

    def turn(self, turn: Turn, answers: Mapping[int, LaneAnswer], seconds: float) -> None:
        """A turn was committed."""
        now = time.time()
        records = turn.records
        produced = sum(answer.produced for answer in answers.values())
        flow = Flow()
        for answer in answers.values():
            if answer.flow is not None:
                flow.add(answer.flow)
        topics: Counter[str] = Counter()
        for read in turn.told_ranges:
            topics[read.topic] += read.end - read.start
        with self._lock:
            start = now - now % _BUCKET_SECONDS
            if not self._buckets or self._buckets[-1].start != start:
                self._buckets.append(_Bucket(start))
            bucket = self._buckets[-1]
            bucket.turns += 1
            bucket.records += records
            bucket.produced += produced
            bucket.slowest = max(bucket.slowest, seconds)
            bucket.total += seconds
            self._recent.append(_Recent(now, topics, flow.edges, records, produced))
            self._totals.update({"records": records, "produced": produced, "turns": 1, "dead_letters": flow.dead})
            self._dead_letters.extend(flow.dead_letters)
            self._forget(now)

    def restore(self, progress: RestoreProgress, what: str) -> None:
        """A store is being brought back."""
        key = str(progress.task_id), progress.store
        with self._lock:
            if what in ("end", "done", "suspended"):
                self._restoring.pop(key, None)
            else:
                self._restoring[key] = progress

    def rates(self) -> dict[str, Any]:
        """Records per second over the last ten seconds, in all, by input topic, and by edge of the topology."""
        now = time.time()
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

    def minutes(self) -> list[dict[str, Any]]:
        """Throughput and latency of the last minutes, by five seconds."""
        with self._lock:
            return [
                {
                    "time": round(bucket.start * 1000),
                    "turns": bucket.turns,
                    "records_per_second": bucket.records / _BUCKET_SECONDS,
                    "turn_ms": round(1000 * bucket.total / bucket.turns, 1),
                    "slowest_ms": round(1000 * bucket.slowest, 1),
                }
                for bucket in self._buckets
            ]

    def restoring(self) -> list[dict[str, Any]]:
        """How far each store is that is being brought back."""
        with self._lock:
            return [
                {"task": task, "store": store, "position": p.position, "start": p.start, "end": p.end}
                for (task, store), p in self._restoring.items()
            ]

    def dead_letters(self) -> list[dict[str, Any]]:
        """The last records that went to a dead letter topic, newest first."""
        with self._lock:
            return [asdict(letter) for letter in reversed(self._dead_letters)]

    def errors(self) -> list[dict[str, Any]]:
        """The last warnings and errors of the driver and of its workers, newest first."""
        return sorted(self._errors, key=lambda error: error["time"], reverse=True)

    def close(self) -> None:
        """Listen to the log no more."""
        logging.getLogger("penstock").removeHandler(self._handler)

    def _forget(self, now: float) -> None:
        while self._recent and self._recent[0].at < now - _RATE_SECONDS:
            self._recent.popleft()


class _Collector(logging.Handler):
    def __init__(self, errors: deque[dict[str, Any]]) -> None:
        super().__init__(logging.WARNING)
        self._errors = errors

    def emit(self, record: logging.LogRecord) -> None:
        """Keep a line of the log; dead letters have a place of their own."""
        if record.name == DEAD_LETTERS:
            return
        self._errors.append(
            {"time": round(record.created * 1000), "level": record.levelname, "message": record.getMessage()[:2_000]}
        )
