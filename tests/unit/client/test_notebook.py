from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from penstock import KafkaStreams, Serdes, StreamsBuilder, StreamsError
from penstock.client.notebook import LiveDisplay
from penstock.client.summary import Summary, ThreadRow
from penstock.dsl.options import Consumed
from penstock.ids import TaskId, TopicPartition
from penstock.query.result import FailureReason, QueryResult, StateQueryResult
from penstock.spark.messages import RestoreProgress
from penstock.state.iterators import PeekingIterator
from tests.unit.client.web.served import Served
from tests.unit.client.web.test_server import fill


def test_should_refuse_a_live_table_outside_a_notebook() -> None:
    with pytest.raises(StreamsError, match="needs a notebook"):
        LiveDisplay(lambda: "", 1.0, lambda: True, "live")
    with pytest.raises(ValueError, match="more than 0"):
        LiveDisplay(lambda: "", 0, lambda: True, "live")


def test_should_show_a_topology_as_a_picture_and_an_application_that_has_not_begun() -> None:
    builder = StreamsBuilder()
    builder.stream("in", Consumed(Serdes.string(), Serdes.string())).to("out")
    topology = builder.build()
    assert topology._repr_svg_().startswith("<svg")
    serdes = {"default.key.serde": Serdes.string(), "default.value.serde": Serdes.string()}
    streams = KafkaStreams(topology, {"application.id": "a-b", "bootstrap.servers": "localhost:9", **serdes})
    assert "<b>a-b</b> CREATED" in streams._repr_html_()


def test_should_show_stores_as_tables(tmp_path: Path) -> None:
    served = Served(tmp_path).serve()
    try:
        fill(served)
        store = served.world.queries.store
        first = store("counts").to_html(10)
        assert first.count("<tr>") == 11
        assert "The first 10 entries on this instance; there are more." in first
        assert '<td style="text-align:left">a/b ü</td><td style="text-align:left">1970-01-01 00:00:01 UTC</td>' in (
            store("windows")._repr_html_()
        )
        assert "1 entry on this instance." in store("sessions")._repr_html_()
        assert "read by key" in store("versions").to_html()
        with pytest.raises(ValueError, match="limit is 0"):
            store("counts").to_html(0)
    finally:
        served.close()


def test_should_show_the_answer_of_each_partition_and_leave_iterators_alone() -> None:
    entries: Any = PeekingIterator(iter([("a", 1)]), "counts")
    result: StateQueryResult[Any] = StateQueryResult(
        {
            0: QueryResult.for_result(1234),
            1: QueryResult.for_failure(FailureReason.NOT_PRESENT, "<not here>"),
            2: QueryResult.for_result(entries),
        }
    )
    shown = result._repr_html_()
    assert "1,234" in shown
    assert "NOT_PRESENT: &lt;not here&gt;" in shown
    assert list(entries) == [("a", 1)], "to show an iterator does not use it up"


def test_should_summarise_an_application() -> None:
    progress = RestoreProgress(TaskId(0, 1), "counts", TopicPartition("changelog", 1), 0, 250, 1000, 250)
    threads = [ThreadRow("app-StreamThread-1", "RUNNING", ["0_0", "0_1"], 1234), ThreadRow("t2", "STARTING", [], None)]
    summary = Summary("app", "RUNNING", None, threads, 1234, 500.4, 10.0, [progress], "http://localhost:1/", ValueError("<boom>"))
    shown = summary.html()
    for text in ("lag 1,234", "500 records/s in", "250 of 1,000 records", "http://localhost:1/", "&lt;boom&gt;", "not known"):
        assert text in shown
