"""Lanes that come and go while the application runs: added, removed, put in the place of one that failed, moved, ended."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial

from penstock.client.scheduling.lane_changes import LaneChange, LaneChanges
from penstock.client.scheduling.lane_loop import LaneLoop, LaneState
from penstock.client.scheduling.notes import Beside
from penstock.client.scheduling.running_instance import RunningInstance
from penstock.errors import PenstockError
from penstock.kafka.clients import producer_config
from penstock.kafka.produce import fence
from penstock.spark.driver.lanes import Lane

_log = logging.getLogger(__name__)


class LaneRoster:
    """Changes which lanes there are; changes are asked for by anybody, and done by the conductor's thread."""

    def __init__(self, instance: RunningInstance, beside: Beside) -> None:
        self._config, self._tasks, self._lane_jobs, _ = instance
        self._beside = beside
        self._changes = LaneChanges()

    def ask(self, change: LaneChange) -> None:
        """Ask for a lane to be added or removed."""
        with self._beside.notes.lock:
            self._changes.put(change)
            self._beside.notes.lock.notify_all()

    def change(self) -> None:
        """Add and remove lanes as asked for; the tasks of a lane that goes move to the others."""
        while (change := self._changes.take()) is not None:
            if change.name is not None:
                self._add(change.index, change.name)
                change.on_done()
            elif change.index in self._tasks.lanes:
                self._remove(change.index, change.on_done)
            else:
                change.on_done()

    def _add(self, index: int, name: str) -> None:
        self._lane_jobs.add_lane(index, name)
        self._tasks.lanes[index] = LaneLoop(index)
        self._tasks.place()

    def _remove(self, index: int, on_done: Callable[[], None]) -> None:
        if len(self._lane_jobs.lanes) < 3:
            self._tasks.spread.forget()
        lane = self._tasks.lanes[index]
        lane.on_left = on_done
        self._tasks.leave_for_good(index)

    def replace(self, old: int, new: int, name: str, on_done: Callable[[], None]) -> None:
        """Put a new lane in the place of one that failed, in its worker; it begins when the other would have begun anew."""
        failed = self._tasks.lanes[old]
        self._tasks.lanes[new] = LaneLoop.after(failed, new)
        self._tasks.lose_lane(old, successor=new)
        failed.become(LaneState.CLOSING)
        # Both, where it was about to be removed.
        told = [on_done] if failed.on_left is None else [on_done, failed.on_left]
        end = partial(self._end_beside, failed, partial(self.fence, old), lambda: [tell() for tell in told])
        self._lane_jobs.pass_on(old, new, name).add_done_callback(lambda _: self._beside.notes.put(end))

    def move(self, lane: LaneLoop, place: str) -> None:
        """Have a lane that has nothing open begin anew on another executor."""
        self._lane_jobs.move_lane(lane.index, place)
        lane.goes_to = None
        lane.begin_anew()
        self._tasks.stay_away(lane.index, away=False)

    def end(self, lane: LaneLoop, on_done: Callable[[], None]) -> None:
        """End a lane's worker."""
        lane.become(LaneState.CLOSING)
        self._end_beside(lane, partial(self._end_worker, lane.index, self._lane_jobs.take_lane(lane.index)), on_done)

    def _end_worker(self, index: int, worker: Lane) -> None:
        self._lane_jobs.end_lane(index, worker)
        self.fence(index)

    def _end_beside(self, lane: LaneLoop, end: Callable[[], None], on_done: Callable[[], object]) -> None:
        """End a lane beside all else; what it held is free when that is done."""
        self._beside.then(self._beside.submit(end), lambda _: self._ended(lane, on_done))

    def _ended(self, lane: LaneLoop, on_done: Callable[[], object]) -> None:
        lane.become(LaneState.CLOSED)
        self._tasks.failed(lane)
        self._tasks.release(lane.index)
        lane.forget()
        if self._tasks.lanes.get(lane.index) is lane:
            del self._tasks.lanes[lane.index]
        self._tasks.leaving.discard(lane.index)
        on_done()

    def fence(self, index: int) -> None:
        """A lane that does not come back may have died in the middle of a turn: end what it has left open. Takes its time."""
        if self._config.eos_enabled:
            application = self._lane_jobs.application
            try:
                fence(producer_config(self._config, f"{application.client_id}-fence"), application.transactional_id(index))
            except PenstockError as exc:
                _log.warning("what thread %d may have left open ends by transaction.timeout.ms: %s", index + 1, exc)
