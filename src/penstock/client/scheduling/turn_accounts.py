"""Turns that have gone well: how far they have come, what they have cost, and who is told."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping

from penstock.client.scheduling.lane_loop import Job, LaneLoop
from penstock.client.scheduling.positions import OffsetOutOfRangeError
from penstock.client.scheduling.running_instance import RunningInstance
from penstock.client.scheduling.stays import StayPlan, account_stay, turns_of
from penstock.client.scheduling.stuck_partitions import StuckPartitions
from penstock.client.scheduling.turns import Turn, account
from penstock.ids import TopicPartition
from penstock.kafka.fetch import Short
from penstock.spark.messages import LaneAnswer

_log = logging.getLogger(__name__)


class TurnAccounts:
    """Used by the conductor's thread."""

    def __init__(self, instance: RunningInstance, stuck: StuckPartitions) -> None:
        self._tasks, self._events, self._stuck = instance.tasks, instance.events, stuck
        self._commit_seconds = instance.config["commit.interval.ms"] / 1000

    def turn(self, lane: LaneLoop, turn: Turn, answer: LaneAnswer) -> None:
        """Account for a turn that was a job of its own. OffsetOutOfRangeError where the log does not have what it was to read."""
        ended, positions = time.monotonic(), self._tasks.positions
        seconds = ended - turn.started
        account(positions, turn, answer)
        lane.batch_sizer.account(round(turn.done(answer)), seconds)
        if not answer.short:  # one that has waited for a partition that does not move was not busy
            self._tasks.spread.turned(
                *(turn.started, ended, {lane.index: answer.work_seconds}),
                records=round(turn.done(answer)),
                left=max(0, turn.backlog - turn.records) + answer.postponed,
                around={lane.index: answer.surrounding_seconds},
            )
        if turn.backlog > turn.records or turn.part is not None:
            lane.poll_at = ended
        else:
            lane.poll_at = turn.started + self._commit_seconds
        lane.health.went_well()
        self._events.on_account(turn, {lane.index: answer}, seconds)
        self._events.on_turn(turn, {lane.index: answer}, seconds)
        if positions.is_drained:
            _log.info("what was left in repartition topics has been read: they go through the shuffle from now on")
            self._tasks.read_anew()
        self._note_stuck(turn, answer.short)

    def _note_stuck(self, turn: Turn, short: Mapping[TopicPartition, Short]) -> None:
        """Leave alone for a while what could not be read; what the log does not have any more is loaded anew."""
        self._stuck.note_all(short)
        self._stuck.moved({TopicPartition(r.topic, r.partition) for r in turn.told_ranges} - short.keys())
        gone = ", ".join(f"{partition} at offset {at.offset}" for partition, at in short.items() if at.out_of_range)
        if gone:
            raise OffsetOutOfRangeError(f"offsets are out of range: {gone}")

    def tell_stay(self, lane: LaneLoop, job: Job, answer: LaneAnswer) -> None:
        """Count the turns of a stay, all of which were committed, also where a later one has failed."""
        if job.stay is None or job.turn is None:
            return
        for turn, alone, seconds in turns_of(job.turn, answer, time.monotonic()):
            self._tasks.spread.turned(
                *(turn.started, turn.started + seconds, {lane.index: alone.own_seconds}),
                records=turn.records,
                left=0,
            )
            self._events.on_account(turn, {lane.index: alone}, seconds)
            self._events.on_turn(turn, {lane.index: alone}, seconds)

    def stay(self, lane: LaneLoop, plan: StayPlan, answer: LaneAnswer) -> None:
        """Note how far a lane has come that stayed; what a turn costs that is a job of its own it does not tell."""
        account_stay(self._tasks.positions, plan, answer)
        lane.poll_at = time.monotonic()
        lane.health.went_well()
        if lane.called_back < plan.stay.number and plan.has_missed(lane.there, answer):
            lane.plan_for_a_while()
