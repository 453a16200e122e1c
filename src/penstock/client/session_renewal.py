"""Going on on a new session after the end of the one that was made for the application, mostly because its JVM has died."""

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
    """Have a new session, and a spark_threads with nothing open on it; tried again and again for `patience` seconds.

    False where the session is not to be made again, or the application is about to end.
    SessionStoppedError where no session could be made in all that time.
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
                    f"Spark's session has ended, and none could be made in its place for {patience:.0f} s (task.timeout.ms): "
                    f"{reason}. See what has ended Spark's JVM, such as the lack of memory, and start the application anew"
                ) from exc
            _log.warning("no session can be made now, which is tried again in %.1f s: %s", pause, reason)
            if not life.wait_running(pause):
                return False
            pause = min(_LONGEST, 2 * pause)
        else:
            _log.info("a new session of Spark was there after %.1f s: everything is opened anew", monotonic() - started)
            return True
