"""Guards calls of the user's listeners: state changes, restores and standby updates.

The client calls listeners on its own threads, in the middle of its own work. An exception in a listener is therefore passed
to the uncaught exception handler and does not reach the caller.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock.errors import StreamsError
from penstock.ids import TaskId


class Callbacks:
    """Calls callbacks of the user, on any thread.

    >>> def listener(new, old):
    ...     raise ConnectionError("the service is away")
    >>> failures = []
    >>> Callbacks(failures.append).call("the state listener", listener, "RUNNING", "REBALANCING")
    >>> failures
    [StreamsError("the state listener failed: ConnectionError('the service is away')")]
    >>> failures[0].__cause__
    ConnectionError('the service is away')
    """

    def __init__(self, on_failure: Callable[[StreamsError], None]) -> None:
        self._on_failure = on_failure

    def call(self, what: str, callback: Callable[..., object], *arguments: Any, task: TaskId | None = None) -> None:
        """Call a callback. An exception goes to `on_failure` as the cause of a StreamsError with the task.

        KeyboardInterrupt is raised to the caller.
        """
        try:
            callback(*arguments)
        except KeyboardInterrupt:
            raise
        except BaseException as exc:  # noqa: BLE001 - SystemExit would end the client's thread silently
            # Always a StreamsError: an error class that the client retries would hide the listener's failure.
            error = StreamsError(f"{what} failed: {_described(exc)}")
            error.task_id = task
            error.__cause__ = exc
            self._on_failure(error)


def _described(error: BaseException) -> str:
    try:
        return repr(error)
    except Exception:  # noqa: BLE001 - a user's exception whose repr fails
        return type(error).__name__
