"""Which changes of a store are read: those whose records have a time in a range, as the options `from` and `to` give it."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

CHANGES: Final = "changes"
MAX_TIME: Final = 2**63 - 1

COLUMNS: Final = (("timestamp", "bigint"), ("deleted", "boolean"), ("partition", "int"), ("offset", "bigint"))
"""What each change has behind the columns of its key and value."""


@dataclass(frozen=True)
class ChangeRead:
    """Changes from one time on, up to another one; in milliseconds, the second is not included."""

    start: int = 0
    end: int = MAX_TIME

    @classmethod
    def of(cls, options: Mapping[str, str]) -> ChangeRead | None:
        """What the options of a table ask for; None if they ask for no changes. ValueError says what is wrong."""
        text = options.get(CHANGES, "false").strip().lower()
        if text not in ("true", "false"):
            raise ValueError(f"{CHANGES}={text[:50]!r} is neither true nor false")
        if text == "false":
            return None
        found = cls(_time(options, "from", 0), _time(options, "to", MAX_TIME))
        if found.start > found.end:
            raise ValueError(f"from={options.get('from')!r} is later than to={options.get('to')!r}")
        return found


def _time(options: Mapping[str, str], name: str, default: int) -> int:
    text = str(options.get(name) or "").strip()
    return time_of(text, name) if text else default


def time_of(text: str, name: str) -> int:
    """A time in milliseconds: digits are milliseconds since the epoch, all else is ISO 8601, in UTC if it names no zone.

    >>> time_of("1700000000000", "from"), time_of("2023-11-14T22:13:20Z", "from")
    (1700000000000, 1700000000000)
    """
    if text.isascii() and text.isdigit() and len(text) <= 18:
        return int(text)
    try:
        found = datetime.datetime.fromisoformat(text[:-1] + "+00:00" if text.endswith("Z") else text)
    except ValueError:
        raise ValueError(
            f"{name}={text[:50]!r} is no time: give milliseconds since the epoch, or ISO 8601 as in 2026-01-31T12:00:00Z"
        ) from None
    return max(0, round((found if found.tzinfo else found.replace(tzinfo=datetime.timezone.utc)).timestamp() * 1000))


def change_columns(columns: tuple[tuple[str, str], ...]) -> tuple[tuple[str, str], ...]:
    """The columns of the changes of a store, from those of its table."""
    return (*(column for column in columns if column[0] != "timestamp"), *COLUMNS)
