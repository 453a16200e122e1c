from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import TopologyError
from penstock.graph.naming import NameCounter, Named, validate_name


def test_should_number_names_with_one_counter() -> None:
    names = NameCounter()
    assert names.new_processor_name("A-") == "A-0000000000"
    assert names.new_store_name("A-") == "A-STATE-STORE-0000000001"
    assert names.new_processor_name("B-") == "B-0000000002"


@pytest.mark.parametrize("name", [None, "given"])
def test_should_use_up_an_index_whether_a_name_is_given_or_not(name: str | None) -> None:
    names = NameCounter()
    Named(name).or_generate(names, "A-")
    Named(name).suffixed_or_generate("-x", names, "A-")
    assert names.new_processor_name("B-") == "B-0000000002"


def test_should_prefer_the_given_name() -> None:
    names = NameCounter()
    assert Named("given").or_generate(names, "A-") == "given"
    assert Named("given").suffixed_or_generate("-x", names, "A-") == "given-x"
    assert Named("given").suffixed_or("-x", "other") == "given-x"
    assert Named().suffixed_or("-x", "other") == "other"


def test_should_check_the_suffixed_name_again() -> None:
    with pytest.raises(TopologyError, match="249"):
        Named("x" * 245).suffixed_or_generate("-suffix", NameCounter(), "A-")


@given(st.text(max_size=300))
def test_should_accept_exactly_the_names_that_can_be_topics(name: str) -> None:
    allowed = set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")
    legal = 0 < len(name) <= 249 and name not in (".", "..") and set(name) <= allowed
    if legal:
        assert validate_name(name) == name
    else:
        with pytest.raises(TopologyError):
            validate_name(name)


def test_should_refuse_a_line_break_at_the_end() -> None:
    with pytest.raises(TopologyError):
        validate_name("name\n")
