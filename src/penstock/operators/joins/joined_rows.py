"""A stream-stream join of batches: the rows of both sides at once.

One side after the other would not do: a record meets what the other side has kept before it, and nothing later. So both sides
first run up to their windows, and here their rows are joined in the order in which their records came.

1. Read from both stores what the rows of the other side may meet: one pass each, over all their keys.
2. Go through the rows in order: each finds its partners, and is found by those that follow.
3. Put the rows of each side into its store and changelog, and call the joiner for the pairs.

That is all of an inner join. In a left or outer one records may have to wait (`waiting_rows.py`).
"""

from __future__ import annotations

from bisect import insort_right
from collections.abc import Sequence
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from penstock.batches.record_batch import RawBatch, RecordBatch, TwoOrigins
from penstock.operators.context import OperatorContext
from penstock.record import Headers
from penstock.state.layers.metered_window import MeteredWindowStore
from penstock.state.layers.wrapped_window import Entry

if TYPE_CHECKING:
    import numpy.typing as npt

    Numbers = npt.NDArray[np.int64]
    Flags = npt.NDArray[np.bool_]

_place = _time = itemgetter(0)

_Match = tuple[int, bytes, int]
"""The place of the later row in the common order, the bytes of its partner, the time of the partner."""


class Side(NamedTuple):
    """One side of a join: the rows that came to its window with their places in the common order, its store, its processor."""

    batch: RecordBatch
    places: list[int]
    store: MeteredWindowStore[Any, Any]
    processor: Any
    node: Any


class Rows:
    """The rows of one side that have a key, and are kept; those without a value meet nobody."""

    def __init__(self, side: Side) -> None:
        self.all, self.all_places, self.store, self.processor, self.node = side
        self.with_key: Sequence[int] = range(len(self.all))
        """Which of all rows these are."""
        self.batch, self.places = self.all, self.all_places
        if None in self.all.keys:
            self.with_key = [row for row, key in enumerate(self.all.keys) if key is not None]
            self.batch, self.places = self.all.take(self.with_key), [self.all_places[row] for row in self.with_key]
        self.keys = self.store.raw_keys(self.batch.keys)
        self.raw_values: list[bytes | None] = self.store.raw_values(self.batch.values)

    def drop_incomplete(self, context: OperatorContext) -> None:
        """Tell of the rows that an inner join leaves out."""
        if None in self.all.keys or None in self.all.values:
            without = [row for row, both in enumerate(zip(self.all.keys, self.all.values)) if None in both]
            with context.at(self.node, None):
                context.rows_dropped(self.all, without, "null key or value")

    def __len__(self) -> int:
        return len(self.keys)

    def entries_for(self, others: Rows) -> dict[bytes, list[Entry]]:
        """What the store has that rows of the other side may meet."""
        if not len(others):
            return {}
        times, seeker = others.batch.timestamps, others.processor
        return self.store.fetch_duplicates(
            set(others.keys), max(0, min(times) - seeker.before_ms), max(0, max(times) + seeker.after_ms)
        )

    def keep(self) -> None:
        """Put all rows into the store."""
        batch = self.batch
        self.store.put_duplicates(self.keys, self.raw_values, batch.timestamps, batch.headers)


class Matches(NamedTuple):
    """Pairs in the order in which they are found: the row of the later record, the bytes and the time of the earlier one."""

    rows: list[int]
    partners: list[bytes]
    times: list[int]


def join_batches(left: Side, right: Side, context: OperatorContext) -> RecordBatch:
    """Join and keep the rows of both sides of an inner join; returns the joined rows."""
    sides = Rows(left), Rows(right)
    for side in sides:
        side.drop_incomplete(context)
    matches = match_rows(*sides)
    for side in sides:
        side.keep()
    return _joined(sides, matches, context)


