from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from penstock.client.web.answers import parse_key
from penstock.client.web.errors import HttpError
from penstock.serdes.serde import Serde, Serdes


@pytest.mark.parametrize(
    ("serde", "text"),
    [
        (Serdes.double(), "NaN"),
        (Serdes.double(), "-Infinity"),
        (Serdes.double(), "1e999"),
        (Serdes.json(), '{"a":[NaN]}'),
        (Serdes.json(), '"\\ud800"'),
        (Serdes.list_of(Serdes.string()), '["\\udc00"]'),
    ],
)
def test_should_refuse_keys_that_json_does_not_have(serde: Serde[Any], text: str) -> None:
    store: Any = SimpleNamespace(name="prices", key_serde=serde, changelog=None)
    with pytest.raises(HttpError, match="is not a key of store prices") as refused:
        parse_key(store, text)
    assert refused.value.status == 400
