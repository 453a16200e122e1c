"""The conductor: decides what runs in each lane next, on one thread, and waits for none of it.

                 ┌── ends of the logs (asked beside all else) ──┐
    words of ───►│  lane 0: open ─► turn ─► account ─► rest …   │
    the group    │  lane 1: open ─► turn ─► account ─► rest …   │   each at its own pace; each fails and heals alone
                 │      ▲ parts                                 │
                 └── pipelines: stage ─► stage ─► …  ◄──────────┘   ahead of the slowest lane by two parts at most

What lanes, stages, brokers and the group have to say comes in as a note and is taken up in turn. After that everybody who is
free is looked at: what should be is compared with what is, and the next step towards it is begun. So there is nothing to be
undone when something fails in between, and one thread knows all there is to know.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from functools import partial
from typing import Any

from penstock.client.replicas.local_replicas import LocalReplicas
from penstock.client.scheduling.events import Events
from penstock.client.scheduling.failures import LaneLostError, error_of, is_transient
from penstock.client.scheduling.health import Health
from penstock.client.scheduling.lane_changes import LaneChange, LaneChanges
from penstock.client.scheduling.lane_loop import Job, LaneLoop, LaneState
from penstock.client.scheduling.levelling import Levelling
from penstock.client.scheduling.log_ends import Ends, LogEnds
from penstock.client.scheduling.moved_offsets import shown_moves
from penstock.client.scheduling.owned_tasks import OwnedTasks, Read, TaskReading
from penstock.client.scheduling.pipelines import Pipeline, Pipelines
from penstock.client.scheduling.positions import OffsetOutOfRangeError, Positions
from penstock.client.scheduling.rebalance_pause import RebalancePause
from penstock.client.scheduling.repartition_transports import Transports
from penstock.client.scheduling.stages import Stage
from penstock.client.scheduling.stays import (
    LONGEST_INTERVAL_MS,
    LONGEST_SECONDS,
    MOST_RECORDS,
    PLANNED_SECONDS,
    STAY_SECONDS,
    StayPlan,
    account_stay,
    plan_stay,
    turns_of,
)
from penstock.client.scheduling.stuck_partitions import StuckPartitions
from penstock.client.scheduling.task_spread import TaskSpread
from penstock.client.scheduling.turns import Turn, account, plan_turn
from penstock.client.scheduling.units import tasks_in
from penstock.clock import SystemClock
from penstock.config.streams_config import StreamsConfig
from penstock.errors import BrokerError, PenstockError, TaskMigratedError
from penstock.ids import TaskId, TopicPartition, UnitId
from penstock.kafka.admin import Admin
from penstock.kafka.clients import global_consumer_config, max_poll_seconds, producer_config, reads_committed
from penstock.kafka.fetch import Short, StuckPartitionsError
from penstock.kafka.membership import GroupMember, Membership, Stopped
from penstock.kafka.produce import fence
from penstock.log_lines import tell_again
from penstock.runtime.carry_over import OffsetAndMetadata
from penstock.spark.driver.lane_jobs import LaneJobs, LaneWork, Staged
from penstock.spark.driver.lanes import Lane
from penstock.spark.driver.placement import SessionStoppedError
from penstock.spark.messages import LaneAnswer
from penstock.spark.plan import Plan

_log = logging.getLogger(__name__)

_PLACES_EVERY = 5.0
_LOST_EVERY = 0.2
_SESSION_EVERY = 0.2
_OTHERS_EVERY = 0.5
_METRICS_EVERY = 1.0
_LOOK_EVERY = 1.0
_LAG_EVERY = 1.0
_ALIVE_EVERY = 40.0
# The longest the thread sleeps: so soon is noticed what nobody tells.
_TICK = 0.1
_FLUSH_MS = 60_000  # so long a producer waits for what it has written
# So long tasks behind a shuffle may be brought to the same position before the end.
_LEVEL_SECONDS = 15.0
# How long a lane restores in one go: while nothing else of it works, and between two turns of its other tasks.
_RESTORE_SECONDS, _RESTORE_BETWEEN = 2.0, 0.2
# So long the group's leader is waited for until it has left the shuffle for all.
_LEADER_SECONDS = 10.0
# A lane that has lost its executor rests this long where others take what it had: its new worker would cost them their cores.
_OTHERS_FIRST = 5.0
# Of what is done beside the loop, so much at a time: readings, questions to brokers, commits, lanes that close.
_BESIDE = 8


class Conductor:
    """Runs the tasks of one instance over the lanes of its lane_jobs, until told to stop."""

    def __init__(
        self,
        config: StreamsConfig,
        plan: Plan,
        lane_jobs: LaneJobs,
        admin: Admin,
        positions: Positions,
        units: Mapping[UnitId, tuple[TaskId, ...]],
        events: Events,
        beside: Executor | None = None,
    ) -> None:
        self._config = config
        self._lane_jobs = lane_jobs
        self._admin = admin
        self._events = events
        self._clock = SystemClock()
        self._spread = TaskSpread(always=config["task.spread"] == "always")
        self._stuck = StuckPartitions()
        self._longest_write, self._longest_job = _longest_write(config), max_poll_seconds(config)
        self._globals: list[TopicPartition] = []
        self.member: GroupMember | None = None
        events.standbys.on_restore = events.on_restore
        events.standbys.on_progress = self._nudge
        events.standbys.on_let_go = self._notify
        self.tasks = OwnedTasks(config, plan, lane_jobs, admin, positions, units, events, self._spread)
        self.tasks.lanes = {index: LaneLoop(index) for index in lane_jobs.lanes}
        self.copies = self.tasks.copies
        self.transports = Transports(config["repartition.transport"], config["repartition.transport.delay.ms"] / 1000, self._went)
        """Decides which way repartitions go, where this instance leads the group."""
        self._pipelines = Pipelines(self.tasks)
        self._beside = beside or ThreadPoolExecutor(_BESIDE, thread_name_prefix=f"{lane_jobs.application.client_id}-beside")
        committed_globals = reads_committed(global_consumer_config(config, "global"))
        self._log_ends = LogEnds(
            admin, self._beside, self.tasks.committed_only, committed_globals, partial(self._note_of, self._on_ends)
        )
        self._asked: tuple[list[LaneLoop], list[Pipeline]] = ([], [])
        self._poll_rests = 0.0
        self._read_rests = 0.0
        # What others tell, under the lock of `_wake`.
        self._wake = threading.Condition()
        self._notes: deque[Callable[[], None]] = deque()
        self._changes = LaneChanges()
        self._membership: Membership | None = None
        self._claimed: Membership | None = None
        self._last_membership: Membership | None = None
        self._heard = 0
        self._elsewhere: dict[TaskId, int] = {}
        self._probe_at: float | None = None
        self._closing = self._is_level = self._paused = self._halted = self._shutdown_requested = self._failed = False
        self._rebalance_pause = RebalancePause(_NoTurns(self))
        self._outside_error: BaseException | None = None
        # What only the thread knows.
        self._adopted_at = -1
        self._health, self._polls = Health(), Health()
        self._stays = 0
        self._left_shuffle_at, self._leaving_since, self._leave_rests = -1, 0.0, 0.0
        self._follows_moves = False
        self._levelling: Levelling | None = None
        self._told_running = False
        self._busy_beside: set[str] = set()
        self._last = dict.fromkeys(("lag", "look", "lost", "session", "others"), 0.0) | dict.fromkeys(
            ("purge", "places"), time.monotonic()
        )

    # -- told from outside ---------------------------------------------------------------------------------------------

    def stop(self) -> None:
        """End when the turns that run are over, and all tasks behind a shuffle are where the furthest of them is."""
        with self._wake:
            self._closing = True
            self._wake.notify_all()

    def pause(self, paused: bool) -> None:
        """Start no turns, and restore nothing, while paused."""
        with self._wake:
            self._paused = paused
            self._wake.notify_all()

    def revoked(self, lost: bool = False) -> Stopped:
        """The group rebalances; what is returned is set when what has to stop has stopped.

        Under exactly-once turns pause for a moment, and go on if the new generation is not there by then: one that comes too
        late is refused by the broker and run again. Under at-least-once nobody would refuse it: no turn is started, and those
        that run are waited for. What the group has given away already (`lost`) is read anew in any case.
        """
        with self._wake:
            if not lost and self._config.eos_enabled:
                self._wake.notify_all()  # lanes that stay are called back
                return self._rebalance_pause.begin()
            self._membership = None
            if lost:
                self._claimed = None
                self._heard += 1
                units = self.tasks.work_of(self._last_membership).units
                self._elsewhere.update(dict.fromkeys(tasks_in(units, units), self._heard))
            self._wake.notify_all()
        return _NoTurns(self)

    def assigned(self, membership: Membership) -> None:
        """The part of a new generation that is ours; what we keep goes on as it is."""
        with self._wake:
            self._shutdown_requested = self._shutdown_requested or membership.shutdown_requested
            # A task that was somebody else's for a generation is not where we left it, even if it is ours again: what was read of
            # it before is old, also where it has only been read and is not open yet.
            self._heard += 1
            units, ours = self.tasks.work_of(membership).units, set(membership.units)
            theirs = tasks_in(units, (unit for unit in units if unit not in ours))
            # Nor is one whose repartition went another way, if only for a generation that nobody here has seen.
            changed = self.tasks.changed_between(self._last_membership, membership)
            self._elsewhere.update(dict.fromkeys((*theirs, *changed), self._heard))
            self._membership = self._claimed = self._last_membership = membership
            self._rebalance_pause.end()
            self._probe_at = (
                time.monotonic() + self._config["probing.rebalance.interval.ms"] / 1000 if membership.probing else None
            )
            self._wake.notify_all()

    def halt(self) -> None:
        """Start no more turns, and wait for the group's word that all instances stop."""
        with self._wake:
            self._halted = True

    def end(self) -> None:
        """End the loop as the wish of a member that the whole application stops does."""
        with self._wake:
            self._shutdown_requested = True
            self._wake.notify_all()

    def change_lanes(self, change: LaneChange) -> None:
        """Add or remove a lane; the change says when that is done."""
        with self._wake:
            self._changes.put(change)
            self._wake.notify_all()

    def fail(self, error: BaseException) -> None:
        """Something outside of a turn went wrong."""
        with self._wake:
            self._outside_error = error
            self._wake.notify_all()

    def replace_plan(self, plan: Plan, positions: Positions, units: Mapping[UnitId, tuple[TaskId, ...]]) -> None:
        """Other topics than before: the next generation of the group works by this plan. Waits for the turns that run."""
        done = threading.Event()

        def replace() -> None:
            with self._wake:
                self._membership = None
                self._elsewhere.clear()
            if self.runs_turns:
                self._notes_later(replace)
                return
            for lane in self.tasks.lanes.values():
                lane.begin_anew()
            self.tasks.replace_plan(plan, positions, units)
            self._left_shuffle_at = -1
            done.set()

        with self._wake:
            self._membership = None
        self._note(replace)
        while not done.wait(_TICK) and not self._is_over:
            pass

    def watch_globals(self, partitions: list[TopicPartition]) -> None:
        """Partitions of global topics, to be caught up before each turn."""
        self._globals = partitions

    @property
    def owners(self) -> dict[TaskId, int]:
        """The lane of each task."""
        return dict(self.tasks.owners)

    @property
    def waiting_for_core(self) -> Mapping[str, float]:
        """How many seconds each thread has waited whose turn waits for a core of Spark now, by its name."""
        return self._lane_jobs.waits.seconds

    @property
    def shares_work(self) -> bool:
        """Whether other instances are members of the group."""
        membership = self._membership
        return membership is not None and len(membership.hosts) > 1

    @property
    def standbys(self) -> LocalReplicas:
        """The copies of state that this instance keeps."""
        return self.copies.standbys

    def holdings(self) -> tuple[tuple[UnitId, ...], tuple[UnitId, ...], dict[UnitId, int]]:
        """What this instance tells the group: units it runs, units it has copies of, and how far their state is."""
        with self._wake:
            membership, running = self._claimed, list(self.tasks.owners)
        return self.copies.holdings(membership, running, self.tasks.work_of(self._last_membership).units)

    @property
    def is_open(self) -> bool:
        """Whether all tasks are open and restored."""
        return self._told_running and not self._closing

    def is_ready(self, task: TaskId) -> bool:
        """Whether a task of this instance is open and restored: what it has committed can be read."""
        return not self._closing and self.tasks.is_ready(task)

    def has_globals(self, lane: int) -> bool:
        """Whether a lane is open, and its copy of the global tables with it."""
        loop = self.tasks.lanes.get(lane)
        return loop is not None and loop.is_open and not self._closing

    @property
    def has_begun(self) -> bool:
        """Whether the worker of every lane is there, or has failed to be."""
        return all(lane.has_begun or lane.state is LaneState.HEALING for lane in list(self.tasks.lanes.values()))

    @property
    def standby_hosts(self) -> Mapping[TaskId, str]:
        """The host of each standby task that this instance keeps; empty for the driver's own."""
        return self.standbys.wanted

    @property
    def membership(self) -> Membership | None:
        """The last generation of the group that this instance was part of; None before the first."""
        return self._last_membership

    def _went(self) -> tuple[int, ...] | None:
        membership = self._last_membership
        return None if membership is None else membership.shuffled

    def reopen(self) -> None:
        """A lane does not answer readers any more: see whether its worker is there, also if there is nothing to process."""

        def doubt() -> None:
            for lane in self.tasks.lanes.values():
                lane.is_doubted = True

        self._note(doubt)

    # -- the loop ------------------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Until stopped, or until a failure that the client does not want to survive; turns that run are waited for."""
        try:
            while not self._is_over or self.runs_turns or (self._closing and "lag" in self._busy_beside):
                self.step()
                self._sleep()
            membership = self._membership
            if self._closing and membership is not None and (shown := self.tasks.positions.shown()):
                self._show_lag(shown, membership.generation)
        finally:
            self._beside.shutdown(wait=False)
            for lane in self.tasks.lanes.values():
                if not lane.ends:
                    lane.become(LaneState.CLOSING)

    @property
    def _is_over(self) -> bool:
        return (self._closing and self._is_level) or self._shutdown_requested or self._failed

    @property
    def looks(self) -> int:
        """How often the ends of logs have been asked for."""
        return self._log_ends.asked

    @property
    def runs_turns(self) -> bool:
        """Whether a turn is under way in any lane."""
        return any((job := lane.job) is not None and job.is_turn for lane in list(self.tasks.lanes.values()))

    def step(self) -> None:
        """Take up what was noted, then bring everybody who is free a step further."""
        while self._notes:
            self._guarded(None, self._notes.popleft())
        if self._closing and not self._is_level:
            self._level()
        if self._is_over:
            self._watch_jobs()
            self._call_back()
            return
        self._guarded(None, self._follow_words)
        for lane in list(self.tasks.lanes.values()):
            self._guarded(lane, partial(self._drive, lane))
        self._guarded(None, self._look_for_work)
        self._guarded(None, self._housekeeping)
        self._call_back()
        self._commit_progress()
        self._tell_state()

    def _call_back(self) -> None:
        """Have lanes that stay for many turns give way, where something else is to be done."""
        for lane in self.tasks.lanes.values():
            stay = None if lane.job is None or lane.job.stay is None else lane.job.stay.stay
            if stay is not None and stay.number > lane.called_back and self._is_wanted_back(lane):
                lane.called_back = stay.number
                self._beside.submit(self._lane_jobs.call_back, lane.index, stay.number)

    def _commit_progress(self) -> None:
        """Under at-least-once only the driver, a member, may commit: it does so while lanes stay."""
        if self._config.eos_enabled or not self._may_work:
            return
        now = time.monotonic()
        for lane in self.tasks.lanes.values():
            job, is_free = lane.job, lane.progress is None or lane.progress.done()
            if job is not None and job.stay is not None and is_free and now >= lane.progress_at:
                lane.progress_at = now + max(_TICK, self._config["commit.interval.ms"] / 1000)
                number, generation = job.stay.stay.number, job.generation
                lane.progress = self._beside.submit(self._commit_so_far, lane.index, number, generation)

    def _commit_so_far(self, lane: int, stay: int, generation: int) -> None:
        try:
            if offsets := self._lane_jobs.progress(lane, stay):
                self._commit(offsets, generation)
        except PenstockError as exc:
            _log.debug("what a lane that stays has done is committed later: %s", exc)

    def _is_wanted_back(self, lane: LaneLoop) -> bool:
        leaves = lane.on_left is not None or lane.goes_to is not None or lane.is_doubted or lane.ends or lane.is_in_the_way
        return leaves or self._closing or not self._may_work or set(self.tasks.wanted(lane)) != lane.holds.keys()

    def _level(self) -> None:
        """Go on until tasks behind a shuffle are level, as long as nothing is in the way of it (`levelling.py`)."""
        lanes, now = list(self.tasks.lanes.values()), time.monotonic()
        if self._levelling is None:
            self._levelling = Levelling(self.tasks.positions, lanes, now + _LEVEL_SECONDS)
        uneven = self.tasks.positions.uneven()
        cannot = now > self._levelling.deadline or not self._may_work or any(lane.state is LaneState.HEALING for lane in lanes)
        self._is_level = cannot or not self.tasks.positions.vectors or not (uneven or self.runs_turns)
        if self._is_level and uneven:
            _log.warning(
                "the application ends while tasks behind a shuffle are at different positions of %s: it goes on from each of "
                "them; an application in Java would not: before one takes over, start this one again and close it while it runs",
                ", ".join(map(str, sorted(uneven))),
            )

    def _guarded(self, lane: LaneLoop | None, step: Callable[[], None]) -> None:
        """What goes wrong in a step concerns the lane it was for, or the instance."""
        try:
            step()
        except Exception as exc:  # noqa: BLE001 - whatever it was, the client decides
            if lane is None:
                self._instance_failed(exc)
            else:
                self._lane_failed(lane, exc)

    def _note(self, note: Callable[[], None]) -> None:
        with self._wake:
            self._notes.append(note)
            self._wake.notify_all()

    def _notes_later(self, note: Callable[[], None]) -> None:
        timer = threading.Timer(_TICK, self._note, (note,))
        timer.daemon = True
        timer.start()

    def _note_of(self, function: Callable[..., None], *arguments: Any) -> None:
        self._note(partial(function, *arguments))

    def _notify(self) -> None:
        with self._wake:
            self._wake.notify_all()

    def _sleep(self) -> None:
        now = time.monotonic()
        wait = max(0.0, min((at - now for at in self._next_times()), default=_TICK))
        with self._wake:
            if not self._notes:
                self._wake.wait(min(_TICK, wait))

    def _next_times(self) -> Iterable[float]:
        """When something is to be done that nobody tells of."""
        if not self._may_work or self._log_ends.is_asking:
            return
        for lane in self.tasks.lanes.values():
            if self._can_turn(lane):
                yield max(lane.poll_at, self._poll_rests)
                timers = [at for task in self._working(lane) if (at := self.tasks.timers.get(task)) is not None]
                if timers:
                    yield max(time.monotonic() + (min(timers) - self._clock.now_ms()) / 1000, self._poll_rests)
        for pipeline in self._pipelines.staged():
            if self._pipelines.has_room(pipeline):
                yield max(pipeline.poll_at, pipeline.health.rests_until, self._poll_rests)

    # -- the words of the group ----------------------------------------------------------------------------------------

    def _follow_words(self) -> None:
        if self.member is not None and self.member.failure is not None:
            error = BrokerError(f"the application cannot be a member of its group: {self.member.failure}")
            self._events.on_failure(error, None)
            self._failed = True
            return
        with self._wake:
            error_outside, self._outside_error = self._outside_error, None
            membership, heard, elsewhere = self._membership, self._heard, dict(self._elsewhere)
        if error_outside is not None:
            raise error_outside
        self._change_lanes()
        if membership is None or self._halted or time.monotonic() < self._read_rests:
            return
        if heard != self._adopted_at:
            if self.tasks.go_by(membership):
                self._pipelines.forget_others()
            self.tasks.adopt(membership, elsewhere)
            self._adopted_at = heard
        if not self._paused:
            self.tasks.take_back()
        if not self._has_left_shuffle(membership, heard):
            return
        if (reading := self.tasks.next_reading(heard)) is not None:
            future = self._beside.submit(self.tasks.read, reading)
            future.add_done_callback(partial(self._note_of, self._on_read, reading))

    def _on_read(self, reading: TaskReading, future: Future[Read]) -> None:
        try:
            self.tasks.take(future.result(0))
            self._events.on_assigned()
            self._health.went_well()
        except Exception:
            self.tasks.failed_to_read(reading)
            raise

    def _has_left_shuffle(self, membership: Membership, heard: int) -> bool:
        """Whether offsets can be read to work from: in every generation it is looked first whether vectors are left.

        Where there are any, repartitions went through the shuffle before: in an earlier run, in the last generation, or in one
        that others have had without this instance.
        """
        if self._left_shuffle_at == heard or self.member is None:
            return True
        if self._follows_moves and not self.tasks.plan.has_topics:
            self._left_shuffle_at = heard
            return True
        now = time.monotonic()
        if now >= self._leave_rests:
            work = partial(self._leave_shuffle, self.tasks.positions.copy(), membership.generation)
            self._do_beside("leave the shuffle", work, partial(self._on_left_shuffle, heard))
        return False

    def _leave_shuffle(self, positions: Positions, generation: int) -> bool:
        """Where repartitions went through the shuffle and do not now, begin where it ended; whether that is done.

        And where offsets before a shuffle were moved while the application was stopped, begin there. One commit for all of it, by
        the leader of this generation alone: nobody works before it, and nobody commits over it.
        """
        member = self.member
        assert member is not None
        left, moved = positions.leaving_shuffle(), positions.following_moves()
        if not left and not moved:
            return True
        if not member.is_leader:
            return False
        if left:
            _log.info("repartitions that went through the shuffle go through their topics from now on")
        if moved:
            _log.info("before a shuffle offsets count that others have committed: %s", shown_moves(moved))
        try:
            member.commit({**left, **moved}, whole=True, generation=generation)
        except BrokerError:
            # It may still be taken, when others have gone on from what they found: in another generation it is not.
            member.request_rejoin()
            raise
        return True

    def _on_left_shuffle(self, heard: int, done: bool) -> None:
        now = time.monotonic()
        if done:
            self._left_shuffle_at, self._leaving_since, self._leave_rests = heard, 0.0, 0.0
            self._follows_moves = True
            return
        self._leaving_since = self._leaving_since or now
        waited = now - self._leaving_since
        self._leave_rests = now + min(1.0, 0.05 + waited / 10)
        if waited > _LEADER_SECONDS and self.member is not None:
            # A static member that led, and was started anew since, does not lead its old generation any more: nobody does.
            self._leaving_since = now
            _log.warning(
                "repartitions are to go another way or from other offsets, and the group's leader has not seen to it for %.0f s: "
                "the group is asked anew",
                waited,
            )
            self.member.request_rejoin()

    def _nudge(self) -> None:
        """Copies have come further: what waits for them goes on, and the group is asked when a warm-up is ready."""
        if self.tasks.adopted is None or self.member is None:
            return
        if self.copies.restoring:
            self._notify()
        if self.copies.warm_ups_are_ready():
            self._probe()

    def _probe(self) -> None:
        """Have the group look whether what waits can move now; once in a generation."""
        with self._wake:
            asked, self._probe_at = self._probe_at is not None, None
        if asked and self.member is not None:
            self.member.request_rejoin()

    # -- lanes that come and go ----------------------------------------------------------------------------------------

    def _change_lanes(self) -> None:
        """Add and remove lanes as asked for; the tasks of a lane that goes move to the others."""
        while (change := self._changes.take()) is not None:
            if change.name is not None:
                self._add_lane(change.index, change.name)
                change.on_done()
            elif change.index in self.tasks.lanes:
                self._remove_lane(change.index, change.on_done)
            else:
                change.on_done()

    def _add_lane(self, index: int, name: str) -> None:
        self._lane_jobs.add_lane(index, name)
        self.tasks.lanes[index] = LaneLoop(index)
        self.tasks.place()

    def _remove_lane(self, index: int, on_done: Callable[[], None]) -> None:
        if len(self._lane_jobs.lanes) < 3:
            self._spread.forget()
        lane = self.tasks.lanes[index]
        lane.on_left = on_done
        self.tasks.leave_for_good(index)

    def replace_lane(self, old: int, new: int, name: str, on_done: Callable[[], None] = lambda: None) -> None:
        """Put a new lane in the place of one that failed, in its worker; called on the conductor's own thread.

        It begins when the other would have begun anew.
        """
        failed = self.tasks.lanes[old]
        self.tasks.lanes[new] = LaneLoop.after(failed, new)
        self.tasks.lose_lane(old, successor=new)
        failed.become(LaneState.CLOSING)
        # Both, where it was about to be removed.
        told = [on_done] if failed.on_left is None else [on_done, failed.on_left]
        end = partial(self._end_beside, failed, partial(self._fence, old), lambda: [tell() for tell in told])
        self._lane_jobs.pass_on(old, new, name).add_done_callback(lambda _: self._note(end))

    def _end_lane(self, lane: LaneLoop, on_done: Callable[[], None]) -> None:
        """End a lane's worker."""
        lane.become(LaneState.CLOSING)
        self._end_beside(lane, partial(self._end_worker, lane.index, self._lane_jobs.take_lane(lane.index)), on_done)

    def _end_worker(self, index: int, worker: Lane) -> None:
        self._lane_jobs.end_lane(index, worker)
        self._fence(index)

    def _end_beside(self, lane: LaneLoop, end: Callable[[], None], on_done: Callable[[], object]) -> None:
        """End a lane beside all else; what it held is free when that is done."""
        self._beside.submit(end).add_done_callback(lambda _: self._note(partial(self._lane_ended, lane, on_done)))

    def _fence(self, index: int) -> None:
        """A lane that does not come back may have died in the middle of a turn: end what it has left open."""
        if self._config.eos_enabled:
            application = self._lane_jobs.application
            try:
                fence(producer_config(self._config, f"{application.client_id}-fence"), application.transactional_id(index))
            except PenstockError as exc:
                _log.warning("what thread %d may have left open ends by transaction.timeout.ms: %s", index + 1, exc)

    def _lane_ended(self, lane: LaneLoop, on_done: Callable[[], object]) -> None:
        lane.become(LaneState.CLOSED)
        self.tasks.failed(lane)
        self.tasks.release(lane.index)
        lane.forget()
        if self.tasks.lanes.get(lane.index) is lane:
            del self.tasks.lanes[lane.index]
        self.tasks.leaving.discard(lane.index)
        on_done()

    # -- a lane --------------------------------------------------------------------------------------------------------

    @property
    def _may_work(self) -> bool:
        """Whether turns may be started."""
        stopped = self._paused or self._halted or self._is_over or self._rebalance_pause.is_on
        return not stopped and self._membership is not None and self._heard == self._adopted_at

    def _drive(self, lane: LaneLoop) -> None:
        """The next step of a lane that is free; turns are planned when it is known where logs end."""
        self._watch(lane)
        self._update_state(lane)
        if lane.job is not None or lane.ends:
            return
        if lane.on_left is not None and not lane.holds:
            self._end_lane(lane, lane.on_left)
            return
        if lane.state is LaneState.HEALING:
            if lane.health.rests:
                return
            lane.become(LaneState.CREATED)
        if lane.state is LaneState.CREATED:
            if self._lane_jobs.place_lane(lane.index):
                lane.goes_to = None
                self.tasks.place()
            self._open(lane, {})
            return
        wanted = self.tasks.to_own(lane)
        if lane.goes_to is not None and self._may_leave(lane):
            self._lane_jobs.move_lane(lane.index, lane.goes_to)
            lane.goes_to = None
            lane.begin_anew()
            self.tasks.stay_away(lane.index, away=False)
        elif wanted.keys() != lane.holds.keys() or lane.is_doubted:
            self._open(lane, wanted)
        elif lane.holds and time.monotonic() - self._lane_jobs.lanes[lane.index].last_used > _ALIVE_EVERY:
            self._open(lane, wanted)  # Spark ends workers that are idle for a minute, and with them what they hold in memory
        elif lane.state is LaneState.RESTORING and not lane.running and not self._paused:
            self._open(lane, wanted)

    def _open(self, lane: LaneLoop, tasks: Mapping[TaskId, int]) -> None:
        seconds = 0.0 if self._paused else _RESTORE_BETWEEN if lane.running else _RESTORE_SECONDS
        self.tasks.opening(lane, tasks)
        lane.is_doubted = False
        self._start(lane, Job(opens=dict(tasks)), self._lane_jobs.open(lane.index, self.tasks.committed(tasks), seconds))

    def _start(self, lane: LaneLoop, job: Job, future: Future[LaneAnswer]) -> None:
        lane.job = job
        future.add_done_callback(partial(self._note_of, self._on_answer, lane, job))

    def _on_answer(self, lane: LaneLoop, job: Job, future: Future[LaneAnswer]) -> None:
        if lane.job is job and lane.progress is not None and not lane.progress.done():
            # What the lane had done before is committed first, or offsets would go back.
            lane.progress.add_done_callback(lambda _: self._note(partial(self._on_answer, lane, job, future)))
        elif lane.job is job:
            self._guarded(lane, partial(self._take_answer, lane, job, self._lane_jobs.answer(future)))

    def _take_answer(self, lane: LaneLoop, job: Job, answer: LaneAnswer) -> None:
        self._events.on_answers({lane.index: answer})
        # Of a turn that has failed nothing may count; where a lane stayed, what it tells is of the turns before that one.
        is_done = job.stay is not None or (answer.failure is None and not answer.lost)
        if job.turn is not None and answer.offsets and is_done and not self._config.eos_enabled:
            # Only a member may, so the worker did not.
            committing = self._beside.submit(self._commit, answer.offsets, job.generation)
            committing.add_done_callback(partial(self._note_of, self._on_committed, lane, job, answer))
        else:
            self._end_of_job(lane, job, answer)

    def _end_of_job(self, lane: LaneLoop, job: Job, answer: LaneAnswer) -> None:
        if job.stay is not None and job.turn is not None:
            self._tell_stay(lane, job.turn, answer)
        if answer.failure is not None or answer.lost:
            self.tasks.failed(lane)
            lost = TaskMigratedError("a lane lost its worker; its tasks are opened again")
            error = lost if answer.failure is None else error_of(answer.failure)
            if not self._is_gone(lane, error):
                self.tasks.release(lane.index)  # a worker that fails keeps nothing open
            raise error
        self._free(lane, job, answer)

    def _commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata], generation: int) -> None:
        assert self.member is not None
        self.member.commit(offsets, generation=generation)

    def _on_committed(self, lane: LaneLoop, job: Job, answer: LaneAnswer, future: Future[None]) -> None:
        if lane.job is job:
            self._guarded(lane, partial(self._after_commit, lane, job, answer, future))

    def _after_commit(self, lane: LaneLoop, job: Job, answer: LaneAnswer, future: Future[None]) -> None:
        future.result(0)
        self._end_of_job(lane, job, answer)

    def _free(self, lane: LaneLoop, job: Job, answer: LaneAnswer) -> None:
        """A job has gone well: the lane is free for the next."""
        lane.job, lane.free_since, lane.hangs = None, time.monotonic(), False
        if job.stay is not None:
            self._account_stay(lane, job, job.stay, answer)
        elif job.turn is not None:
            self._account(lane, job.turn, answer)
        if not lane.ends:
            if lane.state is LaneState.CREATED:
                self.tasks.release(lane.index)
                lane.become(LaneState.OPENING)
                lane.has_begun = True
                self._last["places"] = 0.0  # another lane may wait for this one to be in its place
                if lane.on_left is None and lane.goes_to is None:
                    self.tasks.stay_away(lane.index, away=False)
            self.tasks.opened(lane, job, answer)
            self._update_state(lane)
            if answer.goes_on and job.stay is not None:
                self._go_on(lane, job.stay, answer.reached)

    def _update_state(self, lane: LaneLoop) -> None:
        if lane.update_state(self.tasks.wanted(lane)):
            self._events.on_lane(lane.index, lane.state)

    def _account(self, lane: LaneLoop, turn: Turn, answer: LaneAnswer) -> None:
        ended, positions = time.monotonic(), self.tasks.positions
        seconds = ended - turn.started
        account(positions, turn, answer)
        lane.batch_sizer.account(round(turn.done(answer)), seconds)
        if not answer.short:  # one that has waited for a partition that does not move was not busy
            self._spread.turned(
                *(turn.started, ended, {lane.index: answer.work_seconds}),
                records=round(turn.done(answer)),
                left=max(0, turn.backlog - turn.records) + answer.postponed,
                around={lane.index: answer.surrounding_seconds},
            )
        if turn.backlog > turn.records or turn.part is not None:
            lane.poll_at = ended
        else:
            lane.poll_at = turn.started + self._config["commit.interval.ms"] / 1000
        lane.health.went_well()
        self._events.on_account(turn, {lane.index: answer}, seconds)
        self._events.on_turn(turn, {lane.index: answer}, seconds)
        if positions.is_drained:
            _log.info("what was left in repartition topics has been read: they go through the shuffle from now on")
            self.tasks.read_anew()
        self._note_stuck(turn, answer.short)

    def _tell_stay(self, lane: LaneLoop, planned: Turn, answer: LaneAnswer) -> None:
        """Count the turns of a stay, all of which were committed, also where a later one has failed."""
        for turn, alone, seconds in turns_of(planned, answer, time.monotonic()):
            self._spread.turned(
                *(turn.started, turn.started + seconds, {lane.index: alone.work_seconds}),
                records=turn.records,
                left=0,
                around={lane.index: alone.surrounding_seconds},
            )
            self._events.on_account(turn, {lane.index: alone}, seconds)
            self._events.on_turn(turn, {lane.index: alone}, seconds)

    def _account_stay(self, lane: LaneLoop, job: Job, plan: StayPlan, answer: LaneAnswer) -> None:
        """Note how far a lane has come that stayed; what a turn costs that is a job of its own it does not tell."""
        assert job.turn is not None
        account_stay(self.tasks.positions, plan, answer)
        lane.poll_at = time.monotonic()
        lane.health.went_well()
        if lane.called_back < plan.stay.number and plan.has_missed(lane.there, answer):
            lane.plans_until = lane.poll_at + PLANNED_SECONDS

    def _go_on(self, lane: LaneLoop, plan: StayPlan, reached: Mapping[TopicPartition, int]) -> None:
        """Have a lane whose time was up in the midst of its work stay once more, at once; where logs end is asked meanwhile."""
        if lane.job is not None or not lane.is_open or self._is_wanted_back(lane):
            return
        turn, tasks = Turn(started=time.monotonic()), self._working(lane)
        if set(plan.stay.tasks) != set(tasks) or not self._may_stay(lane, turn, tasks):
            return
        stay = plan.again(self.tasks.positions, self._stays + 1, reached)
        if stay is None:
            return
        self._stays += 1
        self._begin_turn(lane, turn, lane.global_ends, stay)
        if not self._log_ends.is_asking:
            self._log_ends.ask(self._stuck.without(dict.fromkeys(self._sources(lane))), self._globals)

    def _note_stuck(self, turn: Turn, short: Mapping[TopicPartition, Short]) -> None:
        """Leave alone for a while what could not be read; what the log does not have any more is loaded anew."""
        for partition, at in short.items():
            self._stuck.note(partition, at.offset, at.reason)
        self._stuck.moved({TopicPartition(r.topic, r.partition) for r in turn.told_ranges} - short.keys())
        gone = ", ".join(f"{partition} at offset {at.offset}" for partition, at in short.items() if at.out_of_range)
        if gone:
            raise OffsetOutOfRangeError(f"offsets are out of range: {gone}")

    # -- what there is to do -------------------------------------------------------------------------------------------

    def _look_for_work(self) -> None:
        """Ask where logs end for those who are free, and whose time has come; then plan."""
        now = time.monotonic()
        if not self._may_work or self._log_ends.is_asking or now < self._poll_rests:
            return
        lanes = [lane for lane in self.tasks.lanes.values() if self._can_turn(lane) and self._is_due(lane, now)]
        pipelines = [one for one in self._pipelines.staged() if self._is_pipeline_due(one, now)]
        if not lanes and not pipelines:
            return
        sources = dict.fromkeys(source for lane in lanes for source in self._sources(lane))
        sources |= dict.fromkeys(source for pipeline in pipelines for source in self._pipelines.sources(pipeline))
        self._asked = lanes, pipelines
        self._log_ends.ask(self._stuck.without(sources), self._globals)

    def _can_turn(self, lane: LaneLoop) -> bool:
        """Whether a lane is free, and has something that works; one without tasks may have global tables that are read."""
        return lane.job is None and lane.is_open and (bool(lane.running) or bool(self._globals))

    def _is_due(self, lane: LaneLoop, now: float) -> bool:
        if lane.parts or self._timers_due(lane):
            return True
        if now < lane.poll_at:
            return False
        if self._globals or lane.state is LaneState.RESTORING or next(iter(self._sources(lane)), None) is not None:
            return True
        lane.poll_at = now + _TICK  # it reads nothing itself
        return False

    def _is_pipeline_due(self, pipeline: Pipeline, now: float) -> bool:
        if now < pipeline.poll_at or pipeline.health.rests:
            return False
        if self._pipelines.has_room(pipeline):
            return True
        pipeline.poll_at = now + _TICK / 2  # or when a stage ends, or a lane takes what waits for it
        return False

    def _timers_due(self, lane: LaneLoop) -> list[TaskId]:
        if not self.tasks.timers:
            return []
        now = self._clock.now_ms()
        return [task for task in self._working(lane) if self.tasks.timers.get(task, now + 1) <= now]

    def _sources(self, lane: LaneLoop) -> Iterable[TopicPartition]:
        """What a lane reads itself."""
        positions, tasks = self.tasks.positions, self._working(lane)
        for task in tasks:
            yield from (partition for partition in positions.inputs(task) if partition in positions.fetched)
        for fed in self._pipelines.read_in_lane(lane, tasks).values():
            for partition in fed:
                yield from positions.vectors[partition]

    def _working(self, lane: LaneLoop) -> list[TaskId]:
        """The tasks of a lane that work, and stay there."""
        return sorted(self.tasks.to_own(lane).keys() & lane.running)

    def _on_ends(self, future: Future[Ends]) -> None:
        (lanes, pipelines), self._asked = self._asked, ([], [])
        try:
            told = future.result(0)
            self._polls.went_well()
        except Exception as exc:
            self._poll_rests = time.monotonic() + self._polls.failed()
            if not is_transient(exc) or self._polls.failing_seconds > self._config["task.timeout.ms"] / 1000:
                raise
            _log.warning("where logs end cannot be told now, and is asked again: %s", exc)
            return
        if silent := set(told.asked) - told.ends.keys():
            for partition in silent.intersection(self.tasks.positions.sources()):  # others were given up meanwhile
                self._stuck.note(partition, self.tasks.positions.start(partition), "its leader does not answer")
        self.tasks.ends = {**self.tasks.ends, **told.ends}
        gone = self.tasks.positions.out_of_range(told.ends)
        if self._levelling is not None:
            told = told._replace(ends=self._levelling.ends(self.tasks.positions, told.ends))
        else:
            self.tasks.follow_load()
        for lane in lanes:
            if lane.job is None and lane.is_open:
                self._guarded(lane, partial(self._plan_turn, lane, told, gone))
        for pipeline in pipelines:
            self._plan_stages(pipeline, told)
        for lane in self.tasks.lanes.values():
            if lane.job is not None and lane.job.stay is not None and not lane.there:
                positions = lane.job.stay.stay.positions
                lane.there = {p: end for p, end in told.ends.items() if end > positions.get(p, end)}

    def _plan_turn(self, lane: LaneLoop, told: Ends, gone: Mapping[TopicPartition, OffsetOutOfRangeError]) -> None:
        """Start the next turn of a lane that is free, where there is anything to do."""
        positions, tasks = self.tasks.positions, self._working(lane)
        for partition, error in gone.items():
            if any(positions.reads(task, partition) for task in tasks):
                raise error
        while lane.parts and not lane.parts[0].fits(positions.vectors):
            _log.debug("what %s brought for lane %d is of no use any more", lane.parts[0].stage, lane.index)
            lane.parts.popleft()
        limit = partial(self._limit, lane)
        window = self._pipelines.window_in_lane(lane, tasks, told.ends, limit(0))
        part = lane.parts[0] if lane.parts else None
        turn = plan_turn(*(self.tasks.plan, positions, told.ends, tasks, self._timers_due(lane), limit), window=window, part=part)
        if turn is None and not self._has_new_globals(lane, told.globals):
            self._rest(lane)
            return
        turn = turn or Turn()
        lane.batch_sizer.polled(turn.backlog)
        turn.started, turn.poll_seconds = time.monotonic() - told.seconds, told.seconds
        stay = self._stay(lane, turn, tasks) if turn.records else None
        self._begin_turn(lane, turn, told.globals, stay)

    def _may_stay(self, lane: LaneLoop, turn: Turn, tasks: Collection[TaskId]) -> bool:
        """Whether a lane carries the load alone, with little at a time."""
        if self._closing or lane.state is not LaneState.RUNNING or lane.holds.keys() != set(tasks) or lane.parts:
            return False
        if turn.backlog > MOST_RECORDS or turn.started < lane.plans_until or self._stuck.any:
            return False
        if self._config["commit.interval.ms"] > LONGEST_INTERVAL_MS:
            return False
        if (
            lane.batch_sizer.ceiling is not None
            or self._config["batch.max.records"] < MOST_RECORDS
            or self._pipelines.is_under_way
        ):
            return False
        return all(owner == lane.index for owner in self.tasks.owners.values())

    def _stay(self, lane: LaneLoop, turn: Turn, tasks: Collection[TaskId]) -> StayPlan | None:
        """How a lane stays for many turns; None where it does not."""
        if not self._may_stay(lane, turn, tasks):
            return None
        seconds = min(LONGEST_SECONDS, self._longest_job / 4)
        commit_seconds = self._config["commit.interval.ms"] / 1000
        plan = plan_stay(self.tasks.positions, tasks, self._stays + 1, seconds=seconds, commit_seconds=commit_seconds)
        self._stays += plan is not None
        return plan

    def _begin_turn(
        self, lane: LaneLoop, turn: Turn, global_ends: Mapping[TopicPartition, int], stay: StayPlan | None = None
    ) -> None:
        now = time.monotonic()
        with_metrics = turn.backlog <= turn.records or now - lane.metrics_at > _METRICS_EVERY  # or it may be long until the next
        with self._wake:  # nobody may take the work away between the question and the start
            membership = self._membership
            if membership is None or not self._may_work:
                return
            job = lane.job = Job(turn=turn, generation=membership.generation, stay=stay)
        if turn.part is not None:
            lane.parts.popleft()
            if turn.part.stage.backlog > turn.part.stage.records:
                self._pipelines.has_moved(turn.part.stage.unit)
        lane.metrics_at = now if with_metrics else lane.metrics_at
        lane.there, lane.is_in_the_way = {}, False
        lane.global_ends = dict(global_ends)
        work = LaneWork(
            turn.work,
            membership.group_metadata,
            turn.upstream,
            {} if turn.part is None else turn.part.checksums,
            turn.read,
            global_ends,
            with_metrics,
            _RESTORE_BETWEEN if lane.state is LaneState.RESTORING else 0.0,
            str(turn) if stay is None else f"turn after turn, from {turn} on" if turn.records else "turn after turn",
            None if stay is None else stay.stay,
        )
        self._start(lane, job, self._lane_jobs.process(lane.index, work, None if turn.part is None else turn.part.rows))

    def _limit(self, lane: LaneLoop, backlog: int) -> int:
        return lane.batch_sizer.max_records(self._config["batch.max.records"], backlog)

    def _has_new_globals(self, lane: LaneLoop, ends: Mapping[TopicPartition, int]) -> bool:
        """Whether global tables have changed while there is nothing to process: queries read them all the same."""
        used = set(self.tasks.owners.values()) or set(list(self.tasks.lanes)[:1])
        return bool(ends) and lane.index in used and ends != lane.global_ends

    def _rest(self, lane: LaneLoop) -> None:
        """Until the next question: soon after activity, every `poll.ms` when nothing comes."""
        if lane.state is LaneState.RESTORING and not self._paused:
            self._open(lane, self.tasks.to_own(lane))
            return
        now = time.monotonic()
        lane.poll_at = now + min(self._config["poll.ms"] / 1000, max(0.005, (now - lane.batch_sizer.small_since) / 20))

    # -- what comes before a shuffle -----------------------------------------------------------------------------------

    def _plan_stages(self, pipeline: Pipeline, told: Ends) -> None:
        now = time.monotonic()
        stages = self._pipelines.next_stages(pipeline, told.ends, self._limit) if self._may_work else []
        for stage in stages:
            targets = self._pipelines.lanes_of(stage)
            running = self._lane_jobs.stage(stage.upstream, targets, str(stage))
            running.add_done_callback(partial(self._note_of, self._on_stage, pipeline, stage, targets))
        backlog = max((stage.backlog for stage in stages), default=0)
        pipeline.batch_sizer.polled(backlog)
        if not stages and pipeline.under_way:
            pipeline.poll_at = now + _TICK / 2  # or when it ends
        elif not stages:
            quiet = now - pipeline.batch_sizer.small_since
            pipeline.poll_at = now + min(self._config["poll.ms"] / 1000, max(0.005, quiet / 20))
        elif all(stage.backlog <= stage.records for stage in stages):
            pipeline.poll_at = now + self._config["commit.interval.ms"] / 1000
        else:
            pipeline.poll_at = now

    def _on_stage(self, pipeline: Pipeline, stage: Stage, targets: Mapping[TopicPartition, int], future: Future[Staged]) -> None:
        if not self._pipelines.ended(pipeline, stage):
            return
        try:
            staged = future.result(0)
            failure = staged.failure
        except Exception as exc:  # noqa: BLE001 - Spark reports a dead worker as one of many exceptions
            staged, failure = None, self._lane_jobs.failure(exc)
        if staged is not None:
            tell_again(f"stream-thread [{self._lane_jobs.application.client_id}-shuffle]", staged.logs)
        if failure is None and staged is not None:
            pipeline.health.went_well()
            if self._levelling is None or self._levelling.wants(stage):
                self._pipelines.bring(pipeline, stage, targets, staged)
            if stage.backlog > stage.records:
                self._pipelines.has_moved(pipeline.unit)
            return
        assert failure is not None
        error = error_of(failure)
        self._learn_from(error, None, None)
        if isinstance(error, SessionStoppedError):
            raise error
        pipeline.health.failed()
        if not self._survives(error, None, pipeline.health.failing_seconds):
            self._failed = True

    # -- failures ------------------------------------------------------------------------------------------------------

    def _lane_failed(self, lane: LaneLoop, error: BaseException) -> None:
        """Only this lane begins anew, from its last commits; the others do not notice."""
        job = lane.job
        if lane.ends:
            lane.job = None
            return
        lane.failed()
        if job is not None and job.stay is not None:
            lane.plans_until = time.monotonic() + PLANNED_SECONDS
        self._events.on_lane(lane.index, lane.state)
        self.tasks.failed(lane)
        if isinstance(error, SessionStoppedError):
            self._session_lost(error)
            return
        if self._is_gone(lane, error):
            self._leave_lost(lane)
        else:
            self._learn_from(error, lane, None if job is None or job.stay is not None else job.turn)
        if isinstance(error, TaskMigratedError) and self._heard != self._adopted_at:
            _log.info("a turn came too late for its generation of the group and is run again: %s", error)
            return
        lane.health.failed()
        if not self._survives(error, lane, lane.health.failing_seconds):
            self._failed = True

    def _is_gone(self, lane: LaneLoop, error: BaseException) -> bool:
        """Whether a lane has failed because its executor is not there any more."""
        return isinstance(error, LaneLostError) and not self._lane_jobs.is_alive(lane.index)

    def _leave_lost(self, lane: LaneLoop) -> None:
        """Have the others, who are there already, take what was in a lane whose executor is gone.

        That Spark has lost an executor does not mean that its host is down: the worker may live on, and commit its turn. So under
        exactly-once its transactional id is fenced before anybody reads where its tasks go on.
        """
        if self.tasks.stay_away(lane.index, away=True):
            lane.health.rest(_OTHERS_FIRST)

        def release() -> None:
            if lane.state in (LaneState.HEALING, LaneState.CREATED):  # else it has begun anew, and has fenced it itself
                self.tasks.release(lane.index)

        if self._config.eos_enabled:
            self._beside.submit(self._fence, lane.index).add_done_callback(lambda _: self._note(release))
        else:
            release()

    def _survives(self, error: BaseException, lane: LaneLoop | None, failing_seconds: float) -> bool:
        """Whether to go on after a failure: what passes by itself is tried again, for the rest the client decides."""
        if is_transient(error):
            if failing_seconds < self._config["task.timeout.ms"] / 1000:
                _log.warning("a turn failed and is taken up again from the last commit: %s", error)
                return True
            _log.error("turns have failed for longer than task.timeout.ms: giving up")
        return self._events.on_failure(error, None if lane is None else lane.index)

    def _instance_failed(self, error: BaseException) -> None:
        """What concerns no single lane."""
        if isinstance(error, SessionStoppedError):
            self._session_lost(error)
        elif is_transient(error):
            self._read_rests = time.monotonic() + self._health.failed()
            if not self._survives(error, None, self._health.failing_seconds):
                self._failed = True
        elif not self._events.on_failure(error, None):
            self._failed = True

    def _session_lost(self, error: SessionStoppedError) -> None:
        """Nothing runs any more, whatever it was; where the client has found another session all lanes begin anew on it."""
        for lane in self.tasks.lanes.values():
            lane.begin_anew()
            lane.has_begun = False
            self.tasks.failed(lane)
            self.tasks.release(lane.index)
        self._pipelines = Pipelines(self.tasks)
        self._told_running = False
        self._events.on_rebalancing()
        if not self._events.on_failure(error, None):
            self._failed = True

    def _learn_from(self, error: BaseException, lane: LaneLoop | None, turn: Turn | None) -> None:
        """What the next turn should do without: partitions that do not move, and records that are too many for one turn."""
        if isinstance(error, StuckPartitionsError):
            for partition, at in error.short.items():
                self._stuck.note(partition, at.offset, at.reason)
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

    # -- now and then --------------------------------------------------------------------------------------------------

    def _watch_jobs(self) -> None:
        for lane in list(self.tasks.lanes.values()):
            self._watch(lane)

    def _watch(self, lane: LaneLoop) -> None:
        """A job that takes longer than it may is ended: the lane has lost its worker then, and begins anew."""
        job = lane.job
        if job is None or lane.hangs or time.monotonic() - job.started < self._longest_job:
            return
        worker = self._lane_jobs.lanes.get(lane.index)
        if worker is None or worker.name in self._lane_jobs.waits.seconds:
            return  # it is being ended, or has not begun: it waits for a core
        lane.hangs = True
        self._do_beside(f"end the job of lane {lane.index}", partial(self._end_job, lane.index, str(job)))

    def _end_job(self, lane: int, job: str) -> None:
        if lane not in self._lane_jobs.lanes:
            return  # it was replaced or removed meanwhile, and is ended by whoever did that
        doing = self._lane_jobs.doing(lane) or "its worker does not tell what it does"
        reason = f"{job} has not ended within max.poll.interval.ms ({self._longest_job:.0f} s): {doing}"
        _log.error("stream thread %d is taken for lost, and its tasks are opened anew: %s", lane + 1, reason)
        self._lane_jobs.cancel(lane, reason)

    def _housekeeping(self) -> None:
        """Look where lanes are, show the lag of sources before a shuffle, and purge repartition topics."""
        self._events.on_housekeeping()
        now = time.monotonic()
        if self._probe_at is not None and now > self._probe_at and self.member is not None and self.member.is_leader:
            self._probe()
        if self.transports.look_again() and self.member is not None:
            self.member.request_rejoin()
        if now - self._last["session"] > _SESSION_EVERY:
            self._last["session"] = now
            self._lane_jobs.check_session()
        if now - self._last["lost"] > _LOST_EVERY and not self._lane_jobs.updaters.is_local:
            self._last["lost"] = now
            self._do_beside("lost", self._lane_jobs.lost_lanes, self._on_lost_lanes)
        if now - self._last["others"] > _OTHERS_EVERY and self._long_stays():
            self._last["others"] = now
            self._do_beside("others", self._lane_jobs.waits.anybody_waits, self._on_others)
        if now - self._last["places"] > _PLACES_EVERY:
            self._last["places"] = now
            self._do_beside("places", self._lane_jobs.better_places, self._on_better_places)
        late = [lane.index for lane in self.tasks.lanes.values() if lane.job is not None and now - lane.job.started > _LOOK_EVERY]
        if now - self._last["look"] > _LOOK_EVERY and (late or self._lane_jobs.waits.seconds):
            self._last["look"] = now
            names = [self._lane_jobs.lanes[index].name for index in late if index in self._lane_jobs.lanes]
            self._do_beside("look", partial(self._lane_jobs.waits.look, names))
        if self.tasks.positions.vectors and now - self._last["lag"] > _LAG_EVERY and self.member is not None:
            self._last["lag"] = now
            adopted = self.tasks.adopted
            if self._may_work and not self._closing and adopted is not None and (shown := self.tasks.positions.shown()):
                self._do_beside("lag", partial(self._show_lag, shown, adopted.generation))
        if now - self._last["purge"] > self._config["repartition.purge.interval.ms"] / 1000:
            self._last["purge"] = now
            # Also where there is a shuffle now: what was read before it began lies in the topic still.
            internal = {t for s in self.tasks.plan.subtopologies.values() for t in s.repartition_source_topics}
            self._admin.purge({p: o.offset for p, o in self.tasks.positions.committed.items() if p.topic in internal})

    def _do_beside(self, name: str, work: Callable[[], Any], then: Callable[[Any], None] = lambda _: None) -> None:
        """Do something on another thread, one of a kind at a time; an error of it is one of the instance."""
        if name in self._busy_beside:
            return
        self._busy_beside.add(name)

        def done(future: Future[Any]) -> None:
            self._busy_beside.discard(name)
            then(future.result(0))

        self._beside.submit(work).add_done_callback(partial(self._note_of, done))

    def _show_lag(self, shown: Mapping[TopicPartition, OffsetAndMetadata], generation: int) -> None:
        """Nobody goes on from it while there is a shuffle, so nobody fails with it; without one others commit for the sources."""
        try:
            self._commit(shown, generation)
        except TaskMigratedError:
            _log.debug("the lag is shown later: the group rebalances")
        except PenstockError as exc:
            _log.warning("the lag of what is read before a shuffle cannot be shown now: %s", exc)

    def _on_lost_lanes(self, lost: Mapping[int, str]) -> None:
        """Executors are gone. What ran there fails too, but Spark tries it elsewhere first."""
        for index, executor in lost.items():
            lane = self.tasks.lanes.get(index)
            if lane is None or lane.ends or lane.state is LaneState.HEALING or self._lane_jobs.lanes[index].executor != executor:
                continue
            if lane.job is not None or lane.is_open:
                self.tasks.failed(lane)
                self._lane_failed(lane, LaneLostError(f"{executor} is gone, where the worker of a lane was"))

    def _long_stays(self) -> list[LaneLoop]:
        """The lanes that have stayed for long enough, if somebody else wants their core."""
        now = time.monotonic()
        jobs = [(lane, lane.job) for lane in self.tasks.lanes.values()]
        return [lane for lane, job in jobs if job is not None and job.stay is not None and now - job.started > STAY_SECONDS]

    def _on_others(self, wait: bool) -> None:
        """Have lanes give way where others wait for a core of Spark."""
        if wait:
            for lane in self._long_stays():
                lane.is_in_the_way = True

    def _on_better_places(self, places: Mapping[int, str | None]) -> None:
        """Executors came or went: lanes that should be elsewhere go there, when the others have what they had.

        One after the other: a worker takes a second of a core to start, which those who have its tasks meanwhile need.
        """
        lanes = {index: lane for index, lane in self.tasks.lanes.items() if lane.on_left is None and not lane.ends}
        moving = next((index for index, lane in lanes.items() if lane.goes_to is not None and index in places), None)
        if moving is None and all(lane.is_open for lane in lanes.values()):
            moving = next((index for index in lanes if index in places), None)
        for index, lane in lanes.items():
            lane.goes_to = places.get(index) if index == moving else None
            if lane.goes_to is not None or lane.is_open:
                self.tasks.stay_away(index, away=lane.goes_to is not None)

    def _may_leave(self, lane: LaneLoop) -> bool:
        """Whether a lane that goes elsewhere has nothing any more, and the others work on what it had, or take too long."""
        if lane.holds or self.tasks.wanted(lane):
            return False
        waited = time.monotonic() - lane.free_since
        return waited > _OTHERS_FIRST or all(self.tasks.is_ready(task) for task in self.tasks.owners)

    def _tell_state(self) -> None:
        """The state of the instance follows from those of its lanes."""
        running = self._membership is not None and self._heard == self._adopted_at and self.tasks.are_running
        if self._halted or self._closing or (self._rebalance_pause.is_on and self._told_running):
            return
        if running != self._told_running:
            self._told_running = running
            (self._events.on_running if running else self._events.on_rebalancing)()


class _NoTurns:
    """Set while no turn runs."""

    def __init__(self, conductor: Conductor) -> None:
        self._conductor = conductor

    def is_set(self) -> bool:
        """Whether nothing runs that changes anything."""
        return not self._conductor.runs_turns


def _longest_write(config: StreamsConfig) -> float:
    """How many seconds the brokers give a turn to write what it has: under exactly-once the timeout of its transaction."""
    settings = producer_config(config, "writes")
    return int(settings.get("transaction.timeout.ms", _FLUSH_MS) if config.eos_enabled else _FLUSH_MS) / 1000
