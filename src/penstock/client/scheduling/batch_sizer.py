"""How large turns should be."""

from __future__ import annotations

from dataclasses import dataclass, field

from penstock.clock import monotonic

# Up to this many records a turn is small: what it takes is mostly what any turn takes.
_SMALL = 2_000
# Before anything is known of what records cost: few enough for one that takes milliseconds, and soon more.
_FIRST_TURN, _UNKNOWN_TURN, _FEWEST = 10_000, 1_000, 10
# A turn should work for about this long: as long as the backlog takes, within bounds. A turn's fixed cost, and the rows that an
# aggregate writes once a turn, are paid less often when there is much to catch up on.
_SHORTEST, _LONGEST = 0.5, 3.0
_GROWTH = 4
_NOTHING = 1e-9


@dataclass
class BatchSizer:
    """Learns from each turn what a turn costs in any case, and what a record costs beyond that.

    >>> batch_sizer = BatchSizer()
    >>> batch_sizer.max_records(1_000_000, backlog=80_000)
    10000
    >>> batch_sizer.account(10_000, seconds=1.0)  # the first turn also warms up
    >>> batch_sizer.account(20_000, seconds=0.3)
    >>> batch_sizer.max_records(1_000_000, backlog=500_000)  # grows, but not at once
    80000
    >>> batch_sizer.account(80_000, seconds=1.2)
    >>> batch_sizer.account(80_000, seconds=1.1)  # about 10 µs a record: three seconds take 300,000
    >>> round(batch_sizer.max_records(1_000_000, backlog=500_000), -5)
    300000
    >>> round(batch_sizer.max_records(1_000_000, backlog=200_000), -5)
    200000
    >>> batch_sizer.failed(200_000)  # it took longer than its transaction may
    100000
    >>> batch_sizer.max_records(1_000_000, backlog=500_000)
    100000
    """

    fixed_seconds: float | None = None
    record_seconds: float = 0.0
    last_records: int = 0
    small_since: float = field(default_factory=monotonic)
    """Since when there has been little to read."""
    ceiling: int | None = None
    """More than this many records were too many for one turn, as far as is known."""

    def max_records(self, limit: int, backlog: int) -> int:
        """As many records as take about as long as a turn should."""
        limit = limit if self.ceiling is None else min(limit, self.ceiling)
        if self.fixed_seconds is None:
            return min(limit, _FIRST_TURN)
        allowed = max(_UNKNOWN_TURN, _GROWTH * self.last_records)
        if self.record_seconds > _NOTHING:
            # Where any turn takes long, at least as long again goes to the records.
            seconds = min(_LONGEST, max(_SHORTEST, self.fixed_seconds, backlog * self.record_seconds))
            allowed = min(allowed, int(seconds / self.record_seconds))
        return min(limit, max(_FEWEST, allowed))

    def failed(self, records: int) -> int:
        """Learn from a turn that was too long for the brokers, or too much for its worker; returns how many the next may have."""
        self.ceiling = max(1, records // 2)
        return self.ceiling

    def account(self, records: int, seconds: float) -> None:
        """Learn from a turn that had records."""
        if not records:
            return
        if self.ceiling is not None and records >= self.ceiling:
            # Slowly back: each turn that is too long again costs its whole timeout.
            self.ceiling += max(1, self.ceiling // 10)
        self.last_records = max(records, self.last_records // 2)
        # What the shortest turns take is fixed; slowly forgotten, in case the machine gets slower.
        self.fixed_seconds = seconds if self.fixed_seconds is None else min(seconds, self.fixed_seconds * 1.05)
        if records > _SMALL or seconds > _SHORTEST:
            cost = max(0.0, seconds - min(self.fixed_seconds, _SHORTEST)) / records
            self.record_seconds = cost if not self.record_seconds else 0.5 * self.record_seconds + 0.5 * cost
        # Whatever a turn takes in any case, a record costs no more than this: one slow turn does not make all others small.
        self.record_seconds = min(self.record_seconds, seconds / records)

    def polled(self, backlog: int) -> None:
        """So many records were found to be read."""
        if backlog > _SMALL:
            self.small_since = monotonic()

    def next_poll(self, now: float, longest: float) -> float:
        """When to look again where nothing was found: soon after there was much, `longest` seconds later when nothing comes."""
        return now + min(longest, max(0.005, (now - self.small_since) / 20))
