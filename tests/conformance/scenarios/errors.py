"""What goes wrong and what is done about it; where records take their time from.

The extractor of wall-clock time is not here: the original's reads the machine's own clock, which no twin can share.
"""

from __future__ import annotations

from typing import Any

from penstock import (
    Consumed,
    FailOnInvalidTimestamp,
    Grouped,
    LogAndSkipOnInvalidTimestamp,
    Produced,
    Serdes,
    TimeWindows,
    UsePartitionTimeOnInvalidTimestamp,
)
from penstock.errors import SerializationError
from tests.conformance.inputs import ROUGH_KEYS, ROUGH_LONGS, SHORT
from tests.conformance.scenarios import processors
from tests.conformance.scenarios.kit import GROUPED, IN, LONGS_IN, LONGS_OUT, OUT, L, S, by_key, show, stored, stream
from tests.conformance.scenarios.registry import dsl, papi

_JAVA = "org.apache.kafka.streams.errors."
_DLQ = "errors.dead.letter.queue.topic.name"


def _handled(kind: str, java_handler: str) -> dict[str, Any]:
    key = f"{kind}.exception.handler"
    going_on = {"java": {key: java_handler}, "python": {key: "log_and_continue"}}
    return {
        "fail": {},
        "fail with dead letters": {"config": {_DLQ: "dead"}},
        "continue": going_on,
        "continue with dead letters": {"config": {_DLQ: "dead"}, **going_on},
    }


_DESERIALIZATION = _handled("deserialization", _JAVA + "LogAndContinueExceptionHandler")
_PROCESSING = _handled("processing", _JAVA + "LogAndContinueProcessingExceptionHandler")
_PRODUCTION = {
    "fail": {},
    "continue": {
        "java": {"production.exception.handler": "penstock.conformance.Errors$ContinueProduction"},
        "python": {"production.exception.handler": "log_and_continue"},
    },
}


def by_length(record: Any, partition_time: int) -> int:
    """Takes the time from the value: its length times ten; negative for an empty value."""
    if record.value is None:
        return partition_time
    return -1 if record.value == "" else len(record.value) * 10


def _refuse(topic: str, value: str | None) -> bytes | None:
    if value == "x":
        raise SerializationError("no x here")
    return S.serializer(topic, value)


def _too_short(topic: str, data: bytes | None) -> str | None:
    if data is not None and len(data) == 1:
        raise SerializationError("too short")
    return S.deserializer(topic, data)


def _picky(value: str | None) -> str | None:
    if value == "x":
        raise ValueError("no x here")
    return value


@dsl("error_deserialization", feeds={"in": ROUGH_LONGS}, variants=_DESERIALIZATION)
def _(b: Any) -> None:
    b.stream("in", LONGS_IN).map_values(lambda v: None if v is None else v + 1).to("out", LONGS_OUT)


@dsl("error_deserialization_table", feeds={"in": ROUGH_LONGS}, variants=_DESERIALIZATION)
def _(b: Any) -> None:
    b.table("in", LONGS_IN, stored(L, "kept")).to_stream().to("out", LONGS_OUT)


@dsl("error_deserialization_key", feeds={"in": ROUGH_KEYS}, variants=_DESERIALIZATION)
def _(b: Any) -> None:
    counts = b.stream("in", Consumed(L, S)).group_by_key(Grouped(key_serde=L, value_serde=S)).count()
    counts.to_stream().to("out", Produced(L, L))


@dsl("error_deserialization_repartition", variants=_DESERIALIZATION)
def _(b: Any) -> None:
    rekeyed = stream(b, "in").select_key(lambda k, v: v)
    keys = Serdes.serde(S.serializer, _too_short)
    counts = rekeyed.group_by_key(Grouped(key_serde=keys, value_serde=S)).count(stored(L, "counts"))
    counts.to_stream().to("out", LONGS_OUT)


@dsl("error_processing", feeds={"in": SHORT}, variants=_PROCESSING)
def _(b: Any) -> None:
    stream(b, "in").map_values(_picky).to("out", OUT)


@dsl("error_processing_aggregate", feeds={"in": SHORT}, variants=_PROCESSING)
def _(b: Any) -> None:
    by_key(b, "in").reduce(lambda a, v: a + _picky(v), stored(S, "reduced")).to_stream().to("out", OUT)


@dsl("error_processing_after_table", feeds={"in": SHORT}, variants=_PROCESSING)
def _(b: Any) -> None:
    b.table("in", IN, stored(S, "kept")).to_stream().map_values(_picky).to("out", OUT)


@papi("error_processing_processor", feeds={"in": SHORT}, variants=_PROCESSING)
def _(t: Any) -> None:
    t.add_source("source", "in", key_deserializer=S, value_deserializer=S)
    t.add_processor("picky", processors.Picky, "source")
    t.add_sink("sink", "out", "picky", key_serializer=S, value_serializer=S)


@dsl("error_production", feeds={"in": SHORT}, variants=_PRODUCTION)
def _(b: Any) -> None:
    stream(b, "in").to("out", Produced(S, Serdes.serde(_refuse, S.deserializer)))


@dsl("error_production_of_repartition", feeds={"in": SHORT}, variants=_PRODUCTION)
def _(b: Any) -> None:
    rekeyed = stream(b, "in").select_key(lambda k, v: v)
    groups = rekeyed.group_by_key(Grouped(key_serde=S, value_serde=Serdes.serde(_refuse, S.deserializer)))
    groups.count(stored(L, "counts")).to_stream().to("out", LONGS_OUT)


@dsl("time_fail_on_invalid", negative_times=True)
def _(b: Any) -> None:
    b.stream("in", Consumed(S, S, timestamp_extractor=FailOnInvalidTimestamp())).to("out", OUT)


@dsl("time_log_and_skip", negative_times=True)
def _(b: Any) -> None:
    b.stream("in", Consumed(S, S, timestamp_extractor=LogAndSkipOnInvalidTimestamp())).to("out", OUT)


@dsl("time_use_partition_time", negative_times=True)
def _(b: Any) -> None:
    b.stream("in", Consumed(S, S, timestamp_extractor=UsePartitionTimeOnInvalidTimestamp())).to("out", OUT)


@dsl("time_by_value")
def _(b: Any) -> None:
    groups = b.stream("in", Consumed(S, S, timestamp_extractor=by_length)).group_by_key(GROUPED)
    groups.windowed_by(TimeWindows(10, grace=5)).count().to_stream(lambda w, v: show(w)).to("out", LONGS_OUT)


@dsl(
    "time_default_extractor",
    "in",
    "other",
    java={"default.timestamp.extractor": "penstock.conformance.Errors$ByLength"},
    python={"default.timestamp.extractor": by_length},
)
def _(b: Any) -> None:
    stream(b, "in").merge(stream(b, "other")).to("out", OUT)
