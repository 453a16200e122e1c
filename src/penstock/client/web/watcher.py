"""Looks at the application every five seconds, whether somebody looks at the page or not: lag, CPU, memory, who has which task.

The brokers are asked what is committed and where topics end; the system knows what processes take.
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
    """How a partition's lag goes, in records per second, how fast it is read and written, and how long until nothing is left.

    `seconds_left` is None where the lag does not shrink.
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
        """Begin to look."""
        self._thread.start()

    def close(self) -> None:
        """Look no more."""
        self._ended.set()
        if self._thread.is_alive():
            self._thread.join(2)

    def _run(self) -> None:
        self.look()
        while not self._ended.wait(BUCKET_SECONDS - self._clock() % BUCKET_SECONDS or BUCKET_SECONDS):
            self.look()

    def look(self) -> None:
        """Note how things stand."""
        now, lag = self._clock(), None
        try:
            lags = self._lags()
            lag = lags.total if lags.partitions else None
            self.follow(lags, now)
        except Exception as exc:  # noqa: BLE001 - tasks come and go while they are looked at; the next look is soon
            _log.debug("the lag was not noted: %s", exc)
        try:
            self.place(self._places(), now)
            self._history.sample(lag, self._usage(now))
        except Exception as exc:  # noqa: BLE001 - as above; what is shown is no reason to end
            _log.debug("the application was not looked at: %s", exc)

    def follow(self, lags: Lags, now: float) -> None:
        """Note how far partitions are read, and where they end."""
        with self._lock:
            for partition in [known for known in self._reached if known not in lags.partitions]:
                del self._reached[partition]
            for partition, (position, end) in lags.partitions.items():
                self._reached.setdefault(partition, deque(maxlen=_SAMPLES)).append((now, position, end))

    def place(self, places: Mapping[str, str], now: float) -> None:
        """Note where tasks are, and since when."""
        with self._lock:
            self._since = {
                task: known if (known := self._since.get(task)) is not None and known[0] == where else (where, now)
                for task, where in places.items()
            }

    def since(self, task: str) -> int | None:
        """Since when a task is where it is, in milliseconds; to within five seconds."""
        with self._lock:
            found = self._since.get(task)
        return None if found is None else round(found[1] * 1000)

    def trend(self, partition: TopicPartition) -> Trend | None:
        """How a partition went in the last minute; None before there is anything to compare."""
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
