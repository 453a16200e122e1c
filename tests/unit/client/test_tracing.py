from __future__ import annotations

import importlib
from typing import Any

import pytest

from penstock import ConfigError, StreamsConfig
from penstock.client.tracing import BatchTraces
from penstock.spark.messages import BatchReport


def config(**more: Any) -> StreamsConfig:
    return StreamsConfig({"application.id": "shop", "bootstrap.servers": "b:9", **more})


def thread_name(thread: int | None) -> str | None:
    return None if thread is None else f"thread-{thread + 1}"


@pytest.fixture
def spans() -> Any:
    sdk = pytest.importorskip("opentelemetry.sdk.trace")
    export = importlib.import_module("opentelemetry.sdk.trace.export")
    memory = importlib.import_module("opentelemetry.sdk.trace.export.in_memory_span_exporter").InMemorySpanExporter()
    provider = sdk.TracerProvider()
    provider.add_span_processor(export.SimpleSpanProcessor(memory))
    return BatchTraces(config(), "0", thread_name, provider), memory.get_finished_spans


def test_should_make_a_span_of_a_batch_with_its_steps(spans: Any) -> None:
    traces, finished = spans
    seconds = {"fetch": 0.1, "process": 0.3, "commit": 0.2, "punctuate": 9.0}
    traces.batch_done(1, BatchReport(1_000.0, 0.8, {"orders": 7}, produced=4, waiting=2, seconds=seconds))
    *steps, batch = finished()
    assert [step.name for step in steps] == ["fetch", "process", "commit"]
    assert {step.parent.span_id for step in steps} == {batch.context.span_id}
    assert {step.attributes["penstock.thread"] for step in steps} == {"thread-2"}
    assert [round((step.end_time - step.start_time) / 1e9, 3) for step in (*steps, batch)] == [0.1, 0.3, 0.2, 0.8]
    assert (steps[0].end_time, steps[-1].end_time) == (steps[1].start_time, batch.end_time)
    told = batch.attributes
    assert (told["penstock.records"], told["penstock.produced"], told["penstock.backlog"]) == (7, 4, 2)
    assert (told["penstock.application_id"], told["penstock.read"]) == ("shop", "orders: 7")


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
    traces = BatchTraces(config(), "0", thread_name, Raising())
    traces.failed(ValueError("no number"), None)
    traces.batch_done(1, BatchReport(1_000.0, 0.8, {"orders": 7}))
    assert caplog.text.count("Tracing a batch failed") == 2


def test_should_trace_only_where_it_is_asked_to(monkeypatch: pytest.MonkeyPatch) -> None:
    assert BatchTraces.of(config(), "0", thread_name) is None

    def missing(name: str) -> Any:
        raise ImportError(name)

    monkeypatch.setattr("penstock.client.tracing.importlib.import_module", missing)
    with pytest.raises(ConfigError, match=r"penstock-streams\[otel\]"):
        BatchTraces.of(config(**{"tracing.enabled": True}), "0", thread_name)
