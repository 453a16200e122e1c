"""Progress on a terminal: bars while stores are restored, otherwise a status line. Nothing is printed into pipes."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from penstock.printable import printable_lines


@contextmanager
def busy(text: str) -> Iterator[None]:
    """Show a status line on a terminal."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield
        return
    with console.status(text):
        yield


class StandardErrorHandler(logging.StreamHandler):  # type: ignore[type-arg]  # a class without parameters before Python 3.11
    """Logs to the current standard error, which Rich replaces while it shows bars."""

    def __init__(self) -> None:
        super().__init__(sys.stderr)

    def emit(self, record: logging.LogRecord) -> None:
        self.stream = sys.stderr
        super().emit(record)

    def format(self, record: logging.LogRecord) -> str:
        """Escape control characters: a message may contain a record's or a group member's text."""
        return printable_lines(super().format(record))


class RestoreBars:
    """A restore listener with a progress bar for each restoring store."""

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or Console(stderr=True)
        self._progress: Progress | None = None
        self._bars: dict[tuple[Any, str], tuple[TaskID, int]] = {}

    def on_restore_start(self, topic_partition: Any, store_name: str, starting_offset: int, ending_offset: int) -> None:
        """Add the store's bar."""
        if self._progress is None:
            columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
            self._progress = Progress(*columns, console=self._console, transient=True)
            self._progress.start()
        bar = self._progress.add_task(
            f"restoring {store_name} {topic_partition.partition}", total=ending_offset - starting_offset
        )
        self._bars[topic_partition, store_name] = bar, starting_offset

    def on_batch_restored(self, topic_partition: Any, store_name: str, batch_end_offset: int, num_restored: int) -> None:
        """Advance the bar."""
        if self._progress is not None and (topic_partition, store_name) in self._bars:
            bar, start = self._bars[topic_partition, store_name]
            self._progress.update(bar, completed=batch_end_offset - start)

    def on_restore_end(self, topic_partition: Any, store_name: str, total_restored: int) -> None:
        """Remove the bar."""
        found = self._bars.pop((topic_partition, store_name), None)
        if self._progress is None or found is None:
            return
        self._progress.remove_task(found[0])
        if not self._bars:
            self.close()

    def on_restore_suspended(self, topic_partition: Any, store_name: str, total_restored: int) -> None:
        """Remove the bar: the task has moved."""
        self.on_restore_end(topic_partition, store_name, total_restored)

    def close(self) -> None:
        """Restore the terminal."""
        if self._progress is not None:
            self._progress.stop()
            self._progress = None
            self._bars.clear()
