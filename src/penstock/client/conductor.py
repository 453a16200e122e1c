"""The loop of the application: poll, process, punctuate, commit. One turn after the other, each a Spark job.

┌─► open ──► poll ──► turn ──► account ─┐
│    ▲         │nothing new              │
│    │         └──► wait                 │
│    └── failure, move, new generation ◄─┤
└────────────────────────────────────────┘
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Mapping
from functools import partial

from penstock.client.events import Events
from penstock.client.failures import LaneLostError, is_transient
from penstock.client.hold import Hold
from penstock.client.lane_changes import LaneChange, LaneChanges
from penstock.client.owned_tasks import OwnedTasks
from penstock.client.pace import Pace
from penstock.client.positions import OffsetOutOfRangeError, Positions
from penstock.client.spread import Spread
from penstock.client.standbys import Standbys
from penstock.client.stuck import StuckPartitions
from penstock.client.turns import Turn, plan_turn
from penstock.client.units import tasks_in
from penstock.clock import SystemClock
from penstock.config import StreamsConfig
from penstock.errors import BrokerError, PenstockError, TaskMigratedError
from penstock.ids import TaskId, TopicPartition
from penstock.kafka.admin import Admin
from penstock.kafka.clients import global_consumer_config, producer_config, reads_committed
from penstock.kafka.fetch import Short, StuckPartitionsError
from penstock.kafka.membership import GroupMember, Membership, Stopped
from penstock.kafka.produce import fence
from penstock.spark.fleet import Fleet
from penstock.spark.messages import LaneAnswer, TaskWork
from penstock.spark.plan import Plan

_log = logging.getLogger(__name__)

_PLACES_EVERY = 5.0
_METRICS_EVERY = 1.0
_GLOBALS_EVERY = 0.2
_ALIVE_EVERY = 40.0
_FLUSH_MS = 60_000  # so long a producer waits for what it has written


class Conductor:
    """Runs the tasks of one instance over the lanes of its fleet, until told to stop."""

    def __init__(
        self,
        config: StreamsConfig,
        plan: Plan,
        fleet: Fleet,
        admin: Admin,
        positions: Positions,
        units: Mapping[str, tuple[TaskId, ...]],
        events: Events,
    ) -> None:
        self._config = config
        self._fleet = fleet
        self._admin = admin
        self._events = events
        self._clock = SystemClock()
        self._pace = Pace()
        self._spread = Spread(always=config["task.spread"] == "always")
        self._committed_globals = reads_committed(global_consumer_config(config, "global"))
        self._stuck = StuckPartitions()
        self._turn: Turn | None = None
        self._longest_write = _longest_write(config)
        self._globals: list[TopicPartition] = []
        self._global_ends: dict[TopicPartition, int] = {}
        self.member: GroupMember | None = None
        self._membership: Membership | None = None
        self._last_membership: Membership | None = None
        self._opened = False
        self._claimed: Membership | None = None
        self._losses = self._losses_seen = 0
        self._heard = 0
        self._elsewhere: dict[TaskId, int] = {}
        self._working_under = 0
        self._probe_at: float | None = None
        events.standbys.on_restore = events.on_restore
        events.standbys.on_progress = self._nudge
        self.tasks = OwnedTasks(config, plan, fleet, admin, positions, units, events, self._spread)
        self.copies = self.tasks.copies
        self._wake = threading.Condition()
        self._closing = False
        self._paused = False
        self._idle = threading.Event()
        self._idle.set()
        self._hold = Hold(self._idle)
        self._failures = 0
        self._failing_since = 0.0
        self._outside_error: BaseException | None = None
        self._changes = LaneChanges()
        self._halted = False
        self._shutdown_requested = False
        self._last_housekeeping = {
            "lag": 0.0,
            "globals": 0.0,
            "metrics": 0.0,
            "purge": time.monotonic(),
            "places": time.monotonic(),
        }

    # -- told from outside ---------------------------------------------------------------------------------------------

    def stop(self) -> None:
        """End after the turn that runs."""
        with self._wake:
            self._closing = self.tasks.stopping = True
            self._wake.notify_all()

    def pause(self, paused: bool) -> None:
        """Start no turns while paused."""
        with self._wake:
            self._paused = paused
            self._wake.notify_all()

    def revoked(self, lost: bool = False) -> Stopped:
        """The group rebalances; what is returned is set when what has to stop has stopped.

        Under exactly-once turns pause for a moment, and go on if the new generation is not there by then: one that comes too
        late is refused by the broker and run again. Under at-least-once nobody would refuse it: no turn is started, and the one
        that runs is waited for. What the group has given away already (`lost`) is opened anew in any case.
        """
        with self._wake:
            if not lost and self._config.eos_enabled:
                return self._hold.begin()
            self._membership = None
            if lost:
                self._opened, self._claimed = False, None
                self._losses += 1
            self._wake.notify_all()
        return self._idle

    def assigned(self, membership: Membership) -> None:
        """The part of a new generation that is ours; what we keep goes on as it is."""
        with self._wake:
            self._shutdown_requested = self._shutdown_requested or membership.shutdown_requested
            # A task that was somebody else's for a generation is not where we left it, even if it is ours again: what was read of
            # it before is old, also where it has only been read and is not open yet.
            self._heard += 1
            ours = set(membership.units)
            theirs = tasks_in(self.tasks.units, (unit for unit in self.tasks.units if unit not in ours))
            self._elsewhere.update(dict.fromkeys(theirs, self._heard))
            self._membership = self._claimed = self._last_membership = membership
            self._hold.end()
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
        """Add or remove a lane between two turns; the change says when that is done."""
        with self._wake:
            self._changes.put(change)
            self._wake.notify_all()

    def fail(self, error: BaseException) -> None:
        """Something outside of a turn went wrong: the next turn raises it."""
        with self._wake:
            self._outside_error = error
            self._wake.notify_all()

    def replace_plan(self, plan: Plan, positions: Positions, units: Mapping[str, tuple[TaskId, ...]]) -> None:
        """Other topics than before: the next generation of the group works by this plan."""
        with self._wake:
            self._membership = None
        self._idle.wait()
        with self._wake:
            self.tasks.replace_plan(plan, positions, units)
            self._opened = False

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
        return self._fleet.waits.seconds

    @property
    def shares_work(self) -> bool:
        """Whether other instances are members of the group."""
        membership = self._membership
        return membership is not None and len(membership.hosts) > 1

    @property
    def standbys(self) -> Standbys:
        """The copies of state that this instance keeps."""
        return self.copies.standbys

    def holdings(self) -> tuple[tuple[str, ...], tuple[str, ...], dict[str, int]]:
        """What this instance tells the group: units it runs, units it has copies of, and how far their state is."""
        with self._wake:
            membership, running = self._claimed, list(self.tasks.owners)
        return self.copies.holdings(membership, running)

    @property
    def is_open(self) -> bool:
        """Whether all tasks are open and restored."""
        return self._opened and not self._closing

    def is_ready(self, task: TaskId) -> bool:
        """Whether a task of this instance is open and restored: what it has committed can be read."""
        return self.is_open and self.tasks.is_ready(task)

    @property
    def standby_hosts(self) -> Mapping[TaskId, str]:
        """The host of each standby task that this instance keeps; empty for the driver's own."""
        return self.standbys.wanted

    @property
    def membership(self) -> Membership | None:
        """The last generation of the group that this instance was part of; None before the first."""
        return self._last_membership

    def reopen(self) -> None:
        """A lane does not answer any more: see to it before the next turn, also if there is nothing to process."""
        with self._wake:
            self._opened = False
            self._wake.notify_all()

    # -- the loop ------------------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Until stopped, or until a failure that the client does not want to survive."""
        while not self._closing and not self._shutdown_requested:
            if self.member is not None and self.member.failure is not None:
                error = BrokerError(f"the application cannot be a member of its group: {self.member.failure}")
                self._events.on_failure(error, None)
                return
            membership = self._begin()
            try:
                if membership is None:
                    self._stand_by()
                    continue
                self._raise_outside_error()
                self._change_lanes()
                if self._paused or self._halted or not self._fleet.lanes:
                    continue
                if not self._opened:
                    self._open(membership)
                elif membership is not self.tasks.adopted:
                    self._adopt(membership)
                self.tasks.take_back(self._working_under)
                self._one_turn(membership)
                self._failures = 0
            except PenstockError as exc:
                if not self._survives(exc):
                    return
            except Exception as exc:  # noqa: BLE001 - whatever it was, the client decides
                if not self._survives(exc):
                    return
            finally:
                self._idle.set()

    def _begin(self) -> Membership | None:
        """Wait for a membership, and mark the conductor busy under it."""
        with self._wake:
            stopped = self._paused or self._halted or self._closing or self._shutdown_requested or self._hold.is_on
            working = not stopped and self._fleet.lanes
            if self._membership is not None and (working or self._changes):
                if not self._opened:
                    self._losses_seen = self._losses
                self._working_under = self._heard
                self._idle.clear()
                return self._membership
            if self._membership is not None or not (self.tasks.told_running or self._changes):
                self._wake.wait(0.1)
            return None

    def _stand_by(self) -> None:
        """Between two generations nothing is processed; lanes may come and go."""
        if self._membership is None:
            if self._changes:
                self._opened = False
                self._change_lanes()
            self.tasks.tell_rebalancing()

    def _one_turn(self, membership: Membership) -> None:
        started = time.monotonic()
        turn = self._poll()
        if turn is None:
            self._catch_up_globals(membership)
            self._housekeeping()
            self._idle.set()
            self._wait()
            return
        self._pace.polled(turn.backlog)
        if self.tasks.follow_load(turn.backlog):
            return
        self._turn, turn.started = turn, started
        global_ends = self._admin.log_ends(self._globals, self._committed_globals) if self._globals else {}
        metadata, with_metrics = membership.group_metadata, self._wants_metrics(turn, started)
        answers = self._fleet.process(
            turn.work, turn.upstream, self.tasks.owners, metadata, global_ends, str(turn), with_metrics=with_metrics
        )
        self.tasks.check(answers)
        self._account(turn, answers)
        self._turn = None
        ended = time.monotonic()
        seconds = ended - started
        self._pace.account(turn.records, seconds)
        self._measure(turn, answers, started, ended)
        self._events.on_account(turn, answers, seconds)
        self._events.on_turn(turn, answers, seconds)
        self._housekeeping()
        self._idle.set()
        rest = self._config["commit.interval.ms"] / 1000 - seconds
        if rest > 0 and turn.backlog <= turn.records:
            self._sleep(rest)

    def _measure(self, turn: Turn, answers: Mapping[int, LaneAnswer], started: float, ended: float) -> None:
        """What lanes were busy with. One that has waited for a partition that does not move was not busy."""
        if not any(answer.short for answer in answers.values()):
            self._spread.turned(
                started,
                ended,
                {lane: answer.work_seconds for lane, answer in answers.items()},
                records=turn.records,
                left=turn.backlog - turn.records,
                around={lane: answer.surrounding_seconds for lane, answer in answers.items()},
            )

    def _wants_metrics(self, turn: Turn, now: float) -> bool:
        """Once a second, and whenever this may be the last turn for a while."""
        wanted = turn.backlog <= turn.records or now - self._last_housekeeping["metrics"] > _METRICS_EVERY
        if wanted:
            self._last_housekeeping["metrics"] = now
        return wanted

    def _catch_up_globals(self, membership: Membership) -> None:
        """Bring global tables up to date while there is nothing to process: queries read them all the same."""
        now = time.monotonic()
        if not self._globals or now - self._last_housekeeping["globals"] < _GLOBALS_EVERY:
            return
        self._last_housekeeping["globals"] = now
        ends = self._admin.log_ends(self._globals, self._committed_globals)
        if ends != self._global_ends:
            lanes: dict[int, dict[TaskId, TaskWork]] = {
                lane: {} for lane in set(self.tasks.owners.values()) or set(list(self._fleet.lanes)[:1])
            }
            answers = self._fleet.process(lanes, (), self.tasks.owners, membership.group_metadata, ends, "global tables")
            self.tasks.check(answers)
            self._global_ends = dict(ends)

    # -- open ----------------------------------------------------------------------------------------------------------

    def _open(self, membership: Membership) -> None:
        self.tasks.own(membership, self._working_under, self._leave_shuffle)
        with self._wake:
            self._opened = self._losses == self._losses_seen  # not where the group has given it all away meanwhile
        self.tasks.tell_running()

    def _leave_shuffle(self) -> None:
        """Where repartitions went through the shuffle when the application last ran and do not now: begin where it ended.

        One commit for all of it, by the group's leader alone: nobody works before it, and nobody commits over it.
        """
        if self.member is None or not (changed := self.tasks.positions.leaving_shuffle()):
            return
        if not self.member.is_leader:
            raise TaskMigratedError("repartitions go through their topics from now on: the group's leader is about to see to it")
        _log.info("repartitions that went through the shuffle go through their topics from now on")
        self.member.commit(changed, whole=True)

    def _adopt(self, membership: Membership) -> None:
        with self._wake:
            elsewhere = dict(self._elsewhere)
        self.tasks.adopt(membership, self._working_under, elsewhere)

    def _nudge(self) -> None:
        """Copies have come further: what waits for them goes on, and the group is asked when a warm-up is ready."""
        membership = self.tasks.adopted
        if membership is None or self.member is None:
            return
        if self.copies.aside:
            with self._wake:
                self._wake.notify_all()
        if self.copies.warm_ups_are_ready():
            self._probe()

    def _probe(self) -> None:
        """Have the group look whether what waits can move now; once in a generation."""
        with self._wake:
            asked, self._probe_at = self._probe_at is not None, None
        if asked and self.member is not None:
            self.member.request_rejoin()

    def _change_lanes(self) -> None:
        """Add and remove lanes as asked for; the tasks of a lane that goes move to the others first."""
        while (change := self._changes.take()) is not None:
            opened = self._opened
            if opened:
                self.tasks.tell_rebalancing()
            try:
                if change.name is None:
                    self._remove_lane(change.index)
                else:
                    self._add_lane(change.index, change.name)
            finally:
                change.on_done()
            if opened:
                self.tasks.told_running = True
                self._events.on_running()

    def _add_lane(self, index: int, name: str) -> None:
        self._fleet.add_lane(index, name)
        if self._opened:
            self.tasks.open_lanes({index: {}})

    def _remove_lane(self, index: int) -> None:
        left = [lane for lane in self._fleet.lanes if lane != index]
        if len(left) < 2:
            self._spread.forget()
        try:
            if self._opened and left:
                self.tasks.leave_lane(index)
        finally:
            self.tasks.lose_lane(index)
            self._opened = self._opened and bool(left)
            self._fleet.remove_lane(index)
            self._fence(index)

    def replace_lane(self, old: int, new: int, name: str) -> None:
        """Put a new lane in the place of one that failed; called on the conductor's own thread, with nothing open."""
        self.tasks.lose_lane(old, successor=new)
        self._fleet.remove_lane(old)
        self._fence(old)
        self._fleet.add_lane(new, name)

    def _fence(self, lane: int) -> None:
        """End what a lane that does not come back may have left open: its worker may have died in the middle of a turn."""
        if not self._config.eos_enabled:
            return
        application = self._fleet.application
        try:
            fence(producer_config(self._config, f"{application.client_id}-fence"), application.transactional_id(lane))
        except PenstockError as exc:
            _log.warning("what thread %d may have left open ends by transaction.timeout.ms: %s", lane + 1, exc)

    # -- poll and account ----------------------------------------------------------------------------------------------

    def _poll(self) -> Turn | None:
        started = time.monotonic()
        sources = self.tasks.positions.sources()
        asked = self._stuck.without(sources)
        ends = self._admin.reachable_ends(asked, self.tasks.committed_only) if asked else {}
        for partition in asked:
            if partition not in ends:
                self._stuck.note(partition, self.tasks.start_of(partition), "its leader does not answer")
        self.tasks.positions.check(ends)
        now = self._clock.now_ms()
        self.tasks.ends = ends
        due = [task for task, at in self.tasks.timers.items() if at <= now and task in self.tasks.owners]
        limit = partial(self._pace.max_records, self._config["batch.max.records"])
        turn = plan_turn(self.tasks.plan, self.tasks.positions, ends, self.tasks.owners, due, limit)
        if turn is not None:
            turn.poll_seconds = time.monotonic() - started
        return turn

    def _account(self, turn: Turn, answers: Mapping[int, LaneAnswer]) -> None:
        offsets = {p: o for answer in answers.values() for p, o in answer.offsets.items()}
        if offsets and not self._config.eos_enabled:
            assert self.member is not None
            self.member.commit(offsets)
        positions = self.tasks.positions
        positions.committed.update(offsets)
        read = turn.read
        for lane, lane_work in turn.work.items():
            short = answers[lane].short
            reached = {p: min(end, short[p].offset) if p in short else end for p, end in read.items()}
            for work in lane_work.values():
                for r in work.ranges:
                    partition = TopicPartition(r.topic, r.partition)
                    positions.fetched[partition] = short[partition].offset if partition in short else r.end
                for partition in work.fed:
                    vector = positions.vectors[partition]
                    vector.update({p: max(vector[p], end) for p, end in reached.items() if p in vector})
        self.tasks.take_timers(answers)
        if positions.is_drained:
            _log.info("what was left in repartition topics has been read: they go through the shuffle from now on")
            self._opened = False
        self._note_stuck(turn, {p: at for answer in answers.values() for p, at in answer.short.items()})

    def _note_stuck(self, turn: Turn, short: Mapping[TopicPartition, Short]) -> None:
        """Leave alone for a while what could not be read; what the log does not have any more is loaded anew."""
        for partition, at in short.items():
            self._stuck.note(partition, at.offset, at.reason)
        self._stuck.moved({TopicPartition(r.topic, r.partition) for r in turn.ranges} - short.keys())
        gone = ", ".join(f"{partition} at offset {at.offset}" for partition, at in short.items() if at.out_of_range)
        if gone:
            raise OffsetOutOfRangeError(f"offsets are out of range: {gone}")

    def _housekeeping(self) -> None:
        """Now and then: look where lanes are, show the lag of sources before a shuffle, and purge repartition topics."""
        self._events.on_housekeeping()
        now = time.monotonic()
        if self._probe_at is not None and now > self._probe_at and self.member is not None and self.member.is_leader:
            self._probe()
        if now - self._last_housekeeping["places"] > _PLACES_EVERY:
            self._last_housekeeping["places"] = now
            if not self._fleet.is_well_placed:
                self._opened = False  # executors came or went: the lanes that should move are opened elsewhere
        idle = {lane for lane in set(self.tasks.owners.values()) if now - self._fleet.lanes[lane].last_used > _ALIVE_EVERY}
        if idle and self._opened:  # Spark ends workers that are idle for a minute, and with them what they hold in memory
            owned = self.tasks.in_lanes(self.tasks.owners)
            self.tasks.open_lanes({lane: owned[lane] for lane in idle})
        if self.tasks.positions.vectors and now - self._last_housekeeping["lag"] > 1.0 and self.member is not None:
            self._last_housekeeping["lag"] = now
            try:
                if shown := self.tasks.positions.shown():
                    self.member.commit(shown)
            except TaskMigratedError:
                _log.debug("the lag is shown later: the group rebalances")
        if now - self._last_housekeeping["purge"] > self._config["repartition.purge.interval.ms"] / 1000:
            self._last_housekeeping["purge"] = now
            internal = {t for s in self.tasks.plan.subtopologies.values() for t in s.repartition_source_topics} - set(
                self.tasks.plan.shuffled
            )
            self._admin.purge({p: o.offset for p, o in self.tasks.positions.committed.items() if p.topic in internal})

    # -- wait ----------------------------------------------------------------------------------------------------------

    def _wait(self) -> None:
        """Until the next poll: soon after activity, every `poll.ms` when nothing comes, at once for a timer."""
        limit = self._config["poll.ms"] / 1000
        quiet = time.monotonic() - self._pace.small_since
        wait = min(limit, max(0.005, quiet / 20))
        if self.tasks.timers:
            wait = min(wait, max(0.0, (min(self.tasks.timers.values()) - self._clock.now_ms()) / 1000))
        self._sleep(wait)

    def _sleep(self, seconds: float) -> None:
        with self._wake:
            if not self._closing and self._membership is not None:
                self._wake.wait(seconds)

    # -- failures ------------------------------------------------------------------------------------------------------

    def _learn_from(self, error: BaseException) -> None:
        """What the next turn should do without: partitions that do not move, and records that are too many for one turn."""
        turn, self._turn = self._turn, None
        if isinstance(error, StuckPartitionsError):
            for partition, at in error.short.items():
                self._stuck.note(partition, at.offset, at.reason)
        elif (
            turn is not None
            and turn.records
            and (time.monotonic() - turn.started > self._longest_write or isinstance(error, LaneLostError))
        ):
            records = self._pace.failed(turn.records)
            _log.warning(
                "a turn of %d records has failed after %.1f s; the brokers give a write %.0f s (under exactly-once that is "
                "producer.transaction.timeout.ms): the next turn has no more than %d",
                *(turn.records, time.monotonic() - turn.started, self._longest_write, records),
            )

    def _raise_outside_error(self) -> None:
        error, self._outside_error = self._outside_error, None
        if error is not None:
            raise error

    def _survives(self, error: BaseException) -> bool:
        """Whether to go on after a failure: always from the last commit, with everything opened again."""
        lane, self.tasks.failed_lane = self.tasks.failed_lane, None
        self._opened = False
        self.tasks.timers.clear()
        self._learn_from(error)
        if isinstance(error, TaskMigratedError) and self._membership is not self.tasks.adopted:
            _log.info("a turn came too late for its generation of the group and is run again: %s", error)
            return True
        now = time.monotonic()
        self._failures += 1
        if self._failures == 1:
            self._failing_since = now
        if is_transient(error):
            if now - self._failing_since < self._config["task.timeout.ms"] / 1000:
                _log.warning("a turn failed and is taken up again from the last commit: %s", error)
                self._sleep(min(5.0, 0.05 * 2 ** min(self._failures, 7)))
                return True
            _log.error("turns have failed for longer than task.timeout.ms: giving up")
        return self._events.on_failure(error, lane)


def _longest_write(config: StreamsConfig) -> float:
    """How many seconds the brokers give a turn to write what it has: under exactly-once the timeout of its transaction."""
    settings = producer_config(config, "writes")
    return int(settings.get("transaction.timeout.ms", _FLUSH_MS) if config.eos_enabled else _FLUSH_MS) / 1000
