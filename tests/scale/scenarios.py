"""What happens to a fleet, one event after the other, each measured until the group is stable again."""

from __future__ import annotations

from collections.abc import Iterator

from penstock.ids import TaskId
from tests.scale.fleet import Fleet, Measured

AWAY_SECONDS = 60.0
_QUIET_SECONDS = 20.0


def steady(fleet: Fleet) -> Measured:
    """Nothing happens: what a driver costs in a quiet group."""
    with fleet.measure("steady", 0) as found:
        fleet.run(_QUIET_SECONDS)
    return found


def rolling_restart(fleet: Fleet, instances: int) -> Measured:
    """Instances close and come back, one after the other; each gives its tasks away and gets as many."""
    share = len(fleet.tasks) // len(fleet.instances)
    with fleet.measure(f"rolling restart of {instances}", 2 * share * instances) as found:
        for member in list(fleet.instances)[:instances]:
            fleet.close(member)
            fleet.settle()
            fleet.add(1)
            fleet.settle()
    return found


def loss(fleet: Fleet, instances: int) -> Measured:
    """Instances are gone without a word; the rest takes their tasks when their sessions have ended."""
    victims = list(fleet.instances)[-instances:]
    fewest = sum(len(fleet.instances[member].loop.owners) for member in victims)
    with fleet.measure(f"loss of {instances}", fewest) as found:
        fleet.kill(*victims)
    return found


def scale_out(fleet: Fleet, instances: int) -> Measured:
    """New instances join at once."""
    after = len(fleet.instances) + instances
    with fleet.measure(f"{after - instances} to {after} instances", len(fleet.tasks) * instances // after) as found:
        fleet.add(instances)
    return found


def scale_in(fleet: Fleet, instances: int) -> Measured:
    """Instances close at once."""
    members = list(fleet.instances)[-instances:]
    fewest, after = sum(len(fleet.instances[member].loop.owners) for member in members), len(fleet.instances) - instances
    with fleet.measure(f"{after + instances} to {after} instances", fewest) as found:
        fleet.close(*members)
    return found


def broker_away(fleet: Fleet) -> Measured:
    """The broker that coordinates the group and leads a third of the partitions does not answer for a minute."""
    with fleet.measure("broker away for 60 s", 0) as found, fleet.broker_away():
        fleet.run(AWAY_SECONDS)
    return found


def poison(fleet: Fleet) -> Measured:
    """A record fails its task for a minute. The tasks of other threads go on."""
    bad = TaskId(0, fleet.partitions // 2)
    (partition,) = fleet.plan.inputs(bad)
    with fleet.measure("poisonous partition for 60 s", 0) as found:
        cure = fleet.poison(bad)
        fleet.run(60.0)
        neighbours = fleet.neighbours_of(bad)
        found.behind_elsewhere = fleet.behind(but=neighbours | {partition})
        cure()
    return found


def all_events(fleet: Fleet, instances: int) -> Iterator[Measured]:
    """Every event, on a fleet that ends as large as it began; the scale-out begins with half of the instances."""
    tenth, half = max(1, instances // 10), instances // 2
    with fleet.measure(f"start of {instances - half}", 0) as started:
        fleet.add(instances - half)
    yield started
    yield scale_out(fleet, half)
    yield steady(fleet)
    yield rolling_restart(fleet, max(1, tenth // 5))
    yield loss(fleet, tenth)
    yield scale_out(fleet, tenth)
    yield broker_away(fleet)
    yield poison(fleet)
    yield scale_in(fleet, half)
