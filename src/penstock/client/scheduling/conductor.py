"""The conductor: decides what runs in each lane next, on one thread, and waits for none of it.

                 ┌── ends of the logs (asked beside all else) ──┐
    words of ───►│  lane 0: open ─► turn ─► account ─► rest …   │
    the group    │  lane 1: open ─► turn ─► account ─► rest …   │   each at its own pace; each fails and heals alone
                 │      ▲ parts                                 │
                 └── pipelines: stage ─► stage ─► …  ◄──────────┘   ahead of the slowest lane by two parts at most

What lanes, stages, brokers and the group have to say comes in as a note and is taken up in turn. After that everybody who is
free is looked at: what should be is compared with what is, and the next step towards it is begun. So there is nothing to be
undone when something fails in between, and one thread knows all there is to know.

What it knows has a room each, which is told what it needs and calls nobody back: `notes` (what others tell, and what is done
beside), `group_words` and `run_state` (whether turns may be started), `shuffle_exit`, `lane_roster` (lanes that come and go),
`lane_driver` and `lane_runner` (jobs of lanes), `polling`, `turn_planner` and `turn_starter` (what there is to do),
`stage_runner`, `staying_lanes`, `turn_accounts`, `recovery` (failures), `job_watch`, `levelling`, `housekeeping`.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from functools import partial

from penstock.client.replicas.local_replicas import LocalReplicas
from penstock.client.scheduling.events import Events
from penstock.client.scheduling.failures import error_of, is_transient
from penstock.client.scheduling.group_words import GroupWords
from penstock.client.scheduling.housekeeping import LAG, Housekeeping, show_lag
from penstock.client.scheduling.job_watch import JobWatch
from penstock.client.scheduling.lane_changes import LaneChange
from penstock.client.scheduling.lane_driver import LaneDriver
from penstock.client.scheduling.lane_loop import LaneLoop, LaneState, runs_turns
from penstock.client.scheduling.lane_roster import LaneRoster
from penstock.client.scheduling.lane_runner import LaneRunner
from penstock.client.scheduling.levelling import EndLevel
from penstock.client.scheduling.log_ends import LogEnds
from penstock.client.scheduling.notes import TICK, Beside, Notes
from penstock.client.scheduling.owned_tasks import OwnedTasks, Read, TaskReading
from penstock.client.scheduling.pipelines import Pipelines
from penstock.client.scheduling.polling import Polling
from penstock.client.scheduling.positions import Positions
from penstock.client.scheduling.recovery import Recovery
from penstock.client.scheduling.repartition_transports import Transports
from penstock.client.scheduling.run_state import RunState
from penstock.client.scheduling.running_instance import Control, RunningInstance
from penstock.client.scheduling.shuffle_exit import ShuffleExit
from penstock.client.scheduling.stage_runner import StageRunner
from penstock.client.scheduling.staying_lanes import StayingLanes
from penstock.client.scheduling.stuck_partitions import StuckPartitions
from penstock.client.scheduling.task_spread import TaskSpread
from penstock.client.scheduling.turn_accounts import TurnAccounts
from penstock.client.scheduling.turn_planner import TurnPlanner
from penstock.client.scheduling.turn_starter import TurnStarter
from penstock.config.streams_config import StreamsConfig
from penstock.errors import BrokerError, StreamsError
from penstock.ids import TaskId, TopicPartition, UnitId
from penstock.kafka.admin import Admin
from penstock.kafka.clients import global_consumer_config, max_poll_seconds, reads_committed
from penstock.kafka.membership import GroupMember, Membership, Stopped
from penstock.spark.driver.lane_jobs import LaneJobs
from penstock.spark.messages import Failure
from penstock.spark.plan import Plan

_log = logging.getLogger(__name__)

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
        self._lane_jobs, self._events = lane_jobs, events
        self.tasks = OwnedTasks(
            config, plan, lane_jobs, admin, positions, units, events, TaskSpread(always=config["task.spread"] == "always")
        )
        self.tasks.lanes = {index: LaneLoop(index) for index in lane_jobs.lanes}
        self.copies = self.tasks.copies
        instance = RunningInstance(config, self.tasks, lane_jobs, events)

        self.notes = Notes()
        executor = beside or ThreadPoolExecutor(_BESIDE, thread_name_prefix=f"{lane_jobs.application.client_id}-beside")
        self._beside = Beside(executor, self.notes)
        self.words = GroupWords(config, self.tasks, self.notes, _NoTurns(self.tasks))
        self._run = RunState(self.words, self.notes)
        control = Control(self.words, self._run, self._beside)

        stuck, pipelines = StuckPartitions(), Pipelines(self.tasks)
        self._pipelines = pipelines
        self._shuffle_exit = ShuffleExit(self.words, self.tasks, self._beside)
        self._roster = LaneRoster(instance, self._beside)
        self._recovery = Recovery(instance, control, self._roster, pipelines, stuck)
        self._watch = JobWatch(lane_jobs, max_poll_seconds(config), self._beside)
        runner = LaneRunner(instance, control, self._recovery, TurnAccounts(instance, stuck), pipelines)
        self._driver = LaneDriver(instance, self._run, self._roster, runner, self._watch)
        self._stays = StayingLanes(instance, control, pipelines, stuck)
        self._end_level = EndLevel(self.tasks, self._run)
        self._planner = TurnPlanner(instance, pipelines)
        self._polling = Polling(
            instance,
            self._run,
            self._log_ends(config, admin),
            stuck,
            self._planner,
            TurnStarter(instance, self._run, self._recovery, self._planner, runner, self._stays),
            StageRunner(instance, self._run, self._beside, self._recovery, pipelines, self._end_level),
            self._end_level,
        )
        runner.on_goes_on = self._polling.go_on
        self.transports = Transports(
            config["repartition.transport"], config["repartition.transport.delay.ms"] / 1000, self.words.went
        )
        """Decides which way repartitions go, where this instance leads the group."""
        self._housekeeping = Housekeeping(instance, control, admin, self.transports, self._recovery, self._stays)
        runner.on_begun = self._housekeeping.look_for_places

        events.standbys.on_restore = events.on_restore
        events.standbys.on_progress = self._nudge
        events.standbys.on_let_go = self.notes.wake
        events.standbys.on_failed = self._copy_failed

    def _log_ends(self, config: StreamsConfig, admin: Admin) -> LogEnds:
        committed_globals = reads_committed(global_consumer_config(config, "global"))
        return LogEnds(
            *(admin, self._beside, self.tasks.committed_only, committed_globals),
            lambda future: self.notes.put(partial(self._polling.answered, future)),
        )

    # -- told from outside ---------------------------------------------------------------------------------------------

    def stop(self) -> None:
        """End when the turns that run are over, and all tasks behind a shuffle are where the furthest of them is."""
        self._run.stop()

    def pause(self, paused: bool) -> None:
        """Start no turns, and restore nothing, while paused."""
        self._run.pause(paused)

    def halt(self) -> None:
        """Start no more turns, and wait for the group's word that all instances stop."""
        self._run.halt()

    def end(self) -> None:
        """End the loop as the wish of a member that the whole application stops does."""
        self._run.shut_down()

    def fail(self, error: BaseException) -> None:
        """Have a failure outside of a turn dealt with; called on any thread. An error of a task fails the task's lane."""
        self.notes.put(partial(self._failed_outside, error))

    def _failed_outside(self, error: BaseException) -> None:
        task = error.task_id if isinstance(error, StreamsError) else None
        lane = None if task is None else self.tasks.lanes.get(self.tasks.owners.get(task, -1))
        if self._run.is_over:
            _log.error("a further failure of an application that ends: %s", error, exc_info=error)
        elif lane is not None and lane.is_open and lane.job is None:
            self._recovery.lane_failed(lane, error)
        else:  # there is no lane that could begin anew now
            raise error

    def _copy_failed(self, task: TaskId, failure: Failure) -> None:
        """Tell the client of an error that waiting does not cure, such as a user's store that raises; the copy is tried again."""
        error = error_of(failure)
        if is_transient(error) or isinstance(error, OSError):
            _log.info("a copy of task %s is tried again: %s", task, error)
            return
        failed = StreamsError(f"the copy of task {task} failed: {error}")
        failed.task_id, failed.__cause__ = task, error
        self.fail(failed)

    def revoked(self, lost: bool = False) -> Stopped:
        """The group rebalances; what is returned is set when what has to stop has stopped (`GroupWords.revoked`)."""
        return self.words.revoked(lost)

    def assigned(self, membership: Membership) -> None:
        """The part of a new generation that is ours; what we keep goes on as it is."""
        with self.notes.lock:
            if membership.shutdown_requested:
                self._run.shut_down()
            self.words.assigned(membership)

    def change_lanes(self, change: LaneChange) -> None:
        """Add or remove a lane; the change says when that is done."""
        self._roster.ask(change)

    def replace_lane(self, old: int, new: int, name: str, on_done: Callable[[], None] = lambda: None) -> None:
        """Put a new lane in the place of one that failed, in its worker; called on the conductor's own thread."""
        self._roster.replace(old, new, name, on_done)

    def replace_plan(self, plan: Plan, positions: Positions, units: Mapping[UnitId, tuple[TaskId, ...]]) -> None:
        """Other topics than before: the next generation of the group works by this plan. Waits for the turns that run."""
        done = threading.Event()

        def replace() -> None:
            self.words.forget()
            if self.runs_turns:
                self.notes.put_later(replace)
                return
            for lane in self.tasks.lanes.values():
                lane.begin_anew()
            self.tasks.replace_plan(plan, positions, units)
            self._shuffle_exit.look_again()
            done.set()

        self.words.drop()
        self.notes.put(replace)
        while not done.wait(TICK) and not self._run.is_over:
            pass

    def watch_globals(self, partitions: list[TopicPartition]) -> None:
        """Partitions of global topics, to be caught up before each turn."""
        self._planner.globals = partitions

    def reopen(self) -> None:
        """A lane does not answer readers any more: see whether its worker is there, also if there is nothing to process."""

        def doubt() -> None:
            for lane in self.tasks.lanes.values():
                lane.is_doubted = True

        self.notes.put(doubt)

    def _nudge(self) -> None:
        """Copies have come further: what waits for them goes on, and the group is asked when a warm-up is ready."""
        if self.tasks.adopted is None or self.member is None:
            return
        if self.copies.restoring:
            self.notes.wake()
        if self.copies.warm_ups_are_ready():
            self.words.probe()

    # -- asked from outside --------------------------------------------------------------------------------------------

    @property
    def member(self) -> GroupMember | None:
        """This instance as a member of the group, once there is one."""
        return self.words.member

    @member.setter
    def member(self, member: GroupMember) -> None:
        self.words.member = member

    @property
    def membership(self) -> Membership | None:
        """The last generation of the group that this instance was part of; None before the first."""
        return self.words.last

    @property
    def shares_work(self) -> bool:
        """Whether other instances are members of the group."""
        membership = self.words.membership
        return membership is not None and len(membership.hosts) > 1

    def holdings(self) -> tuple[tuple[UnitId, ...], tuple[UnitId, ...], dict[UnitId, int]]:
        """What this instance tells the group: units it runs, units it has copies of, and how far their state is."""
        with self.notes.lock:
            membership, running = self.words.claimed, list(self.tasks.owners)
        return self.copies.holdings(membership, running, self.tasks.work_of(self.words.last).units)

    @property
    def owners(self) -> dict[TaskId, int]:
        """The lane of each task."""
        return dict(self.tasks.owners)

    @property
    def standbys(self) -> LocalReplicas:
        """The copies of state that this instance keeps."""
        return self.copies.standbys

    @property
    def standby_hosts(self) -> Mapping[TaskId, str]:
        """The host of each standby task that this instance keeps; empty for the driver's own."""
        return self.standbys.wanted

    @property
    def waiting_for_core(self) -> Mapping[str, float]:
        """How many seconds each thread has waited whose turn waits for a core of Spark now, by its name."""
        return self._lane_jobs.waits.seconds

    @property
    def is_open(self) -> bool:
        """Whether all tasks are open and restored."""
        return self._run.told_running and not self._run.is_closing

    def is_ready(self, task: TaskId) -> bool:
        """Whether a task of this instance is open and restored: what it has committed can be read."""
        return not self._run.is_closing and self.tasks.is_ready(task)

    def has_globals(self, lane: int) -> bool:
        """Whether a lane is open, and its copy of the global tables with it."""
        loop = self.tasks.lanes.get(lane)
        return loop is not None and loop.is_open and not self._run.is_closing

    @property
    def has_begun(self) -> bool:
        """Whether the worker of every lane is there, or has failed to be."""
        return all(lane.has_begun or lane.state is LaneState.HEALING for lane in list(self.tasks.lanes.values()))

    @property
    def looks(self) -> int:
        """How often the ends of logs have been asked for."""
        return self._polling.asked

    @property
    def runs_turns(self) -> bool:
        """Whether a turn is under way in any lane."""
        return runs_turns(list(self.tasks.lanes.values()))

    # -- the loop ------------------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Until stopped, or until a failure that the client does not want to survive; turns that run are waited for."""
        try:
            while not self._run.is_over or self.runs_turns or (self._run.is_closing and self._beside.is_busy(LAG)):
                self.step()
                now = time.monotonic()
                self.notes.sleep(max(0.0, min((at - now for at in self._polling.next_times()), default=TICK)))
            membership = self.words.membership
            if self._run.is_closing and membership is not None and (shown := self.tasks.positions.shown()):
                show_lag(self.words, shown, membership.generation)
        finally:
            self._beside.close()
            for lane in self.tasks.lanes.values():
                if not lane.ends:
                    lane.become(LaneState.CLOSING)

    def step(self) -> None:
        """Take up what was noted, then bring everybody who is free a step further."""
        while (note := self.notes.take()) is not None:
            self._recovery.guarded(None, note)
        if self._run.is_closing and not self._run.is_level:
            self._recovery.guarded(None, self._end_level.look)
        if self._run.is_over:
            for lane in list(self.tasks.lanes.values()):
                self._recovery.guarded(lane, partial(self._watch.look, lane))
            self._recovery.guarded(None, self._stays.call_back)
            return
        self._recovery.guarded(None, self._follow_words)
        for lane in list(self.tasks.lanes.values()):
            self._recovery.guarded(lane, partial(self._driver.step, lane))
        self._recovery.guarded(None, self._polling.look)
        self._recovery.guarded(None, self._housekeeping.look)
        self._recovery.guarded(None, self._stays.call_back)
        self._recovery.guarded(None, self._stays.commit_progress)
        self._recovery.guarded(None, self._tell_state)

    def _follow_words(self) -> None:
        """Go by what the group and others have said: lanes come and go, tasks are adopted and given up, what is new is read."""
        if self.member is not None and self.member.failure is not None:
            error = BrokerError(f"the application cannot be a member of its group: {self.member.failure}")
            error.__cause__ = self.member.failure
            self._events.on_failure(error, None)
            self._run.has_failed = True
            return
        membership, number, elsewhere = self.words.latest()
        self._roster.change()
        if membership is None or self._run.is_halted or self._recovery.rests:
            return
        if number != self.words.adopted_at:
            if self.tasks.go_by(membership):
                self._pipelines.forget_others()
            self.tasks.adopt(membership, elsewhere)
            self.words.adopted_at = number
        if not self._run.is_paused and (restored := self.copies.restored()):
            self._beside.do("open transactions", partial(self.copies.decided, restored), self.copies.take_back)
        if self._shuffle_exit.is_done(membership, number) and (reading := self.tasks.next_reading(number)) is not None:
            self._beside.then(self._beside.submit(self.tasks.read, reading), self._take_read, reading)

    def _take_read(self, reading: TaskReading, future: Future[Read]) -> None:
        try:
            self.tasks.take(future.result(0))
            self._events.on_assigned()
            self._recovery.went_well()
        except Exception:
            self.tasks.failed_to_read(reading)
            raise

    def _tell_state(self) -> None:
        """The state of the instance follows from those of its lanes."""
        running = self.words.membership is not None and self.words.is_adopted and self.tasks.are_running
        if self._run.is_halted or self._run.is_closing or (self.words.is_pausing and self._run.told_running):
            return
        if running != self._run.told_running:
            self._run.told_running = running
            (self._events.on_running if running else self._events.on_rebalancing)()


class _NoTurns:
    """Set while no turn runs."""

    def __init__(self, tasks: OwnedTasks) -> None:
        self._tasks = tasks

    def is_set(self) -> bool:
        """Whether nothing runs that changes anything."""
        return not runs_turns(list(self._tasks.lanes.values()))
