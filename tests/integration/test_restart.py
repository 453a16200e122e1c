"""An application that was stopped goes on where it was."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from penstock import StateRestoreListener
from tests.harness.kafka import Kafka, unique, wait_until
from tests.integration.helpers import counts, keyed, texts, topics, up_to
from tests.integration.topologies import count_by_key, remembering, word_count

Run = Callable[..., Any]


class Restored(StateRestoreListener):
    """Remembers how many records each store was restored from."""

    def __init__(self) -> None:
        self.totals: dict[str, int] = {}

    def on_restore_end(self, topic_partition: Any, store_name: str, total_restored: int) -> None:
        self.totals[store_name] = self.totals.get(store_name, 0) + total_restored


@pytest.mark.parametrize("guarantee", ["exactly_once_v2", pytest.param("at_least_once", marks=pytest.mark.slow)])
@pytest.mark.parametrize("topology", [count_by_key, word_count])
def test_should_go_on_from_the_commit_and_restore_nothing(
    topology: Callable[..., Any], guarantee: str, kafka: Kafka, run: Run
) -> None:
    source, out = topics(kafka, "in", "out")
    config = {"application.id": unique("restart"), "processing.guarantee": guarantee}
    kafka.feed(source, texts(("a", "a"), ("b", "b"), ("a", "a")))
    first = run(topology(source, out), config)
    assert counts(kafka, out, 3) == up_to(a=2, b=1)
    assert first.close()
    kafka.feed(source, texts(("a", "a"), ("c", "c")))
    restored = Restored()
    run(topology(source, out), config, set_global_state_restore_listener=restored)
    assert counts(kafka, out, 5) == up_to(a=3, b=1, c=1)
    assert restored.totals == {}


def test_should_restore_everything_when_the_folder_is_gone(kafka: Kafka, run: Run, tmp_path: Path) -> None:
    source, out = topics(kafka, "in", "out")
    config = {"application.id": unique("cleaned"), "processing.guarantee": "exactly_once_v2"}
    kafka.feed(source, keyed("abcabcaa"))
    first = run(count_by_key(source, out), config)
    assert counts(kafka, out, 8) == up_to(a=4, b=2, c=2)
    assert first.close()
    first.clean_up()
    assert not (tmp_path / "state" / config["application.id"]).exists()
    kafka.feed(source, keyed("ab"))
    restored = Restored()
    run(count_by_key(source, out), config, set_global_state_restore_listener=restored)
    assert counts(kafka, out, 10) == up_to(a=5, b=3, c=2)
    assert restored.totals == {"counts": 8}


def test_should_restore_an_in_memory_store(kafka: Kafka, run: Run) -> None:
    source, out = topics(kafka, "in", "out")
    config = {"application.id": unique("memory"), "processing.guarantee": "exactly_once_v2"}
    topology = count_by_key(source, out, store_type="in_memory")
    kafka.feed(source, keyed("aab"))
    first = run(topology, config)
    assert counts(kafka, out, 3) == up_to(a=2, b=1)
    assert first.close()
    kafka.feed(source, keyed("a"))
    run(topology, config)
    assert counts(kafka, out, 4) == up_to(a=3, b=1)


def test_should_show_its_offsets_to_group_tools(kafka: Kafka, run: Run) -> None:
    direct, shuffled, out = topics(kafka, "direct", "shuffled", "out")
    for topology, source in ((count_by_key, direct), (word_count, shuffled)):
        application = unique("offsets")
        kafka.feed(source, texts(*((f"k{i}", "word") for i in range(20))))
        run(topology(source, out), {"application.id": application, "processing.guarantee": "exactly_once_v2"})
        wait_until(lambda a=application, s=source: kafka.has_consumed(a, s), "the group has consumed everything")
        assert kafka.ends(source) == {p: kafka.committed(application)[source, p] for p in (0, 1)}


@pytest.mark.parametrize("repartitioned", [False, True])
def test_should_keep_its_position_when_only_timers_run(repartitioned: bool, kafka: Kafka, run: Run, tmp_path: Path) -> None:
    source, out = topics(kafka, "in", "out", partitions=1)
    config = {"application.id": unique("timers"), "processing.guarantee": "exactly_once_v2"}
    topology = remembering(source, out, tmp_path, repartitioned=repartitioned)
    kafka.feed(source, texts(("1", "a"), ("2", "b"), ("3", "a")))
    first = run(topology, config)
    several = len(kafka.read(out, 3)) + 3
    kafka.read(out, several)  # more strikes of the clock, without input
    assert first.close()
    kafka.feed(source, texts(("4", "b")))
    run(topology, config)
    expected = b"a=2,b=2"
    wait_until(lambda: any(m.value == expected for m in kafka.read(out)), "the store has each record once")
    assert {m.value for m in kafka.read(out)} <= {b"", b"a=2,b=1", expected, b"a=1", b"a=1,b=1"}


def test_should_strike_the_clock_after_a_restart_without_input(kafka: Kafka, run: Run, tmp_path: Path) -> None:
    source, out = topics(kafka, "in", "out", partitions=1)
    run(remembering(source, out, tmp_path, repartitioned=False), {"application.id": unique("clock")})
    assert kafka.read(out, 2)  # nothing was ever fed
