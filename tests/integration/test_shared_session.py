"""Sessions that applications share with each other and with the user: who ends them, and who gets their cores."""

from __future__ import annotations

import venv
from pathlib import Path
from typing import Any

import pytest

from penstock import ConfigError, KafkaStreams
from tests.conftest import application_config
from tests.harness.kafka import Kafka, unique, wait_until
from tests.harness.sharing import SharedProcess
from tests.harness.waiting import LIMIT
from tests.integration.helpers import counts, keyed, topics, up_to
from tests.integration.topologies import count_by_key

LOCAL = {"spark.master": "local[2]", "spark.ui.enabled": "false", "spark.driver.host": "127.0.0.1"}

ALLOCATIONS = """<?xml version="1.0"?>
<allocations>
  <pool name="threads">
    <schedulingMode>FIFO</schedulingMode>
    <weight>1</weight>
    <minShare>1</minShare>
  </pool>
</allocations>
"""


class Application:
    """One application in a shared process, with topics of its own."""

    def __init__(self, process: SharedProcess, kafka: Kafka, folder: Path, **config: Any) -> None:
        self._process, self._kafka = process, kafka
        self.name, (self._source, self._out), self._fed = unique("shared"), topics(kafka, "in", "out"), 0
        config = application_config(kafka, folder, {"application.id": self.name, "spark.ui.enabled": "false", **config})
        process.do("start", name=self.name, config=config, topics=[self._source, self._out])

    def feed(self) -> None:
        self._fed += 1
        self._kafka.feed(self._source, keyed("ab"))

    @property
    def has_counted(self) -> bool:
        return sum(self._kafka.ends(self._out).values()) == 2 * self._fed

    def works(self) -> bool:
        """Whether what is fed now is counted."""
        self.feed()
        return counts(self._kafka, self._out, 2 * self._fed) == up_to(a=self._fed, b=self._fed)

    def ask(self, what: str) -> Any:
        return self._process.do(what, name=self.name)


@pytest.mark.slow
def test_should_take_a_session_of_the_users_as_it_is_leave_it_and_end_with_it(kafka: Kafka, tmp_path: Path) -> None:
    with SharedProcess(tmp_path) as process:
        process.do("make_session", settings={**LOCAL, "spark.sql.shuffle.partitions": "7"})
        before = process.do("settings")
        wanted = {"spark.sql.shuffle.partitions": "3", "spark.sql.ansi.enabled": "false", "spark.master": "local[2]"}
        application = Application(process, kafka, tmp_path, **wanted)
        assert application.works()
        assert process.do("settings") == before
        (told,) = (line for line in process.do("log") if "no effect" in line)
        assert "spark.sql.ansi.enabled, spark.sql.shuffle.partitions of its config" in told
        assert application.ask("close")
        assert process.do("count") == 7
        assert process.do("settings") == before

        left = Application(process, kafka, tmp_path)
        assert left.works()
        process.do("stop_session")
        wait_until(lambda: left.ask("state") == "ERROR", "the application has noticed")
        assert "The SparkSession was stopped" in left.ask("failure")

        # Without a session of the user's: the applications' own, which the last of them ends.
        first, second = (Application(process, kafka, tmp_path, **LOCAL) for _ in range(2))
        assert first.works()
        assert first.ask("close")
        assert second.works()
        assert process.do("has_session")
        assert second.ask("close")
        assert not process.do("has_session")


@pytest.mark.slow  # a process and a session of its own
def test_should_go_on_in_its_pool_while_tasks_of_the_users_wait_for_cores(kafka: Kafka, tmp_path: Path) -> None:
    allocations = tmp_path / "fairscheduler.xml"
    allocations.write_text(ALLOCATIONS)

    def begun() -> int:
        return len(list(tmp_path.glob("begun-*")))

    with SharedProcess(tmp_path) as process:
        fair = {"spark.scheduler.mode": "FAIR", "spark.scheduler.allocation.file": allocations.as_uri()}
        process.do("make_session", settings={**LOCAL, **fair})
        application = Application(process, kafka, tmp_path, **{"spark.scheduler.pool": "threads"})
        assert application.works()
        process.do("occupy", folder=str(tmp_path), tasks=6)
        wait_until(lambda: begun() == 2, "the user's tasks have both cores")
        for number in range(2):
            application.feed()
            wait_until(lambda: application.ask("waiting") == [True], "the thread tells that it waits for a core")
            assert not application.has_counted
            (tmp_path / f"go-{number}").touch()  # of the user's four that wait none comes first
            wait_until(lambda: application.has_counted, "the application has had the core")
            assert begun() <= 3 + number
            wait_until(lambda number=number: begun() == 3 + number, "the next of the user's tasks has the core")
        for number in range(6):
            (tmp_path / f"go-{number}").touch()
        assert application.works()
        assert application.ask("waiting") == [False]
        assert application.ask("close")


def test_should_say_which_python_of_the_users_session_lacks_what(kafka: Kafka, tmp_path: Path) -> None:
    venv.create(tmp_path / "bare", symlinks=True)
    bare = str(tmp_path / "bare" / "bin" / "python")
    with SharedProcess(tmp_path, workers=bare) as process:
        process.do("make_session", settings=LOCAL)
        application = Application(process, kafka, tmp_path)
        wait_until(lambda: application.ask("state") == "ERROR", "the application has ended")
        told = application.ask("failure")
        assert f"The executors' Python, {bare}, cannot run penstock: ModuleNotFoundError" in told
        assert "PYSPARK_PYTHON" in told
        assert process.do("count") == 7


def test_should_refuse_settings_that_cannot_work_before_it_does_anything(kafka: Kafka, spark: Any, tmp_path: Path) -> None:
    source, out = topics(kafka, "in", "out")
    name = unique("refused")
    before = set(kafka.admin.list_topics(timeout=LIMIT).topics)
    streams = KafkaStreams(count_by_key(source, out), application_config(kafka, tmp_path, {"application.id": name}), spark=spark)
    spark.sparkContext._conf.set("spark.python.worker.reuse", "false")
    try:
        with pytest.raises(ConfigError, match=r"spark\.python\.worker\.reuse=false"):
            streams.start()
    finally:
        spark.sparkContext._conf.set("spark.python.worker.reuse", "true")
    assert streams.state.name == "ERROR"
    assert set(kafka.admin.list_topics(timeout=LIMIT).topics) == before
    assert name not in {group.group_id for group in kafka.admin.list_consumer_groups().result(LIMIT).valid}
    assert not (tmp_path / "state").exists()
