"""Names and states of stream threads."""

import itertools

import pytest

from penstock.client.stream_threads import StreamThread, StreamThreads, ThreadState

# Java's StreamThread.State, as numbers: from -> to.
ALLOWED = {0: {1, 5}, 1: {2, 3, 5}, 2: {2, 3, 5}, 3: {2, 3, 4, 5}, 4: {2, 3, 4, 5}, 5: {6}, 6: set()}


@pytest.mark.parametrize(("old", "new"), list(itertools.product(ThreadState, ThreadState)))
def test_should_have_javas_transitions(old: ThreadState, new: ThreadState) -> None:
    assert old.is_valid_transition(new) == (new.value in ALLOWED[old.value])


def test_should_ignore_what_is_not_allowed() -> None:
    thread = StreamThread("app", 0)
    thread.set_state(ThreadState.PENDING_SHUTDOWN)
    thread.set_state(ThreadState.RUNNING)
    assert thread.state is ThreadState.PENDING_SHUTDOWN
    assert not thread.wait_until_dead(0)
    thread.set_state(ThreadState.DEAD)
    assert thread.wait_until_dead(0)


def test_should_give_the_lowest_free_number_again_when_its_thread_is_dead() -> None:
    threads = StreamThreads("app")
    first, second, third = (threads.add() for _ in range(3))
    assert [t.name for t in (first, second, third)] == [f"app-StreamThread-{n}" for n in (1, 2, 3)]
    second.set_state(ThreadState.PENDING_SHUTDOWN)
    assert threads.add().name == "app-StreamThread-4"  # the second is not dead yet
    threads.discard(second)
    assert threads.add().name == "app-StreamThread-2"


def test_should_count_only_living_threads_and_remove_the_first_of_them() -> None:
    threads = StreamThreads("app")
    first, second = threads.add(), threads.add()
    assert threads.alive() == []
    assert threads.to_remove() is None
    threads.set_all(ThreadState.STARTING, ThreadState.PARTITIONS_ASSIGNED, ThreadState.RUNNING)
    assert threads.to_remove() is first
    first.set_state(ThreadState.PENDING_SHUTDOWN)
    assert threads.alive() == [second]
    assert threads.to_remove() is second
    threads.discard(first)
    assert threads.all() == [second]
    assert threads.at(0) is None
