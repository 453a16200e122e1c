"""An anomaly detector in the Processor API: readings far from what a sensor usually says, and sensors that fall silent.

The state of a sensor is its running mean and variance (Welford's method) and the time of its last reading.
Topics: `readings` (sensor -> number) -> `anomalies` (sensor -> text).
"""

from datetime import timedelta
from math import sqrt
from typing import TypedDict

from penstock import KeyValueStore, Processor, ProcessorContext, PunctuationType, Record, Serdes, Stores, Topology

WARM_UP = 10
"""Readings of a sensor before it is judged."""
THRESHOLD = 4.0
"""Standard deviations from the mean that are still normal."""
SILENCE = timedelta(minutes=5)


class Sensor(TypedDict):
    count: int
    mean: float
    squares: float
    last_seen: int
    silent: bool


class Detector(Processor[str, float, str, str]):
    def init(self, context: ProcessorContext[str, str]) -> None:
        self.context = context
        self.sensors: KeyValueStore[str, Sensor] = context.get_state_store("sensors")
        context.schedule(timedelta(minutes=1), PunctuationType.STREAM_TIME, self.look_for_silence)

    def process(self, record: Record[str, float]) -> None:
        sensor = self.sensors.get(record.key)
        if sensor is None:
            sensor = Sensor(count=0, mean=0.0, squares=0.0, last_seen=0, silent=False)
        if self.is_anomaly(sensor, record.value):
            text = f"{record.value:g} is far from the usual {sensor['mean']:.1f}"
            self.context.forward(record.with_value(text))
        else:
            self.learn(sensor, record.value)
        sensor["last_seen"] = max(sensor["last_seen"], record.timestamp)
        sensor["silent"] = False
        self.sensors.put(record.key, sensor)

    @staticmethod
    def is_anomaly(sensor: Sensor, value: float) -> bool:
        if sensor["count"] < WARM_UP:
            return False
        deviation = sqrt(sensor["squares"] / sensor["count"])
        return abs(value - sensor["mean"]) > THRESHOLD * max(deviation, 1e-9)

    @staticmethod
    def learn(sensor: Sensor, value: float) -> None:
        sensor["count"] += 1
        delta = value - sensor["mean"]
        sensor["mean"] += delta / sensor["count"]
        sensor["squares"] += delta * (value - sensor["mean"])

    def look_for_silence(self, timestamp: int) -> None:
        limit = timestamp - SILENCE // timedelta(milliseconds=1)
        with self.sensors.all() as sensors:
            quiet = [(name, sensor) for name, sensor in sensors if not sensor["silent"] and sensor["last_seen"] < limit]
        for name, sensor in quiet:
            self.context.forward(Record(name, f"nothing heard since {sensor['last_seen']}", timestamp))
            self.sensors.put(name, {**sensor, "silent": True})


def topology() -> Topology:
    text = Serdes.string()
    sensors = Stores.key_value_store_builder(Stores.persistent_key_value_store("sensors"), text, Serdes.json())
    return (
        Topology()
        .add_source("readings", "readings", key_deserializer=text, value_deserializer=Serdes.double())
        .add_processor("detector", Detector, "readings")
        .add_state_store(sensors, "detector")
        .add_sink("anomalies", "anomalies", "detector", key_serializer=text, value_serializer=text)
    )
