"""What the conductor tells the client; called on the conductor's thread."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from penstock.client.replicas.local_replicas import StandbyEvents
from penstock.client.scheduling.lane_loop import LaneState
from penstock.client.scheduling.turns import Turn
from penstock.spark.messages import LaneAnswer, RestoreProgress


@dataclass
class Events:
    """One function for each thing that the client wants to know; nothing is done where it wants nothing."""

    on_running: Callable[[], None] = lambda: None
    on_rebalancing: Callable[[], None] = lambda: None
    on_assigned: Callable[[], None] = lambda: None
    on_lane: Callable[[int, LaneState], None] = lambda lane, state: None
    on_failure: Callable[[BaseException, int | None], bool] = lambda error, lane: False
    on_restore: Callable[[RestoreProgress, str], None] = lambda progress, what: None
    on_housekeeping: Callable[[], None] = lambda: None
    on_answers: Callable[[Mapping[int, LaneAnswer]], None] = lambda answers: None
    on_account: Callable[[Turn, Mapping[int, LaneAnswer], float], None] = lambda turn, answers, seconds: None
    on_turn: Callable[[Turn, Mapping[int, LaneAnswer], float], None] = lambda turn, answers, seconds: None
    standbys: StandbyEvents = field(default_factory=StandbyEvents)
