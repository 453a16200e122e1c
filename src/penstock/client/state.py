"""The life of an application, with Kafka Streams' names and transitions."""

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
        """Whether `start` was not called yet."""
        return self is State.CREATED

    @property
    def is_running_or_rebalancing(self) -> bool:
        """Whether the application works."""
        return self in (State.RUNNING, State.REBALANCING)

    @property
    def is_shutting_down(self) -> bool:
        """Whether the application is on its way out."""
        return self in (State.PENDING_SHUTDOWN, State.PENDING_ERROR)

    @property
    def has_completed_shutdown(self) -> bool:
        """Whether the application has ended."""
        return self in (State.NOT_RUNNING, State.ERROR)

    def is_valid_transition(self, new: State) -> bool:
        """Whether an application may go from here to `new`."""
        return new in _ALLOWED[self]

    def refuses(self, new: State) -> bool:
        """Whether an application stays as it is when asked for `new`, without that being an error, as in Kafka Streams.

        One that is on its way out goes on with that; one that has ended may be closed again.

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
