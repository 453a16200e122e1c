"""Periodic checks: executors, the session, threads that wait for a core, the load, topics to purge."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial

from penstock.client.scheduling.assignments import Assignments
from penstock.client.scheduling.event_queue import Background
from penstock.client.scheduling.events import Events
from penstock.client.scheduling.task_manager import TaskManager
from penstock.client.scheduling.thread_supervisor import ThreadSupervisor
from penstock.clock import monotonic
from penstock.config.streams_config import StreamsConfig
from penstock.kafka.admin import Admin
from penstock.spark.driver.spark_threads import SparkThreads

_SESSION_EVERY, _LOST_EVERY, _OTHERS_EVERY, _LOOK_EVERY, _PLACES_EVERY = 0.2, 0.2, 0.5, 1.0, 1.0
_CHANGELOGS_EVERY, _SLOTS_EVERY = 1.0, 5.0


class Intervals:
    """Intervals of periodic work, by name.

    >>> now = [100.0]
    >>> intervals = Intervals(lambda: now[0], begun=["purge"])
    >>> intervals.is_time("look", 1.0), intervals.is_time("look", 1.0), intervals.is_time("purge", 1.0)
    (True, False, False)
    >>> now[0] = 101.5
    >>> intervals.is_time("look", 1.0), intervals.is_time("look", 1.0), intervals.is_time("purge", 1.0)
    (True, False, True)
    """

    def __init__(self, now: Callable[[], float], begun: Iterable[str] = ()) -> None:
        self._now = now
        self._last = dict.fromkeys(begun, now())

    def is_time(self, name: str, seconds: float) -> bool:
        """Return True, and record the time, if the interval has passed."""
        now = self._now()
        if now - self._last.get(name, 0.0) <= seconds:
            return False
        self._last[name] = now
        return True

    def hurry(self, name: str) -> None:
        """Make the work due now."""
        self._last[name] = 0.0


class Housekeeping:
    """Starts periodic work. Used by the event loop's thread; slow work runs in the background."""

    def __init__(
        self,
        config: StreamsConfig,
        tasks: TaskManager,
        jobs: SparkThreads,
        events: Events,
        admin: Admin,
        assignments: Assignments,
        background: Background,
        supervisor: ThreadSupervisor,
    ) -> None:
        self._config, self._tasks, self._jobs, self._events, self._admin = config, tasks, jobs, events, admin
        self._assignments, self._background, self._supervisor = assignments, background, supervisor
        self._intervals = Intervals(monotonic, begun=("purge", "places"))

    def look(self) -> None:
        """Start the work that is due."""
        self._events.on_housekeeping()
        self._assignments.probe_in_time()
        self._look_after_threads()
        self._tasks.follow_load()
        if self._intervals.is_time("purge", self._config["repartition.purge.interval.ms"] / 1000):
            committed = self._tasks.committed()
            topics = self._tasks.plan.repartition_topics
            self._admin.purge({p: some.offset for p, some in committed.items() if p.topic in topics})

    def _look_after_threads(self) -> None:
        """Check the session and the executors, the placement of threads, and threads that wait for a core."""
        is_time, jobs = self._intervals.is_time, self._jobs
        if is_time("session", _SESSION_EVERY):
            jobs.check_session()
        if not jobs.updaters.is_local and is_time("lost", _LOST_EVERY):
            self._background.do("lost", jobs.lost_threads, self._supervisor.take_lost)
        if self._supervisor.long_residents() and is_time("others", _OTHERS_EVERY):
            self._background.do("others", jobs.waits.anybody_waits, self._supervisor.give_way)
        if self._tasks.is_over_hosts and is_time("changelogs", _CHANGELOGS_EVERY):
            self._background.do("changelogs", partial(self._tasks.copies.look_at_changelogs, list(self._tasks.owners)))
        if is_time("places", _PLACES_EVERY):
            self._background.do("places", jobs.better_places, self._take_places)
        if not jobs.updaters.is_local and not jobs.is_elastic and is_time("slots", _SLOTS_EVERY):
            self._background.do("slots", jobs.slots, self._events.on_slots)
        now = monotonic()
        late = [t.index for t in self._tasks.threads.values() if t.job is not None and now - t.job.started > _LOOK_EVERY]
        if (late or jobs.waits.seconds) and is_time("look", _LOOK_EVERY):
            names = [jobs.workers[index].name for index in late if index in jobs.workers]
            self._background.do("look", partial(jobs.waits.look, names))

    def look_for_places(self) -> None:
        """Check the placement of threads now: a thread has moved, and another may wait to move."""
        self._intervals.hurry("places")

    def _take_places(self, places: Mapping[int, str | None]) -> None:
        """Move threads to better executors after their tasks have moved to other threads.

        One thread at a time: starting a worker takes a second of a core, which the threads with its tasks need. A thread with
        state that cannot move stays. Threads whose executors get no more tasks from Spark move at once.
        """
        refused = self._jobs.refusals.keys()
        bound = self._tasks.copies.bound_threads(self._tasks.owners) - refused
        places = {index: place for index, place in places.items() if index not in bound}
        threads = {index: thread for index, thread in self._tasks.threads.items() if thread.on_left is None and not thread.ends}
        for index, place in list(places.items()):
            if index in threads and threads[index].is_parked:
                self._jobs.move_thread(index, places.pop(index))
            elif index in threads and place is not None:
                self._supervisor.redirect(threads[index], place)
        moving = next((index for index, thread in threads.items() if thread.goes_to is not None and index in places), None)
        if moving is None and all(thread.is_open or thread.is_parked for thread in threads.values()):
            moving = next((index for index in threads if index in places), None)
        for index, thread in threads.items():
            thread.goes_to = places.get(index) if index == moving or index in refused else None
            if thread.goes_to is not None or thread.is_open:
                self._tasks.stay_away(index, away=thread.goes_to is not None)
