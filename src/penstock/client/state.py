"""The states of an application, with Kafka Streams' names and transitions."""

from __future__ import annotations

import enum


class State(enum.Enum):
    """Where an application is in its life.

                  +--------------+
          +<----- | Created (0)  |
          |       +-----+--------+
          |             |
          |             v
          |       +-----+--------+
          +<----- | Rebalancing  | <---+
          |       | (1)          |     |
          |       +-----+--------+     |
          |             |              |
          |             v              |
          |       +-----+--------+     |
          +<----- | Running (2)  | ----+
          |       +-----+--------+
          |             |
          v             v
    +-----+--------+  +-+------------+
    | Pending      |  | Pending      |
    | Shutdown (3) |  | Error (5)    |
    +-----+--------+  +-+------------+
          |             |
          v             v
    +-----+--------+  +-+------------+
    | Not          |  | Error (6)    |
    | Running (4)  |  +--------------+
    +--------------+
    """

    CREATED = 0
    REBALANCING = 1
    RUNNING = 2
    PENDING_SHUTDOWN = 3
    NOT_RUNNING = 4
    PENDING_ERROR = 5
    ERROR = 6

    @property
    def has_not_started(self) -> bool:
        """True in CREATED."""
        return self is State.CREATED

    @property
    def is_running_or_rebalancing(self) -> bool:
        """True in RUNNING and REBALANCING."""
        return self in (State.RUNNING, State.REBALANCING)

    @property
    def is_shutting_down(self) -> bool:
        """True in PENDING_SHUTDOWN and PENDING_ERROR."""
        return self in (State.PENDING_SHUTDOWN, State.PENDING_ERROR)

    @property
    def has_completed_shutdown(self) -> bool:
        """True in NOT_RUNNING and ERROR."""
        return self in (State.NOT_RUNNING, State.ERROR)

    def is_valid_transition(self, new: State) -> bool:
        """Return True if the transition to `new` is valid."""
        return new in _ALLOWED[self]

    def refuses(self, new: State) -> bool:
        """Return True if the change to `new` is ignored without an error, as in Kafka Streams.

        An application that is stopping continues to stop. One that has ended may be closed again.

        >>> State.PENDING_SHUTDOWN.refuses(State.RUNNING), State.CREATED.refuses(State.RUNNING)
        (True, False)
        """
        return new in _REFUSED.get(self, set())


_ALLOWED = {
    State.CREATED: {State.REBALANCING, State.PENDING_SHUTDOWN},
    State.REBALANCING: {State.RUNNING, State.PENDING_SHUTDOWN, State.PENDING_ERROR},
    State.RUNNING: {State.REBALANCING, State.RUNNING, State.PENDING_SHUTDOWN, State.PENDING_ERROR},
    State.PENDING_SHUTDOWN: {State.NOT_RUNNING},
    State.NOT_RUNNING: set(),
    State.PENDING_ERROR: {State.ERROR},
    State.ERROR: set(),
}

_REFUSED = {
    State.REBALANCING: {State.REBALANCING},
    State.PENDING_SHUTDOWN: set(State) - {State.NOT_RUNNING},
    State.NOT_RUNNING: {State.PENDING_SHUTDOWN, State.NOT_RUNNING},
    State.PENDING_ERROR: set(State) - {State.ERROR},
    State.ERROR: {State.PENDING_SHUTDOWN, State.PENDING_ERROR, State.ERROR},
}
