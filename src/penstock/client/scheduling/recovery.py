"""What is done when something fails: a lane begins anew, what passes by itself is tried again, the rest the client decides."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from penstock.client.scheduling.failures import LaneLostError, is_transient
from penstock.client.scheduling.health import Health
from penstock.client.scheduling.lane_loop import LaneLoop, LaneState
from penstock.client.scheduling.lane_roster import LaneRoster
from penstock.client.scheduling.pipelines import Pipelines
from penstock.client.scheduling.running_instance import Control, RunningInstance
from penstock.client.scheduling.stuck_partitions import StuckPartitions
from penstock.client.scheduling.turns import Turn
from penstock.config.streams_config import StreamsConfig
from penstock.errors import TaskMigratedError
from penstock.kafka.clients import producer_config
from penstock.kafka.fetch import StuckPartitionsError
from penstock.spark.driver.placement import SessionStoppedError

_log = logging.getLogger(__name__)

_FLUSH_MS = 60_000  # so long a producer waits for what it has written
# A lane that has lost its executor rests this long where others take what it had: its new worker would cost them their cores.
OTHERS_FIRST = 5.0


class Recovery:
    """Takes failures of lanes, of stages and of the instance; used by the conductor's thread."""

    def __init__(
        self,
        instance: RunningInstance,
        control: Control,
        roster: LaneRoster,
        pipelines: Pipelines,
        stuck: StuckPartitions,
    ) -> None:
        self._config, self._tasks, self._lane_jobs, self._events = instance
        self._words, self._run, self._beside = control
        self._roster, self._pipelines, self._stuck = roster, pipelines, stuck
        self._longest_write, self._timeout = _longest_write(self._config), self._config["task.timeout.ms"] / 1000
        self._health, self._rests_until = Health(), 0.0

    def guarded(self, lane: LaneLoop | None, step: Callable[[], None]) -> None:
        """Do a step; what goes wrong in it concerns the lane it was for, or the instance."""
        try:
            step()
        except Exception as exc:  # noqa: BLE001 - whatever it was, the client decides
            if lane is None:
                self._instance_failed(exc)
            else:
                self.lane_failed(lane, exc)

    # -- lanes ---------------------------------------------------------------------------------------------------------

    def lane_failed(self, lane: LaneLoop, error: BaseException) -> None:
        """Only this lane begins anew, from its last commits; the others do not notice."""
        job = lane.job
        if lane.ends:
            lane.job = None
            return
        lane.failed()
        if job is not None and job.stay is not None:
            lane.plan_for_a_while()
        self._events.on_lane(lane.index, lane.state)
        self._tasks.failed(lane)
        if isinstance(error, SessionStoppedError):
            self._session_lost(error)
            return
        if self.is_gone(lane, error):
            self._leave_lost(lane)
        else:
            self._learn_from(error, lane, None if job is None or job.stay is not None else job.turn)
        if isinstance(error, TaskMigratedError) and not self._words.is_adopted:
            _log.info("a turn came too late for its generation of the group and is run again: %s", error)
            return
        lane.health.failed()
        self._go_on_or_end(error, lane, lane.health.failing_seconds)

    def is_gone(self, lane: LaneLoop, error: BaseException) -> bool:
        """Whether a lane has failed because its executor is not there any more."""
        return isinstance(error, LaneLostError) and not self._lane_jobs.is_alive(lane.index)

    def _leave_lost(self, lane: LaneLoop) -> None:
        """Have the others, who are there already, take what was in a lane whose executor is gone.

        That Spark has lost an executor does not mean that its host is down: the worker may live on, and commit its turn. So under
        exactly-once its transactional id is fenced before anybody reads where its tasks go on.
        """
        if self._tasks.stay_away(lane.index, away=True):
            lane.health.rest(OTHERS_FIRST)

        def release() -> None:
            if lane.state in (LaneState.HEALING, LaneState.CREATED):  # else it has begun anew, and has fenced it itself
                self._tasks.release(lane.index)

        if self._config.eos_enabled:
            self._beside.then(self._beside.submit(self._roster.fence, lane.index), lambda _: release())
        else:
            release()

    # -- stages --------------------------------------------------------------------------------------------------------

    def stage_failed(self, error: BaseException, health: Health) -> None:
        """A stage before a shuffle is run again, after a rest."""
        self._learn_from(error, None, None)
        if isinstance(error, SessionStoppedError):
            raise error
        health.failed()
        self._go_on_or_end(error, None, health.failing_seconds)

    # -- the instance --------------------------------------------------------------------------------------------------

    @property
    def rests(self) -> bool:
        """Whether it is too early to read again what could not be read."""
        return time.monotonic() < self._rests_until

    def went_well(self) -> None:
        """Tasks have been read."""
        self._health.went_well()

    def _instance_failed(self, error: BaseException) -> None:
        """What concerns no single lane."""
        if isinstance(error, SessionStoppedError):
            self._session_lost(error)
        elif is_transient(error):
            self._rests_until = time.monotonic() + self._health.failed()
            self._go_on_or_end(error, None, self._health.failing_seconds)
        elif not self._events.on_failure(error, None):
            self._run.has_failed = True

    def _session_lost(self, error: SessionStoppedError) -> None:
        """Nothing runs any more, whatever it was; where the client has found another session all lanes begin anew on it."""
        for lane in self._tasks.lanes.values():
            lane.begin_anew()
            lane.has_begun = False
            self._tasks.failed(lane)
            self._tasks.release(lane.index)
        self._pipelines.forget()
        self._run.told_running = False
        self._events.on_rebalancing()
        if not self._events.on_failure(error, None):
            self._run.has_failed = True

    # -- what is done about it -----------------------------------------------------------------------------------------

    def _go_on_or_end(self, error: BaseException, lane: LaneLoop | None, failing_seconds: float) -> None:
        """What passes by itself is tried again, for as long as it may take; for the rest the client decides."""
        if is_transient(error):
            if failing_seconds < self._timeout:
                _log.warning("a turn failed and is taken up again from the last commit: %s", error)
                return
            _log.error("turns have failed for longer than task.timeout.ms: giving up")
        if not self._events.on_failure(error, None if lane is None else lane.index):
            self._run.has_failed = True

    def _learn_from(self, error: BaseException, lane: LaneLoop | None, turn: Turn | None) -> None:
        """What the next turn should do without: partitions that do not move, and records that are too many for one turn."""
        if isinstance(error, StuckPartitionsError):
            self._stuck.note_all(error.short)
        elif (
            lane is not None
            and turn is not None
            and turn.size
            and (time.monotonic() - turn.started > self._longest_write or isinstance(error, LaneLostError))
        ):
            records = lane.batch_sizer.failed(round(turn.size))
            _log.warning(
                "a turn of %d records has failed after %.1f s; the brokers give a write %.0f s (under exactly-once that is "
                "producer.transaction.timeout.ms): the next turn has no more than %d",
                *(turn.size, time.monotonic() - turn.started, self._longest_write, records),
            )


def _longest_write(config: StreamsConfig) -> float:
    """How many seconds the brokers give a turn to write what it has: under exactly-once the timeout of its transaction."""
    settings = producer_config(config, "writes")
    return int(settings.get("transaction.timeout.ms", _FLUSH_MS) if config.eos_enabled else _FLUSH_MS) / 1000
