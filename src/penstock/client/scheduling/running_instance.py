"""What the rooms of the conductor have in common."""

from __future__ import annotations

from typing import NamedTuple

from penstock.client.scheduling.events import Events
from penstock.client.scheduling.group_words import GroupWords
from penstock.client.scheduling.notes import Beside
from penstock.client.scheduling.owned_tasks import OwnedTasks
from penstock.client.scheduling.run_state import RunState
from penstock.config.streams_config import StreamsConfig
from penstock.spark.driver.lane_jobs import LaneJobs


class RunningInstance(NamedTuple):
    """One instance of the application: its settings, what it runs and where, and who is told."""

    config: StreamsConfig
    tasks: OwnedTasks
    lane_jobs: LaneJobs
    events: Events


class Control(NamedTuple):
    """What an instance hears and how it goes on: the group, orders from outside, and what is done beside its thread."""

    words: GroupWords
    run: RunState
    beside: Beside
