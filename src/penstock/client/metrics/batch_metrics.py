"""Time and size of batches, in penstock's own metrics: group `penstock-batch-metrics`, tag `client-id`."""

from __future__ import annotations

from collections.abc import Callable

from penstock.metrics.registry import Metrics, Sensor, measure_count, measure_rate, measure_total, measure_total_rate
from penstock.spark.messages import BatchReport

BATCH_GROUP = "penstock-batch-metrics"

_STEPS = {
    "fetch": "to read the records",
    "process": "to process the records and to punctuate",
    "commit": "to write the outputs and changelogs and to commit",
    "store": "to write the stores",
    "batch": "for the whole batch",
}


class BatchMetrics:
    """Times and sizes of the batches of all threads."""

    def __init__(self, registry: Metrics, client_id: str, waiting_for_core: Callable[[], int] = lambda: 0) -> None:
        self._registry = registry
        self._tags = {"client-id": client_id}
        self._times = {step: self._time(step, what) for step, what in _STEPS.items()}
        self._batches = registry.sensor("batches")
        self._backlog = 0
        registry.add_avg_and_max(self._batches, BATCH_GROUP, self._tags, "batch-records", "number of records of a batch")
        for name, measure, description in (
            ("batch-rate", measure_rate, "The average number of batches per second"),
            ("batch-total", measure_count, "The total number of batches"),
            ("record-rate", measure_total_rate, "The average number of input records per second"),
            ("record-total", measure_total, "The total number of input records"),
        ):
            registry.add(self._batches, registry.metric_name(name, BATCH_GROUP, description, self._tags), measure)
        description = "The number of records that had arrived and were left for the next batch"
        registry.add_gauge(registry.metric_name("backlog-records", BATCH_GROUP, description, self._tags), lambda: self._backlog)
        description = "The number of stream threads that wait for a core of Spark now"
        registry.add_gauge(
            registry.metric_name("threads-waiting-for-core", BATCH_GROUP, description, self._tags), waiting_for_core
        )

    def batch_done(self, batch: BatchReport) -> None:
        self._batches.record(batch.records)
        self._backlog = batch.waiting
        for step, took in {**batch.seconds, "batch": batch.took}.items():
            if step in self._times:
                self._times[step].record(took * 1000)

    def _time(self, step: str, what: str) -> Sensor:
        sensor = self._registry.sensor(f"batch.{step}")
        self._registry.add_avg_and_max(sensor, BATCH_GROUP, self._tags, f"{step}-time", f"time in milliseconds {what}")
        name = self._registry.metric_name(f"{step}-time-total", BATCH_GROUP, f"The total time in milliseconds {what}", self._tags)
        self._registry.add(sensor, name, measure_total)
        return sensor
