"""Subscriptions are kept beside the foreign table."""

from __future__ import annotations

import pytest

from penstock.change import Change
from penstock.errors import StreamsError
from penstock.operators import (
    CombinedKey,
    SubscriptionReceiveProcessorSupplier,
)
from penstock.state.value_timestamp_headers import ValueTimestampHeaders
from tests.unit.operators.joins.foreign_key.kit import (
    ANSWER_ALWAYS,
    ANSWER_IF_FOUND,
    DELETE,
    BytesStore,
    schema_of_strings,
    wrapped,
)
from tests.unit.operators.operator_kit import FakeContext, Runner


def test_should_keep_and_remove_subscriptions() -> None:
    store = BytesStore()
    runner = Runner(SubscriptionReceiveProcessorSupplier("store", schema_of_strings()), FakeContext({"store": store}))
    subscribe, unsubscribe = wrapped(ANSWER_ALWAYS), wrapped(DELETE)

    new = ValueTimestampHeaders(subscribe, 5)
    assert runner.pipe("a", subscribe, 5) == [(CombinedKey("a", "pk"), Change(new, None), 5)]
    assert store.rows == {b"\0\0\0\1apk": new}
    assert runner.pipe("a", unsubscribe, 6) == [(CombinedKey("a", "pk"), Change(ValueTimestampHeaders(unsubscribe, 6), new), 6)]
    assert store.rows == {}


def test_should_pass_a_null_foreign_key_on_without_keeping_it() -> None:
    store = BytesStore()
    runner = Runner(SubscriptionReceiveProcessorSupplier("store", schema_of_strings()), FakeContext({"store": store}))
    wrapper = wrapped(ANSWER_ALWAYS)

    assert runner.pipe(None, wrapper, 5) == [(CombinedKey(None, "pk"), Change(ValueTimestampHeaders(wrapper, 5), None), 5)]
    assert runner.pipe(None, wrapped(ANSWER_IF_FOUND), 5) == []
    assert runner.context.dropped == ["null foreign key"]
    assert store.rows == {}


def test_should_refuse_a_subscription_of_a_newer_version() -> None:
    runner = Runner(SubscriptionReceiveProcessorSupplier("store", schema_of_strings()), FakeContext({"store": BytesStore()}))

    with pytest.raises(StreamsError, match="version 2"):
        runner.pipe("a", wrapped(ANSWER_ALWAYS, version=2), 5)
