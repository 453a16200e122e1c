"""A task whose topology has changed since its state was written to disk."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from penstock import Consumed, Grouped, Materialized, Produced, StreamsBuilder, TimeWindows
from penstock.topology.topology import Topology
from tests.unit.runtime.harness import LONG, STRING, Harness

HOUR = 3_600_000
AT = 100 * HOUR


def hourly_counts(grace: int) -> Topology:
    builder = StreamsBuilder()
    grouped = builder.stream("in", Consumed(STRING, STRING)).group_by_key(Grouped(key_serde=STRING, value_serde=STRING))
    counts = grouped.windowed_by(TimeWindows(HOUR, grace=grace)).count(Materialized("per-hour", STRING, LONG))
    counts.to_stream(lambda window, _: window.key).to("out", Produced(STRING, LONG))
    return builder.build()


@pytest.mark.parametrize("fresh", [True, False], ids=["no local state", "state on disk"])
@pytest.mark.parametrize(("before", "after"), [(0, HOUR), (HOUR, 0), (5 * HOUR, 11 * HOUR)])
def test_should_go_on_with_a_window_whose_grace_has_changed(before: int, after: int, fresh: bool, tmp_path: Path) -> None:
    harness = Harness(hourly_counts(before), tmp_path / "task")
    harness.open()
    harness.add("in", *[("a", "x", AT)] * 5)
    harness.task.process_all()
    harness.commit()
    harness.task.suspend()
    harness.task.close_clean()
    if fresh:
        shutil.rmtree(tmp_path / "task")
    harness.topology = hourly_counts(after)
    harness.open()
    harness.outputs.clear()
    harness.add("in", ("a", "x", AT), first_offset=5)
    harness.task.process_all()
    harness.commit()
    assert [int.from_bytes(output.value, "big") for output in harness.outputs if output.topic == "out"] == [6]
    harness.task.suspend()
    harness.task.close_clean()
