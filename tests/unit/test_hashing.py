import random

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.hashing import (
    default_partition,
    default_partitions,
    murmur2,
    murmur2_array,
    murmur3_hash32,
    murmur3_hash128,
    murmur3_hash128_column,
)

LONG = b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8"
MURMUR2 = {
    b"21": -973932308,
    b"foobar": -790332482,
    b"a-little-bit-long-string": -985981536,
    b"a-little-bit-longer-string": -1486304829,
    LONG: -58897971,
    b"abc": 479470107,
    b"": 275646681,
}
MURMUR3_32 = {
    b"21": 896581614,
    b"foobar": -328928243,
    b"a-little-bit-long-string": -1479816207,
    b"a-little-bit-longer-string": -153232333,
    LONG: 13417721,
    b"abc": 461137560,
}
MURMUR3_128 = {
    b"21": (5857341059704281894, -5288187638297930763),
    b"foobar": (-351361463397418609, 8959716011862540668),
    b"a-little-bit-long-string": (8836256500583638442, -198172363548498523),
    b"a-little-bit-longer-string": (1838346159335108511, 8794688210320490705),
    LONG: (-4024021876037397259, -1482317706335141238),
    b"abc": (1489494923063836066, -5440978547625122829),
}


@pytest.mark.parametrize("key", MURMUR2)
def test_should_hash_murmur2_as_java_does(key):
    assert murmur2(key) == MURMUR2[key]


@pytest.mark.parametrize("key", MURMUR3_32)
def test_should_hash_murmur3_as_java_does(key):
    assert murmur3_hash32(key, 123) == MURMUR3_32[key]
    assert murmur3_hash128(key, 123) == MURMUR3_128[key]


def test_should_partition_keys_as_the_java_producer_does():
    assert [default_partition(str(n).encode(), 3) for n in range(10)] == [2, 0, 2, 2, 1, 0, 1, 0, 0, 2]


@pytest.mark.parametrize("kind", [pa.binary(), pa.large_binary()])
def test_should_hash_columns_as_it_hashes_single_keys(kind):
    rng = random.Random(3)
    keys = [rng.randbytes(rng.randrange(30)) for _ in range(500)]
    assert [int(h) for h in murmur2_array(pa.array(keys, kind)).astype(np.int32)] == [murmur2(key) for key in keys]
    sliced = pa.array(keys, kind).slice(17, 100)
    assert default_partitions(sliced, 5).tolist() == [default_partition(key, 5) for key in keys[17:117]]


def test_should_hash_text_chunks_nulls_and_nothing():
    assert default_partitions(pa.array(["a", None, "é"]), 9).tolist() == [
        default_partition(b"a", 9),
        -1,
        default_partition("é".encode(), 9),
    ]
    chunked = pa.chunked_array([["a"], ["b", None]])
    assert default_partitions(chunked, 9).tolist() == [default_partition(b"a", 9), default_partition(b"b", 9), -1]
    assert default_partitions(pa.array([], pa.binary()), 9).tolist() == []
    assert default_partitions(pa.array([b""], pa.binary()), 9).tolist() == [default_partition(b"", 9)]


@given(data=st.lists(st.binary(max_size=70)))
def test_should_hash_many_as_single_ones(data: list[bytes]) -> None:
    assert murmur3_hash128_column(data) == [murmur3_hash128(one) for one in data]
