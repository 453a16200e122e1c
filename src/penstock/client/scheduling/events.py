"""The callbacks of the event loop to the client, on the event loop's thread."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from penstock.client.replicas.local_replicas import StandbyEvents
from penstock.client.scheduling.supervised_thread import ThreadPhase
from penstock.spark.messages import BatchReport, RestoreProgress, ThreadReport


@dataclass
class Events:
    """One callback for each event. The default does nothing."""

    on_running: Callable[[], None] = lambda: None
    on_rebalancing: Callable[[], None] = lambda: None
    on_assigned: Callable[[], None] = lambda: None
    on_thread: Callable[[int, ThreadPhase], None] = lambda thread, phase: None
    on_failure: Callable[[BaseException, int | None], bool] = lambda error, thread: False
    on_restore: Callable[[RestoreProgress, str], None] = lambda progress, what: None
    on_housekeeping: Callable[[], None] = lambda: None
    on_reports: Callable[[Mapping[int, ThreadReport]], None] = lambda reports: None
    on_batch: Callable[[int, BatchReport], None] = lambda thread, batch: None
    on_slots: Callable[[int], None] = lambda slots: None
    """Called with the number of Spark's task slots, unless Spark uses dynamic allocation."""
    standbys: StandbyEvents = field(default_factory=StandbyEvents)
