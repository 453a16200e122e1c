"""What is logged in one process and told in another: lines of the log, with time and level, bounded in number and length."""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

from penstock.printable import printable_lines

_ROOT = "penstock"
_MOST_LINES = 100
_MOST_OF_ONE = 20  # of one logger: a handler that tells of each of many records leaves room for others
_MOST_TEXT = 4_000
_WARN_AGAIN = "penstock_told_again"


class LogLine(NamedTuple):
    """One line: milliseconds since the epoch, the level's name, the logger's, and the text."""

    time: int
    level: str
    logger: str
    text: str


class LogKeeper(logging.Handler):
    """Keeps penstock's warnings and errors of this process until somebody takes them.

    >>> keeper = LogKeeper()
    >>> keeper.emit(logging.LogRecord("penstock.x", logging.WARNING, "", 0, "%d left", (3,), None))
    >>> [(line.level, line.logger, line.text) for line in keeper.take()]
    [('WARNING', 'penstock.x', '3 left')]
    >>> keeper.take()
    ()
    """

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self._lines: list[LogLine] = []
        self._by_logger: Counter[str] = Counter()
        self._left_out = 0

    def emit(self, record: logging.LogRecord) -> None:
        """Keep a line, unless there are many already, or it came from such a keeper itself."""
        if was_told(record):
            return
        if len(self._lines) >= _MOST_LINES or self._by_logger[record.name] >= _MOST_OF_ONE:
            self._left_out += 1
            return
        self._by_logger[record.name] += 1
        text = record.getMessage()
        if record.exc_info and record.exc_info[0] is not None:
            text = f"{text}\n{logging.Formatter().formatException(record.exc_info)}"
        text = printable_lines(text[:_MOST_TEXT])
        self._lines.append(LogLine(round(record.created * 1000), record.levelname, record.name, text))

    def take(self) -> tuple[LogLine, ...]:
        """The lines since this was last asked, oldest first, and how many more there were."""
        self.acquire()
        try:
            lines, self._lines = self._lines, []
            self._by_logger.clear()
            left_out, self._left_out = self._left_out, 0
        finally:
            self.release()
        if left_out:
            lines.append(LogLine(round(time.time() * 1000), "WARNING", __name__, f"{left_out} more lines were left out"))
        return tuple(lines)

    def spill(self) -> None:
        """What nobody takes any more goes where it would have gone without a keeper: to standard error."""
        if logging.lastResort is not None:
            for line in self.take():
                logging.lastResort.emit(_record(line, f"{line.logger}: {line.text}"))


_keepers: list[LogKeeper] = []
_installing = threading.Lock()


def kept_lines() -> LogKeeper:
    """The keeper of this process: a worker, whose own log nobody reads."""
    with _installing:
        if not _keepers:
            _keepers.append(LogKeeper())
            logging.getLogger(_ROOT).addHandler(_keepers[0])
        return _keepers[0]


def tell_again(who: str, lines: Iterable[LogLine]) -> None:
    """Log lines of another process in this one, with their time and level, and who said them."""
    for line in lines:
        # Only names of penstock's own: loggers are kept for ever.
        known = line.logger == _ROOT or line.logger.startswith(f"{_ROOT}.")
        logger = logging.getLogger(line.logger if known else _ROOT)
        record = _record(line, printable_lines(f"{who}: {line.text}"))
        if logger.isEnabledFor(record.levelno):
            logger.handle(record)


def was_told(record: logging.LogRecord) -> bool:
    """Whether a line of this process's log is one of another process, told again."""
    return hasattr(record, _WARN_AGAIN)


def _record(line: LogLine, text: str) -> logging.LogRecord:
    level = logging.getLevelName(line.level)
    record = logging.LogRecord(
        line.logger, level if isinstance(level, int) else logging.WARNING, "(worker)", 0, "%s", (text,), None
    )
    record.created, record.msecs = line.time / 1000, float(line.time % 1000)
    setattr(record, _WARN_AGAIN, True)
    return record
