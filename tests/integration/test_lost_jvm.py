"""kill -9 of Spark's JVM: applications go on in a session of their own, and end with one of the user's."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.harness.kafka import Kafka, wait_until
from tests.harness.sharing import SharedProcess
from tests.harness.waiting import LIMIT
from tests.integration.test_shared_session import LOCAL, Application


def members(kafka: Kafka, group: str) -> int:
    described = kafka.admin.describe_consumer_groups([group])[group].result(LIMIT)
    return len(described.members)


@pytest.mark.slow  # several sessions of Spark, one after the other
def test_should_end_with_the_jvm_of_the_users_session_and_outlive_that_of_their_own(kafka: Kafka, tmp_path: Path) -> None:
    with SharedProcess(tmp_path) as process:
        process.do("make_session", settings=LOCAL)
        given = Application(process, kafka, tmp_path)
        assert given.works()
        assert members(kafka, given.name) == 1
        process.do("kill_jvm")
        given.feed()
        wait_until(lambda: given.ask("state") == "ERROR", "the application has noticed", interval=0.01)
        assert members(kafka, given.name) == 0
        assert "its JVM has ended" in given.ask("failure")

        # In the same process a session can be made all the same. It is the applications' own, and they make it again.
        first, second = (Application(process, kafka, tmp_path, **LOCAL) for _ in range(2))
        assert first.works()
        assert second.works()
        assert first.ask("table") == {"a": 1, "b": 1}
        process.do("kill_jvm")
        assert first.works()
        assert second.works()
        wait_until(lambda: first.ask("state") == second.ask("state") == "RUNNING", "both run again")
        assert first.ask("table") == {"a": 2, "b": 2}
        assert [application.ask("failure") for application in (first, second)] == ["None", "None"]
        assert first.ask("close")
        assert second.works()
        assert second.ask("close")
        assert not process.do("has_session")
