"""A small fleet: every event ends in a stable group, nothing is read twice, and little moves."""

from __future__ import annotations

import pytest

from tests.scale.fleet import Fleet
from tests.scale.scenarios import all_events


@pytest.mark.parametrize("partitions", [2, 10])
def test_should_lose_nothing_and_move_little_whatever_happens_to_a_fleet(partitions: int) -> None:
    fleet = Fleet(partitions, threads=2, **{"max.warmup.replicas": 10})
    with fleet.clock():
        events = list(all_events(fleet, 6))
        fleet.run(5.0)
        assert fleet.behind() <= 3, "all tasks follow their input"
    assert (fleet.cluster.repeated, fleet.cluster.lost) == (0, 0)
    quiet = {e.event: e.generations for e in events if e.event.startswith(("steady", "broker", "poison"))}
    assert set(quiet.values()) == {0}, "what is no change of the group costs no generation"
    for event in events:
        assert event.moved <= 2 * event.fewest + len(fleet.tasks) // 4, event


def test_should_run_the_tasks_of_other_threads_while_one_task_fails() -> None:
    fleet = Fleet(8, threads=2)
    with fleet.clock():
        [poisoned] = [event for event in all_events(fleet, 4) if event.event.startswith("poison")]
    assert poisoned.behind_elsewhere <= 3
