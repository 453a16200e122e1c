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


@pytest.mark.parametrize(
    ("result", "returned"),
    [("ab", "a str"), (b"ab", "a bytes"), ({"a": 1, "b": 2}, "a dict"), (5, "a int"), ((1, 2, 3), "3 items")],
)
def test_should_refuse_what_is_no_pair(result, returned):
    with pytest.raises(StreamsError, match=f"map returned {returned}: it must return a pair"):
        outputs(KStreamMap(lambda key, value: result))


def test_should_take_a_list_of_two_for_a_pair():
    assert outputs(KStreamMap(lambda key, value: [key, "x"])) == [("a", "x", 10), (None, "x", 20), ("c", "x", 30)]
