from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.java_priority_queue import JavaPriorityQueue


@settings(max_examples=100)
@given(st.lists(st.one_of(st.none(), st.integers(-5, 5)), max_size=60))
def test_should_give_out_the_lowest_rank(steps: list[int | None]) -> None:
    queue: JavaPriorityQueue[int] = JavaPriorityQueue()
    model: list[int] = []
    for rank in steps:
        if rank is not None:
            queue.offer(rank, rank)
            model.append(rank)
        elif model:
            assert queue.lowest == min(model)
            model.remove(min(model))
            queue.poll()
    assert len(queue) == len(model)


def test_should_break_ties_as_java_does() -> None:
    queue: JavaPriorityQueue[str] = JavaPriorityQueue()
    for name in ("a1", "b1", "c1", "d1", "e0"):
        queue.offer(int(name[1]), name)

    assert [queue.poll() for _ in range(5)] == ["e0", "b1", "d1", "c1", "a1"]


# What java.util.PriorityQueue gave out (-) for what was offered (+); the first digit is the rank.
_JAVA = (
    "+2x0 +1x1 +1x2 +2x3 +0x4 +0x5 +1x6 +1x7 +0x8 +0x9 +2x10 +1x11 -0x4 -0x8 +1x14 +2x15 +0x16 +0x17 +2x18 +0x19 +2x20 -0x9 "
    "-0x19 +0x23 +1x24 +0x25 +0x26 +0x27 +2x28 +1x29 +0x30 +0x31 +0x32 +1x33 -0x5 +2x35 +2x36 -0x23 +0x38 +1x39 -0x25 +0x41 "
    "+1x42 -0x26 +0x44 +1x45 +2x46 +0x47 -0x27 -0x30 +1x50 +0x51 +2x52 +0x53 +1x54 +0x55 +1x56 +1x57 -0x47 +1x59"
)


def test_should_give_out_what_java_gave_out() -> None:
    queue: JavaPriorityQueue[str] = JavaPriorityQueue()
    for step in _JAVA.split():
        if step[0] == "+":
            queue.offer(int(step[1]), step[1:])
        else:
            assert queue.poll() == step[1:]
