"""The hashes that decide where a record goes: murmur2 picks partitions, murmur3 fingerprints foreign-key joins.

Written by hand because every bit must equal Java's: a key has to land where the Java producer would put it.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt
    import pyarrow as pa

_MASK_32: Final = 0xFFFFFFFF
_MASK_64: Final = 0xFFFFFFFFFFFFFFFF

_MURMUR2_SEED: Final = 0x9747B28C
_MURMUR2_M: Final = 0x5BD1E995

MURMUR3_DEFAULT_SEED: Final = 104729

# Formats are compiled once for keys of up to 256 bytes: half the cost of a short key.
_UNPACK_WORDS: Final = tuple(struct.Struct(f"<{words}I").unpack_from for words in range(65))


def murmur2(data: bytes) -> int:
    """Kafka's murmur2, a signed 32-bit number.

    >>> murmur2(b"foobar")
    -790332482
    """
    hash_ = _murmur2_unsigned(data)
    return hash_ - 0x100000000 if hash_ & 0x80000000 else hash_


def _murmur2_unsigned(data: bytes) -> int:
    length = len(data)
    blocks = length >> 2
    h = _MURMUR2_SEED ^ length
    for k in _UNPACK_WORDS[blocks](data) if blocks <= 64 else struct.unpack_from(f"<{blocks}I", data):
        k = k * _MURMUR2_M & _MASK_32
        k ^= k >> 24
        h = (h * _MURMUR2_M ^ k * _MURMUR2_M) & _MASK_32
    if length & 3:
        h = (h ^ int.from_bytes(data[blocks << 2 :], "little")) * _MURMUR2_M & _MASK_32
    h ^= h >> 13
    h = h * _MURMUR2_M & _MASK_32
    return h ^ h >> 15


def default_partition(key: bytes, num_partitions: int) -> int:
    """The partition Kafka's producer picks for a key.

    >>> [default_partition(str(n).encode(), 3) for n in range(10)]
    [2, 0, 2, 2, 1, 0, 1, 0, 0, 2]
    """
    return (_murmur2_unsigned(key) & 0x7FFFFFFF) % num_partitions


def default_partitions(keys: pa.Array | pa.ChunkedArray, num_partitions: int) -> npt.NDArray[np.int32]:
    """`default_partition` of each key of an Arrow column of bytes or text; -1 where the key is null.

    >>> import pyarrow as pa
    >>> default_partitions(pa.array([b"0", b"1", None]), 3).tolist()
    [2, 0, -1]
    """
    keys = _one_array(keys)
    positive = murmur2_array(keys) & np.uint32(0x7FFFFFFF)
    partitions: npt.NDArray[np.int32] = (positive % np.uint32(num_partitions)).astype(np.int32)
    if keys.null_count:
        partitions[keys.is_null().to_numpy(zero_copy_only=False)] = -1
    return partitions


def murmur2_array(keys: pa.Array | pa.ChunkedArray) -> npt.NDArray[np.uint32]:
    """murmur2 of each entry of an Arrow column of bytes or text, unsigned; nulls hash as if they were empty."""
    keys = _one_array(keys)
    data, starts, lengths = _bytes_of(keys)
    # Longest first: the entries that still have a block to mix are a shrinking prefix.
    order = np.argsort(-lengths, kind="stable")
    starts, sorted_lengths = starts[order], lengths[order]
    m = np.uint32(_MURMUR2_M)
    h = np.uint32(_MURMUR2_SEED) ^ sorted_lengths.astype(np.uint32)
    blocks = sorted_lengths >> 2
    for block in range(int(blocks[0]) if len(blocks) else 0):
        active = int(np.searchsorted(-blocks, -block, side="left"))
        k = data[starts[:active] + 4 * block]
        k = k * m
        k ^= k >> np.uint32(24)
        k *= m
        h[:active] *= m
        h[:active] ^= k
    h = _mix_tails(h, data, starts + 4 * blocks, sorted_lengths & 3)
    h ^= h >> np.uint32(13)
    h *= m
    h ^= h >> np.uint32(15)
    result = np.empty_like(h)
    result[order] = h
    return result


def _mix_tails(
    h: npt.NDArray[np.uint32], data: npt.NDArray[np.uint32], tails: npt.NDArray[np.int64], sizes: npt.NDArray[np.int64]
) -> npt.NDArray[np.uint32]:
    has_tail = sizes > 0
    kept = np.array([0, 0xFF, 0xFFFF, 0xFFFFFF], dtype=np.uint32)[sizes[has_tail]]
    mixed = (h[has_tail] ^ (data[tails[has_tail]] & kept)) * np.uint32(_MURMUR2_M)
    h[has_tail] = mixed
    return h


def _one_array(keys: Any) -> Any:
    return keys.combine_chunks() if hasattr(keys, "combine_chunks") else keys


def _bytes_of(keys: Any) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """The bytes of a column as little-endian words that start at every byte, and where each entry starts and how long it is."""
    offset_type = np.int64 if str(keys.type).startswith("large") else np.int32
    _, offsets_buffer, data_buffer = keys.buffers()
    offsets = np.frombuffer(offsets_buffer, dtype=offset_type)[keys.offset : keys.offset + len(keys) + 1].astype(np.int64)
    raw = b"" if data_buffer is None else memoryview(data_buffer)[: int(offsets[-1]) if len(offsets) else 0]
    padded = np.zeros(len(raw) + 4, dtype=np.uint8)
    padded[: len(raw)] = np.frombuffer(raw, dtype=np.uint8)
    words = np.ndarray(shape=(len(raw) + 1,), dtype="<u4", buffer=padded.data, strides=(1,))
    lengths = offsets[1:] - offsets[:-1]
    if keys.null_count:
        lengths = np.where(keys.is_null().to_numpy(zero_copy_only=False), 0, lengths)
    return words, offsets[:-1], lengths


def murmur3_hash32(data: bytes, seed: int = MURMUR3_DEFAULT_SEED) -> int:
    """Kafka Streams' murmur3 of 32 bits, signed (its tail bytes are signed too, unlike the reference's).

    >>> murmur3_hash32(b"foobar", 123)
    -328928243
    """
    length = len(data)
    blocks = length >> 2
    h = seed & _MASK_32
    for k in struct.unpack_from(f"<{blocks}I", data):
        h = (_rotl32(h ^ _scramble32(k), 13) * 5 + 0xE6546B64) & _MASK_32
    tail = data[blocks << 2 :]
    if tail:
        k = 0
        for index, byte in enumerate(tail):
            k ^= (byte - 256 if byte & 0x80 else byte) << 8 * index
        h ^= _scramble32(k & _MASK_32)
    h ^= length
    h = (h ^ h >> 16) * 0x85EBCA6B & _MASK_32
    h = (h ^ h >> 13) * 0xC2B2AE35 & _MASK_32
    h ^= h >> 16
    return h - 0x100000000 if h & 0x80000000 else h


def _scramble32(k: int) -> int:
    return _rotl32(k * 0xCC9E2D51 & _MASK_32, 15) * 0x1B873593 & _MASK_32


def _rotl32(value: int, by: int) -> int:
    return (value << by | value >> 32 - by) & _MASK_32


_C1: Final = 0x87C37B91114253D5
_C2: Final = 0x4CF5AD432745937F


def murmur3_hash128(data: bytes, seed: int = MURMUR3_DEFAULT_SEED) -> tuple[int, int]:
    """Kafka Streams' murmur3 of 128 bits, as two signed 64-bit numbers.

    >>> murmur3_hash128(b"21", 123)
    (5857341059704281894, -5288187638297930763)
    """
    length = len(data)
    blocks = length >> 4
    h1 = h2 = seed & _MASK_64
    words = struct.unpack_from(f"<{2 * blocks}Q", data)
    for k1, k2 in zip(words[::2], words[1::2], strict=True):
        h1 = _rotl64(h1 ^ _scramble64(k1, _C1, 31, _C2), 27)
        h1 = ((h1 + h2) * 5 + 0x52DCE729) & _MASK_64
        h2 = _rotl64(h2 ^ _scramble64(k2, _C2, 33, _C1), 31)
        h2 = ((h2 + h1) * 5 + 0x38495AB5) & _MASK_64
    tail = data[blocks << 4 :]
    # Java's tail of bytes 8 to 14 is read as it stands; a tail never has 16 bytes.
    h2 ^= _scramble64(int.from_bytes(tail[8:], "little"), _C2, 33, _C1)
    h1 ^= _scramble64(int.from_bytes(tail[:8], "little"), _C1, 31, _C2)
    h1 ^= length
    h2 ^= length
    h1 = (h1 + h2) & _MASK_64
    h2 = (h2 + h1) & _MASK_64
    h1, h2 = _fmix64(h1), _fmix64(h2)
    h1 = (h1 + h2) & _MASK_64
    h2 = (h2 + h1) & _MASK_64
    return _signed64(h1), _signed64(h2)


def murmur3_hash128_column(data: Sequence[bytes]) -> list[tuple[int, int]]:
    """`murmur3_hash128` of many, with the default seed.

    >>> murmur3_hash128_column([b"21", b""]) == [murmur3_hash128(b"21"), murmur3_hash128(b"")]
    True
    """
    if not data:
        return []
    lengths = np.fromiter(map(len, data), np.int64, len(data))
    padded = np.frombuffer(b"".join((*data, bytes(16))), np.uint8)
    words = np.ndarray(shape=(len(padded) - 7,), dtype="<u8", buffer=padded.data, strides=(1,))
    # Longest first: those that still have a block to mix are a shrinking prefix.
    order = np.argsort(-lengths, kind="stable")
    starts, sizes = (np.cumsum(lengths) - lengths)[order], lengths[order]
    blocks = sizes >> 4
    h1 = np.full(len(data), MURMUR3_DEFAULT_SEED, np.uint64)
    h2 = h1.copy()
    five, n1, n2 = np.uint64(5), np.uint64(0x52DCE729), np.uint64(0x38495AB5)
    for block in range(int(blocks[0])):
        active = slice(0, int(np.searchsorted(-blocks, -block, side="left")))
        at = starts[active] + 16 * block
        mixed = _rotl64s(h1[active] ^ _scramble64s(words[at], _C1, 31, _C2), 27)
        h1[active] = (mixed + h2[active]) * five + n1
        mixed = _rotl64s(h2[active] ^ _scramble64s(words[at + 8], _C2, 33, _C1), 31)
        h2[active] = (mixed + h1[active]) * five + n2
    tails, rest = starts + 16 * blocks, sizes & 15
    h2 ^= _scramble64s(words[np.minimum(tails + 8, len(words) - 1)] & _KEPT_64[np.maximum(rest - 8, 0)], _C2, 33, _C1)
    h1 ^= _scramble64s(words[tails] & _KEPT_64[np.minimum(rest, 8)], _C1, 31, _C2)
    h1 ^= sizes.astype(np.uint64)
    h2 ^= sizes.astype(np.uint64)
    h1 += h2
    h2 += h1
    h1, h2 = _fmix64s(h1), _fmix64s(h2)
    h1 += h2
    h2 += h1
    there = np.empty_like(order)
    there[order] = np.arange(len(order))
    return list(zip(h1[there].view(np.int64).tolist(), h2[there].view(np.int64).tolist()))


# What is left of eight bytes where only so many are meant.
_KEPT_64: Final = np.array([(1 << 8 * size) - 1 for size in range(9)], np.uint64)


def _scramble64s(k: npt.NDArray[np.uint64], first: int, rotate: int, second: int) -> npt.NDArray[np.uint64]:
    scrambled: npt.NDArray[np.uint64] = _rotl64s(k * np.uint64(first), rotate) * np.uint64(second)
    return scrambled


def _rotl64s(value: npt.NDArray[np.uint64], by: int) -> npt.NDArray[np.uint64]:
    rotated: npt.NDArray[np.uint64] = value << np.uint64(by) | value >> np.uint64(64 - by)
    return rotated


def _fmix64s(h: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    h = (h ^ h >> np.uint64(33)) * np.uint64(0xFF51AFD7ED558CCD)
    h = (h ^ h >> np.uint64(33)) * np.uint64(0xC4CEB9FE1A85EC53)
    mixed: npt.NDArray[np.uint64] = h ^ h >> np.uint64(33)
    return mixed


def _scramble64(k: int, first: int, rotate: int, second: int) -> int:
    return _rotl64(k * first & _MASK_64, rotate) * second & _MASK_64


def _rotl64(value: int, by: int) -> int:
    return (value << by | value >> 64 - by) & _MASK_64


def _fmix64(h: int) -> int:
    h = (h ^ h >> 33) * 0xFF51AFD7ED558CCD & _MASK_64
    h = (h ^ h >> 33) * 0xC4CEB9FE1A85EC53 & _MASK_64
    return h ^ h >> 33


def _signed64(value: int) -> int:
    return value - (1 << 64) if value & (1 << 63) else value
