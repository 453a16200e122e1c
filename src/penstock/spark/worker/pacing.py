"""How many records a batch takes, and when the next batch begins, by what records and commits cost of late.

A batch ends in a commit, which costs the same for one record as for a hundred. Commits that follow each other too closely cost
more than they bring: brokers answer that the last transaction is not over yet. So the pause after a commit is as long as commits
take, at least 40 ms, 20 ms if a batch has 32 records or more, and at most `commit.interval.ms`. A `commit.interval.ms` above half
a second is kept as it is: whoever sets it wants few commits, and one result of each key.

A batch takes as many records as are processed in half a second, and in a second and a half while more wait than it took. In a
backfill it is three seconds: nobody waits for results, and fewer commits write fewer updates of the same key.
"""

from __future__ import annotations

_SHORTEST_PAUSE, _BUSY_PAUSE, _CLOSEST = 0.04, 0.02, 0.01
_MANY = 32
_LONG_INTERVAL = 0.5
# Seconds of processing that a batch should take: while it takes all there is, and while it falls behind.
_SHORT_BATCH, _LONG_BATCH, _BACKFILL_BATCH = 0.5, 1.5, 3.0
# In a backfill records are waited for so long, so that the first small batches do not commit again and again.
_BACKFILL_PAUSE = 0.2
_FIRST_RECORDS, _GROWTH = 1_000, 4
_SHARE = 0.3


class Pacing:
    """Learns from each batch. `commit_seconds` is `commit.interval.ms`; `most` the largest batch that is allowed.

    >>> pacing = Pacing(commit_seconds=0.1, most=500_000)
    >>> pacing.records, pacing.pause
    (1000, 0.04)
    >>> pacing.took(1_000, work=0.01, commit=0.06, waiting=50_000)
    >>> pacing.records, round(pacing.pause, 3)
    (4000, 0.05)
    >>> pacing.took(4_000, work=2.0, commit=0.06, waiting=0)
    >>> pacing.records
    1000
    >>> Pacing(commit_seconds=30.0, most=10).pause
    30.0
    """

    def __init__(self, commit_seconds: float, most: int) -> None:
        self._interval, self._most = commit_seconds, most
        self.records = min(most, _FIRST_RECORDS)
        """The most records that the next batch takes."""
        self._size = self._work = self._commit = 0.0
        self._batches = 0
        self._backfills = False

    def limit(self, commit_seconds: float, most: int, *, backfills: bool = False) -> None:
        """Go on under other limits."""
        self._interval, self._most, self._backfills = commit_seconds, most, backfills
        self.records = min(most, self.records)

    def took(self, records: int, work: float, commit: float, waiting: int) -> None:
        """Learn from a batch: `work` seconds to process it, `commit` seconds to write and commit it; `waiting` is left."""
        share = _SHARE if self._batches else 1.0
        self._batches += 1
        self._size += share * (records - self._size)
        self._work += share * (work - self._work)
        self._commit += share * (commit - self._commit)
        if records:
            seconds = _BACKFILL_BATCH if self._backfills else _LONG_BATCH if waiting > records else _SHORT_BATCH
            fitting = int(seconds * records / max(work, 1e-6))
            self.records = max(1, min(self._most, fitting, max(_FIRST_RECORDS, _GROWTH * records)))

    @property
    def pause(self) -> float:
        """Seconds from the end of a commit to the beginning of the next batch, if all that waits fits into it."""
        if self._interval > _LONG_INTERVAL:
            return self._interval
        if self._backfills:
            return _BACKFILL_PAUSE
        shortest = _SHORTEST_PAUSE if self._size < _MANY else _BUSY_PAUSE
        return max(0.0, min(max(self._interval, _CLOSEST), max(shortest, self._commit)) - self._work)
