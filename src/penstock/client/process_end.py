"""The life and exit code of a process in which an application was started.

The process lasts as long as the application, as in Java. Penstock's threads are daemons, so a script whose last line is
`streams.start()` would otherwise end with that line. After the end of the main thread:

    the script has ended               the application runs until it ends by itself, or Ctrl-C or SIGTERM stop it
    it has failed, or was interrupted  the application is closed, and the process ends with the script's code
    an interactive Python              the same
    a test runner                      nothing: a failed test with an open application must not block the others

The process does not wait for an application that is closed or closing.

If an application failed, the script ends with exit code 1, and standard error shows the failure, unless the script knows it:
the failure was raised, or the script has read `streams.failure`.
"""

from __future__ import annotations

import atexit
import concurrent.futures.thread  # noqa: F401 - its exit handler, which closes all pools, runs after handlers that are registered later
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
    """An application that may run longer than the main thread."""

    @property
    def state(self) -> State: ...

    def close(self, timeout: int) -> bool:
        """Close the application, or wait for its end, within so many milliseconds."""


class StopSignal(threading.Event):
    """Set by Ctrl-C and SIGTERM. A second signal has its usual effect. Also a context manager."""

    def __init__(self, signals: Collection[int] = _SIGNALS) -> None:
        super().__init__()
        self._signals = signals
        self._before: dict[int, Any] = {}

    def arm(self) -> None:
        """Install the signal handlers; repeat it after a SparkContext is made, which installs its own."""
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
    """The actions after the end of the main thread, in the process that registered them."""

    def __init__(self) -> None:
        self._process = os.getpid()
        self._applications = weakref.WeakSet[Any]()
        self._failures: dict[str, str] = {}
        self._lock = threading.Lock()
        self._is_registered = False

    def last_as_long_as(self, application: Application) -> None:
        """Make the process last as long as an application that is starting."""
        with self._lock:
            if self._process != os.getpid():  # this process was forked
                self._process, self._is_registered = os.getpid(), False
                self._applications.clear()
                self._failures.clear()
            self._applications.add(application)
            if not self._is_registered:
                # Not `atexit`: it runs when thread pools accept no more work, and applications use pools.
                with suppress(AttributeError, RuntimeError):  # an unknown Python, or one that is ending
                    threading._register_atexit(self._ended, os.getpid())  # type: ignore[attr-defined]
                self._is_registered = True

    def failed(self, client_id: str, reason: str) -> None:
        """Record an application's failure as text: an exception would keep the application in memory."""
        with self._lock:
            self._failures[client_id] = reason

    def forget_failure(self, client_id: str) -> None:
        """Forget a failure that the script knows."""
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
        _log.info("The main thread has ended. The application runs until it is closed, or Ctrl-C or SIGTERM stop it")
        try:
            with StopSignal([number for number in _SIGNALS if not _is_the_users(signal.getsignal(number))]) as stop:
                while self._working() and not stop.wait(0.2):
                    pass
        except (KeyboardInterrupt, SystemExit):  # from a handler of the user
            pass

    def _working(self) -> list[Application]:
        return [application for application in self._applications if application.state.is_running_or_rebalancing]

    def _failing(self) -> list[Application]:
        """Return applications that failed and are still closing, which takes seconds."""
        return [application for application in self._applications if application.state is State.PENDING_ERROR]

    def tell_failures(self) -> None:
        """Write failures that the script does not know to standard error."""
        for client_id, reason in self._failures.items():
            with suppress(OSError, ValueError, AttributeError):  # standard error is closed or missing
                print(f"penstock: the application {client_id} failed: {reason}", file=sys.stderr, flush=True)


process_end: Final = ProcessEnd()


def _close(applications: Iterable[Application]) -> None:
    for application in applications:
        application.close(_CLOSE_MS)


def _exit_with_failure() -> None:
    """End the process with exit code 1 after all other exit handlers: Python cannot change the code this late."""
    atexit.unregister(_exit_with_failure)
    atexit._run_exitfuncs()
    process_end.tell_failures()
    with suppress(OSError, ValueError, AttributeError):  # standard output is closed or missing
        sys.stdout.flush()
    os._exit(1)


def _is_the_users(handler: Any) -> bool:
    """Return True if the user installed the handler, not Python or pyspark, whose handler cancels all jobs."""
    if handler in (signal.SIG_DFL, signal.default_int_handler):
        return False
    return not str(getattr(handler, "__module__", "")).startswith("pyspark.")


def _is_interactive() -> bool:
    return hasattr(sys, "ps1") or bool(sys.flags.interactive)


def _is_a_test_runner() -> bool:
    main = getattr(sys.modules.get("__main__"), "__spec__", None)
    return "_pytest" in sys.modules or (main is not None and main.name.partition(".")[0] == "unittest")
