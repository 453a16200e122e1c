"""The running application, as the console sees it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from penstock.client.input_lags import Lags
from penstock.client.queries.queries import Queries
from penstock.client.scheduling.event_loop import EventLoop
from penstock.client.state import State
from penstock.spark.driver.spark_threads import SparkThreads
from penstock.topology.description import TopologyDescription


@dataclass(frozen=True)
class RunningApplication:
    """The parts of the application, and its changing values as functions."""

    queries: Queries
    description: TopologyDescription
    spark_threads: SparkThreads
    loop: EventLoop
    state: Callable[[], State]
    failure: Callable[[], BaseException | None]
    lags: Callable[[], Lags]
    thread_states: Callable[[], Mapping[str, str]] = dict
    state_since: Callable[[], float | None] = lambda: None
    paused: Callable[[], bool] = lambda: False
    pause: Callable[[bool], None] = lambda paused: None
    spark_ui: str | None = None
    """The address of Spark's UI for the session."""
