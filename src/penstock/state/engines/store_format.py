"""The format of a store on disk: what its RocksDB says it holds, and what a store of another format may do with that."""

from __future__ import annotations

import re
from enum import Enum
from typing import Final, NamedTuple

from penstock.state.value_formats import AGGREGATE_WITH_HEADERS, PLAIN, TIMESTAMPED, WITH_HEADERS, ValueFormat

_TEXT: Final = re.compile(r"1 (timestamped-)?([a-z-]{1,40}?)(-with-headers)?(?: interval=(\d{1,19}))?( duplicates)?")

# Layouts whose changelogs are alike: the store of one can be restored from the changelog of another.
_ALIKE: Final = (
    frozenset({"key-value", "versioned"}),
    frozenset({"window", "time-ordered-window", "time-ordered-indexed-window"}),
    frozenset({"session", "time-ordered-session", "time-ordered-indexed-session"}),
    frozenset({"time-ordered-buffer"}),
)


# The state of a format of a lower rank can be converted to one of a higher rank.
_RANKS: Final = {PLAIN: 0, TIMESTAMPED: 1, WITH_HEADERS: 2, AGGREGATE_WITH_HEADERS: 2}


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

    >>> StoreFormat("window", TIMESTAMPED, segment_interval=60_000).text
    '1 timestamped-window interval=60000'
    """

    layout: str
    values: ValueFormat = PLAIN
    segment_interval: int | None = None
    """None for stores without segments, and for segments whose interval was not saved."""
    duplicates: bool = False

    @property
    def text(self) -> str:
        """The format as it is saved."""
        # Only windows with headers are saved as timestamped as well.
        is_timestamped = self.values is TIMESTAMPED or (self.values is WITH_HEADERS and self.layout == "window")
        return (
            f"1 {'timestamped-' if is_timestamped else ''}{self.layout}{'-with-headers' if self.values.keeps_headers else ''}"
            + ("" if self.segment_interval is None else f" interval={self.segment_interval}")
            + (" duplicates" if self.duplicates else "")
        )

    @classmethod
    def parse(cls, saved: bytes) -> StoreFormat | None:
        """The format of a saved text; None if this version does not know it."""
        found = _TEXT.fullmatch(saved.decode("ascii", "replace"))
        if found is None or not any(found[2] in alike for alike in _ALIKE):
            return None
        layout = found[2]
        with_headers = AGGREGATE_WITH_HEADERS if layout == "session" else WITH_HEADERS
        values = with_headers if found[3] else TIMESTAMPED if found[1] else PLAIN
        return cls(layout, values, None if found[4] is None else int(found[4]), bool(found[5]))

    def with_values_of(self, other: StoreFormat) -> StoreFormat:
        """This format with the values of another."""
        return self._replace(values=other.values)

    def change_to(self, wanted: StoreFormat) -> Change:
        """What it takes to open state of this format as a store of another.

        A change of the segment interval moves entries, except versioned ones: a row of theirs holds the versions of a segment.
        """
        if self == wanted:
            return Change.NONE
        if not any({self.layout, wanted.layout} <= alike for alike in _ALIKE) or (self.duplicates and not wanted.duplicates):
            return Change.REFUSE
        if self.layout != wanted.layout or _RANKS[self.values] > _RANKS[wanted.values] or self.layout == "versioned":
            return Change.REBUILD
        return Change.CONVERT
