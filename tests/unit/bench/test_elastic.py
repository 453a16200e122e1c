"""Gaps of the output, apart for what moved and what stayed."""

from __future__ import annotations

from bench.elastic.measure import PARTITIONS, STEP, Curve


def flowing(*pauses: tuple[int, float, float], seconds: float = 20.0) -> dict[int, dict[int, int]]:
    """Output of all partitions in every step, but for these pauses."""
    steps = range(1, int(seconds / STEP))
    return {
        partition: {
            step: 1 for step in steps if not any(p == partition and begin < step * STEP < end for p, begin, end in pauses)
        }
        for partition in range(PARTITIONS)
    }


def places(**executors: str) -> dict[int, str]:
    return {partition: executors.get(f"p{partition}", f"{partition % 3}@one") for partition in range(PARTITIONS)}


def test_should_tell_gaps_after_each_event_apart_for_threads_that_moved() -> None:
    curve = Curve("penstock", 20.0, flowing((0, 5.0, 8.0), (1, 5.0, 5.8), (2, 12.0, 14.0)))
    curve.events = [(5.0, "added"), (12.0, "lost")]
    curve.places = [(0.0, places()), (6.0, places(p0="0@two")), (13.0, places(p0="0@two", p2="2@three"))]
    added, lost = curve.by_event()
    assert (added.partitions, lost.partitions) == ((0,), (2,))
    assert [round(gap or 0, 1) for gap in (added.stayed, added.moved)] == [0.8, 3.0]
    assert [round(gap or 0, 1) for gap in (lost.stayed, lost.moved)] == [0.1, 2.0]
    assert str(added) == "added: gap where the thread stayed 0.8 s, where it moved 3.0 s (partitions 0)"


def test_should_count_a_thread_that_moved_and_came_back_as_moved() -> None:
    curve = Curve("penstock", 20.0, flowing(), [(5.0, "lost")])
    curve.places = [(0.0, places()), (6.0, places(p4="1@two")), (7.0, places())]
    assert curve.moved(5.0, 20.0) == {4}


def test_should_have_nothing_to_tell_apart_without_executors() -> None:
    (found,) = Curve("penstock", 20.0, flowing((3, 5.0, 9.0)), [(5.0, "killed")]).by_event()
    assert (round(found.stayed or 0, 1), found.moved) == (4.0, None)
