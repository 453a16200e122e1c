"""KStream.flat_map_values."""

import pytest

from penstock.errors import StreamsError
from penstock.operators import KStreamFlatMapValues
from tests.unit.operators.fakes import outputs


def test_should_make_any_number_of_records_of_a_value():
    assert outputs(KStreamFlatMapValues(lambda key, value: ["x", "y"] if key == "a" else ())) == [("a", "x", 10), ("a", "y", 10)]


def test_should_say_that_flat_map_values_must_return_an_iterable():
    with pytest.raises(StreamsError, match="returned None"):
        outputs(KStreamFlatMapValues(lambda key, value: None))


@pytest.mark.parametrize("text", ["xy", b"xy"])
def test_should_refuse_text_as_values(text):
    with pytest.raises(StreamsError, match=f"flat_map_values returned a {type(text).__name__}: it must return values"):
        outputs(KStreamFlatMapValues(lambda key, value: text))
