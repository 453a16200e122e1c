from __future__ import annotations

from typing import Any

import pytest

from penstock.config.streams_config import StreamsConfig
from penstock.dsl.builder import StreamsBuilder
from penstock.dsl.options import Consumed, Materialized, Produced
from penstock.operators.session_view import plain_sessions
from penstock.serdes.serde import Serdes
from penstock.state.capabilities import StoreCapabilities
from penstock.testing.topology_test_driver import TopologyTestDriver
from penstock.windows import EmitStrategy, SessionWindows

TEXT, LONG = Serdes.string(), Serdes.long()


def test_should_leave_a_store_without_headers_as_it_is() -> None:
    store = StoreCapabilities()
    assert plain_sessions(store) is store


@pytest.mark.parametrize("emit", [EmitStrategy.on_window_update(), EmitStrategy.on_window_close()])
@pytest.mark.parametrize("cache", [0, 1000])
def test_should_count_sessions_the_same_with_headers_kept(emit: EmitStrategy, cache: int) -> None:
    def run(**config: Any) -> list[tuple[str, int | None, int]]:
        builder = StreamsBuilder()
        grouped = builder.stream("in", Consumed(TEXT, TEXT)).group_by_key().windowed_by(SessionWindows(5, grace=0))
        counts = grouped.emit_strategy(emit).count(Materialized("sessions"))
        counts.to_stream(lambda key, value: str(key)).to("out", Produced(TEXT, LONG))
        settings = {"application.id": "app", "statestore.cache.max.bytes": cache, **config}
        with TopologyTestDriver(builder.build(), StreamsConfig.partial(settings)) as driver:
            topic = driver.create_input_topic("in", TEXT, TEXT)
            for time in (1, 9, 5, 30):
                topic.pipe_input("k", "v", timestamp=time)
            records = driver.create_output_topic("out", TEXT, LONG).read_records()
            return [(record.key, record.value, record.timestamp) for record in records]

    assert run(**{"dsl.store.format": "HEADERS"}) == run()
