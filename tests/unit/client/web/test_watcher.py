from __future__ import annotations

from penstock import TaskId, TopicPartition
from penstock.client.input_lags import Lags, PartitionLag
from penstock.client.rates import REPORT_DELAY
from penstock.client.web.history import BUCKET_SECONDS, SERIES, History
from penstock.client.web.watcher import Watcher
from penstock.spark.messages import ThreadReport
from tests.unit.client.web.test_history import Clock

IN = TopicPartition("in", 0)


class World:
    def __init__(self) -> None:
        self.clock = Clock()
        self.history = History(self.clock)
        self.history.log.close()
        self.reached = {IN: (0, 1000)}
        self.places = {"0_0": "active 0"}
        self.watcher = Watcher(self.history, self.lags, lambda: self.places, clock=self.clock)

    def lags(self) -> Lags:
        found = {partition: PartitionLag(position, end) for partition, (position, end) in self.reached.items()}
        return Lags(found, {TaskId(0, 0): sum(partition.lag for partition in found.values())})

    def later(self, position: int, end: int) -> None:
        self.clock.now += BUCKET_SECONDS
        self.reached = {IN: (position, end)}
        self.watcher.look()


def test_should_tell_when_a_partition_is_caught_up() -> None:
    world = World()
    world.watcher.look()
    assert world.watcher.trend(IN) is None
    world.later(500, 1100)
    found = world.watcher.trend(IN)
    assert found is not None
    assert (found.read, found.written, found.lag, found.seconds_left) == (100.0, 20.0, -80.0, 7.5)


def test_should_not_promise_what_will_not_be() -> None:
    world = World()
    world.watcher.look()
    world.later(100, 2000)
    growing = world.watcher.trend(IN)
    assert growing is not None
    assert (growing.seconds_left, growing.lag > 0) == (None, True)
    world.later(2000, 2000)
    done = world.watcher.trend(IN)
    assert done is not None
    assert done.seconds_left == 0.0
    world.reached = {}
    world.watcher.look()
    assert world.watcher.trend(IN) is None, "it is read elsewhere now"


def test_should_tell_since_when_a_task_is_where_it_is() -> None:
    world = World()
    world.watcher.look()
    began = world.watcher.since("0_0")
    world.later(0, 0)
    assert world.watcher.since("0_0") == began
    world.places = {"0_0": "active 1"}
    world.later(0, 0)
    assert world.watcher.since("0_0") == round(world.clock.now * 1000)
    assert world.watcher.since("0_7") is None


def test_should_measure_lag_cpu_and_memory() -> None:
    world = World()
    world.watcher.look()
    world.history.reported({0: ThreadReport("host:7", usage=(10.0, 500))})
    world.later(0, 10)
    world.history.reported({0: ThreadReport("host:7", usage=(12.5, 600))})
    world.later(0, 10)
    world.clock.now += BUCKET_SECONDS + REPORT_DELAY
    last = [point for _, point in sorted(world.history.points().items())][-1]
    found = dict(zip(SERIES, last))
    assert (found["lag"], found["cpu_workers"], found["memory_workers"]) == (10, 0.5, 600)
    assert found["memory_driver"]
    assert found["memory_jvm"] is None


def test_should_go_on_where_the_tasks_change_while_they_are_looked_at() -> None:
    world = World()

    def changing() -> Lags:
        raise RuntimeError("dictionary changed size during iteration")

    watcher = Watcher(world.history, changing, lambda: world.places, clock=world.clock)
    watcher.look()
    world.clock.now += BUCKET_SECONDS + REPORT_DELAY
    assert len(world.history.points()) == 1
