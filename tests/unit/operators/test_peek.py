"""KStream.peek."""

from penstock.operators import KStreamPeek
from tests.unit.operators.fakes import ROWS, outputs


def test_should_look_at_records_and_forward_them():
    seen = []
    assert outputs(KStreamPeek(lambda key, value: seen.append(key))) == ROWS
    assert seen == ["a", None, "c"]
