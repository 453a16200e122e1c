"""How long a process lasts in which an application was started, and its exit code.

The process lasts as long as the application, as in Java. Penstock's threads are daemons, so a script whose last line is
`streams.start()` would otherwise end with that line. What happens after the end of the main thread:

    the script has come to its end     the application goes on until it ends by itself, or Ctrl-C or SIGTERM ask for it
    it has failed, or was interrupted  the application is closed, and the process ends with the script's code
    an interactive Python              likewise
    a test runner                      nothing: a test that failed before it closed its application must not keep the others

The process does not wait for an application that is closed or closing.

A script whose application failed ends with exit code 1, and standard error names the failure. Exception: the script knows of the
failure, because it was raised or because the script has read `streams.failure`.
"""

from __future__ import annotations

import atexit
import concurrent.futures.thread  # noqa: F401 - what it does at the end comes after what was registered later: it closes all pools
import logging
import os
import signal
import sys
import threading
import weakref
from collections.abc import Collection, Iterable
from contextlib import suppress
from types import FrameType
from typing import Any, Final, Protocol

from penstock.client.state import State

_log = logging.getLogger(__name__)
_CLOSE_MS: Final = 60_000
_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)


class Application(Protocol):
    """What may go on after the main thread."""

    @property
    def state(self) -> State:
        """Where it is in its life."""

    def close(self, timeout: int) -> bool:
        """End it, or wait for its end, within so many milliseconds."""


class StopSignal(threading.Event):
    """Set by Ctrl-C and SIGTERM; a second signal ends at once. Also a context manager."""

    def __init__(self, signals: Collection[int] = _SIGNALS) -> None:
        super().__init__()
        self._signals = signals
        self._before: dict[int, Any] = {}

    def arm(self) -> None:
        """Take the signals; again after whoever else takes them: a SparkContext does when it is made."""
        for number in self._signals:
            self._before.setdefault(number, signal.getsignal(number))
            signal.signal(number, self._on_signal)

    def _on_signal(self, number: int, _: FrameType | None) -> None:
        self.set()
        self._give_back()

    def _give_back(self) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def __enter__(self) -> StopSignal:
        self.arm()
        return self

    def __exit__(self, *_: object) -> None:
        self._give_back()


class ProcessEnd:
    """What is done when the main thread has ended, in the process it was made in."""

    def __init__(self) -> None:
        self._process = os.getpid()
        self._applications = weakref.WeakSet[Any]()
        self._failures: dict[str, str] = {}
        self._lock = threading.Lock()
        self._is_registered = False

    def last_as_long_as(self, application: Application) -> None:
        """An application is about to start: the process is to last as long as it does."""
        with self._lock:
            if self._process != os.getpid():  # forked since
                self._process, self._is_registered = os.getpid(), False
                self._applications.clear()
                self._failures.clear()
            self._applications.add(application)
            if not self._is_registered:
                # Not `atexit`: by then nothing can be given to a pool of threads any more, and applications have such pools.
                with suppress(AttributeError, RuntimeError):  # an unknown Python, or one that is about to end
                    threading._register_atexit(self._ended, os.getpid())  # type: ignore[attr-defined]
                self._is_registered = True

    def failed(self, client_id: str, reason: str) -> None:
        """Remember that an application failed; as text, because an exception would keep its application in memory."""
        with self._lock:
            self._failures[client_id] = reason

    def forget_failure(self, client_id: str) -> None:
        """The script knows of the failure of its application."""
        with self._lock:
            self._failures.pop(client_id, None)

    def _ended(self, process: int) -> None:
        if os.getpid() != process or _is_a_test_runner():
            return
        is_at_its_end = not _is_interactive() and getattr(sys, "last_value", None) is None
        if is_at_its_end and self._working():
            self._wait()
        _close([*self._working(), *self._failing()])
        if is_at_its_end and self._failures:
            atexit.register(_exit_with_failure)

    def _wait(self) -> None:
        _log.info("the main thread has ended; the application goes on until it is closed, or Ctrl-C or SIGTERM end it")
        try:
            with StopSignal([number for number in _SIGNALS if not _is_the_users(signal.getsignal(number))]) as stop:
                while self._working() and not stop.wait(0.2):
                    pass
        except (KeyboardInterrupt, SystemExit):  # by a handler of the user's
            pass

    def _working(self) -> list[Application]:
        return [application for application in self._applications if application.state.is_running_or_rebalancing]

    def _failing(self) -> list[Application]:
        """Applications that failed and still give back what they use, which takes seconds."""
        return [application for application in self._applications if application.state is State.PENDING_ERROR]

    def tell_failures(self) -> None:
        """Write the failures that the script does not know of to standard error."""
        for client_id, reason in self._failures.items():
            with suppress(OSError, ValueError, AttributeError):  # standard error is closed, or there is none
                print(f"penstock: the application {client_id} failed: {reason}", file=sys.stderr, flush=True)


process_end: Final = ProcessEnd()


def _close(applications: Iterable[Application]) -> None:
    for application in applications:
        application.close(_CLOSE_MS)


def _exit_with_failure() -> None:
    """End the process with exit code 1 after all other exit handlers: Python offers no way to change the code this late."""
    atexit.unregister(_exit_with_failure)
    atexit._run_exitfuncs()
    process_end.tell_failures()
    with suppress(OSError, ValueError, AttributeError):  # standard output is closed, or there is none
        sys.stdout.flush()
    os._exit(1)


def _is_the_users(handler: Any) -> bool:
    """Whether somebody has decided what a signal does, other than Python itself and pyspark, which cancels all jobs."""
    if handler in (signal.SIG_DFL, signal.default_int_handler):
        return False
    return not str(getattr(handler, "__module__", "")).startswith("pyspark.")


def _is_interactive() -> bool:
    return hasattr(sys, "ps1") or bool(sys.flags.interactive)


def _is_a_test_runner() -> bool:
    main = getattr(sys.modules.get("__main__"), "__spec__", None)
    return "_pytest" in sys.modules or (main is not None and main.name.partition(".")[0] == "unittest")
