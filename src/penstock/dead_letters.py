"""Failed records: their description, and their form in a dead letter topic."""

from __future__ import annotations

import logging
import traceback
from collections.abc import Sequence
from dataclasses import dataclass

from penstock.ids import TaskId
from penstock.printable import printable_lines
from penstock.record import Headers, ProducedRecord

LOGGER = __name__
"""The logger for dead letters."""

_log = logging.getLogger(LOGGER)

HEADER_ERRORS_EXCEPTION = "__streams.errors.exception"
HEADER_ERRORS_STACKTRACE = "__streams.errors.stacktrace"
HEADER_ERRORS_MESSAGE = "__streams.errors.message"
HEADER_ERRORS_TOPIC = "__streams.errors.topic"
HEADER_ERRORS_PARTITION = "__streams.errors.partition"
HEADER_ERRORS_OFFSET = "__streams.errors.offset"

_SHOWN = 500


@dataclass(frozen=True)
class ErrorHandlerContext:
    """The origin of a failed record: topic, node, task.

    Without an input record, as in a punctuator, `topic` is None, and `partition` and `offset` are -1.
    """

    topic: str | None
    partition: int
    offset: int
    headers: Headers
    processor_node_id: str | None
    task_id: TaskId
    timestamp: int
    source_raw_key: bytes | None = None
    source_raw_value: bytes | None = None

    def __str__(self) -> str:
        # Without headers and raw bytes, which are user data: this text is logged.
        return (
            f"ErrorHandlerContext(topic={self.topic!r}, partition={self.partition}, offset={self.offset}, "
            f"processor_node_id={self.processor_node_id!r}, task_id={self.task_id})"
        )


def build_dead_letter_queue_record(
    topic: str, key: bytes | None, value: bytes | None, context: ErrorHandlerContext, exception: BaseException
) -> ProducedRecord:
    """Return a record for a dead letter topic: the input's bytes and headers, and six headers about the error.

    >>> context = ErrorHandlerContext("orders", 2, 41, (), "parse", TaskId(0, 2), timestamp=7)
    >>> record = build_dead_letter_queue_record("dead", b"k", b"v", context, ValueError("no number"))
    >>> [value for name, value in record.headers if name != HEADER_ERRORS_STACKTRACE]
    [b'ValueError', b'no number', b'orders', b'2', b'41']
    """
    stacktrace = "".join(traceback.format_exception(type(exception), exception, exception.__traceback__))
    error_headers: Headers = (
        (HEADER_ERRORS_EXCEPTION, exception_name(exception).encode()),
        (HEADER_ERRORS_MESSAGE, str(exception).encode("utf-8", "backslashreplace")),
        (HEADER_ERRORS_STACKTRACE, stacktrace.encode("utf-8", "backslashreplace")),
        (HEADER_ERRORS_TOPIC, None if context.topic is None else context.topic.encode()),
        (HEADER_ERRORS_PARTITION, str(context.partition).encode()),
        (HEADER_ERRORS_OFFSET, str(context.offset).encode()),
    )
    return ProducedRecord(topic, None, key, value, context.timestamp, tuple(context.headers) + error_headers)


@dataclass(frozen=True)
class DeadLetter:
    """The description of a dead letter: its origin and error, never its content."""

    to: str
    time: int
    exception: str | None = None
    message: str | None = None
    topic: str | None = None
    partition: int | None = None
    offset: int | None = None

    @classmethod
    def of(cls, record: ProducedRecord, time: int) -> DeadLetter:
        """Read the six headers. A user's handler may omit them.

        >>> context = ErrorHandlerContext("orders", 2, 41, (), "parse", TaskId(0, 2), timestamp=7)
        >>> record = build_dead_letter_queue_record("dead", b"k", b"v", context, ValueError("no number"))
        >>> DeadLetter.of(record, 8)
        DeadLetter(to='dead', time=8, exception='ValueError', message='no number', topic='orders', partition=2, offset=41)
        """
        found = {name: None if value is None else value.decode("utf-8", "replace") for name, value in record.headers}
        partition, offset = found.get(HEADER_ERRORS_PARTITION), found.get(HEADER_ERRORS_OFFSET)
        return cls(
            record.topic,
            time,
            found.get(HEADER_ERRORS_EXCEPTION),
            (found.get(HEADER_ERRORS_MESSAGE) or "")[:_SHOWN] or None,
            found.get(HEADER_ERRORS_TOPIC),
            _number(partition),
            _number(offset),
        )

    def __str__(self) -> str:
        """Format origin, dead letter topic and error."""
        origin = "a record" if self.topic is None else f"the record at {self.topic}-{self.partition} @ {self.offset}"
        why = ": ".join(text for text in (self.exception, self.message) if text) or "the handler gave no reason"
        return printable_lines(f"{origin} went to the dead letter topic {self.to}: {why}")


def tell(count: int, letters: Sequence[DeadLetter]) -> None:
    """Log dead letters: their number, and these last ones."""
    if count > len(letters):
        _log.warning("%d records went to dead letter topics; the last %d of them are:", count, len(letters))
    for letter in letters:
        _log.warning("%s", letter)


def _number(text: str | None) -> int | None:
    """Parse a number of the headers. Other programs' records may have any text."""
    return int(text) if text and text.isascii() and text.isdigit() and len(text) < 20 else None


def exception_name(exception: BaseException) -> str:
    """Return the full name of an exception's class, without the module for built-in ones."""
    kind = type(exception)
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
