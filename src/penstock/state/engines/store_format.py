"""The format of a store on disk: what its RocksDB says it holds, and what a store of another format may do with that."""

from __future__ import annotations

import re
from collections.abc import Callable
from enum import Enum
from typing import Final, NamedTuple

from penstock.state.aggregation_with_headers import from_plain_aggregation
from penstock.state.value_and_timestamp import UNKNOWN_TIMESTAMP
from penstock.state.value_timestamp_headers import from_plain_value, from_timestamped_value

_TEXT: Final = re.compile(r"1 (timestamped-)?([a-z-]{1,40}?)(-with-headers)?(?: interval=(\d{1,19}))?( duplicates)?")

# Layouts whose changelogs are alike: the store of one can be restored from the changelog of another.
_ALIKE: Final = (
    frozenset({"key-value", "versioned"}),
    frozenset({"window", "time-ordered-window", "time-ordered-indexed-window"}),
    frozenset({"session", "time-ordered-session", "time-ordered-indexed-session"}),
    frozenset({"time-ordered-buffer"}),
)


class Values(Enum):
    """What lies in front of each value; a store of a higher one can take over the values of a lower one."""

    PLAIN = 0
    TIMESTAMPED = 1
    WITH_HEADERS = 2


class Change(Enum):
    """What it takes to open state of one format as a store of another."""

    NONE = "none"
    CONVERT = "convert"
    """The entries on disk are converted."""
    REBUILD = "rebuild"
    """The state is deleted and restored from the changelog; without a changelog it is refused."""
    REFUSE = "refuse"
    """Neither the state nor its changelog is of use."""


class StoreFormat(NamedTuple):
    """How keys and values lie in a store's RocksDB; saved in it as text.

    >>> StoreFormat("window", timestamped=True, segment_interval=60_000).text
    '1 timestamped-window interval=60000'
    """

    layout: str
    timestamped: bool = False
    with_headers: bool = False
    segment_interval: int | None = None
    """None for stores without segments, and for segments whose interval was not saved."""
    duplicates: bool = False

    @property
    def text(self) -> str:
        """The format as it is saved."""
        return (
            f"1 {'timestamped-' if self.timestamped else ''}{self.layout}{'-with-headers' if self.with_headers else ''}"
            + ("" if self.segment_interval is None else f" interval={self.segment_interval}")
            + (" duplicates" if self.duplicates else "")
        )

    @classmethod
    def parse(cls, saved: bytes) -> StoreFormat | None:
        """The format of a saved text; None if this version does not know it."""
        found = _TEXT.fullmatch(saved.decode("ascii", "replace"))
        if found is None or not any(found[2] in alike for alike in _ALIKE):
            return None
        return cls(found[2], bool(found[1]), bool(found[3]), None if found[4] is None else int(found[4]), bool(found[5]))

    @property
    def values(self) -> Values:
        """What lies in front of each value."""
        return Values.WITH_HEADERS if self.with_headers else Values.TIMESTAMPED if self.timestamped else Values.PLAIN

    def with_values_of(self, other: StoreFormat) -> StoreFormat:
        """This format with the values of another."""
        return self._replace(timestamped=other.timestamped, with_headers=other.with_headers)

    def change_to(self, wanted: StoreFormat) -> Change:
        """What it takes to open state of this format as a store of another.

        A change of the segment interval moves entries, except versioned ones: a row of theirs holds the versions of a segment.
        """
        if self == wanted:
            return Change.NONE
        if not any({self.layout, wanted.layout} <= alike for alike in _ALIKE) or (self.duplicates and not wanted.duplicates):
            return Change.REFUSE
        if self.layout != wanted.layout or self.values.value > wanted.values.value or self.layout == "versioned":
            return Change.REBUILD
        return Change.CONVERT

    def value_converter(self, wanted: StoreFormat) -> Callable[[bytes], bytes]:
        """What makes a value of this format one of another: a timestamp that is not known is -1, headers are none."""
        if self.layout == "session":
            return from_plain_aggregation
        if wanted.values is Values.TIMESTAMPED:
            return UNKNOWN_TIMESTAMP.__add__
        return from_plain_value if self.values is Values.PLAIN else from_timestamped_value
