"""The punctuators of a task."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from penstock.clock import Clock
from penstock.errors import ProcessingError, StreamsError, TaskCorruptedError, TaskMigratedError
from penstock.handlers import ProcessingExceptionHandler
from penstock.processor import PunctuationType, Punctuator
from penstock.record import RecordContext
from penstock.runtime.nodes import FailedProcessingError, Node, handle_processing_failure
from penstock.runtime.punctuation import PunctuationQueue, PunctuationSchedule
from penstock.runtime.task_metrics import TaskMetrics
from penstock.user_code import added_at

if TYPE_CHECKING:
    from penstock.runtime.context import InternalProcessorContext


class Timers:
    """Schedules and calls punctuators.

    They live as long as the task is open, and nothing of them is committed, as in Kafka Streams: a processor schedules them
    again when its task is opened again. On the wall clock they are due an interval later, on stream time at once.
    """

    def __init__(
        self, context: InternalProcessorContext, handler: ProcessingExceptionHandler, clock: Clock, metrics: TaskMetrics
    ) -> None:
        self.stream_time = PunctuationQueue()
        self.system_time = PunctuationQueue()
        self._context = context
        self._handler = handler
        self._clock = clock
        self._metrics = metrics

    def schedule(
        self, interval: int, kind: PunctuationType, punctuator: Punctuator, start: int | None, stream_time: int
    ) -> PunctuationSchedule:
        """Add a punctuator for the current node.

        Without a start, stream time is aligned to 0 and the wall clock to now. With one, the first time that is not past.
        """
        node = self._context.current_node
        if node is None:
            raise StreamsError(f"task {self._context.task_id}: schedule() was called outside of init, process and punctuators")
        wall_clock = kind is PunctuationType.WALL_CLOCK_TIME
        now = self._clock.now_ms() if wall_clock else stream_time
        first = start if start is not None else (now + interval if wall_clock else 0)
        schedule = PunctuationSchedule(node, first, interval, punctuator)
        if start is not None and start < now:
            schedule.advance(now)
        return (self.system_time if wall_clock else self.stream_time).schedule(schedule)

    def punctuate_stream_time(self, stream_time: int) -> bool:
        """Call the stream-time punctuators that are due."""
        return self.stream_time.next_due <= stream_time and self.stream_time.maybe_punctuate(stream_time, self._punctuate)

    def punctuate_system_time(self, now: int) -> bool:
        """Call the wall-clock punctuators that are due."""
        return self.system_time.next_due <= now and self.system_time.maybe_punctuate(now, self._punctuate)

    def next_system_time(self) -> int | None:
        """When the next wall-clock punctuator is due."""
        return self.system_time.earliest()

    def close(self) -> None:
        """Forget all punctuators."""
        self.stream_time.close()
        self.system_time.close()

    def _punctuate(self, node: Node, timestamp: int, punctuator: Punctuator) -> None:
        context = self._context
        if context.current_node is not None:
            raise StreamsError(f"task {context.task_id}: cannot punctuate while {context.current_node_name} is at work")
        context.system_time_ms = self._clock.now_ms()
        started = time.perf_counter()
        try:
            with context.at(node, RecordContext(timestamp, -1, -1, None)):
                self._call(node, timestamp, punctuator)
        finally:
            self._metrics.punctuated(time.perf_counter() - started)

    def _call(self, node: Node, timestamp: int, punctuator: Punctuator) -> None:
        try:
            punctuator(timestamp)
        except FailedProcessingError as exc:
            raise self._failure(node, exc) from (exc.__cause__ or exc)
        except (TaskCorruptedError, TaskMigratedError):
            raise
        except Exception as exc:  # noqa: BLE001  (the processing exception handler judges whatever a punctuator raises)
            try:
                handle_processing_failure(self._handler, self._context, node.name, None, exc)
            except FailedProcessingError as failed:
                raise self._failure(node, failed) from (failed.__cause__ or failed)

    def _failure(self, node: Node, failed: FailedProcessingError) -> ProcessingError:
        what = failed.message or "Exception caught while punctuating processor"
        return ProcessingError(
            f"task {self._context.task_id}: {what} '{node.name}'{added_at(node.added_at)}: {failed.__cause__!r}"
        )