class _Arrivals:
    """The rows of both sides in their common order, and what stream time makes of each: arithmetic on their times.

    `rows` numbers the rows of the right side behind those of the left. A row meets partners from `earliest` to `latest`; one that
    is not `kept` is too old for its store, and matched by no row.
    """

    def __init__(self, left: Rows, right: Rows) -> None:
        self.rows = np.argsort(np.concatenate((left.places, right.places)), kind="stable")
        self.keys = left.keys + right.keys
        self.raw_values = left.raw_values + right.raw_values
        self.times = left.batch.timestamps + right.batch.timestamps
        self.in_order = times = np.array(self.times, np.int64)[self.rows]
        self.is_right = self.rows >= len(left)
        self.meets = _are_there([*left.batch.values, *right.batch.values])[self.rows]
        self.kept = _are_there(self.raw_values)[self.rows]
        self.earliest, self.latest = np.empty_like(times), np.empty_like(times)
        for mine, other, of_mine in ((left, right, ~self.is_right), (right, left, self.is_right)):
            reach = other.store.oldest(0) + self._stream_times(other, times, ~of_mine)
            own = mine.processor
            self.earliest[of_mine] = np.maximum(np.maximum(0, times - own.before_ms), reach)[of_mine]
            self.latest[of_mine] = np.maximum(0, times + own.after_ms)[of_mine]
            stream_times = self._stream_times(mine, times, of_mine)
            for place in np.flatnonzero(of_mine & self.kept & (times < stream_times)).tolist():
                self.kept[place] = mine.store.is_kept(int(times[place]), int(stream_times[place]))

    def _stream_times(self, side: Rows, times: Numbers, of_side: Flags) -> Numbers:
        """How far stream time of a side has come when each row has been put."""
        moves = of_side if side.store.observes_deletions else of_side & self.kept
        put = np.where(moves, times, side.store.observed_stream_time)
        return np.maximum.accumulate(np.maximum(put, side.store.observed_stream_time))


def match_rows(left: Rows, right: Rows) -> Matches:
    """Who meets whom: each row the partners that came before it."""
    arrivals = _Arrivals(left, right)
    stored = left.entries_for(right), right.entries_for(left)
    numbers = {key: number for number, key in enumerate(dict.fromkeys(arrivals.keys))}
    key_numbers = np.fromiter(map(numbers.__getitem__, arrivals.keys), np.int64, len(arrivals.keys))[arrivals.rows]
    counts = np.bincount(key_numbers, minlength=len(numbers))
    from_right = np.bincount(key_numbers[arrivals.is_right], minlength=len(numbers))
    is_pair = (counts == 2) & (from_right == 1)
    has_stored = np.zeros(len(numbers), bool)
    has_stored[[numbers[key] for entries in stored for key in entries]] = True
    matches = _match_once(arrivals, key_numbers, is_pair & ~has_stored)
    others = has_stored | ((counts > 1) & (from_right > 0) & (from_right < counts) & ~is_pair)
    if others.any():
        matches += _match_many(arrivals, np.flatnonzero(others[key_numbers]), stored)
        matches.sort(key=_place)  # stable: the partners of one row stay in their order
    rows = arrivals.rows.tolist()
    return Matches(
        [rows[place] for place, _, _ in matches], [partner for _, partner, _ in matches], [time for _, _, time in matches]
    )


def _match_once(arrivals: _Arrivals, key_numbers: Numbers, is_pair: Flags) -> list[_Match]:
    """The meetings of keys that come once on either side, and are in no store."""
    places = np.flatnonzero(is_pair[key_numbers])
    places = places[np.argsort(key_numbers[places], kind="stable")]
    first, second = places[::2], places[1::2]
    times = arrivals.in_order
    meets = arrivals.kept[first] & arrivals.meets[second]
    meets &= (arrivals.earliest[second] <= times[first]) & (times[first] <= arrivals.latest[second])
    first, second = first[meets], second[meets]
    in_order = np.argsort(second)
    first, second = first[in_order], second[in_order]
    partners: list[Any] = [arrivals.raw_values[row] for row in arrivals.rows[first].tolist()]
    return list(zip(second.tolist(), partners, times[first].tolist()))


