"""What an application does for a Jupyter notebook: displays that update themselves, and one application per cell.

Plain display updates of IPython, so nothing but a notebook's own kernel is needed. Outside a notebook all of this is off.
"""

from __future__ import annotations

import importlib
import logging
import sys
import threading
import weakref
from collections.abc import Callable
from html import escape
from typing import Any, Final, Protocol

from penstock.client.state import State
from penstock.errors import StreamsError
from penstock.html import paragraph

_log = logging.getLogger(__name__)
_CLOSE_MS = 60_000
_PROGRESS_SECONDS = 0.5


def is_in_notebook() -> bool:
    """Whether this process is the kernel of a notebook."""
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    return shell is not None and hasattr(shell, "kernel")


class LiveDisplay:
    """A display below the cell that made it, made anew every `refresh` seconds until `stop` or until `goes_on` says no.

    An error while it is made is shown in its place, and it is tried again.
    """

    def __init__(self, make: Callable[[], str], refresh: float, goes_on: Callable[[], bool], name: str) -> None:
        if not refresh > 0:
            raise ValueError(f"refresh is {refresh}: it should be more than 0 seconds")
        if not is_in_notebook():
            raise StreamsError("a table that refreshes itself needs a notebook: this process is not the kernel of one")
        self._make, self._refresh, self._goes_on = make, refresh, goes_on
        self._stopped = threading.Event()
        self.updates = 0
        """How often it was made anew."""
        ipython_display: Any = importlib.import_module("IPython.display")
        self._html: Callable[[str], Any] = ipython_display.HTML
        self._handle = ipython_display.display(self._html(self._made() or ""), display_id=True)
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Leave the display as it is."""
        self._stopped.set()

    def wait(self, seconds: float | None = None) -> bool:
        """Wait until the display does not change any more, at most so long; whether that is so."""
        self._thread.join(seconds)
        return not self._thread.is_alive()

    def _run(self) -> None:
        goes_on = True
        while goes_on and not self._stopped.wait(self._refresh):
            goes_on = self._goes_on()  # before it is made: what is shown last is how things are in the end
            made = self._made()
            if made is None:
                return
            try:
                self._handle.update(self._html(made))
                self.updates += 1
            except Exception as exc:  # noqa: BLE001 - the kernel may be about to end
                _log.debug("a display could not be updated: %s", exc)

    def _made(self) -> str | None:
        """What is to be shown; None if it cannot be made because it does not go on."""
        try:
            return self._make()
        except Exception as exc:  # noqa: BLE001 - shown to whoever looks
            return paragraph(f"{type(exc).__name__}: {exc}") if self._goes_on() else None


class Application(Protocol):
    """What starts in a notebook."""

    @property
    def state(self) -> State:
        """Where it is in its life."""

    def close(self, timeout: int) -> bool:
        """End it, or wait for its end, within so many milliseconds."""

    def _repr_html_(self) -> str:
        """What a notebook shows of it."""


class NotebookApplications:
    """The applications that were started in this notebook. One that is started again replaces the one before it."""

    def __init__(self) -> None:
        self._started: weakref.WeakValueDictionary[tuple[str, str], Any] = weakref.WeakValueDictionary()

    def start(self, application: Application, application_id: str, state_dir: str) -> None:
        """Close the application of this id and folder that an earlier cell started, and show how this one starts."""
        if not is_in_notebook():
            return
        key = application_id, state_dir
        before: Application | None = self._started.get(key)
        self._started[key] = application
        if before is not None and before is not application and not before.state.has_completed_shutdown:
            _log.info("application %s is started again in this notebook: the one that runs is closed", application_id)
            before.close(_CLOSE_MS)
        LiveDisplay(
            application._repr_html_,
            _PROGRESS_SECONDS,
            lambda: application.state in (State.CREATED, State.REBALANCING),
            f"{application_id}-notebook",
        )


notebook_applications: Final = NotebookApplications()


def link(url: str, text: str) -> str:
    """A link to a page of the application.

    >>> link("http://localhost:8080/", "console")
    '<a href="http://localhost:8080/" target="_blank" rel="noreferrer">console</a>'
    """
    return f'<a href="{escape(url)}" target="_blank" rel="noreferrer">{escape(text)}</a>'
