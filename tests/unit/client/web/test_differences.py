from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from penstock.client.web.differences import applied, difference

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3) | st.lists(st.integers(), max_size=3),
    lambda inner: st.dictionaries(st.sampled_from("abcd"), inner, max_size=4),
    max_leaves=12,
)
documents = st.dictionaries(st.sampled_from("abcd"), values, max_size=4)


def without_nothing(value: Any) -> Any:
    """None is as good as a member that is not there."""
    return {k: without_nothing(v) for k, v in value.items() if v is not None} if isinstance(value, dict) else value


@given(documents, documents)
def test_should_make_one_document_of_another(before: dict[str, Any], after: dict[str, Any]) -> None:
    patch = json.loads(json.dumps(difference(before, after)))
    found = applied(without_nothing(before), patch)
    assert json.dumps(without_nothing(found), sort_keys=True) == json.dumps(without_nothing(after), sort_keys=True)


@given(documents)
def test_should_say_nothing_where_nothing_has_changed(document: dict[str, Any]) -> None:
    assert difference(document, json.loads(json.dumps(document))) == {}


def test_should_be_small_where_little_has_changed() -> None:
    tasks = {f"0_{n}": {"id": f"0_{n}", "lag": n, "stores": ["a", "b"], "host": "somewhere:8080"} for n in range(500)}
    after = {"tasks": {**tasks, "0_7": {**tasks["0_7"], "lag": 99}}}
    assert difference({"tasks": tasks}, after) == {"tasks": {"0_7": {"lag": 99}}}
