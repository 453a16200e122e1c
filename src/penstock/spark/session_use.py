"""Whose session an application runs on, and who ends it.

| the application finds | it takes | at its end the session |
|---|---|---|
| a session that it was given | that one, as it is | goes on |
| a session of the user's in this process | that one, as it is | goes on |
| a session that another application has had made | that one, as it is | goes on with the other, and ends with the last of them |
| none | a new one, with the settings of its config | ends with it, or with the last that has joined it |
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Mapping
from typing import Any

import pyspark
from pyspark.sql import SparkSession, is_remote

from penstock.spark.internals import active_context, has_ended
from penstock.spark.preflight import Surroundings, check_surroundings
from penstock.spark.scheduling import POOL
from penstock.spark.session import make_session, planned_settings

_log = logging.getLogger(__name__)

# The application's own business on any session.
_OURS = frozenset({POOL})

_lock = threading.Lock()
_made: SparkSession | None = None
_users = 0


class SessionUse:
    """A session as long as an application needs it."""

    def __init__(self, session: SparkSession, on_release: Callable[[], None] = lambda: None) -> None:
        self.session = session
        self._on_release = on_release

    def release(self) -> None:
        """The application needs it no more; twice is fine."""
        on_release, self._on_release = self._on_release, lambda: None
        on_release()


def check_session(settings: Mapping[str, str], given: Any = None) -> None:
    """Say what does not work with penstock, before anything is started or made: ConfigError; what is unwise is a warning."""
    for warning in check_surroundings(_surroundings(settings, given)):
        _log.warning("%s", warning)


def take_session(application_id: str, settings: Mapping[str, str], given: SparkSession | None = None) -> SessionUse:
    """The session for an application with these `spark.*` keys; one that is there already is not changed."""
    global _made, _users
    with _lock:
        if _made is not None and has_ended(_made.sparkContext):
            _made, _users = None, 0
        found = given if given is not None else active_session()
        if found is None:
            found = _made = make_session(application_id, {key: value for key, value in settings.items() if key not in _OURS})
        else:
            _tell_without_effect(found, settings)
        if _made is None or found.sparkContext is not _made.sparkContext:
            return SessionUse(found)
        _users += 1
        return SessionUse(found, lambda made=_made: _release(made))  # type: ignore[misc]


def _release(made: SparkSession) -> None:
    global _made, _users
    with _lock:
        if _made is None or made is not _made:
            return  # it was stopped under the application, and another may have been made since
        _users -= 1
        if _users == 0:
            made.stop()
            _made = None


def active_session() -> SparkSession | None:
    """The session there is in this process; None where there is none. Nothing is set in it."""
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
