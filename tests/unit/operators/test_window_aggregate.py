from __future__ import annotations

import logging
from typing import Any

import pytest

from penstock.change import Change
from penstock.errors import TopologyError
from penstock.operators import KStreamWindowAggregate
from penstock.operators.time_tracker import EMIT_INTERVAL_WINDOWED_AGGREGATION
from penstock.state.store import ValueAndTimestamp
from penstock.windows import EmitStrategy, TimeWindow, TimeWindows, UnlimitedWindows, Windowed
from tests.unit.operators.operator_kit import FakeContext, FakeWindowStore, Runner

UPDATE = EmitStrategy.on_window_update()
CLOSE = EmitStrategy.on_window_close()


def _add(key: Any, value: Any, aggregate: str) -> str:
    return f"{aggregate}+{value}"


def _aggregate(windows: Any, strategy: EmitStrategy = UPDATE) -> KStreamWindowAggregate:
    return KStreamWindowAggregate(windows, "store", strategy, lambda: "0", _add)


def _runner(supplier: KStreamWindowAggregate, size: int = 10, context: FakeContext | None = None) -> Runner:
    configs = {EMIT_INTERVAL_WINDOWED_AGGREGATION: 0}
    return Runner(supplier, context or FakeContext({"store": FakeWindowStore(size)}, configs))


def _window(key: str, start: int, end: int) -> Windowed[str]:
    return Windowed(key, TimeWindow(start, end))


def test_should_update_every_window_a_record_falls_into_oldest_first() -> None:
    runner = _runner(_aggregate(TimeWindows(10, grace=100, advance=5)))

    assert runner.pipe("k", "a", 7) == [
        (_window("k", 0, 10), Change("0+a", None), 7),
        (_window("k", 5, 15), Change("0+a", None), 7),
    ]
    assert runner.pipe("k", "b", 3) == [(_window("k", 0, 10), Change("0+a+b", None), 7)]


def test_should_drop_a_record_when_its_window_ends_at_the_close_time(caplog: pytest.LogCaptureFixture) -> None:
    runner = _runner(_aggregate(TimeWindows(10, grace=5)))
    runner.pipe("k", "a", 14)
    assert len(runner.pipe("k", "b", 9)) == 1
    runner.pipe("k", "a", 15)

    with caplog.at_level(logging.WARNING, "penstock.operators"):
        assert runner.pipe("k", "late", 9) == []
    assert caplog.messages == [
        "Skipping record for expired window. topic=[topic] partition=[0] offset=[3] timestamp=[9] window=[0,10) "
        "expiration=[10] streamTime=[15]"
    ]
    assert runner.context.dropped == [""]


def test_should_say_so_when_an_expired_record_comes_from_no_topic(caplog: pytest.LogCaptureFixture) -> None:
    runner = _runner(_aggregate(TimeWindows(10, grace=0)))
    runner.pipe("k", "a", 50)
    runner.context.record_context = None

    with caplog.at_level(logging.WARNING, "penstock.operators"):
        from penstock.record import Record

        runner.processor.process(Record("k", "late", 1))
    assert caplog.messages == [
        "Skipping record for expired window. Topic, partition, and offset not known. timestamp=[1] window=[0,10) "
        "expiration=[50] streamTime=[50]"
    ]


def test_should_aggregate_null_values_and_drop_null_keys() -> None:
    runner = _runner(_aggregate(TimeWindows(10, grace=0)))

    assert runner.pipe("k", None, 1) == [(_window("k", 0, 10), Change("0+None", None), 1)]
    assert runner.pipe(None, "v", 1) == []
    assert runner.context.dropped == ["null key"]


def test_should_send_the_initial_value_as_the_first_old_value() -> None:
    supplier = _aggregate(TimeWindows(10, grace=0))
    supplier.enable_sending_old_values()
    runner = _runner(supplier)

    assert runner.pipe("k", "a", 1) == [(_window("k", 0, 10), Change("0+a", "0"), 1)]
    assert runner.pipe("k", "b", 2) == [(_window("k", 0, 10), Change("0+a+b", "0+a"), 2)]


def test_should_remove_a_window_whose_aggregate_becomes_null() -> None:
    supplier = KStreamWindowAggregate(TimeWindows(10, grace=0), "store", UPDATE, lambda: None, lambda k, v, agg: v)
    runner = _runner(supplier)
    runner.pipe("k", "a", 1)

    assert runner.pipe("k", None, 2) == [(_window("k", 0, 10), Change(None, None), 2)]
    assert runner.context.stores["store"].entries == []


