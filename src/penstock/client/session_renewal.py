"""Replaces a session that has ended, usually because its JVM has died."""

from __future__ import annotations

import logging

from penstock.client.client_life import ClientLife, ClosedWhileStartingError
from penstock.clock import monotonic
from penstock.spark.driver.placement import SessionStoppedError
from penstock.spark.driver.session_use import SessionUse
from penstock.spark.driver.spark_threads import SparkThreads

_log = logging.getLogger(__name__)

_FIRST, _LONGEST = 0.2, 5.0


def renew_session(use: SessionUse, spark_threads: SparkThreads, patience: float, life: ClientLife) -> bool:
    """Make a new session with new threads. Retried for `patience` seconds.

    Returns False if the session must not be replaced, or the application is ending. Raises SessionStoppedError if no session
    could be made in time.
    """
    started, pause = monotonic(), _FIRST
    while True:
        try:
            if not use.renew():
                return False
            spark_threads.renew(use.context, life.refuse_if_closing)
        except ClosedWhileStartingError:
            return False
        except Exception as exc:  # Spark and py4j have many of their own, and a JVM may die again
            reason = str(exc).partition("\n")[0] or repr(exc)
            if monotonic() - started + pause > patience:
                raise SessionStoppedError(
                    f"Spark's session has ended, and making a new one failed for {patience:.0f} s (task.timeout.ms): "
                    f"{reason}. Find out what ended Spark's JVM, such as a lack of memory, and start the application again"
                ) from exc
            _log.warning("Making a new session failed. Trying again in %.1f s: %s", pause, reason)
            if not life.wait_running(pause):
                return False
            pause = min(_LONGEST, 2 * pause)
        else:
            _log.info("A new Spark session was made after %.1f s. All tasks open again", monotonic() - started)
            return True
