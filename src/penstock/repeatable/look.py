"""Looks into a function, and into what it calls, until something is met that may differ when it is run again."""

from __future__ import annotations

import logging
from typing import Any

from penstock.repeatable.calls import SET_ORDER, Finding, Look, Met
from penstock.repeatable.chance import Cause, Kind
from penstock.repeatable.scope import follow
from penstock.repeatable.values import Known, is_unordered

_log = logging.getLogger(__name__)


def first_finding(function: Any, returns_records: bool = False, package: str | None = None) -> Finding | None:
    """The first thing in a function of the user's that may differ when it is run again; None where nothing was seen.

    `returns_records` says that what it returns becomes records, so that it must not be a set. `package` is the user's own, where
    the application was installed itself.

    >>> import random
    >>> first_finding(lambda key, value: (random.random(), value)).what
    'uses random.random, which is chance'
    >>> first_finding(lambda key, value: value.split()) is None
    True
    """
    look = Look(function, follow, package)
    try:
        returned = look.call(look.use(Known(function)), [], {})
        if returns_records and is_unordered(returned):
            return look.finding(Cause(Kind.ORDER, f"returns elements {SET_ORDER}"))
    except Met as met:
        return look.finding(met.cause)
    except Exception as exc:  # noqa: BLE001 - whatever is in the user's code, it is not run here: the application must start
        _log.warning("%r could not be looked into, and counts as not repeatable: %r", function, exc)
        return look.finding(Cause(Kind.CHANCE, f"could not be looked into: {exc!r}"))
    return None
