"""The states of a client."""

import itertools

import pytest

from penstock import State

# Java's KafkaStreams.State, as numbers: from -> to.
ALLOWED = {0: {1, 3}, 1: {2, 3, 5}, 2: {1, 2, 3, 5}, 3: {4}, 4: set(), 5: {6}, 6: set()}


@pytest.mark.parametrize(("old", "new"), list(itertools.product(State, State)))
def test_should_have_javas_transitions(old: State, new: State) -> None:
    assert old.is_valid_transition(new) == (new.value in ALLOWED[old.value])
    assert not (old.is_valid_transition(new) and old.refuses(new))


@pytest.mark.parametrize("state", list(State))
def test_should_close_in_any_state(state: State) -> None:
    assert state.is_valid_transition(State.PENDING_SHUTDOWN) or state.refuses(State.PENDING_SHUTDOWN)
