"""KStream.map and select_key."""

import pytest

from penstock.errors import StreamsError
from penstock.operators import KStreamMap
from tests.unit.operators.fakes import outputs


def test_should_map_keys_and_values():
    assert outputs(KStreamMap(lambda key, value: (value, key))) == [(1, "a", 10), (None, None, 20), (3, "c", 30)]


def test_should_say_that_map_must_return_a_pair():
    with pytest.raises(StreamsError, match="map returned None"):
        outputs(KStreamMap(lambda key, value: None))
