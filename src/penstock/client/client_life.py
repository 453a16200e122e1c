"""The state of a client, which threads change, a listener observes, and callers of `close` wait for."""

from __future__ import annotations

import logging
import threading

from penstock.client.callbacks import Callbacks
from penstock.client.listeners import StateListener
from penstock.client.state import State
from penstock.clock import wall_time
from penstock.errors import StreamsError

_log = logging.getLogger(__name__)


class ClosedWhileStartingError(StreamsError):
    """The application was closed during its start."""


class ClientLife:
    """The state machine of `State`.

    >>> told = []
    >>> life = ClientLife("app-1", Callbacks(print))
    >>> life.listener = lambda new, old: told.append((new.name, old.name))
    >>> life.become(State.REBALANCING), life.become(State.PENDING_SHUTDOWN), life.become(State.RUNNING)
    (True, True, False)
    >>> told
    [('REBALANCING', 'CREATED'), ('PENDING_SHUTDOWN', 'REBALANCING')]
    """

    def __init__(self, client_id: str, callbacks: Callbacks) -> None:
        self._client_id, self._callbacks = client_id, callbacks
        self.state = State.CREATED
        self.since = wall_time()
        self.lock = threading.RLock()
        """Held while an action depends on the state."""
        self.listener: StateListener | None = None
        self._changed = threading.Condition(self.lock)

    def become(self, new: State) -> bool:
        """Change the state and call the listener. Returns False if the state refuses the change."""
        told = self.change(new)
        self.tell(told)
        return told is not None

    def change(self, new: State) -> tuple[State, State] | None:
        """Change the state. Returns the new and the old state for the listener, or None if the state refuses the change.

        Raises StreamsError for an invalid transition.
        """
        with self._changed:
            old = self.state
            if old.refuses(new):
                return None
            if not old.is_valid_transition(new):
                raise StreamsError(f"stream-client [{self._client_id}] Unexpected state transition from {old.name} to {new.name}")
            self.state = new
            if old is not new:
                self.since = wall_time()
            self._changed.notify_all()
        if old is not new:
            _log.info("stream-client [%s] State transition from %s to %s", self._client_id, old.name, new.name)
        return new, old

    def tell(self, change: tuple[State, State] | None) -> None:
        """Call the listener for a change. Without the lock, because the listener may call any method."""
        if change is not None and self.listener is not None and change[0] is not change[1]:
            new, old = change
            self._callbacks.call(f"the state listener, called for {old.name} to {new.name},", self.listener, new, old)

    def wait_running(self, seconds: float) -> bool:
        """Wait for some seconds. Returns False at once when the client is ending."""
        with self._changed:
            return not self._changed.wait_for(lambda: not self.state.is_running_or_rebalancing, seconds)

    def wait_until_settled(self, seconds: float | None) -> bool:
        """Wait until the client runs or is ending. Returns False after `seconds`."""
        with self._changed:
            return self._changed.wait_for(lambda: self.state is not State.REBALANCING, seconds)

    def wait_for_end(self, seconds: float | None) -> bool:
        """Wait until the client has ended. Returns False after `seconds`."""
        with self._changed:
            return self._changed.wait_for(lambda: self.state.has_completed_shutdown, seconds)

    def refuse_if_closing(self) -> None:
        """Raise ClosedWhileStartingError if the client is ending or has ended."""
        if not self.state.is_running_or_rebalancing:
            raise ClosedWhileStartingError(f"stream-client [{self._client_id}] was closed while it started")

    def refuse_after_start(self, what: str) -> None:
        """Raise StreamsError for a setting that is allowed only before the start."""
        if self.state is not State.CREATED:
            raise StreamsError(f"{what} can be set only before the start; the application is {self.state.name}")
