from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from penstock.runtime.punctuation import PunctuationQueue, PunctuationSchedule


class Recorder:
    def __init__(self) -> None:
        self.calls: list[tuple[str, int]] = []

    def __call__(self, node: Any, timestamp: int, punctuator: Any) -> None:
        self.calls.append((node, timestamp))
        punctuator(timestamp)


def nothing(timestamp: int) -> None:
    return None


def test_should_punctuate_every_interval() -> None:
    queue, recorder = PunctuationQueue(), Recorder()
    queue.schedule(PunctuationSchedule("node", 0, 100, nothing))

    fired = {now: queue.maybe_punctuate(now, recorder) for now in (0, 99, 100, 199, 200, 1001, 1002, 1100)}

    assert [now for now, was in fired.items() if was] == [0, 100, 200, 1001, 1100]
    assert [timestamp for _, timestamp in recorder.calls] == [0, 100, 200, 1001, 1100]


def test_should_keep_an_arbitrary_start_as_the_grid() -> None:
    queue, recorder = PunctuationQueue(), Recorder()
    queue.schedule(PunctuationSchedule("node", 50, 100, nothing))

    for now in (0, 49, 50, 149, 150, 250, 1000, 1049, 1050):
        queue.maybe_punctuate(now, recorder)

    assert [timestamp for _, timestamp in recorder.calls] == [50, 150, 250, 1000, 1050]


def test_should_not_call_a_cancelled_punctuator() -> None:
    queue, recorder = PunctuationQueue(), Recorder()
    schedule = queue.schedule(PunctuationSchedule("node", 0, 100, nothing))
    queue.maybe_punctuate(0, recorder)
    schedule.cancel()

    assert not queue.maybe_punctuate(100, recorder)
    assert queue.earliest() is None


def test_should_let_a_punctuator_cancel_itself() -> None:
    queue, recorder = PunctuationQueue(), Recorder()
    schedule = queue.schedule(PunctuationSchedule("node", 0, 100, lambda timestamp: schedule.cancel()))

    queue.maybe_punctuate(0, recorder)
    queue.maybe_punctuate(500, recorder)

    assert len(recorder.calls) == 1


def test_should_call_the_earliest_first_and_those_added_meanwhile() -> None:
    queue, recorder = PunctuationQueue(), Recorder()

    def add_another(timestamp: int) -> None:
        if len(recorder.calls) == 1:
            queue.schedule(PunctuationSchedule("added", 5, 100, nothing))

    queue.schedule(PunctuationSchedule("late", 30, 100, nothing))
    queue.schedule(PunctuationSchedule("early", 10, 100, add_another))
    queue.maybe_punctuate(40, recorder)

    assert [node for node, _ in recorder.calls] == ["early", "added", "late"]
    assert queue.next_due == queue.earliest() == 105


def test_should_forget_cancelled_punctuators_before_they_would_have_been_due() -> None:
    queue, recorder = PunctuationQueue(), Recorder()
    alive = queue.schedule(PunctuationSchedule("alive", 10_000_000, 100, nothing))
    for number in range(50_000):  # a timeout that each record sets anew
        queue.schedule(PunctuationSchedule("timeout", 1_000_000 + number, 100, nothing)).cancel()

    assert len(queue._schedules) <= 1_000
    assert queue.earliest() == alive.timestamp
    assert queue.maybe_punctuate(alive.timestamp, recorder)
    assert recorder.calls == [("alive", 10_000_000)]
    assert len(queue._schedules) == 1


def test_should_keep_all_punctuators_that_were_not_cancelled() -> None:
    queue, recorder = PunctuationQueue(), Recorder()
    for number in range(5_000):
        schedule = queue.schedule(PunctuationSchedule(number, number % 7, 100, nothing))
        if number % 3:
            schedule.cancel()

    queue.maybe_punctuate(6, recorder)
    assert sorted(node for node, _ in recorder.calls) == list(range(0, 5_000, 3))


@given(st.integers(0, 10_000), st.integers(1, 500), st.integers(0, 20_000))
def test_should_stay_on_the_grid_and_skip_what_was_missed(start: int, interval: int, later: int) -> None:
    schedule = PunctuationSchedule("node", start, interval, nothing)
    now = start + later
    schedule.advance(now)

    assert (schedule.timestamp - start) % interval == 0
    assert now < schedule.timestamp <= max(now, start) + interval
