"""The last lines of penstock's log, of the driver and of its workers, for people who look at the page."""

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
    """Keeps what passes the level of penstock's loggers: by default warnings and errors, with INFO more.

    Dead letters have a place of their own and would leave no room for others.

    Without any handler Python writes warnings and errors to standard error (`logging.lastResort`). The book does not change that:
    it passes lines on that no other handler gets.
    """

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self._numbers = itertools.count(1)
        self._lines: deque[dict[str, Any]] = deque(maxlen=_MOST_LINES)
        # Apart: much that is said at INFO would push warnings out.
        self._warnings: deque[dict[str, Any]] = deque(maxlen=_MOST_WARNINGS)
        logging.getLogger("penstock").addHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        """Keep a line."""
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
        """All that is kept, oldest first; the last warnings and errors also where newer lines have pushed them out."""
        found = {line["number"]: line for line in (*self._copy(self._warnings), *self._copy(self._lines))}
        return [{name: found[number][name] for name in _SHOWN} for number in sorted(found)]

    def warnings(self) -> list[dict[str, Any]]:
        """Time, level and message of the last warnings and errors, newest first."""
        found = [{name: line[name] for name in ("time", "level", "message")} for line in self._copy(self._warnings)]
        return sorted(found, key=lambda line: -line["time"])

    def close(self) -> None:
        """Listen no more."""
        logging.getLogger("penstock").removeHandler(self)
        super().close()

    def _copy(self, lines: deque[dict[str, Any]]) -> list[dict[str, Any]]:
        assert self.lock is not None
        with self.lock:
            return list(lines)


def _first_of_nothing_but_books(logger_name: str) -> logging.Handler | None:
    """Return the first book that gets the lines of a logger; None if there are other handlers too."""
    found: list[logging.Handler] = []
    logger: logging.Logger | None = logging.getLogger(logger_name)
    while logger is not None:
        found += logger.handlers
        logger = logger.parent if logger.propagate else None
    return found[0] if all(isinstance(handler, LogBook) for handler in found) else None


_SHOWN = ("number", "time", "level", "logger", "who", "text")
