"""Whether a lane may stay for many turns in one job, and what it has done there. Pure: no Kafka, no Spark."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

from penstock.client.scheduling.positions import Positions
from penstock.client.scheduling.turns import Turn
from penstock.ids import TaskId, TopicPartition
from penstock.kafka.fetch import FetchRange
from penstock.spark.messages import LaneAnswer, Stay

# How long a lane stays, and how long where others wait for its core. Between two stays lies a job of Spark: under load these are
# 100 to 200 ms in which nothing is done, of five seconds for 3 % of the records. What lanes measure is told at the end.
LONGEST_SECONDS, STAY_SECONDS = 10.0, 2.0
# When nothing has come for so long, it is cheaper to ask now and then where logs end.
IDLE_SECONDS = 0.5
# More than this is a backlog, whose turns are planned. At 5,000 records/s that is four seconds of them: brokers that have just
# begun with 128 partitions take one or two for a commit.
MOST_RECORDS = 20_000
# Who lets turns take fewer than this wants them planned.
FEWEST_RECORDS = 5_000
# Who has commits farther apart than this wants few of them, and of each key one result: there turns are planned, as far apart.
LONGEST_INTERVAL_MS = 500
# After a stay that has failed, or has not read what there was, turns are planned for so long: they find out what is wrong.
PLANNED_SECONDS = 5.0


@dataclass(frozen=True)
class StayPlan:
    """What a lane that stays reads, as it was when the stay began."""

    stay: Stay
    own: Collection[TopicPartition]
    """The partitions that tasks read themselves."""
    fed: Collection[TopicPartition]
    """The partitions that a shuffle feeds."""

    def has_missed(self, there: Mapping[TopicPartition, int], answer: LaneAnswer) -> bool:
        """Whether something that was there when the lane began has not been read: a partition does not move, or is gone.

        `there` is where logs ended then.
        """
        return any(answer.reached.get(partition, -1) < end for partition, end in there.items())

    def again(self, positions: Positions, number: int, reached: Mapping[TopicPartition, int]) -> StayPlan | None:
        """The same once more, from where the lane has come; None where what it reads is not known any more.

        Tasks behind a shuffle need not be at the same position: what lies between theirs and that was not for them.
        """
        known = all(p in positions.fetched and p in reached for p in self.own) and all(p in positions.vectors for p in self.fed)
        if positions.draining or not known or self.stay.positions.keys() != reached.keys():
            return None
        return replace(self, stay=replace(self.stay, number=number, positions=dict(reached)))


def plan_stay(
    positions: Positions,
    tasks: Collection[TaskId],
    number: int,
    *,
    seconds: float,
    commit_seconds: float,
    most_records: int = MOST_RECORDS,
) -> StayPlan | None:
    """How a lane with these tasks reads on; None where it cannot follow by itself.

    Tasks behind a shuffle have to be at the same position, so that all that comes is for all of them; and what was left in
    repartition topics is read first.
    """
    if positions.draining:
        return None
    own: dict[TopicPartition, int] = {}
    fed: dict[TopicPartition, None] = {}
    found: dict[TopicPartition, int] = {}
    for task in tasks:
        for partition in positions.inputs(task):
            vector = positions.vectors.get(partition)
            if vector is not None:
                fed[partition] = None
            elif partition in positions.fetched:
                own[partition] = positions.fetched[partition]
            else:
                return None
            for source, offset in ({partition: own[partition]} if vector is None else vector).items():
                if found.setdefault(source, offset) != offset:
                    return None
    if not found:
        return None
    idle = min(IDLE_SECONDS, seconds)
    return StayPlan(Stay(number, tuple(tasks), found, seconds, idle, commit_seconds, most_records), tuple(own), tuple(fed))


def account_stay(positions: Positions, plan: StayPlan, answer: LaneAnswer) -> None:
    """Note how far a lane has come that stayed.

    Tasks that were given up meanwhile are not known any more, and stay so.
    """
    known, reached = {*positions.fetched, *positions.vectors}, answer.reached
    positions.committed.update({p: committed for p, committed in answer.offsets.items() if p in known})
    for partition in plan.own:
        if partition in positions.fetched and partition in reached:
            positions.fetched[partition] = reached[partition]
    for partition in plan.fed:
        vector, furthest = positions.vectors.get(partition), answer.behind.get(partition, reached)
        if vector is not None:
            vector.update({source: max(at, furthest.get(source, at)) for source, at in vector.items()})


class TurnAlone(NamedTuple):
    """A turn of a stay, as if it had been a job of its own, for who counts turns."""

    turn: Turn
    answer: LaneAnswer
    seconds: float


def turns_of(planned: Turn, answer: LaneAnswer, ended: float) -> Iterable[TurnAlone]:
    """The turns of a stay that ended at this moment; to have begun the job, and to have asked before, is the first one's.

    How far which partition was read is told for all of them together: here only how many offsets of a topic.
    """
    stayed = max((told.at + told.took for told in answer.turns), default=0.0)
    begins = max(0.0, ended - planned.started - stayed)
    for number, told in enumerate(answer.turns):
        turn = Turn(ranges=[FetchRange(topic, 0, 0, count) for topic, count in told.read.items()])
        turn.backlog, turn.started = turn.records, ended - stayed + told.at
        alone = LaneAnswer(answer.worker, answer.executor, seconds=told.seconds)
        alone.records, alone.processed = told.records, told.processed
        alone.punctuated, alone.produced = told.punctuated, told.produced
        seconds = told.took
        if not number:
            turn.started, turn.poll_seconds, seconds = turn.started - begins, planned.poll_seconds, seconds + begins
            alone.flow = answer.flow
        yield TurnAlone(turn, alone, seconds)
