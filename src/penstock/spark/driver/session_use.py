"""The Spark session of an application, and who ends it.

| the application finds | it uses | when it closes, the session |
|---|---|---|
| a session passed by the user | that one, unchanged | stays open |
| an active session of the user in this process | that one, unchanged | stays open |
| a session made for another application | that one, unchanged | stays open for the other, and ends with the last of them |
| none | a new one, with the settings of its config | ends with it, or with the last application that shares it |

If a session made here ends by itself, usually because its JVM has died, the first application that notices makes a new one,
and the others share it. A user's session is not made again, nor one that was stopped.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyspark
from pyspark import SparkContext
from pyspark.sql import SparkSession, is_remote

from penstock.spark.driver.archive_maker import ArchiveMaker, may_be_made
from penstock.spark.driver.core_sharing import POOL
from penstock.spark.driver.preflight import Surroundings, check_surroundings
from penstock.spark.driver.session import make_context, planned_settings, session_of
from penstock.spark.internals import active_context, can_start_jvm, forget_lost_jvm, has_ended, running_gateway, was_stopped

_log = logging.getLogger(__name__)

# The application's own settings on any session.
_OURS = frozenset({POOL})


@dataclass
class _Made:
    """A context made here, with its application, settings, threads and number of users."""

    context: SparkContext
    application_id: str
    settings: Mapping[str, str]
    threads: int
    users: int = 0
    archive: ArchiveMaker | None = None


_lock = threading.Lock()
_made: _Made | None = None


class SessionUse:
    """The Spark context of an application for its life. `made` is set if it was made here.

    Threads need only the context. The session is made when tables are requested, because that takes as long as the context.
    """

    def __init__(self, context: SparkContext, session: SparkSession | None = None, made: _Made | None = None) -> None:
        self.context = context
        self._session = session
        self._made = made

    @property
    def session(self) -> SparkSession:
        """The given or found session, or one on the context that was made here."""
        return session_of(self.context) if self._session is None else self._session

    @property
    def is_renewable(self) -> bool:
        """True if the context was made here and was not stopped."""
        return self._made is not None and not was_stopped(self.context)

    def renew(self) -> bool:
        """Replace a context that was made here and has ended by itself, with the same settings.

        Returns False if it is the user's, was stopped, or no JVM can be started. If the new one cannot be made now, Spark's
        error is raised, and the call may be repeated.
        """
        with _lock:
            made = self._made
            if made is None or not self.is_renewable:
                return False
            if has_ended(self.context):
                forget_lost_jvm()
                if running_gateway() is None and not can_start_jvm():
                    return False
                self.context, self._session, self._made = _take(made.application_id, made.settings, None, made.threads)
            return True

    def archive_classes(self) -> None:
        """Archive Spark's classes in the background for a faster next start, if the context was made here."""
        with _lock:
            made = self._made
            if made is not None and made.archive is None and may_be_made(dict(self.context.getConf().getAll())):
                made.archive = ArchiveMaker()
                made.archive.start()

    def release(self) -> None:
        """Release the session. A second call does nothing."""
        with _lock:
            made, self._made = self._made, None
            if made is not None:
                _leave(made)


def check_session(settings: Mapping[str, str], given: Any = None) -> None:
    """Check Spark's settings before the start. Raises ConfigError for settings that cannot work, logs a warning for bad ones."""
    for warning in check_surroundings(_surroundings(settings, given)):
        _log.warning("%s", warning)


def take_session(
    application_id: str, settings: Mapping[str, str], given: SparkSession | None = None, threads: int = 0
) -> SessionUse:
    """Return the session for an application with these `spark.*` keys and so many stream threads.

    An existing session is not changed.
    """
    with _lock:
        return SessionUse(*_take(application_id, settings, given, threads))


def _take(
    application_id: str, settings: Mapping[str, str], given: SparkSession | None, threads: int
) -> tuple[SparkContext, SparkSession | None, _Made | None]:
    global _made
    if _made is not None and has_ended(_made.context):
        _made = None
    found = given
    if found is None and _made is None:
        found = active_session()
    if found is not None:
        context = found.sparkContext
        _warn_without_effect(context, settings)
    elif _made is not None:
        context = _made.context
        _warn_without_effect(context, settings)
    else:
        context = make_context(application_id, {key: value for key, value in settings.items() if key not in _OURS}, threads)
        _made = _Made(context, application_id, dict(settings), threads)
    if _made is None or context is not _made.context:
        return context, found, None
    _made.users += 1
    return context, found, _made


def _leave(made: _Made) -> None:
    global _made
    if _made is not made:
        return  # it ended under the application, and another may exist now
    made.users -= 1
    if made.users == 0:
        _made = None
        if made.archive is not None:
            made.archive.stop()
        if not (has_ended(made.context) and forget_lost_jvm()):
            made.context.stop()


def active_session() -> SparkSession | None:
    """Return the process's session, or None. Its settings are not changed."""
    context = _active_context()
    return None if context is None else session_of(context)


def _active_context() -> SparkContext | None:
    forget_lost_jvm()  # otherwise Spark's settings would be read from the lost JVM
    context = active_context()
    return None if has_ended(context) else context


def _surroundings(settings: Mapping[str, str], given: Any) -> Surroundings:
    if given is not None and not isinstance(given, SparkSession):
        return Surroundings({}, pyspark.__version__, session_class=f"{type(given).__module__}.{type(given).__qualname__}")
    remote = is_remote() or "SPARK_REMOTE" in os.environ or os.environ.get("SPARK_API_MODE", "").lower() == "connect"
    if given is None and remote:
        return Surroundings({}, pyspark.__version__, is_remote=True)
    context = _active_context() if given is None else given.sparkContext
    own = {key: value for key, value in settings.items() if key in _OURS}
    if context is None:
        return Surroundings({**planned_settings(settings), **own}, pyspark.__version__)
    if has_ended(context):
        return Surroundings({}, pyspark.__version__, is_stopped=True)
    return Surroundings({**dict(context.getConf().getAll()), **own}, pyspark.__version__, context.version)


def _warn_without_effect(context: SparkContext, settings: Mapping[str, str]) -> None:
    there = dict(context.getConf().getAll())
    without = sorted(key for key, value in settings.items() if key not in _OURS and there.get(key) != str(value))
    if without:
        _log.warning(
            "The application runs on an existing session, unchanged: %s of its config %s no effect. Set %s when the "
            "session is made",
            *(", ".join(without), *(("has", "it") if len(without) == 1 else ("have", "them"))),
        )
