"""The stream threads of an application: names and states. It does not depend on Spark."""

from __future__ import annotations

import enum
import logging
import threading

from penstock.clock import wall_time

_log = logging.getLogger(__name__)


class ThreadState(enum.Enum):
    """Where a stream thread is in its life, with Kafka Streams' names and transitions.

                +-------------+
         +<---- | Created (0) |
         |      +-----+-------+
         |            v
         |      +-----+-------+
         +<---- | Starting (1)| ----->+
         |      +-----+-------+       |
         |            v               |
         |      +-----+-------+       |
         +<---- | Partitions  | <--+  |
         |      | Revoked (2) | ---+  |
         |      +-----+-------+       |
         |           |  ^             |
         |           v  |             |
         |      +-----+-------+       |
         +<---- | Partitions  | <-----+
         |      | Assigned (3)|
         |      +-----+-------+
         |            v  ^
         |      +-----+-------+
         +<---- | Running (4) |
         |      +-------------+
         v
    +----+---------+    +----------+
    | Pending      | -> | Dead (6) |
    | Shutdown (5) |    +----------+
    +--------------+
    """

    CREATED = 0
    STARTING = 1
    PARTITIONS_REVOKED = 2
    PARTITIONS_ASSIGNED = 3
    RUNNING = 4
    PENDING_SHUTDOWN = 5
    DEAD = 6

    @property
    def is_alive(self) -> bool:
        """True if the thread processes or can process tasks."""
        return self in _ALIVE

    def is_valid_transition(self, new: ThreadState) -> bool:
        """Return True if the transition to `new` is valid."""
        return new in _ALLOWED[self]


_ALIVE = {ThreadState.STARTING, ThreadState.PARTITIONS_REVOKED, ThreadState.PARTITIONS_ASSIGNED, ThreadState.RUNNING}
_REVOKED, _ASSIGNED, _ENDING = ThreadState.PARTITIONS_REVOKED, ThreadState.PARTITIONS_ASSIGNED, ThreadState.PENDING_SHUTDOWN
_ALLOWED = {
    ThreadState.CREATED: {ThreadState.STARTING, _ENDING},
    ThreadState.STARTING: {_REVOKED, _ASSIGNED, _ENDING},
    _REVOKED: {_REVOKED, _ASSIGNED, _ENDING},
    _ASSIGNED: {_REVOKED, _ASSIGNED, ThreadState.RUNNING, _ENDING},
    ThreadState.RUNNING: {_REVOKED, _ASSIGNED, ThreadState.RUNNING, _ENDING},
    _ENDING: {ThreadState.DEAD},
    ThreadState.DEAD: set(),
}


class StreamThread:
    """One stream thread with its index, name and state.

    >>> thread = StreamThread("app", 0)
    >>> thread.name, thread.state.name
    ('app-StreamThread-1', 'CREATED')
    """

    def __init__(self, client_id: str, index: int) -> None:
        self.index = index
        self.name = f"{client_id}-StreamThread-{index + 1}"
        self.state = ThreadState.CREATED
        self.started_ms = int(wall_time() * 1000)
        self._changed = threading.Condition()

    def set_state(self, new: ThreadState) -> None:
        """Change the state. An invalid transition is ignored, as when an assignment reaches a thread that is ending."""
        with self._changed:
            old = self.state
            if not old.is_valid_transition(new):
                _log.debug("stream-thread [%s] remains %s: it cannot become %s", self.name, old.name, new.name)
                return
            self.state = new
            self._changed.notify_all()
        if old is not new:
            _log.info("stream-thread [%s] State transition from %s to %s", self.name, old.name, new.name)

    def wait_until_dead(self, seconds: float | None) -> bool:
        """Wait until the thread is dead. Returns False after `seconds`."""
        with self._changed:
            return self._changed.wait_for(lambda: self.state is ThreadState.DEAD, seconds)

    def __repr__(self) -> str:
        return f"StreamThread({self.name}, {self.state.name})"


class StreamThreads:
    """All stream threads of an application. A name is free again when its thread is dead."""

    def __init__(self, client_id: str) -> None:
        self._client_id = client_id
        self._lock = threading.RLock()
        self._threads: dict[int, StreamThread] = {}
        self.failed = 0

    def add(self) -> StreamThread:
        """Return a new thread with the lowest unused number.

        >>> threads = StreamThreads("app")
        >>> [threads.add().name for _ in range(2)]
        ['app-StreamThread-1', 'app-StreamThread-2']
        """
        with self._lock:
            self._threads = {i: thread for i, thread in self._threads.items() if thread.state is not ThreadState.DEAD}
            index = next(i for i in range(len(self._threads) + 1) if i not in self._threads)
            thread = self._threads[index] = StreamThread(self._client_id, index)
            return thread

    def discard(self, thread: StreamThread) -> None:
        """Mark a thread as dead and forget it."""
        thread.set_state(ThreadState.PENDING_SHUTDOWN)
        thread.set_state(ThreadState.DEAD)
        with self._lock:
            if self._threads.get(thread.index) is thread:
                del self._threads[thread.index]

    def all(self) -> list[StreamThread]:
        """Return all threads that are not dead, by number."""
        with self._lock:
            return [self._threads[i] for i in sorted(self._threads) if self._threads[i].state is not ThreadState.DEAD]

    def alive(self) -> list[StreamThread]:
        """Return the threads that process or can process tasks."""
        return [thread for thread in self.all() if thread.state.is_alive]

    def at(self, index: int) -> StreamThread | None:
        """Return the thread with this index, or None."""
        with self._lock:
            return self._threads.get(index)

    def set_all(self, *states: ThreadState) -> None:
        """Change all living threads through these states."""
        for thread in self.all():
            for state in states:
                thread.set_state(state)

    def to_remove(self) -> StreamThread | None:
        """Return the next thread to remove: the first living one, as in Kafka Streams."""
        return next(iter(self.alive()), None)
