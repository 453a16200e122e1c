"""What is looked at now and then: where lanes are and should be, who waits for a core, the lag that is shown, what is purged."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping
from functools import partial

from penstock.client.scheduling.failures import LaneLostError
from penstock.client.scheduling.group_words import GroupWords
from penstock.client.scheduling.lane_loop import LaneState
from penstock.client.scheduling.recovery import Recovery
from penstock.client.scheduling.repartition_transports import Transports
from penstock.client.scheduling.running_instance import Control, RunningInstance
from penstock.client.scheduling.staying_lanes import StayingLanes
from penstock.clock import monotonic
from penstock.errors import PenstockError, TaskMigratedError
from penstock.ids import TopicPartition
from penstock.kafka.admin import Admin
from penstock.runtime.carry_over import OffsetAndMetadata

_log = logging.getLogger(__name__)

LAG = "lag"
"""The name under which the lag is shown, beside all else."""

_SESSION_EVERY, _LOST_EVERY, _OTHERS_EVERY, _LOOK_EVERY, _LAG_EVERY, _PLACES_EVERY = 0.2, 0.2, 0.5, 1.0, 1.0, 5.0
_CHANGELOGS_EVERY = 1.0


def show_lag(words: GroupWords, shown: Mapping[TopicPartition, OffsetAndMetadata], generation: int) -> None:
    """Commit for the sources before a shuffle what others see of it; takes its time, on any thread.

    Nobody goes on from it while there is a shuffle, so nobody fails with it; without one others commit for the sources.
    """
    try:
        words.commit(shown, generation)
    except TaskMigratedError:
        _log.debug("the lag is shown later: the group rebalances")
    except PenstockError as exc:
        _log.warning("the lag of what is read before a shuffle cannot be shown now: %s", exc)


class Intervals:
    """What is to be done every so many seconds, by its name.

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
        """Whether it was not done for longer than this; it counts as done then."""
        now = self._now()
        if now - self._last.get(name, 0.0) <= seconds:
            return False
        self._last[name] = now
        return True

    def hurry(self, name: str) -> None:
        """It is time for it at once."""
        self._last[name] = 0.0


class Housekeeping:
    """Used by the conductor's thread; what takes its time is done beside it."""

    def __init__(
        self,
        instance: RunningInstance,
        control: Control,
        admin: Admin,
        transports: Transports,
        recovery: Recovery,
        stays: StayingLanes,
    ) -> None:
        self._config, self._tasks, self._lane_jobs, self._events = instance
        self._words, self._run, self._beside = control
        self._admin = admin
        self._transports, self._recovery, self._stays = transports, recovery, stays
        self._intervals = Intervals(monotonic, begun=("purge", "places"))

    def look(self) -> None:
        """Begin what is due."""
        self._events.on_housekeeping()
        self._words.probe_in_time()
        if self._transports.look_again():
            self._words.request_rejoin()
        self._look_after_lanes()
        if self._tasks.positions.vectors and self._words.member is not None and self._intervals.is_time(LAG, _LAG_EVERY):
            self._show_lag()
        if self._intervals.is_time("purge", self._config["repartition.purge.interval.ms"] / 1000):
            self._purge()

    def _look_after_lanes(self) -> None:
        """See whether the session and the executors are there, where lanes should be, and who waits for a core."""
        is_time, jobs = self._intervals.is_time, self._lane_jobs
        if is_time("session", _SESSION_EVERY):
            jobs.check_session()
        if not jobs.updaters.is_local and is_time("lost", _LOST_EVERY):
            self._beside.do("lost", jobs.lost_lanes, self._take_lost)
        if self._stays.long() and is_time("others", _OTHERS_EVERY):
            self._beside.do("others", jobs.waits.anybody_waits, self._stays.give_way)
        if self._tasks.is_over_hosts and is_time("changelogs", _CHANGELOGS_EVERY):
            self._beside.do("changelogs", partial(self._tasks.copies.look_at_changelogs, list(self._tasks.owners)))
        if is_time("places", _PLACES_EVERY):
            self._beside.do("places", jobs.better_places, self._take_places)
        now = time.monotonic()
        late = [
            lane.index for lane in self._tasks.lanes.values() if lane.job is not None and now - lane.job.started > _LOOK_EVERY
        ]
        if (late or jobs.waits.seconds) and is_time("look", _LOOK_EVERY):
            names = [jobs.lanes[index].name for index in late if index in jobs.lanes]
            self._beside.do("look", partial(jobs.waits.look, names))

    def look_for_places(self) -> None:
        """Look at once where lanes should be: one is in its place, and another may have waited for that."""
        self._intervals.hurry("places")

    def _show_lag(self) -> None:
        adopted = self._tasks.adopted
        if self._run.may_work and not self._run.is_closing and adopted is not None and (shown := self._tasks.positions.shown()):
            self._beside.do(LAG, partial(show_lag, self._words, shown, adopted.generation))

    def _purge(self) -> None:
        """Purge repartition topics, also where there is a shuffle now: what was read before it began lies in the topic still."""
        tasks = self._tasks
        internal = {t for s in tasks.plan.subtopologies.values() for t in s.repartition_source_topics}
        self._admin.purge({p: o.offset for p, o in tasks.positions.committed.items() if p.topic in internal})

    def _take_lost(self, lost: Mapping[int, str]) -> None:
        """Executors are gone. What ran there fails too, but Spark tries it elsewhere first."""
        for index, executor in lost.items():
            lane = self._tasks.lanes.get(index)
            if lane is None or lane.ends or lane.state is LaneState.HEALING or self._lane_jobs.lanes[index].executor != executor:
                continue
            if lane.job is not None or lane.is_open:
                self._tasks.failed(lane)
                self._recovery.lane_failed(lane, LaneLostError(f"{executor} is gone, where the worker of a lane was"))

    def _take_places(self, places: Mapping[int, str | None]) -> None:
        """Executors came or went: lanes that should be elsewhere go there, when the others have what they had.

        One after the other: a worker takes a second of a core to start, which those who have its tasks meanwhile need.
        A lane whose tasks have state that cannot move stays where it is.
        """
        bound = self._tasks.copies.bound_lanes(self._tasks.owners)
        places = {index: place for index, place in places.items() if index not in bound}
        lanes = {index: lane for index, lane in self._tasks.lanes.items() if lane.on_left is None and not lane.ends}
        moving = next((index for index, lane in lanes.items() if lane.goes_to is not None and index in places), None)
        if moving is None and all(lane.is_open for lane in lanes.values()):
            moving = next((index for index in lanes if index in places), None)
        for index, lane in lanes.items():
            lane.goes_to = places.get(index) if index == moving else None
            if lane.goes_to is not None or lane.is_open:
                self._tasks.stay_away(index, away=lane.goes_to is not None)
