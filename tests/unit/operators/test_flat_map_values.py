"""KStream.flat_map_values."""

import pytest

from penstock.errors import StreamsError
from penstock.operators import KStreamFlatMapValues
from tests.unit.operators.fakes import outputs


def test_should_make_any_number_of_records_of_a_value():
    assert outputs(KStreamFlatMapValues(lambda key, value: "xy" if key == "a" else ())) == [("a", "x", 10), ("a", "y", 10)]


def test_should_say_that_flat_map_values_must_return_an_iterable():
    with pytest.raises(StreamsError, match="returned None"):
        outputs(KStreamFlatMapValues(lambda key, value: None))
