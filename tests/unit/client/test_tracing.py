from __future__ import annotations

import importlib
from typing import Any

import pytest

from penstock import ConfigError, StreamsConfig
from penstock.client.scheduling.turns import Turn
from penstock.client.tracing import TurnTraces
from penstock.kafka.fetch import FetchRange
from penstock.spark.messages import LaneAnswer


def config(**more: Any) -> StreamsConfig:
    return StreamsConfig({"application.id": "shop", "bootstrap.servers": "b:9", **more})


def thread_name(lane: int | None) -> str | None:
    return None if lane is None else f"thread-{lane + 1}"


@pytest.fixture
def spans() -> Any:
    sdk = pytest.importorskip("opentelemetry.sdk.trace")
    export = importlib.import_module("opentelemetry.sdk.trace.export")
    memory = importlib.import_module("opentelemetry.sdk.trace.export.in_memory_span_exporter").InMemorySpanExporter()
    provider = sdk.TracerProvider()
    provider.add_span_processor(export.SimpleSpanProcessor(memory))
    return TurnTraces(config(), "0", thread_name, provider), memory.get_finished_spans


def test_should_make_a_span_of_a_turn_with_the_steps_of_its_threads(spans: Any) -> None:
    traces, finished = spans
    answer = LaneAnswer("host:1", "0", seconds={"fetch": 0.1, "process": 0.3, "commit": 0.2, "stage": 9.0}, produced=4)
    traces.turned(Turn(ranges=[FetchRange("orders", 0, 10, 17)], backlog=9), {1: answer}, 0.8)
    *steps, turn = finished()
    assert [step.name for step in steps] == ["fetch", "process", "commit"]
    assert {step.parent.span_id for step in steps} == {turn.context.span_id}
    assert {step.attributes["penstock.thread"] for step in steps} == {"thread-2"}
    assert [round((step.end_time - step.start_time) / 1e9, 3) for step in (*steps, turn)] == [0.1, 0.3, 0.2, 0.8]
    assert (steps[0].end_time, steps[-1].end_time) == (steps[1].start_time, turn.end_time)
    told = turn.attributes
    assert (told["penstock.records"], told["penstock.produced"], told["penstock.backlog"]) == (7, 4, 2)
    assert (told["penstock.application_id"], told["penstock.shuffled"]) == ("shop", False)
    assert told["penstock.read"] == "orders-0[10..17)"


def test_should_make_a_span_of_a_failure(spans: Any) -> None:
    traces, finished = spans
    traces.failed(ValueError("no number"), None)
    (span,) = finished()
    assert (span.status.status_code.name, span.status.description) == ("ERROR", "no number")
    assert span.events[0].attributes["exception.type"] == "ValueError"


def test_should_disturb_nothing_where_a_span_processor_raises(caplog: pytest.LogCaptureFixture) -> None:
    class Raising:
        def start_span(self, *_: Any, **__: Any) -> Any:
            raise OSError("nobody listens")

        def get_tracer(self, *_: Any, **__: Any) -> Any:
            return self

    pytest.importorskip("opentelemetry.trace")
    traces = TurnTraces(config(), "0", thread_name, Raising())
    traces.failed(ValueError("no number"), None)
    traces.turned(Turn(ranges=[FetchRange("orders", 0, 10, 17)], backlog=9), {1: LaneAnswer("host:1")}, 0.8)
    assert caplog.text.count("a turn could not be traced") == 2


def test_should_trace_only_where_it_is_asked_to(monkeypatch: pytest.MonkeyPatch) -> None:
    assert TurnTraces.of(config(), "0", thread_name) is None

    def missing(name: str) -> Any:
        raise ImportError(name)

    monkeypatch.setattr("penstock.client.tracing.importlib.import_module", missing)
    with pytest.raises(ConfigError, match=r"penstock-streams\[otel\]"):
        TurnTraces.of(config(**{"tracing.enabled": True}), "0", thread_name)
