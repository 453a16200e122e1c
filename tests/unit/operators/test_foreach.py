"""KStream.foreach."""

from penstock.operators import ForeachProcessorSupplier
from tests.unit.operators.fakes import outputs


def test_should_end_with_what_it_does():
    seen = []
    assert outputs(ForeachProcessorSupplier(lambda key, value: seen.append(value))) == []
    assert seen == [1, None, 3]
