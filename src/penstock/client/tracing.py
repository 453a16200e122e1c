"""Turns as traces of OpenTelemetry, where `tracing.enabled` asks for them; needs `pip install 'penstock-streams[otel]'`.

Only OpenTelemetry's API is used here: where spans go is for the SDK, which the user's program sets up, or
`opentelemetry-instrument penstock run …`. Without one nothing is kept. Workers tell how long each step took, not when it began:
the steps are laid one after the other, up to the end of the turn.
"""

from __future__ import annotations

import importlib
import logging
import time
from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any, ParamSpec

from penstock.client.scheduling.turns import Turn
from penstock.errors import ConfigError
from penstock.spark.messages import LaneAnswer

_log = logging.getLogger(__name__)

_P = ParamSpec("_P")
_STEPS = ("fetch", "process", "commit", "store")
_NAME = "penstock"


def _guarded(trace: Callable[_P, None]) -> Callable[_P, None]:
    """Log what a span processor or a sampler of the user's raises: as OpenTelemetry asks, tracing disturbs nothing."""

    @wraps(trace)
    def guarded(*arguments: _P.args, **named: _P.kwargs) -> None:
        try:
            trace(*arguments, **named)
        except Exception:  # noqa: BLE001 - the user's code
            _log.exception("a turn could not be traced")

    return guarded


class TurnTraces:
    """Makes a span of each turn, with one for each step of each stream thread below it, and one of each failure."""

    def __init__(
        self, config: Mapping[str, Any], version: str, thread_name: Callable[[int | None], str | None], provider: Any = None
    ) -> None:
        self._trace = _api()
        self._tracer = self._trace.get_tracer(_NAME, version, tracer_provider=provider)
        self._thread_name = thread_name
        self._common = {"penstock.application_id": config["application.id"]}

    @classmethod
    def of(cls, config: Mapping[str, Any], version: str, thread_name: Callable[[int | None], str | None]) -> TurnTraces | None:
        """As `tracing.enabled` says; None where nothing is traced."""
        return cls(config, version, thread_name) if config["tracing.enabled"] else None

    @_guarded
    def turned(self, turn: Turn, answers: Mapping[int, LaneAnswer], seconds: float) -> None:
        """A turn is over, and took so long."""
        end = time.time_ns()
        attributes = {
            **self._common,
            "penstock.records": turn.records,
            "penstock.produced": sum(answer.produced for answer in answers.values()),
            "penstock.shuffled": turn.shuffled,
            "penstock.backlog": max(0, turn.backlog - turn.records),
            "penstock.read": str(turn),
        }
        span = self._tracer.start_span("turn", start_time=end - _ns(seconds), attributes=attributes)
        below = self._trace.set_span_in_context(span)
        for lane, answer in answers.items():
            self._steps(below, lane, answer, end)
        span.end(end)

    @_guarded
    def failed(self, error: BaseException, lane: int | None) -> None:
        """A turn has failed."""
        span = self._tracer.start_span("turn failed", attributes={**self._common, **self._thread(lane)})
        span.record_exception(error)
        span.set_status(self._trace.StatusCode.ERROR, str(error))
        span.end()

    def _steps(self, below: Any, lane: int, answer: LaneAnswer, end: int) -> None:
        start = end - sum(_ns(answer.seconds.get(step, 0.0)) for step in _STEPS)
        for step in _STEPS:
            if step not in answer.seconds:
                continue
            stop = start + _ns(answer.seconds[step])
            attributes = {**self._common, **self._thread(lane), "penstock.records": answer.records}
            self._tracer.start_span(step, context=below, start_time=start, attributes=attributes).end(stop)
            start = stop

    def _thread(self, lane: int | None) -> dict[str, str]:
        name = self._thread_name(lane)
        return {} if name is None else {"penstock.thread": name}


def _api() -> Any:
    try:
        return importlib.import_module("opentelemetry.trace")
    except ImportError as exc:
        raise ConfigError(
            "tracing.enabled = true needs OpenTelemetry: pip install 'penstock-streams[otel]', and an SDK to send them"
        ) from exc


def _ns(seconds: float) -> int:
    return int(seconds * 1e9)
