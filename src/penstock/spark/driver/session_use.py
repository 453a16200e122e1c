"""Whose session an application runs on, and who ends it.

| the application finds | it takes | at its end the session |
|---|---|---|
| a session that it was given | that one, as it is | goes on |
| a session of the user's in this process | that one, as it is | goes on |
| a session that another application has had made | that one, as it is | goes on with the other, and ends with the last of them |
| none | a new one, with the settings of its config | ends with it, or with the last that has joined it |

A session that was made here and has ended by itself, mostly because its JVM has died, is made anew by the first application that
notices, and the others join it. One of the user's is the user's to make again; one that somebody has stopped was meant to end.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyspark
from pyspark.sql import SparkSession, is_remote

from penstock.spark.driver.core_sharing import POOL
from penstock.spark.driver.preflight import Surroundings, check_surroundings
from penstock.spark.driver.session import make_session, planned_settings
from penstock.spark.internals import active_context, can_start_jvm, forget_lost_jvm, has_ended, running_gateway, was_stopped

_log = logging.getLogger(__name__)

# The application's own business on any session.
_OURS = frozenset({POOL})


@dataclass
class _Made:
    """A session that was made here: what for, with which settings, and how many applications use it."""

    session: SparkSession
    application_id: str
    settings: Mapping[str, str]
    users: int = 0


_lock = threading.Lock()
_made: _Made | None = None


class SessionUse:
    """A session as long as an application needs it; `made` where it was made here."""

    def __init__(self, session: SparkSession, made: _Made | None = None) -> None:
        self.session = session
        self._made = made

    @property
    def is_renewable(self) -> bool:
        """Whether the session was made here, for this application or for one it shares it with, and nobody has stopped it."""
        return self._made is not None and not was_stopped(self.session.sparkContext)

    def renew(self) -> bool:
        """Take another session in the place of one that was made here and has ended by itself, with the same settings.

        False where the session was the user's, somebody has stopped it, or no JVM can be started for another: it stays as it is.
        Where the new one cannot be made now, what Spark says is raised, and it may be tried again.
        """
        with _lock:
            made = self._made
            if made is None or not self.is_renewable:
                return False
            if has_ended(self.session.sparkContext):
                forget_lost_jvm()
                if running_gateway() is None and not can_start_jvm():
                    return False
                self.session, self._made = _take(made.application_id, made.settings)
            return True

    def release(self) -> None:
        """The application needs it no more; twice is fine."""
        with _lock:
            made, self._made = self._made, None
            if made is not None:
                _leave(made)


def check_session(settings: Mapping[str, str], given: Any = None) -> None:
    """Say what does not work with penstock, before anything is started or made: ConfigError; what is unwise is a warning."""
    for warning in check_surroundings(_surroundings(settings, given)):
        _log.warning("%s", warning)


def take_session(application_id: str, settings: Mapping[str, str], given: SparkSession | None = None) -> SessionUse:
    """The session for an application with these `spark.*` keys; one that is there already is not changed."""
    with _lock:
        return SessionUse(*_take(application_id, settings, given))


def _take(
    application_id: str, settings: Mapping[str, str], given: SparkSession | None = None
) -> tuple[SparkSession, _Made | None]:
    global _made
    if _made is not None and has_ended(_made.session.sparkContext):
        _made = None
    found = given if given is not None else active_session()
    if found is None:
        wanted = {key: value for key, value in settings.items() if key not in _OURS}
        found = make_session(application_id, wanted)
        _made = _Made(found, application_id, dict(settings))
    else:
        _tell_without_effect(found, settings)
    if _made is None or found.sparkContext is not _made.session.sparkContext:
        return found, None
    _made.users += 1
    return found, _made


def _leave(made: _Made) -> None:
    global _made
    if _made is not made:
        return  # it has ended under the application, and another may have been made since
    made.users -= 1
    if made.users == 0:
        _made = None
        if not (has_ended(made.session.sparkContext) and forget_lost_jvm()):
            made.session.stop()


def active_session() -> SparkSession | None:
    """The session there is in this process; None where there is none. Nothing is set in it."""
    forget_lost_jvm()  # or Spark's settings would be looked for there
    if has_ended(active_context()):
        return None
    return SparkSession.getActiveSession() or SparkSession.builder.getOrCreate()


def _surroundings(settings: Mapping[str, str], given: Any) -> Surroundings:
    if given is not None and not isinstance(given, SparkSession):
        return Surroundings({}, pyspark.__version__, session_class=f"{type(given).__module__}.{type(given).__qualname__}")
    remote = is_remote() or "SPARK_REMOTE" in os.environ or os.environ.get("SPARK_API_MODE", "").lower() == "connect"
    if given is None and remote:
        return Surroundings({}, pyspark.__version__, is_remote=True)
    session = given if given is not None else active_session()
    own = {key: value for key, value in settings.items() if key in _OURS}
    if session is None:
        return Surroundings({**planned_settings(settings), **own}, pyspark.__version__)
    if has_ended(session.sparkContext):
        return Surroundings({}, pyspark.__version__, is_stopped=True)
    there = dict(session.sparkContext.getConf().getAll())
    return Surroundings({**there, **own}, pyspark.__version__, session.version)


def _tell_without_effect(session: SparkSession, settings: Mapping[str, str]) -> None:
    there = dict(session.sparkContext.getConf().getAll())
    without = sorted(key for key, value in settings.items() if key not in _OURS and there.get(key) != str(value))
    if without:
        _log.warning(
            "the application runs on a session that was there before, as it is: %s of its config %s no effect. Set %s when the "
            "session is made",
            *(", ".join(without), *(("has", "it") if len(without) == 1 else ("have", "them"))),
        )
