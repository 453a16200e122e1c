"""Support for Jupyter notebooks: displays that update themselves, and one running application per application id.

It uses IPython's display updates, so it needs no extension. Outside a notebook it does nothing.
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
    """Return True if this process is the kernel of a notebook."""
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    return shell is not None and hasattr(shell, "kernel")


class LiveDisplay:
    """A display below the cell that made it, updated every `refresh` seconds until `stop` or until `goes_on` returns False.

    An error is shown in its place, and the update is repeated.
    """

    def __init__(self, make: Callable[[], str], refresh: float, goes_on: Callable[[], bool], name: str) -> None:
        if not refresh > 0:
            raise ValueError(f"refresh is {refresh}: it should be more than 0 seconds")
        if not is_in_notebook():
            raise StreamsError("a table that refreshes itself needs a notebook: this process is not the kernel of one")
        self._make, self._refresh, self._goes_on = make, refresh, goes_on
        self._stopped = threading.Event()
        self.updates = 0
        """The number of updates."""
        ipython_display: Any = importlib.import_module("IPython.display")
        self._html: Callable[[str], Any] = ipython_display.HTML
        self._handle = ipython_display.display(self._html(self._made() or ""), display_id=True)
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop updating the display."""
        self._stopped.set()

    def wait(self, seconds: float | None = None) -> bool:
        """Wait until the display no longer changes. Returns False after `seconds`."""
        self._thread.join(seconds)
        return not self._thread.is_alive()

    def _run(self) -> None:
        goes_on = True
        while goes_on and not self._stopped.wait(self._refresh):
            goes_on = self._goes_on()  # checked before the update, so that the last update shows the final state
            made = self._made()
            if made is None:
                return
            try:
                self._handle.update(self._html(made))
                self.updates += 1
            except Exception as exc:  # noqa: BLE001 - the kernel may be ending
                _log.debug("Updating a display failed: %s", exc)

    def _made(self) -> str | None:
        """Return the display's HTML. None on an error after the display's end."""
        try:
            return self._make()
        except Exception as exc:  # noqa: BLE001 - shown in the notebook
            return paragraph(f"{type(exc).__name__}: {exc}") if self._goes_on() else None


class Application(Protocol):
    """An application that starts in a notebook."""

    @property
    def state(self) -> State: ...

    @property
    def backfill_progress(self) -> object | None:
        """The progress of a backfill. None if none runs."""

    def close(self, timeout: int) -> bool:
        """Close the application, or wait for its end, within so many milliseconds."""

    def _repr_html_(self) -> str:
        """Return the notebook's summary."""


class NotebookApplications:
    """The applications that were started in this notebook. Starting one again closes its predecessor."""

    def __init__(self) -> None:
        self._started: weakref.WeakValueDictionary[tuple[str, str], Any] = weakref.WeakValueDictionary()

    def start(self, application: Application, application_id: str, state_dir: str) -> None:
        """Close an earlier application with the same id and directory, and display the progress of this one's start."""
        if not is_in_notebook():
            return
        key = application_id, state_dir
        before: Application | None = self._started.get(key)
        self._started[key] = application
        if before is not None and before is not application and not before.state.has_completed_shutdown:
            _log.info("Application %s is started again in this notebook. The running one is closed", application_id)
            before.close(_CLOSE_MS)
        LiveDisplay(
            application._repr_html_,
            _PROGRESS_SECONDS,
            lambda: application.state in (State.CREATED, State.REBALANCING) or application.backfill_progress is not None,
            f"{application_id}-notebook",
        )


notebook_applications: Final = NotebookApplications()


def link(url: str, text: str) -> str:
    """Return an HTML link to a page of the application.

    >>> link("http://localhost:8080/", "console")
    '<a href="http://localhost:8080/" target="_blank" rel="noreferrer">console</a>'
    """
    return f'<a href="{escape(url)}" target="_blank" rel="noreferrer">{escape(text)}</a>'
