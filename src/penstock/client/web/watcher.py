"""Samples lag, CPU, memory and task locations every five seconds, whether or not a console is open.

Committed offsets and log ends come from the brokers, resource usage from the system.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Mapping
from typing import NamedTuple

from penstock.client.input_lags import Lags
from penstock.client.web.history import BUCKET_SECONDS, History
from penstock.clock import wall_time
from penstock.ids import TopicPartition
from penstock.usage import Usage, own_usage, usage_of

_log = logging.getLogger(__name__)

_SAMPLES = 12


class Trend(NamedTuple):
    """The trend of a partition's lag in records per second, its read and write rates, and the time until the lag is zero.

    `seconds_left` is None if the lag does not shrink.
    """

    lag: float
    read: float
    written: float
    seconds_left: float | None


class Watcher:
    """Samples until closed."""

    def __init__(
        self,
        history: History,
        lags: Callable[[], Lags],
        places: Callable[[], Mapping[str, str]],
        jvm_pid: Callable[[], int | None] = lambda: None,
        clock: Callable[[], float] = wall_time,
    ) -> None:
        self._history = history
        self._lags = lags
        self._places = places
        self._jvm_pid = jvm_pid
        self._clock = clock
        self._ended = threading.Event()
        self._lock = threading.Lock()
        self._reached: dict[TopicPartition, deque[tuple[float, int, int]]] = {}
        self._since: dict[str, tuple[str, float]] = {}
        self._used: dict[str, tuple[float, Usage]] = {}
        self._thread = threading.Thread(target=self._run, name="penstock-page-samples", daemon=True)

    def start(self) -> None:
        """Start sampling."""
        self._thread.start()

    def close(self) -> None:
        """Stop sampling."""
        self._ended.set()
        if self._thread.is_alive():
            self._thread.join(2)

    def _run(self) -> None:
        self.look()
        while not self._ended.wait(BUCKET_SECONDS - self._clock() % BUCKET_SECONDS or BUCKET_SECONDS):
            self.look()

    def look(self) -> None:
        """Take a sample."""
        now, lag = self._clock(), None
        try:
            lags = self._lags()
            lag = lags.total if lags.partitions else None
            self.follow(lags, now)
        except Exception as exc:  # noqa: BLE001 - tasks may move during a sample; the next one is soon
            _log.debug("Sampling the lag failed: %s", exc)
        try:
            self.place(self._places(), now)
            self._history.sample(lag, self._usage(now))
        except Exception as exc:  # noqa: BLE001 - as above; the console must not end the application
            _log.debug("Sampling the application failed: %s", exc)

    def follow(self, lags: Lags, now: float) -> None:
        """Record positions and ends of partitions."""
        with self._lock:
            for partition in [known for known in self._reached if known not in lags.partitions]:
                del self._reached[partition]
            for partition, (position, end) in lags.partitions.items():
                self._reached.setdefault(partition, deque(maxlen=_SAMPLES)).append((now, position, end))

    def place(self, places: Mapping[str, str], now: float) -> None:
        """Record the locations of tasks."""
        with self._lock:
            self._since = {
                task: known if (known := self._since.get(task)) is not None and known[0] == where else (where, now)
                for task, where in places.items()
            }

    def since(self, task: str) -> int | None:
        """Return the time since which a task has its location, in milliseconds, accurate to five seconds."""
        with self._lock:
            found = self._since.get(task)
        return None if found is None else round(found[1] * 1000)

    def trend(self, partition: TopicPartition) -> Trend | None:
        """Return a partition's trend of the last minute, None before the second sample."""
        with self._lock:
            samples = list(self._reached.get(partition, ()))
        if len(samples) < 2 or samples[-1][0] <= samples[0][0]:
            return None
        (then, old_position, old_end), (now, position, end) = samples[0], samples[-1]
        seconds, lag = now - then, max(0, end - position)
        read, written = (position - old_position) / seconds, (end - old_end) / seconds
        left = lag / (read - written) if lag and read > written else 0.0 if not lag else None
        return Trend(round(written - read, 1), round(read, 1), round(written, 1), None if left is None else round(left, 1))

    def _usage(self, now: float) -> dict[str, tuple[float, int]]:
        pid = self._jvm_pid()
        known: dict[str, Usage | None] = {"driver": own_usage(), "jvm": None if pid is None else usage_of(pid)}
        workers = self._history.workers()
        known |= {f"worker {thread} {name}": usage for thread, (name, usage) in workers.items()}
        cores = {}
        for who, usage in known.items():
            if usage is not None:
                before = self._used.get(who)
                cores[who] = (
                    0.0 if before is None or now <= before[0] else (usage.seconds - before[1].seconds) / (now - before[0])
                )
        self._used = {who: (now, usage) for who, usage in known.items() if usage is not None}
        found = {who: (max(0.0, cores[who]), used.memory) for who in ("driver", "jvm") if (used := known[who]) is not None}
        mine = [who for who in cores if who.startswith("worker ")]
        if mine:
            found["workers"] = max(0.0, sum(cores[who] for who in mine)), sum(self._used[who][1].memory for who in mine)
        return found
