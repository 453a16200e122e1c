"""What a worker logs comes to the driver with its report."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from penstock import KafkaStreams
from penstock.log_lines import LogLine, kept_lines
from penstock.spark.messages import Residency, ThreadReport
from penstock.spark.reports import read_report, write_report
from penstock.spark.worker import residency as module
from penstock.spark.worker.standby_worker import UpdateAnswer, read_update, write_update
from tests.unit.client.queries.world import topology
from tests.unit.client.web.served import Served


def test_should_send_warnings_home_with_the_report(monkeypatch: pytest.MonkeyPatch) -> None:
    kept_lines().take()
    log = logging.getLogger("penstock.runtime.task")
    monkeypatch.setattr(module, "_refuse_second_attempts", lambda: log.warning("task %s is odd", "0_1"))
    (report,) = map(read_report, module.run_residency(Residency("key", 0, 1), iter([0])))
    assert report.failure is not None, "also with a failure"
    assert [(line.level, line.logger, line.text) for line in report.logs] == [("WARNING", log.name, "task 0_1 is odd")]
    (report,) = map(read_report, module.run_residency(Residency("key", 0, 1), iter([0])))
    assert len(report.logs) == 1, "what was sent is not sent again"


def test_should_tell_them_in_the_drivers_log_and_on_the_page(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    served = Served(tmp_path).serve()
    streams = KafkaStreams(topology(), {"application.id": "app", "bootstrap.servers": "localhost:9", "client.id": "app"})
    thread = streams._threads.add()
    logging.getLogger("penstock.client").error("said by the driver itself")
    line = LogLine(1_700_000_000_000, "ERROR", "penstock.runtime.task", "task 0_1 is odd")
    streams._on_reports({thread.index: ThreadReport("worker", logs=(line,))})
    told = f"stream-thread [{thread.name}]: task 0_1 is odd"
    assert [(record.levelname, record.created) for record in caplog.records if record.getMessage() == told] == [
        ("ERROR", 1_700_000_000.0)
    ]
    errors = served.get("/api/app")[1]["errors"]
    assert errors[-1] == {"time": 1_700_000_000_000, "level": "ERROR", "message": told}
    assert errors[0]["message"] == "said by the driver itself", "the newest first, whoever said it"
    served.close()


def test_should_travel_with_every_kind_of_report() -> None:
    lines = (LogLine(1, "WARNING", "penstock.x", "odd"),)
    assert read_report(write_report(ThreadReport("worker", logs=lines))).logs == lines
    assert read_update(write_update(UpdateAnswer("worker", logs=lines))).logs == lines
