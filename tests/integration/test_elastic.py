"""Several instances of one application: work is handed over without stopping what stays, and copies are there in time."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from penstock import StandbyUpdateListener, State, StateRestoreListener, SuspendReason
from penstock.client.inside import inside
from tests.harness.kafka import Kafka, unique, wait_until
from tests.integration.helpers import counts, keyed, owned, texts, topics, up_to
from tests.integration.test_metrics import value
from tests.integration.topologies import count_by_key, pipe_with_notes, word_count

Run = Callable[..., Any]

KEYS = [f"k{i}" for i in range(40)]
QUICK = {"heartbeat.interval.ms": 300, "session.timeout.ms": 6_000, "processing.guarantee": "exactly_once_v2"}


class Restored(StateRestoreListener):
    """How many records were replayed before tasks ran."""

    def __init__(self) -> None:
        self.records = 0

    def on_batch_restored(self, topic_partition: Any, store_name: str, batch_end_offset: int, num_restored: int) -> None:
        self.records += num_restored


class Updates(StandbyUpdateListener):
    """What a listener of copies heard."""

    def __init__(self) -> None:
        self.started: list[tuple[Any, str, int]] = []
        self.loaded = 0
        self.suspended: list[tuple[Any, SuspendReason]] = []

    def on_update_start(self, topic_partition: Any, store_name: str, starting_offset: int) -> None:
        self.started.append((topic_partition, store_name, starting_offset))

    def on_batch_loaded(
        self, topic_partition: Any, store_name: str, task_id: Any, batch_end_offset: int, batch_size: int, current_end_offset: int
    ) -> None:
        assert batch_end_offset < current_end_offset
        self.loaded += batch_size

    def on_update_suspended(
        self, topic_partition: Any, store_name: str, store_offset: int, current_end_offset: int, reason: SuspendReason
    ) -> None:
        self.suspended.append((topic_partition, reason))


class Feed:
    """Writes every key again and again while entered; a round is one record of each."""

    def __init__(self, kafka: Kafka, topic: str) -> None:
        self._kafka, self._topic = kafka, topic
        self.rounds = 0
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def wait_rounds(self, rounds: int) -> None:
        """Until so many more have been fed."""
        until = self.rounds + rounds
        wait_until(lambda: self.rounds >= until, f"{rounds} rounds more")

    def __enter__(self) -> Feed:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stopped.wait(0.05):
            self._kafka.feed(self._topic, texts(*((key, key) for key in KEYS)))
            self.rounds += 1


def copied(streams: Any) -> set[Any]:
    return {task.task_id for thread in streams.metadata_for_local_threads() for task in thread.standby_tasks}


def running(streams: Any) -> set[Any]:
    """The tasks of an instance that has opened all of them."""
    return owned(streams) if streams.state is State.RUNNING else set()


def test_should_run_on_what_stays_while_another_instance_takes_its_part(kafka: Kafka, run: Run, tmp_path: Path) -> None:
    source, out = topics(kafka, "in", "out", partitions=4)
    notes = [tmp_path / "first.txt", tmp_path / "second.txt"]
    config = {"application.id": unique("stays"), **QUICK}
    first = run(pipe_with_notes(source, out, str(notes[0])), {**config, "state.dir": str(tmp_path / "1")})
    opened = notes[0].read_text()
    second = run(pipe_with_notes(source, out, str(notes[1])), {**config, "state.dir": str(tmp_path / "2")})
    wait_until(lambda: len(owned(first)) == len(owned(second)) == 2, "each has two tasks")
    kafka.feed(source, texts(*((key, "x") for key in KEYS)))
    assert len(kafka.read(out, len(KEYS))) == len(KEYS)
    assert notes[0].read_text() == opened  # nothing that stayed was opened again
    assert sorted(notes[1].read_text().split()) == sorted(map(str, owned(second)))


@pytest.mark.parametrize(
    "topology", [pytest.param(count_by_key, id="one task", marks=pytest.mark.slow), pytest.param(word_count, id="a repartition")]
)
def test_should_replay_only_the_rest_where_a_standby_takes_over(
    topology: Callable[..., Any], kafka: Kafka, run: Run, tmp_path: Path
) -> None:
    source, out = topics(kafka, "in", "out")
    config = {"application.id": unique("takeover"), "num.standby.replicas": 1, **QUICK}
    restored, updates = [Restored(), Restored()], [Updates(), Updates()]
    instances = [
        run(
            topology(source, out),
            {**config, "state.dir": str(tmp_path / str(i))},
            set_global_state_restore_listener=restored[i],
            set_standby_update_listener=updates[i],
        )
        for i in range(2)
    ]
    wait_until(lambda: any(copied(i) for i in instances) and all(running(i) or copied(i) for i in instances), "there is a copy")
    for _ in range(5):
        kafka.feed(source, texts(*((key, key) for key in KEYS)))
    assert counts(kafka, out, 5 * len(KEYS)) == up_to(**dict.fromkeys(KEYS, 5))
    wait_until(lambda: sum(u.loaded for u in updates) == 5 * len(KEYS), "the copies have it all")
    staying, leaving = (0, 1) if copied(instances[0]) else (1, 0)
    moved = owned(instances[leaving])
    assert copied(instances[staying]) <= moved
    assert value(instances[staying], "standby-updating-tasks", "stream-state-updater-metrics") == 1
    assert value(instances[staying], "standby-update-ratio", "stream-state-updater-metrics") > 0
    wait_until(lambda: value(instances[staying], "records-lag", "penstock-standby-metrics") == 0, "the lag is shown")
    assert value(instances[leaving], "active-process-ratio", "stream-task-metrics") > 0
    assert value(instances[leaving], "restore-remaining-records-total", "stream-task-metrics") == 0
    instances[leaving].close()
    wait_until(lambda: moved <= running(instances[staying]), "the other has taken over")
    assert restored[staying].records == 0
    assert {reason for _, reason in updates[staying].suspended} == {SuspendReason.PROMOTED}
    kafka.feed(source, texts(*((key, key) for key in KEYS)))
    assert counts(kafka, out, 6 * len(KEYS)) == up_to(**dict.fromkeys(KEYS, 6))


def test_should_warm_up_elsewhere_before_tasks_move(kafka: Kafka, run: Run, tmp_path: Path) -> None:
    source, out = topics(kafka, "in", "out", partitions=2)
    config = {"application.id": unique("warmup"), "acceptable.recovery.lag": 50, "max.warmup.replicas": 1, **QUICK}
    first = run(count_by_key(source, out), {**config, "state.dir": str(tmp_path / "1")})
    for _ in range(5):
        kafka.feed(source, keyed(KEYS))
    assert counts(kafka, out, 5 * len(KEYS)) == up_to(**dict.fromkeys(KEYS, 5))
    restored, updates = Restored(), Updates()
    second = run(
        count_by_key(source, out),
        {**config, "state.dir": str(tmp_path / "2")},
        set_global_state_restore_listener=restored,
        set_standby_update_listener=updates,
    )
    wait_until(lambda: len(running(first)) == len(running(second)) == 1, "each has one task")
    assert restored.records <= 50  # the rest was there before the task moved
    assert updates.loaded >= 50
    assert updates.suspended[0][1] is SuspendReason.PROMOTED
    kafka.feed(source, keyed(KEYS))
    assert counts(kafka, out, 6 * len(KEYS)) == up_to(**dict.fromkeys(KEYS, 6))


def test_should_let_copies_stand_still_while_paused_and_say_so(kafka: Kafka, run: Run, tmp_path: Path) -> None:
    source, out = topics(kafka, "in", "out")
    config = {"application.id": unique("paused"), "num.standby.replicas": 1, **QUICK}
    updates = [Updates(), Updates()]
    instances = [
        run(count_by_key(source, out), {**config, "state.dir": str(tmp_path / str(i))}, set_standby_update_listener=updates[i])
        for i in range(2)
    ]
    wait_until(lambda: [len(running(i)) for i in instances] == [1, 1] == [len(copied(i)) for i in instances], "each has a copy")

    def tasks(streams: Any) -> list[Any]:
        names = ("active-paused-tasks", "standby-paused-tasks", "standby-updating-tasks")
        return [value(streams, name, "stream-state-updater-metrics") for name in names]

    kafka.feed(source, keyed(KEYS))
    counts(kafka, out, len(KEYS))
    wait_until(lambda: updates[0].loaded + updates[1].loaded == len(KEYS), "the copies have followed")
    _, paused = instances
    paused.pause()
    assert tasks(paused) == [0, 1, 0]
    wait_until(lambda: not inside(paused).is_processing, "no turn is under way")
    before, done = updates[1].loaded, len(kafka.read(out))
    kafka.feed(source, keyed(KEYS))
    counts(kafka, out, done + 1)  # the other goes on
    assert updates[1].loaded == before
    assert not updates[1].suspended
    paused.resume()
    assert counts(kafka, out, 2 * len(KEYS)) == up_to(**dict.fromkeys(KEYS, 2))
    wait_until(lambda: updates[0].loaded + updates[1].loaded == 2 * len(KEYS), "the copies have followed")
    assert tasks(paused) == [0, 0, 1]


def test_should_move_nothing_when_static_members_are_restarted(kafka: Kafka, run: Run, tmp_path: Path) -> None:
    source, out = topics(kafka, "in", "out", partitions=4)
    config = {"application.id": unique("static"), **QUICK, "session.timeout.ms": 30_000}

    def start(i: int) -> Any:
        own = {"state.dir": str(tmp_path / str(i)), "group.instance.id": f"instance-{i}"}
        return run(count_by_key(source, out), {**config, **own})

    instances = [start(0), start(1)]
    wait_until(lambda: [len(owned(i)) for i in instances] == [2, 2], "each has two tasks")
    kafka.feed(source, keyed(KEYS))
    assert counts(kafka, out, len(KEYS)) == up_to(**dict.fromkeys(KEYS, 1))
    before, generation = [owned(i) for i in instances], inside(instances[0]).generation
    for i in range(2):
        assert instances[i].close()
        instances[i] = start(i)
    wait_until(lambda: [owned(i) for i in instances] == before, "each has its tasks again")
    assert {inside(i).generation for i in instances} == {generation}
    kafka.feed(source, keyed(KEYS))
    assert counts(kafka, out, 2 * len(KEYS)) == up_to(**dict.fromkeys(KEYS, 2))


@pytest.mark.slow
def test_should_move_nothing_in_twenty_rolling_restarts_of_static_members(kafka: Kafka, run: Run, tmp_path: Path) -> None:
    source, out = topics(kafka, "in", "out", partitions=6)
    config = {"application.id": unique("rolling"), **QUICK, "session.timeout.ms": 60_000, "num.standby.replicas": 1}
    replayed = Restored()

    def start(i: int) -> Any:
        own = {"state.dir": str(tmp_path / str(i)), "group.instance.id": f"instance-{i}"}
        return run(count_by_key(source, out), {**config, **own}, set_global_state_restore_listener=replayed)

    instances = [start(i) for i in range(3)]
    wait_until(lambda: [len(owned(i)) for i in instances] == [2, 2, 2], "each has two tasks")
    before, generation = [owned(i) for i in instances], inside(instances[0]).generation
    with Feed(kafka, source) as feed:
        for restart in range(20):
            i = restart % 3
            assert instances[i].close()
            instances[i] = start(i)
            assert [owned(instance) for instance in instances] == before
            assert {inside(instance).generation for instance in instances} == {generation}
    assert replayed.records == 0  # what was closed is on the disk as it was left
    assert counts(kafka, out, feed.rounds * len(KEYS)) == up_to(**dict.fromkeys(KEYS, feed.rounds))


@pytest.mark.slow
@pytest.mark.parametrize(("topology", "tasks"), [(count_by_key, 6), (word_count, 12)], ids=["tasks", "a pipeline"])
@pytest.mark.parametrize("replicas", [0, 1])
def test_should_count_exactly_once_from_one_to_three_instances_and_back(
    replicas: int, topology: Callable[..., Any], tasks: int, kafka: Kafka, run: Run, tmp_path: Path
) -> None:
    source, out = topics(kafka, "in", "out", partitions=6)
    config = {"application.id": unique("scale"), "num.standby.replicas": replicas, "acceptable.recovery.lag": 100, **QUICK}

    def start(i: int) -> Any:
        return run(topology(source, out), {**config, "state.dir": str(tmp_path / str(i))})

    instances = [start(0)]
    with Feed(kafka, source) as feed:
        feed.wait_rounds(20)
        instances += [start(1), start(2)]
        if topology is count_by_key:
            wait_until(lambda: [len(owned(i)) for i in instances] == [2, 2, 2], "each has two tasks")
        feed.wait_rounds(20)
        for i in (0, 1):
            assert instances[i].close()
            feed.wait_rounds(20)
        wait_until(lambda: len(owned(instances[2])) == tasks, "the last one has all tasks")
    assert counts(kafka, out, feed.rounds * len(KEYS)) == up_to(**dict.fromkeys(KEYS, feed.rounds))
