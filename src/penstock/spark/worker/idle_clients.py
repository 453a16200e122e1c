"""Asks the clients of a thread that has nothing to do for what they have to tell, on a thread of its own.

librdkafka has statistics to tell every few seconds (`kafka/client_metrics.py`) and keeps them until the client is polled. Turns
poll it; a thread without work for days would fill its memory with them.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

_log = logging.getLogger(__name__)

_EVERY_SECONDS = 30.0


class IdleClients:
    """Serves a thread's clients, until closed, while nobody holds `in_use`."""

    def __init__(self, serve: Callable[[], None], name: str, every: float = _EVERY_SECONDS) -> None:
        self.in_use = threading.Lock()
        """Held by whoever uses the clients: two who poll one consumer take each other's records."""
        self._serve = serve
        self._every = every
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"{name}-idle", daemon=True)
        self._thread.start()

    @property
    def is_alive(self) -> bool:
        """Whether it goes on."""
        return self._thread.is_alive()

    def close(self) -> None:
        """Ask no more; the clients can be closed then."""
        self._closed.set()
        with self.in_use:
            pass

    def ask(self) -> None:
        """Serve the clients, unless they are in use."""
        if self.in_use.acquire(blocking=False):
            try:
                if not self._closed.is_set():
                    self._serve()
            except Exception:  # noqa: BLE001 - whoever uses the client next finds out what is wrong with it
                _log.debug("idle clients could not be asked for what they have to tell", exc_info=True)
            finally:
                self.in_use.release()

    def _run(self) -> None:
        while not self._closed.wait(self._every):
            self.ask()
