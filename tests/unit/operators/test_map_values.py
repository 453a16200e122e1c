"""KStream.map_values."""

from penstock.operators import KStreamMapValues
from penstock.record import FixedKeyRecord
from tests.unit.operators.fakes import FakeContext, run


def test_should_map_values_and_keep_the_rest_of_the_record():
    context = FakeContext()
    run(KStreamMapValues(lambda key, value: f"{key}{value}"), context, ("a", 1, 10))
    assert context.forwarded == [("a", "a1", 10)]
    assert context.last.headers == (("h", b"1"),)


def test_should_keep_fixed_key_records_fixed():
    context = FakeContext()
    processor = KStreamMapValues(lambda key, value: value + 1)()
    processor.init(context)
    processor.process(FixedKeyRecord("a", 1, 10))
    assert type(context.last) is FixedKeyRecord
