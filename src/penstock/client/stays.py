"""Whether a lane may stay for many turns in one job, and what it has done there. Pure: no Kafka, no Spark."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from penstock.client.positions import Positions
from penstock.client.stages import Feeds, front_window
from penstock.client.turns import Turn, plan_turn
from penstock.ids import TaskId, TopicPartition
from penstock.spark.plan import Plan

# How long a lane stays: other jobs on its core wait for no longer, and between two stays lies a job of Spark.
STAY_SECONDS = 2.0
# When nothing has come for so long, it is cheaper to ask now and then where logs end.
IDLE_SECONDS = 0.5
# More than this is a backlog, whose turns are planned.
MOST_RECORDS = 5_000


def positions_to_stay(positions: Positions, tasks: Collection[TaskId]) -> dict[TopicPartition, int] | None:
    """Where a lane with these tasks reads on; None where it cannot follow by itself.

    Tasks behind a shuffle have to be at the same position, so that all that comes is for all of them; and what was left in
    repartition topics is read first.
    """
    if positions.draining:
        return None
    found: dict[TopicPartition, int] = {}
    for task in tasks:
        for partition in positions.inputs(task):
            at = positions.vectors.get(partition)
            for source, offset in ({partition: positions.fetched[partition]} if at is None else at).items():
                if found.setdefault(source, offset) != offset:
                    return None
    return found


def turn_of_stay(
    plan: Plan, positions: Positions, tasks: Collection[TaskId], feeds: Feeds, reached: Mapping[TopicPartition, int]
) -> Turn:
    """What a lane has done that stayed, as one turn that was planned to read as far as it has."""
    window = front_window(feeds, positions.vectors, reached) if feeds else None
    everything = sum(reached.values()) + 1
    return plan_turn(plan, positions, reached, tasks, (), lambda _: everything, window=window) or Turn()
