"""Where the time of a turn goes, in metrics of penstock's own: group `penstock-turn-metrics`, tag `client-id`."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from penstock.client.scheduling.turns import Turn
from penstock.metrics.registry import Metrics, Sensor, measure_count, measure_rate, measure_total, measure_total_rate
from penstock.spark.messages import LaneAnswer

TURN_GROUP = "penstock-turn-metrics"

_PARTS = {
    "poll": "to ask the brokers for the ends of the logs",
    "fetch": "to read the records, and to run what comes before a shuffle in the lane itself",
    "shuffle": "for the stage before a shuffle, the shuffle, and Spark's handling of both",
    "spark": "for Spark's handling of a turn without a shuffle",
    "process": "to process the records and to punctuate",
    "commit": "to write the outputs and changelogs and to commit",
    "store": "to write the stores",
    "turn": "for the whole turn",
}


class TurnMetrics:
    """Times and sizes of turns. Lanes work side by side: of what they say, the longest counts."""

    def __init__(self, registry: Metrics, client_id: str, waiting_for_core: Callable[[], int] = lambda: 0) -> None:
        self._registry = registry
        self._tags = {"client-id": client_id}
        self._times = {part: self._time(part, what) for part, what in _PARTS.items()}
        self._turns = registry.sensor("turns")
        self._backlog = 0
        registry.add_avg_and_max(self._turns, TURN_GROUP, self._tags, "turn-records", "number of records of a turn")
        for name, measure, description in (
            ("turn-rate", measure_rate, "The average number of turns per second"),
            ("turn-total", measure_count, "The total number of turns"),
            ("record-rate", measure_total_rate, "The average number of input records per second"),
            ("record-total", measure_total, "The total number of input records"),
        ):
            registry.add(self._turns, registry.metric_name(name, TURN_GROUP, description, self._tags), measure)
        registry.add_gauge(
            registry.metric_name("backlog-records", TURN_GROUP, "The number of records the last turn left unread", self._tags),
            lambda: self._backlog,
        )
        description = "The number of stream threads whose turn waits for a core of Spark now"
        registry.add_gauge(
            registry.metric_name("threads-waiting-for-core", TURN_GROUP, description, self._tags), waiting_for_core
        )

    def turned(self, turn: Turn, answers: Mapping[int, LaneAnswer], seconds: float) -> None:
        """A turn is over."""
        self._turns.record(turn.records)
        self._backlog = max(0, turn.backlog - turn.records)
        longest: dict[str, float] = {}
        for answer in answers.values():
            for part, took in answer.seconds.items():
                longest[part] = max(took, longest.get(part, 0.0))
        work = sum(took for part, took in longest.items() if part not in ("punctuate", "stage"))
        longest["poll"], longest["turn"] = turn.poll_seconds, seconds
        longest["shuffle" if turn.shuffled else "spark"] = max(0.0, seconds - turn.poll_seconds - work)
        for part, took in longest.items():
            if part in self._times:
                self._times[part].record(took * 1000)

    def _time(self, part: str, what: str) -> Sensor:
        sensor = self._registry.sensor(f"turn.{part}")
        self._registry.add_avg_and_max(sensor, TURN_GROUP, self._tags, f"{part}-time", f"time in milliseconds {what}")
        name = self._registry.metric_name(f"{part}-time-total", TURN_GROUP, f"The total time in milliseconds {what}", self._tags)
        self._registry.add(sensor, name, measure_total)
        return sensor