def _match_many(
    arrivals: _Arrivals, places: Numbers, stored: tuple[dict[bytes, list[Entry]], dict[bytes, list[Entry]]]
) -> list[_Match]:
    """The same for all others, row by row: each finds its partners, then it can be found by the other side."""
    matches: list[_Match] = []
    fields = (arrivals.rows, arrivals.is_right, arrivals.meets, arrivals.kept, arrivals.earliest, arrivals.latest)
    batch = (field[places].tolist() for field in fields)
    for place, row, is_right, meets, kept, earliest, latest in zip(places.tolist(), *batch):
        key, time = arrivals.keys[row], arrivals.times[row]
        if meets:
            for at, raw in stored[not is_right].get(key, ()):
                if earliest <= at <= latest:
                    matches.append((place, raw, at))
        if kept:
            entries: list[Any] = stored[is_right].setdefault(key, [])
            if entries and entries[-1][0] > time:
                insort_right(entries, (time, arrivals.raw_values[row]), key=_time)
            else:
                entries.append((time, arrivals.raw_values[row]))
    return matches


def _are_there(values: Sequence[Any]) -> Flags:
    if None not in values:
        return np.ones(len(values), bool)
    return np.fromiter((value is not None for value in values), bool, len(values))


def _joined(sides: tuple[Rows, Rows], matches: Matches, context: OperatorContext) -> RecordBatch:
    left, right = sides
    first = len(left)
    others = partners_of(sides, matches)
    keys = [*left.batch.keys, *right.batch.keys]
    values = [*left.batch.values, *right.batch.values]
    times = [*left.batch.timestamps, *right.batch.timestamps]
    joiners = left.processor.joiner, right.processor.joiner
    results: list[Any] = []
    rows: list[int] = []
    result_times: list[int] = []
    failed = -1
    for row, other, other_time in zip(matches.rows, others, matches.times):
        if row == failed:
            continue
        is_right = row >= first
        try:
            results.append(joiners[is_right](keys[row], values[row], other))
        except Exception as exc:  # noqa: BLE001  (the handler judges whatever a user's function raises)
            failed, side = row, sides[is_right]
            context.row_failed(side.batch, row - first if is_right else row, exc, side.node)
            continue
        rows.append(row)
        result_times.append(max(times[row], other_time))
    return results_of(left.batch, right.batch, rows, [keys[row] for row in rows], results, result_times)


def results_of(
    left: RecordBatch, right: RecordBatch, rows: Sequence[int], keys: list[Any], values: list[Any], timestamps: list[int]
) -> RecordBatch:
    """Joined rows, each made of a row of either side: those of the right are numbered behind those of the left."""
    left_origin, right_origin = left.origin, right.origin
    assert isinstance(left_origin, RawBatch)
    assert isinstance(right_origin, RawBatch)
    headers = _headers(left, right)
    sources = [*_sources(left), *(len(left_origin) + source for source in _sources(right))]
    return RecordBatch(
        keys,
        values,
        timestamps,
        None if headers is None else [headers[row] for row in rows],
        TwoOrigins(left_origin, right_origin),
        [sources[row] for row in rows],
    )


def partners_of(sides: tuple[Rows, Rows], matches: Matches) -> list[Any]:
    """The values of the earlier records, each by the serde of the store it was found in."""
    first = len(sides[0])
    found: list[Any] = [None] * len(matches.rows)
    for is_right, store in ((False, sides[1].store), (True, sides[0].store)):
        at = [number for number, row in enumerate(matches.rows) if (row >= first) is is_right]
        for number, value in zip(at, store.values_from([matches.partners[number] for number in at])):
            found[number] = value
    return found


def _sources(batch: RecordBatch) -> Sequence[int]:
    """The row of the input that each was made of."""
    return range(len(batch)) if batch.sources is None else batch.sources


def _headers(left: RecordBatch, right: RecordBatch) -> list[Headers] | None:
    if left.headers is None and right.headers is None:
        return None
    return [some for side in (left, right) for some in side.headers or [()] * len(side)]
