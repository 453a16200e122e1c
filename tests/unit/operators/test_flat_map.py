"""KStream.flat_map."""

import pytest

from penstock.errors import StreamsError
from penstock.operators import KStreamFlatMap
from tests.unit.operators.fakes import outputs


def test_should_flat_map_to_any_number_of_records():
    mapper = KStreamFlatMap(lambda key, value: [(value, n) for n in range(value or 0)])
    assert outputs(mapper) == [(1, 0, 10), (3, 0, 30), (3, 1, 30), (3, 2, 30)]


def test_should_say_that_flat_map_must_return_an_iterable():
    with pytest.raises(StreamsError, match="returned None"):
        outputs(KStreamFlatMap(lambda key, value: None))


@pytest.mark.parametrize(
    ("result", "message"), [("ab", "returned a str: it must return pairs"), (["ab"], "returned a str: it must return a pair")]
)
def test_should_refuse_text_in_place_of_pairs(result, message):
    with pytest.raises(StreamsError, match=f"flat_map {message}"):
        outputs(KStreamFlatMap(lambda key, value: result))
