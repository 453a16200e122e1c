"""KStream.print: each record as a line of text, on standard output or in a file."""

from __future__ import annotations

import copy
import os
import sys
from typing import IO, Any

from penstock.batches.batch_processor import Operator
from penstock.errors import TopologyError
from penstock.operators.types import ForeachAction, KeyValueMapper
from penstock.printable import printable_lines
from penstock.processor import Processor, ProcessorContext
from penstock.record import Record


def java_text(value: Any) -> str:
    """How Java's `%s` shows a value: null and booleans in its words, the rest as `str` does.

    >>> java_text(None), java_text(True), java_text("a")
    ('null', 'true', 'a')
    """
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


class PrintForeachAction:
    """Writes `[label]: key, value` for each record; with a mapper its text takes the place of `key, value`.

    `file` is a path, an open text stream, or None for standard output. The file of a path is emptied here and opened by
    each task that writes, which adds whole lines to it, so that the action can travel.
    """

    def __init__(self, file: str | os.PathLike[str] | IO[str] | None, mapper: KeyValueMapper | None, label: str) -> None:
        self._path = os.fspath(file) if isinstance(file, str | os.PathLike) else None
        self._stream: Any = file if self._path is None else None
        self._mapper = mapper
        self._label = label
        if self._path is not None:
            _empty(self._path)

    def open(self) -> None:
        """Open the file of a path."""
        if self._path is not None:
            self._stream = open(self._path, "a", encoding="utf-8", buffering=1)  # noqa: SIM115  closed in close()

    def __call__(self, key: Any, value: Any) -> None:
        """Write one line."""
        data = f"{java_text(key)}, {java_text(value)}" if self._mapper is None else java_text(self._mapper(key, value))
        if self._stream is None:
            data = printable_lines(data)  # standard output may be a terminal, which would act on what a producer wrote
        out = self._stream or sys.stdout
        out.write(f"[{self._label}]: {data}\n")
        if self._path is None:
            out.flush()

    def close(self) -> None:
        """Close the file of a path."""
        if self._path is not None and self._stream is not None:
            self._stream.close()
            self._stream = None


def _empty(path: str) -> None:
    if not path.strip():
        raise TopologyError("print(file=...) needs the path of a file, got an empty text")
    try:
        with open(path, "w", encoding="utf-8"):
            pass
    except OSError as exc:
        raise TopologyError(f"print(file=...) cannot write to {path!r}: {exc}") from exc


class KStreamPrint(Operator):
    """Supplies processors that hand each record to the action."""

    def __init__(self, action: PrintForeachAction | ForeachAction) -> None:
        self.action = action

    def __call__(self) -> Processor[Any, Any, Any, Any]:
        """A new processor; tasks do not share an open file."""
        return _KStreamPrintProcessor(copy.copy(self.action))


class _KStreamPrintProcessor(Processor[Any, Any, Any, Any]):
    def __init__(self, action: PrintForeachAction | ForeachAction) -> None:
        self._action = action

    def init(self, context: ProcessorContext[Any, Any]) -> None:
        if isinstance(self._action, PrintForeachAction):
            self._action.open()

    def process(self, record: Record[Any, Any]) -> None:
        self._action(record.key, record.value)

    def close(self) -> None:
        if isinstance(self._action, PrintForeachAction):
            self._action.close()
