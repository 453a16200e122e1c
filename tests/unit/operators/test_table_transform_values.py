"""KTable.transform_values."""

import pytest

from penstock.change import Change
from penstock.errors import StreamsError
from penstock.operators import KTableTransformValues
from penstock.processor import ValueTransformerWithKey
from tests.unit.operators.fakes import Describe, FakeContext, FakeParent, FakeStore, on, run


def test_should_transform_values_deletions_included():
    context = FakeContext()
    supplier = on(KTableTransformValues, Describe, parent=FakeParent(sends_old_values=True))
    supplier.enable_sending_old_values(False)
    closed = Describe.closed
    processor = run(supplier, context, ("a", Change(1, None), 1), ("a", Change(None, 1), 2))
    processor.close()
    assert context.forwarded == [("a", Change("a:1@0", "a:None@0"), 1), ("a", Change("a:None@0", "a:1@0"), 2)]
    assert Describe.closed == closed + 1


def test_should_keep_transformed_values_in_a_store():
    context = FakeContext(own=FakeStore())
    supplier = on(KTableTransformValues, Describe, queryable="own")
    supplier.enable_sending_old_values(False)
    run(supplier, context, ("a", Change(1, None), 1), ("a", Change(2, None), 2))
    assert context.forwarded == [("a", Change("a:1@0", None), 1), ("a", Change("a:2@0", "a:1@0"), 2)]


def test_should_not_let_a_transformer_forward():
    class Forwards(ValueTransformerWithKey):
        def transform(self, key, value):
            self.context.forward(key, value)

    with pytest.raises(StreamsError, match="forward"):
        run(on(KTableTransformValues, Forwards), FakeContext(), ("a", Change(1, None), 1))
