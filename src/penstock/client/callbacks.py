"""Guards the callbacks that a user gives to the client: listeners of states, of restores and of standby updates.

The client calls them on its own threads, in the middle of its own bookkeeping. So nothing that they raise leaves the guard: it is
handed to the client, which asks the uncaught exception handler.
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
        """Call a callback; hand what it raises to `on_failure`, as the cause of a StreamsError that names the task.

        KeyboardInterrupt is not the callback's: it interrupts the caller.
        """
        try:
            callback(*arguments)
        except KeyboardInterrupt:
            raise
        except BaseException as exc:  # noqa: BLE001 - SystemExit would end the client's thread without a trace
            # A StreamsError, whatever it was: one of the errors that the client tries again would hide the callback's failure.
            error = StreamsError(f"{what} failed: {_described(exc)}")
            error.task_id = task
            error.__cause__ = exc
            self._on_failure(error)


def _described(error: BaseException) -> str:
    try:
        return repr(error)
    except Exception:  # noqa: BLE001 - the user's exception, which cannot even be shown
        return type(error).__name__
