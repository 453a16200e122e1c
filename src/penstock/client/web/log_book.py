"""The last lines of penstock's log in driver and workers, for the console."""

from __future__ import annotations

import itertools
import logging
import re
from collections import deque
from typing import Any

from penstock.dead_letters import LOGGER as DEAD_LETTERS
from penstock.log_lines import was_told

_MOST_LINES = 500
_MOST_WARNINGS = 50
_MOST_TEXT = 4_000
_SHORT_TEXT = 2_000
_WHO = re.compile(r"stream-thread \[(?P<who>[^\]]*)\]: ")


class LogBook(logging.Handler):
    """Keeps the lines that pass the level of penstock's loggers: warnings and errors by default.

    Dead letters are excluded; they are kept separately. Without any handler Python writes warnings and errors to standard
    error (`logging.lastResort`). This handler preserves that: it forwards lines that no other handler gets.
    """

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self._numbers = itertools.count(1)
        self._lines: deque[dict[str, Any]] = deque(maxlen=_MOST_LINES)
        # Separate, so that many INFO lines do not displace warnings.
        self._warnings: deque[dict[str, Any]] = deque(maxlen=_MOST_WARNINGS)
        logging.getLogger("penstock").addHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        last = logging.lastResort
        if last is not None and record.levelno >= last.level and _first_of_nothing_but_books(record.name) is self:
            last.handle(record)
        if record.name == DEAD_LETTERS:
            return
        text, who = record.getMessage(), "driver"
        if was_told(record) and (found := _WHO.match(text)):
            text, who = text[found.end() :], found["who"]
        if record.exc_info and record.exc_info[0] is not None:
            text = f"{text}\n{logging.Formatter().formatException(record.exc_info)}"
        line = {
            "number": next(self._numbers),
            "time": round(record.created * 1000),
            "level": record.levelname,
            "logger": record.name,
            "who": who,
            "text": text[:_MOST_TEXT],
        }
        self._lines.append(line)
        if record.levelno >= logging.WARNING:
            self._warnings.append({**line, "message": record.getMessage()[:_SHORT_TEXT]})

    def lines(self) -> list[dict[str, Any]]:
        """Return all kept lines, oldest first, including warnings and errors older than the other lines."""
        found = {line["number"]: line for line in (*self._copy(self._warnings), *self._copy(self._lines))}
        return [{name: found[number][name] for name in _SHOWN} for number in sorted(found)]

    def warnings(self) -> list[dict[str, Any]]:
        """Return time, level and message of the last warnings and errors, newest first."""
        found = [{name: line[name] for name in ("time", "level", "message")} for line in self._copy(self._warnings)]
        return sorted(found, key=lambda line: -line["time"])

    def close(self) -> None:
        """Remove the log handler."""
        logging.getLogger("penstock").removeHandler(self)
        super().close()

    def _copy(self, lines: deque[dict[str, Any]]) -> list[dict[str, Any]]:
        assert self.lock is not None
        with self.lock:
            return list(lines)


def _first_of_nothing_but_books(logger_name: str) -> logging.Handler | None:
    """Return the first LogBook that gets the lines of a logger. None if there are other handlers."""
    found: list[logging.Handler] = []
    logger: logging.Logger | None = logging.getLogger(logger_name)
    while logger is not None:
        found += logger.handlers
        logger = logger.parent if logger.propagate else None
    return found[0] if all(isinstance(handler, LogBook) for handler in found) else None


_SHOWN = ("number", "time", "level", "logger", "who", "text")
