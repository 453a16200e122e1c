"""Which log a position belongs to, and whether the log still has it."""

from __future__ import annotations

from typing import NamedTuple


class LogBounds(NamedTuple):
    """The log of a partition: its first offset, the one after its last, and the first that an open transaction hides.

    `topic_id` tells one log from another of the same name; 0 where the brokers have none.

    >>> log = LogBounds(start=5, end=9, stable_end=7, topic_id=4711)
    >>> log.misfit(9), log.misfit(12)
    (None, 'it lies beyond the end of the log, which is 9: the topic was made anew, or a broker has lost records')
    >>> log.misfit(7, topic_id=12)
    'it was noted for another topic of the same name, which was deleted since'
    """

    start: int
    end: int
    stable_end: int
    topic_id: int = 0

    def misfit(self, position: int, topic_id: int = 0) -> str | None:
        """Why a position that was noted earlier, for the log of that id, is not one of this log; None where it is.

        The beginning, 0, is one of every log.
        """
        if topic_id and self.topic_id and topic_id != self.topic_id:
            return "it was noted for another topic of the same name, which was deleted since"
        if position > self.end:
            return (
                f"it lies beyond the end of the log, which is {self.end}: the topic was made anew, or a broker has lost records"
            )
        if 0 < position < self.start:
            return f"it lies before the start of the log, which is {self.start}: retention has deleted what comes next"
        return None
