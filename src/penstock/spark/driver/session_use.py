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
from pyspark import SparkContext
from pyspark.sql import SparkSession, is_remote

from penstock.spark.driver.archive_maker import ArchiveMaker, may_be_made
from penstock.spark.driver.core_sharing import POOL
from penstock.spark.driver.preflight import Surroundings, check_surroundings
from penstock.spark.driver.session import make_context, planned_settings, session_of
from penstock.spark.internals import active_context, can_start_jvm, forget_lost_jvm, has_ended, running_gateway, was_stopped

_log = logging.getLogger(__name__)

# The application's own business on any session.
_OURS = frozenset({POOL})


@dataclass
class _Made:
    """A context that was made here: what for, with which settings and threads, and how many applications use it."""

    context: SparkContext
    application_id: str
    settings: Mapping[str, str]
    threads: int
    users: int = 0
    archive: ArchiveMaker | None = None


_lock = threading.Lock()
_made: _Made | None = None


class SessionUse:
    """What there is of Spark, for as long as an application needs it; `made` where it was made here.

    Threads need the context only. A session on it is made for who asks for tables: that takes as long as all the rest of Spark.
    """

    def __init__(self, context: SparkContext, session: SparkSession | None = None, made: _Made | None = None) -> None:
        self.context = context
        self._session = session
        self._made = made

    @property
    def session(self) -> SparkSession:
        """The session that was given or found, or one on the context that was made here."""
        return session_of(self.context) if self._session is None else self._session

    @property
    def is_renewable(self) -> bool:
        """Whether the context was made here, for this application or for one it shares it with, and nobody has stopped it."""
        return self._made is not None and not was_stopped(self.context)

    def renew(self) -> bool:
        """Take another context in the place of one that was made here and has ended by itself, with the same settings.

        False where it was the user's, somebody has stopped it, or no JVM can be started for another: it stays as it is. Where the
        new one cannot be made now, what Spark says is raised, and it may be tried again.
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
        """Have the next start take less time: where the context was made here, its classes are archived in the background."""
        with _lock:
            made = self._made
            if made is not None and made.archive is None and may_be_made(dict(self.context.getConf().getAll())):
                made.archive = ArchiveMaker()
                made.archive.start()

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


def take_session(
    application_id: str, settings: Mapping[str, str], given: SparkSession | None = None, threads: int = 0
) -> SessionUse:
    """Return the session for an application with these `spark.*` keys and so many stream threads.

    A session that exists already is not changed.
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
        _tell_without_effect(context, settings)
    elif _made is not None:
        context = _made.context
        _tell_without_effect(context, settings)
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
        return  # it has ended under the application, and another may have been made since
    made.users -= 1
    if made.users == 0:
        _made = None
        if made.archive is not None:
            made.archive.stop()
        if not (has_ended(made.context) and forget_lost_jvm()):
            made.context.stop()


def active_session() -> SparkSession | None:
    """The session there is in this process; None where there is none. Nothing is set in it."""
    context = _active_context()
    return None if context is None else session_of(context)


def _active_context() -> SparkContext | None:
    forget_lost_jvm()  # or Spark's settings would be looked for there
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


def _tell_without_effect(context: SparkContext, settings: Mapping[str, str]) -> None:
    there = dict(context.getConf().getAll())
    without = sorted(key for key, value in settings.items() if key not in _OURS and there.get(key) != str(value))
    if without:
        _log.warning(
            "the application runs on a session that was there before, as it is: %s of its config %s no effect. Set %s when the "
            "session is made",
            *(", ".join(without), *(("has", "it") if len(without) == 1 else ("have", "them"))),
        )