def test_should_keep_the_headers_of_the_record() -> None:
    context = FakeContext({"store": FakeWindowStore(10)})
    runner = _runner(_aggregate(TimeWindows(10, grace=0)), context=context)
    seen = []
    context.on_forward = lambda record: seen.append(record.headers)
    runner.pipe("k", "a", 1, headers=(("h", b"1"),))

    assert seen == [(("h", b"1"),)]


def test_should_put_everything_into_an_unlimited_window() -> None:
    runner = _runner(_aggregate(UnlimitedWindows(start=5)))

    assert runner.pipe("k", "early", 4) == []
    ((windowed, change, timestamp),) = runner.pipe("k", "a", 1000)
    assert (windowed.window.start, windowed.window.end, change.new_value, timestamp) == (5, 2**63 - 1, "0+a", 1000)


def test_should_refuse_final_results_of_windows_that_never_close() -> None:
    with pytest.raises(TopologyError, match="on_window_close"):
        _aggregate(UnlimitedWindows(), CLOSE)


def test_should_emit_a_window_once_when_it_closes() -> None:
    runner = _runner(_aggregate(TimeWindows(10, grace=5), CLOSE))

    assert runner.pipe("b", "1", 3) == []
    assert runner.pipe("a", "2", 8) == []
    assert runner.pipe("a", "3", 14) == []
    assert runner.pipe("a", "4", 15) == [
        (_window("a", 0, 10), Change("0+2", None), 8),
        (_window("b", 0, 10), Change("0+1", None), 3),
    ]
    assert runner.pipe("a", "5", 24) == []
    assert runner.pipe("a", "6", 25) == [(_window("a", 10, 20), Change("0+3+4", None), 15)]


def test_should_emit_hopping_windows_as_each_closes() -> None:
    runner = _runner(_aggregate(TimeWindows(10, grace=0, advance=5), CLOSE))
    runner.pipe("k", "1", 7)

    assert runner.pipe("k", "2", 10) == [(_window("k", 0, 10), Change("0+1", None), 7)]
    assert runner.pipe("k", "3", 14) == []
    assert runner.pipe("k", "4", 15) == [(_window("k", 5, 15), Change("0+1+2+3", None), 14)]


def test_should_look_for_closed_windows_once_per_interval_of_wall_clock_time() -> None:
    context = FakeContext({"store": FakeWindowStore(10)})
    runner = _runner(_aggregate(TimeWindows(10, grace=0), CLOSE), context=context)
    context.wall_clock_ms = 100
    runner.pipe("k", "1", 3)
    context.wall_clock_ms = 1099
    assert runner.pipe("k", "2", 10) == []
    context.wall_clock_ms = 1100
    assert runner.pipe("k", "3", 11) == [(_window("k", 0, 10), Change("0+1", None), 3)]


def test_should_go_on_where_it_was_when_the_task_moves() -> None:
    supplier = _aggregate(TimeWindows(10, grace=5), CLOSE)
    runner = _runner(supplier)
    runner.pipe("k", "1", 3)
    runner.pipe("k", "2", 15)
    moved = FakeContext(runner.context.stores, runner.context.app_configs)
    moved.metadata = dict(runner.context.metadata)
    after = _runner(supplier, context=moved)

    assert after.pipe("k", "late", 9) == []
    assert moved.dropped == [""]
    assert after.pipe("k", "4", 25) == [(_window("k", 10, 20), Change("0+2", None), 15)]


def test_should_measure_final_results() -> None:
    runner = _runner(_aggregate(TimeWindows(10, grace=0), CLOSE))
    runner.pipe("a", "1", 3)
    runner.pipe("b", "1", 3)
    runner.pipe("b", "1", 10)

    assert runner.context.metrics.value("window-aggregate-final-emit-total", "stream-processor-node-metrics") == 2


def test_should_look_up_a_window_of_the_table() -> None:
    context = FakeContext({"store": FakeWindowStore(10)})
    context.stores["store"].put("k", ValueAndTimestamp("v", 3), 0)
    view = _aggregate(TimeWindows(10, grace=0)).view()
    getter = view.get()
    getter.init(context)

    assert view.store_names == ("store",)
    assert getter.get(_window("k", 0, 10)) == ValueAndTimestamp("v", 3)
    assert getter.get(_window("k", 10, 20)) is None
    assert not getter.is_versioned
