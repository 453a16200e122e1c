"""Every error penstock raises, in one tree.

    PenstockError
    ├── ConfigError              a key, its value and what is allowed
    ├── TopologyError            the topology cannot be built or does not fit the topics
    ├── SerializationError       bytes or a value that a serde cannot handle
    │   └── RegistryUnavailableError     the Schema Registry does not answer: the same record may be read later
    ├── NoSuchElementError       nothing left to read
    └── StreamsError             something failed while the application runs; `task_id` where a task did
        ├── ProcessorStateError          a state store cannot be opened, written or restored
        │   └── LockError                the task's folder is in use by another process
        ├── InvalidStateStoreError       a store that cannot be queried now
        │   ├── UnknownStateStoreError
        │   ├── StateStoreNotAvailableError
        │   ├── StateStoreMigratedError
        │   ├── InvalidStateStorePartitionError
        │   ├── StreamsNotStartedError
        │   ├── StreamsRebalancingError
        │   └── StreamsStoppedError
        ├── TaskError                    a task failed: says which task, record and node
        │   ├── DeserializationError
        │   ├── ProcessingError
        │   └── ProductionError
        ├── MissingSourceTopicError      a topic that is read is not there; a TopologyError as well
        ├── TaskCorruptedError           local state does not fit its changelog: says which tasks
        ├── TaskMigratedError            the work belongs to another member now
        ├── TaskAssignmentError          an assignor of one's own cannot decide now
        ├── StreamsTimeoutError          something did not happen in the time that was given for it
        ├── BufferFullError              suppress(... shut_down_when_full) has no room
        └── BrokerError                  the brokers cannot be reached or refuse
            └── BrokerAccessError        credentials, certificates or rights: waiting does not help

The user's own exception stays visible as `__cause__`.
"""

from __future__ import annotations

from collections.abc import Iterable

from penstock.ids import TaskId


class PenstockError(Exception):
    """The root of everything penstock raises."""


class ConfigError(PenstockError, ValueError):
    """A configuration value that is missing or not allowed."""


class TopologyError(PenstockError, ValueError):
    """The topology is not valid, or does not fit the topics it reads."""


class SerializationError(PenstockError, ValueError):
    """A value that cannot be turned into bytes, or bytes that cannot be read."""


class RegistryUnavailableError(SerializationError):
    """The Schema Registry cannot be reached or cannot answer now: nothing is wrong with the record.

    Exception handlers are asked about it as about any other failure of a serde; `retriable` tells it apart from a bad record.
    """

    retriable = True


class NoSuchElementError(PenstockError, LookupError):
    """There is no further record to read."""


class StreamsError(PenstockError):
    """Something failed while the application was running."""

    task_id: TaskId | None = None
    """The task that failed; None where it was not a task, or is not known."""


class MissingSourceTopicError(StreamsError, TopologyError):
    """A topic that the application reads is not there."""


class ProcessorStateError(StreamsError):
    """A state store cannot be opened, written or restored."""


class LockError(ProcessorStateError):
    """Another process has the task's folder open."""


class InvalidStateStoreError(StreamsError):
    """A store that cannot be queried now."""


class UnknownStateStoreError(InvalidStateStoreError):
    """No store of that name."""


class StateStoreNotAvailableError(InvalidStateStoreError):
    """The store is being opened or restored; ask again later."""


class StateStoreMigratedError(InvalidStateStoreError):
    """The store has moved to another instance."""


class InvalidStateStorePartitionError(InvalidStateStoreError):
    """The store has no such partition here."""


class StreamsNotStartedError(InvalidStateStoreError):
    """The application has not been started yet."""


class StreamsRebalancingError(InvalidStateStoreError):
    """The application is taking up its work; ask again later."""


class StreamsStoppedError(InvalidStateStoreError):
    """The application has ended, or is about to."""


class TaskError(StreamsError):
    """A task failed while it handled a record."""


class DeserializationError(TaskError):
    """An input record could not be deserialized and the handler said fail."""


class ProcessingError(TaskError):
    """A processor raised and the handler said fail."""


class ProductionError(TaskError):
    """An output record could not be serialized or written and the handler said fail."""


class TaskCorruptedError(StreamsError):
    """Local state does not fit its changelog and has to be rebuilt."""

    def __init__(self, message: str, corrupted_tasks: Iterable[TaskId] = ()) -> None:
        super().__init__(message)
        self._corrupted_tasks = tuple(corrupted_tasks)

    @property
    def corrupted_tasks(self) -> frozenset[TaskId]:
        """The tasks whose state it is."""
        return frozenset(self._corrupted_tasks)


class TaskMigratedError(StreamsError):
    """The task belongs to another member of the group now."""


class TaskAssignmentError(StreamsError):
    """An assignor of one's own cannot decide now, and wants to be asked again."""


class StreamsTimeoutError(StreamsError, TimeoutError):
    """What was asked for did not happen within the time that was given for it."""


class BufferFullError(StreamsError):
    """A suppress buffer is full and was told to shut down."""


class BrokerError(StreamsError):
    """The brokers cannot be reached, or refuse what was asked."""


class BrokerAccessError(BrokerError):
    """The brokers do not let the application in: wrong credentials or certificates, or rights it does not have."""
