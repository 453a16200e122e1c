"""Where in the user's code something was called: operators are written in one place and fail in another."""

from __future__ import annotations

import inspect
import os
import sys
from types import FrameType
from typing import Any, NamedTuple

_PACKAGE = os.path.dirname(os.path.abspath(__file__)) + os.sep
# The commands are applications of the library: the demo builds its topology there.
_COMMANDS = os.path.join(_PACKAGE, "commands", "")


class CallSite(NamedTuple):
    """The function of penstock that the user's code has called, and the line of that code."""

    function: str
    line: str


def call_site() -> CallSite:
    """The innermost call from outside of penstock; without one (the library calls itself) the outermost frame's."""
    frame: FrameType | None = sys._getframe(1)
    function = "penstock"
    while frame is not None and is_of_penstock(frame):
        function = frame.f_code.co_name
        frame = frame.f_back
    return CallSite(function, "" if frame is None else f"{shown_path(frame.f_code.co_filename)}:{frame.f_lineno}")


def misuse(problem: str, function: str | None = None) -> TypeError:
    """The error for arguments that cannot be meant so: what was called, where in the user's code, and the right call."""
    site = call_site()
    where = f" ({site.line})" if site.line else ""
    return TypeError(f"{function or site.function}(){where}: {problem}")


def is_async(function: Any) -> bool:
    """Whether a call returns a coroutine or an async generator instead of a result."""
    return any(
        inspect.iscoroutinefunction(called) or inspect.isasyncgenfunction(called)
        for called in (function, inspect.getattr_static(type(function), "__call__", None))
    )


def outer_stack_level() -> int:
    """The `stacklevel` with which a warning of the caller's points to the user's code."""
    frame: FrameType | None = sys._getframe(1)
    level = 1
    while frame is not None and is_of_penstock(frame):
        frame = frame.f_back
        level += 1
    return level


def added_at(line: str) -> str:
    """How a message names the line at which something was added; nothing where it is not known.

    >>> added_at("app.py:12")
    ' (added at app.py:12)'
    """
    return f" (added at {line})" if line else ""


def is_of_penstock(frame: FrameType) -> bool:
    """Whether a frame runs code of the library."""
    filename = frame.f_code.co_filename
    if filename.startswith(_PACKAGE):
        return not filename.startswith(_COMMANDS)
    # What dataclasses write for us has no file.
    return filename == "<string>" and str(frame.f_globals.get("__name__", "")).partition(".")[0] == "penstock"


def shown_path(filename: str) -> str:
    """The path as one would type it here: below the current folder from there, otherwise in full."""
    try:
        relative = os.path.relpath(filename)
    except (ValueError, OSError):
        return filename
    return filename if relative.startswith(os.pardir) else relative
