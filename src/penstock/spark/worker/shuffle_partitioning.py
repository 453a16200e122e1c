"""Columns of output sorted by the partition they go to; before a count, one row for each key."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from penstock.columns.columns import ProducedColumns
from penstock.columns.text import TextColumn
from penstock.hashing import default_partitions
from penstock.spark.batch import ShuffledBatch
from penstock.spark.batch_format import side_column

if TYPE_CHECKING:
    from penstock.spark.batch import Longs


def sorted_columns(
    produced: ProducedColumns, source: int, partitions: int, skip: Mapping[int, int]
) -> Iterator[tuple[int, ShuffledBatch]]:
    """The rows for each partition; `skip` tells up to which offset a partition has consumed the source before."""
    keys, values = _binary(produced.keys), _binary(produced.values)
    offsets = np.array(produced.offsets, np.int64)
    targets = _targets(keys, offsets, partitions)
    batch = ShuffledBatch(
        keys, values, np.array(produced.timestamps, np.int64), np.full(len(keys), source), offsets, produced.headers
    )
    kept = _not_consumed(targets, offsets, partitions, skip)
    yield from _split(batch, targets, kept, partitions)


def counted_columns(
    produced: ProducedColumns, source: int, partitions: int, skip: Mapping[int, int]
) -> Iterator[tuple[int, ShuffledBatch]]:
    """The same with one row for each key, in the order of their last records; rows without a key or value stay single."""
    encoded = _binary(produced.keys).dictionary_encode()
    distinct = encoded.dictionary
    offsets, timestamps = np.array(produced.offsets, np.int64), np.array(produced.timestamps, np.int64)
    if None in produced.keys or None in produced.values:
        targets = _targets(encoded.cast(pa.binary()), offsets, partitions)
        whole = np.array([key is not None and value is not None for key, value in zip(produced.keys, produced.values)])
        yield from _single(produced, source, partitions, skip, np.flatnonzero(~whole).tolist())
        rows = np.flatnonzero(whole)
        codes = encoded.indices.take(pa.array(rows)).to_numpy()
    else:
        codes, rows = encoded.indices.to_numpy(), np.arange(len(produced))
        targets = default_partitions(distinct, partitions).astype(np.int64)[codes]
    ranks = _latest_so_far(timestamps, targets, partitions, _not_consumed(targets, offsets, partitions, skip))
    kept = _not_consumed(targets[rows], offsets[rows], partitions, skip)
    if kept is not None:
        codes, rows = codes[kept], rows[kept]
    if not len(rows):
        return
    weights = np.bincount(codes, minlength=len(distinct))
    last = np.zeros(len(distinct), np.int64)
    last[codes] = rows  # of several rows with a key the last one stays
    if (np.diff(timestamps) >= 0).all():
        latest = timestamps[last]
    else:
        latest = np.full(len(distinct), -1, np.int64)
        np.maximum.at(latest, codes, timestamps[rows])
    there = np.flatnonzero(weights)
    there = there[np.argsort(last[there])]
    batch = ShuffledBatch(
        distinct.take(pa.array(there)),
        pa.array([b""] * len(there), pa.binary()),
        latest[there],
        np.full(len(there), source),
        offsets[last[there]],
        None if produced.headers is None else [produced.headers[row] for row in last[there]],
        weights[there],
        ranks[last[there]],
    )
    yield from _split(batch, targets[last[there]], None, partitions)


def side_columns(produced: ProducedColumns, source: int, consumed: int, counted: bool) -> ShuffledBatch:
    """The rows of another topic, which ride along to be written; `consumed` is up to which offset they were before."""
    offsets = np.array(produced.offsets, np.int64)
    count = len(offsets)
    batch = ShuffledBatch(
        _binary(produced.keys),
        _binary(produced.values),
        np.array(produced.timestamps, np.int64),
        np.full(count, source),
        offsets,
        produced.headers,
        np.ones(count, np.int64) if counted else None,
        np.zeros(count, np.int64) if counted else None,
        side_column([produced.topic] * count, [produced.partition] * count),
    )
    left = np.flatnonzero(offsets >= consumed)
    return batch if len(left) == count else batch.take(left)


def _binary(column: Sequence[bytes | None]) -> pa.Array:
    return column.array if isinstance(column, TextColumn) else pa.array(column, pa.binary())


def _single(
    produced: ProducedColumns, source: int, partitions: int, skip: Mapping[int, int], rows: list[int]
) -> Iterator[tuple[int, ShuffledBatch]]:
    for target, batch in sorted_columns(produced.take(rows, produced.partition), source, partitions, skip):
        # Nothing is counted of them: whatever their rank, it must not hold up the rows behind them.
        batch.weights, batch.ranks = np.ones(len(batch), np.int64), np.zeros(len(batch), np.int64)
        yield target, batch


def _targets(keys: pa.Array, offsets: Longs, partitions: int) -> Longs:
    targets: Longs = default_partitions(keys, partitions).astype(np.int64)
    without = targets < 0
    if without.any():
        # A record without a key may go anywhere, but on a re-read to the same place again.
        targets[without] = offsets[without] % partitions
    return targets


def _latest_so_far(timestamps: Longs, targets: Longs, partitions: int, kept: Longs | None) -> Longs:
    """The highest timestamp up to each row, among the rows for the same target that it has not consumed yet."""
    if kept is not None:
        timestamps, all_of_them = np.full_like(timestamps, -1), timestamps
        timestamps[kept] = all_of_them[kept]
    if (np.diff(timestamps) >= 0).all():
        return timestamps
    latest: Longs = timestamps.copy()
    for target in range(partitions):
        rows = np.flatnonzero(targets == target)
        latest[rows] = np.maximum.accumulate(timestamps[rows])
    return latest


def _not_consumed(targets: Longs, offsets: Longs, partitions: int, skip: Mapping[int, int]) -> Longs | None:
    """The rows that their target has not consumed yet; None where that is all of them."""
    if not skip:
        return None
    consumed: Longs = np.array([skip.get(target, 0) for target in range(partitions)], np.int64)
    left: Longs = np.flatnonzero(offsets >= consumed[targets])
    return left


def _split(batch: ShuffledBatch, targets: Longs, kept: Longs | None, partitions: int) -> Iterator[tuple[int, ShuffledBatch]]:
    order = np.argsort(targets if kept is None else targets[kept], kind="stable")
    if kept is not None:
        order = kept[order]
    ordered = batch.take(order)
    ends = np.searchsorted(targets[order], np.arange(partitions), side="right")
    start = 0
    for target, end in enumerate(ends):
        if end > start:
            yield target, ordered.slice(start, int(end))
        start = int(end)
