"""The one view of an instance that tests and benchmarks look through."""

from __future__ import annotations

from typing import Any

import pytest

from penstock import Consumed, KafkaStreams, StreamsBuilder
from penstock.client.inside import inside


def test_should_be_there_before_the_start_with_nothing_in_it() -> None:
    builder = StreamsBuilder()
    builder.stream("in", Consumed(str, str)).to("out")
    view = inside(KafkaStreams(builder.build(), {"application.id": "app", "bootstrap.servers": "none:1", "client.id": "me"}))
    assert (view.client_id, view.tasks, view.fetched, view.generation, view.polls) == ("me", {}, {}, -1, 0)
    assert view.membership is None
    assert not view.is_processing
    with pytest.raises(RuntimeError, match="no threads before its start"):
        view.spark_threads  # noqa: B018 - it is asked for
    with pytest.raises(RuntimeError, match="no session before its start"):
        view.session  # noqa: B018 - it is asked for


def test_should_tell_everybody_who_listens() -> None:
    builder = StreamsBuilder()
    builder.stream("in", Consumed(str, str)).to("out")
    view = inside(KafkaStreams(builder.build(), {"application.id": "app", "bootstrap.servers": "none:1"}))
    heard: list[Any] = []
    for number in range(2):
        view.watch_batches(lambda thread, batch, number=number: heard.append((number, thread, batch)))
        view.watch_restores(lambda progress, what, number=number: heard.append((number, progress, what)))
    batch: Any = "batch"
    progress: Any = "progress"
    view.batch_done(3, batch)
    view.restored(progress, "start")
    assert heard == [(0, 3, "batch"), (1, 3, "batch"), (0, "progress", "start"), (1, "progress", "start")]
