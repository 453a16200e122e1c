"""Processors of the user's own see the same whether the bytes of a turn are read together or record by record."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from penstock import Consumed, Processor, Produced, PunctuationType, Record, Serde, Stores, StreamsBuilder
from penstock.batches.record_batch import RawBatch, records_of
from penstock.errors import ProcessingError
from penstock.ids import TopicPartition
from penstock.metrics.registry import Metrics
from penstock.record import RawRecord
from penstock.topology.execution_plan import ExecutionMode
from tests.harness.thoroughness import examples
from tests.unit.runtime.harness import LONG, STRING, TASK, Harness, config, set_threshold

_SEGMENT = 60_000  # a segment of a window store is no shorter: thirty milliseconds of a record's time go into one


class Watching(Processor[str, str, str, str]):
    """Tells with each record what a processor can see, and keeps windows and counts."""

    stores = (
        Stores.key_value_store_builder(Stores.persistent_key_value_store("counts"), STRING, LONG),
        Stores.window_store_builder(Stores.persistent_window_store("seen", 40, 10), STRING, STRING),
        Stores.window_store_builder(Stores.persistent_window_store("segments", 100_000, 10), STRING, STRING),
    )

    def init(self, context: Any) -> None:
        self.context = context
        self.counts, self.seen = context.get_state_store("counts"), context.get_state_store("seen")
        self.segments = context.get_state_store("segments")
        context.schedule(7, PunctuationType.STREAM_TIME, self.punctuate)

    def punctuate(self, timestamp: int) -> None:
        self.context.forward(Record("punctuated", f"{timestamp} {self.context.current_system_time_ms()}", timestamp))

    def process(self, record: Record[str, str]) -> None:
        if record.value == "x":
            raise ValueError("does not like x")
        count = (self.counts.get(record.key) or 0) + 1
        self.counts.put(record.key, count)
        with self.seen.fetch(record.key, record.timestamp - 10, record.timestamp + 10) as found:
            windows = list(found)
        self.seen.put(record.key, None if record.value == "gone" else record.value, record.timestamp)
        at = _SEGMENT // 30 * record.timestamp
        windows += self.segments.fetch(record.key, at - _SEGMENT // 2, at + _SEGMENT // 2)
        self.segments.put(record.key, None if record.value == "gone" else record.value, at)
        origin = self.context.record_metadata
        seen = f"{count} {windows} {origin} {self.context.current_stream_time_ms()} {self.context.current_system_time_ms()}"
        self.context.forward(record.with_value(seen))


def read(topic: str, data: bytes) -> str:
    return data.decode()


STRICT = Serde(STRING.serializer, read)  # Java's own reads anything as text
HOSTILE = "\udcff"
_AS_BYTES = "utf-8", "surrogateescape"
ROWS = st.tuples(
    st.sampled_from(["a", "b", "ab", "aa", None]),
    st.sampled_from(["1", "1", "22", "22", "x", "gone", HOSTILE]),
    st.integers(0, 90),
    st.sampled_from([(), (("h", b"1"),)]),
)
TURNS = st.lists(st.tuples(st.lists(ROWS, max_size=40), st.lists(ROWS, max_size=10)), min_size=1, max_size=3)


def by_topic(produced: Any) -> dict[str, list[Any]]:
    """What is written to each topic, in its order."""
    written: dict[str, list[Any]] = {}
    for record in records_of(produced):
        written.setdefault(record.topic, []).append(record)
    return written


def run(turns: Any, together: bool) -> Any:
    builder = StreamsBuilder()
    stream = builder.stream("in", Consumed(STRING, STRICT)).merge(builder.stream("rows", Consumed(STRING, STRICT)))
    stream.process(Watching).to("out", Produced(STRING, STRING))
    with tempfile.TemporaryDirectory() as folder:
        handlers = dict.fromkeys(("processing.exception.handler", "deserialization.exception.handler"), "log_and_continue")
        resuming = config().with_values(handlers)
        harness = Harness(builder.build(), Path(folder), resuming)
        harness.metrics = Metrics("INFO", clock=harness.clock)
        task = harness.open()
        set_threshold(task, 1 if together else 1_000_000)
        shown: list[Any] = []
        at = {"in": 0, "rows": 0}
        for turn in turns:
            for topic, rows in zip(at, turn):
                partition = TopicPartition(topic, TASK.partition)
                raw = [
                    RawRecord(*partition, at[topic] + i, time, key and key.encode(), value.encode(*_AS_BYTES), headers)
                    for i, (key, value, time, headers) in enumerate(rows)
                ]
                at[topic] += len(raw)
                task.add_records(partition, RawBatch.of(*partition, raw))
            task.update_lags(dict.fromkeys(task.input_partitions, 0))
            processed = task.process_all()
            commit = task.prepare_commit()
            shown.append((processed, by_topic(commit.outputs), by_topic(commit.changelogs), commit.offsets))
            task.post_commit({})
        for store in ("seen", "segments"):
            with task.state_manager.store(store).all() as windows:
                shown.append(list(windows))
        task.suspend()
        task.close_dirty()
        return shown


@settings(max_examples=examples(30), deadline=None)
@given(turns=TURNS)
def test_should_show_a_processor_the_same_as_record_by_record(turns: Any) -> None:
    assert run(turns, together=True) == run(turns, together=False)


def test_should_find_many_windows_of_a_key_as_it_finds_few() -> None:
    rows = [("a", str(time), time, ()) for time in range(40)]
    assert run([(rows, []), (rows[20:], rows)], together=True) == run([(rows, []), (rows[20:], rows)], together=False)


def test_should_leave_out_a_hostile_record_and_nothing_else() -> None:
    rows = [("a", str(time), time, ()) for time in range(40)]
    hostile = [*rows[:20], ("a", HOSTILE, 20, ()), *rows[20:]]
    turns = [(hostile, rows), (rows, hostile)]
    together = run(turns, together=True)
    assert together == run(turns, together=False)
    assert [processed for processed, *_ in together[:2]] == [80, 80]
    written = [sum(record.key == b"a" for sent in outputs.values() for record in sent) for _, outputs, *_ in together[:2]]
    assert written == [80, 80]


def test_should_take_large_values_and_no_keys_among_others() -> None:
    rows = [(None if time % 7 == 3 else "a", "1" * 2_000_000 if time == 9 else str(time), time, ()) for time in range(40)]
    together = run([(rows, [])], together=True)
    assert together == run([(rows, [])], together=False)
    (written,) = (sent for topic, sent in together[0][1].items() if topic == "out")
    assert max(len(record.value) for record in written) > 2_000_000


def failed_midway(together: bool, folder: Path) -> tuple[str, dict[str, Any], list[Any]]:
    """What is told of a record that fails in the second of three turns, and what the task has when it is opened again."""
    builder = StreamsBuilder()
    builder.stream("in", Consumed(STRING, STRING)).process(Watching).to("out", Produced(STRING, STRING))
    harness = Harness(builder.build(), folder)
    harness.metrics = Metrics("INFO", clock=harness.clock)
    partition, told = TopicPartition("in", TASK.partition), ""
    rows = [RawRecord(*partition, offset, offset, b"a", b"x" if offset == 61 else b"1") for offset in range(80)]
    for turn in (rows[:40], rows[40:]):
        task = harness.open()
        set_threshold(task, 1 if together else 1_000_000)
        assert task.execution_plan.mode is ExecutionMode.ROWS
        task.add_records(partition, RawBatch.of(*partition, turn))
        try:
            task.process_all()
            task.prepare_commit()
            task.post_commit({})
            task.suspend()
        except ProcessingError as exc:
            told = str(exc)
        task.close_dirty()
    task = harness.open()
    counts, windows = task.state_manager.store("counts"), task.state_manager.store("segments")
    with counts.all() as all_counts, windows.all() as all_windows:
        return told, dict(all_counts), list(all_windows)


def test_should_forget_what_a_turn_did_before_a_record_failed(tmp_path: Path) -> None:
    together = failed_midway(True, tmp_path / "together")
    assert "offset=61" in together[0]
    assert "does not like x" in together[0]
    assert together[1] == {"a": 40}
    assert together == failed_midway(False, tmp_path / "alone")
