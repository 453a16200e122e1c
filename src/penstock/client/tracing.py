"""OpenTelemetry traces of batches, if `tracing.enabled` is set. Needs `pip install 'penstock-streams[otel]'`.

Only OpenTelemetry's API is used. The user's program, or `opentelemetry-instrument penstock run …`, configures the SDK;
without an SDK nothing is recorded. Workers report the duration of each step but not its start, so the steps are placed one
after another up to the end of the batch.
"""

from __future__ import annotations

import importlib
import logging
from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any, ParamSpec

from penstock.errors import ConfigError
from penstock.spark.messages import BatchReport

_log = logging.getLogger(__name__)

_P = ParamSpec("_P")
_STEPS = ("fetch", "process", "commit", "store")
_NAME = "penstock"


def _guarded(trace: Callable[_P, None]) -> Callable[_P, None]:
    """Log exceptions of the user's span processors and samplers: tracing must not disturb the application."""

    @wraps(trace)
    def guarded(*arguments: _P.args, **named: _P.kwargs) -> None:
        try:
            trace(*arguments, **named)
        except Exception:  # noqa: BLE001 - the user's code
            _log.exception("Tracing a batch failed")

    return guarded


class BatchTraces:
    """Makes a span for each batch with one child for each step, and a span for each failure."""

    def __init__(
        self, config: Mapping[str, Any], version: str, thread_name: Callable[[int | None], str | None], provider: Any = None
    ) -> None:
        self._trace = _api()
        self._tracer = self._trace.get_tracer(_NAME, version, tracer_provider=provider)
        self._thread_name = thread_name
        self._common = {"penstock.application_id": config["application.id"]}

    @classmethod
    def of(cls, config: Mapping[str, Any], version: str, thread_name: Callable[[int | None], str | None]) -> BatchTraces | None:
        """Return the traces if `tracing.enabled` is set, else None."""
        return cls(config, version, thread_name) if config["tracing.enabled"] else None

    @_guarded
    def batch_done(self, thread: int, batch: BatchReport) -> None:
        end = _ns(batch.at)
        attributes = {
            **self._common,
            **self._thread(thread),
            "penstock.records": batch.records,
            "penstock.produced": batch.produced,
            "penstock.backlog": batch.waiting,
            "penstock.read": ", ".join(f"{topic}: {count}" for topic, count in batch.read.items()) or "timers",
        }
        span = self._tracer.start_span("batch", start_time=end - _ns(batch.took), attributes=attributes)
        self._steps(self._trace.set_span_in_context(span), thread, batch, end)
        span.end(end)

    @_guarded
    def failed(self, error: BaseException, index: int | None) -> None:
        span = self._tracer.start_span("batch failed", attributes={**self._common, **self._thread(index)})
        span.record_exception(error)
        span.set_status(self._trace.StatusCode.ERROR, str(error))
        span.end()

    def _steps(self, below: Any, index: int, batch: BatchReport, end: int) -> None:
        start = end - sum(_ns(batch.seconds.get(step, 0.0)) for step in _STEPS)
        for step in _STEPS:
            if step not in batch.seconds:
                continue
            stop = start + _ns(batch.seconds[step])
            attributes = {**self._common, **self._thread(index), "penstock.records": batch.records}
            self._tracer.start_span(step, context=below, start_time=start, attributes=attributes).end(stop)
            start = stop

    def _thread(self, index: int | None) -> dict[str, str]:
        name = self._thread_name(index)
        return {} if name is None else {"penstock.thread": name}


def _api() -> Any:
    try:
        return importlib.import_module("opentelemetry.trace")
    except ImportError as exc:
        raise ConfigError(
            "tracing.enabled = true needs OpenTelemetry: pip install 'penstock-streams[otel]', and an SDK to export traces"
        ) from exc


def _ns(seconds: float) -> int:
    return int(seconds * 1e9)
