"""Which partition of a repartition topic a record goes to through the shuffle: the one its key hashes to, as in Kafka.

A record without a key may go anywhere, but to the same place whenever it is read again: where its offset says.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from penstock.hashing import default_partition, default_partitions


def shuffle_target(key: bytes | None, offset: int, partitions: int) -> int:
    """The target of a record that was made of the one at an offset.

    >>> shuffle_target(b"word", 7, 4) == shuffle_target(b"word", 8, 4), shuffle_target(None, 7, 4)
    (True, 3)
    """
    return offset % partitions if key is None else default_partition(key, partitions)


def shuffle_targets(keys: pa.Array, offsets: np.ndarray[Any, np.dtype[np.int64]], partitions: int) -> Any:
    """The targets of many.

    >>> keys = pa.array([b"word", None], pa.binary())
    >>> shuffle_targets(keys, np.array([7, 7]), 4).tolist() == [shuffle_target(b"word", 7, 4), 3]
    True
    """
    targets = default_partitions(keys, partitions).astype(np.int64)
    without = targets < 0
    if without.any():
        targets[without] = offsets[without] % partitions
    return targets
