"""What tasks write to repartition topics: handed over in memory, or written as blocks or records."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from penstock import Consumed, Grouped, Repartitioned, Serdes, StreamsBuilder, StreamsConfig, TaskId, TopicPartition
from penstock.batches.record_batch import ProducedBatch, RawBatch, records_of
from penstock.hashing import default_partition
from penstock.record import Headers, ProducedRecord, RawRecord
from penstock.spark.plan import Plan, make_plan
from penstock.spark.record_block import BLOCK_HEADER, RecordBlock, block_of
from penstock.spark.worker.repartitioning import Repartitions, expand

TEXT = Serdes.string()
TOPIC, COUNTED = "app-again-repartition", "app-words-repartition"
PARTITIONS = 2
TARGETS = [TopicPartition(TOPIC, partition) for partition in range(PARTITIONS)]
ENDS = dict.fromkeys([*TARGETS, *(TopicPartition(COUNTED, p) for p in range(PARTITIONS))], 5)


def make(**settings: Any) -> Plan:
    """Lines are written to a repartition, and counted behind another one; both have tasks for two partitions."""
    builder = StreamsBuilder()
    lines = builder.stream("lines", Consumed(TEXT, TEXT))
    lines.select_key(lambda _, value: value).repartition(Repartitioned("again", TEXT, TEXT)).to("out")
    lines.group_by(lambda _, word: word, Grouped("words", TEXT, TEXT)).count()
    config = StreamsConfig({"application.id": "app", "bootstrap.servers": "x:1", **settings})
    built = builder.build().internal_topology_builder
    built.rewrite_topology(config)
    subtopologies = built.subtopologies("app", {})
    topics = {topic for s in subtopologies for topic in (*s.source_topics, *s.sink_topics)}
    return make_plan(subtopologies, dict.fromkeys(topics, PARTITIONS), config)


PLAN = make()
TASKS = PLAN.tasks()
FIRST, SECOND = [task for task in TASKS if "lines" in PLAN.subtopologies[task.subtopology].source_topics]


def repartitions(format: str = "blocks", *, drained: bool = True, running: list[TaskId] = TASKS) -> Repartitions:
    made = Repartitions(PLAN, format, 100_000)
    made.opened(ENDS)
    made.begin(running, ENDS if drained else {**ENDS, TARGETS[1]: 4})
    return made


def records(*keys: bytes | None, topic: str = TOPIC, partition: int | None = None, headers: Headers = ()) -> list[ProducedRecord]:
    return [ProducedRecord(topic, partition, key, b"v%d" % at, at, headers) for at, key in enumerate(keys)]


def as_read(written: Any) -> list[RawRecord]:
    """The rows that a task gets of what was written, in the order of partitions."""
    logs: dict[TopicPartition, list[RawRecord]] = {}
    for topic, partition, *rest in records_of(written):
        log = logs.setdefault(TopicPartition(topic, partition), [])
        key, value, timestamp, headers = rest
        log.append(RawRecord(topic, partition, len(log), timestamp, key, value, headers))
    found = []
    for partition, log in sorted(logs.items()):
        for part, offset in expand(RawBatch.of(*partition, log), partition.topic == COUNTED):
            columns = part if isinstance(part, RawBatch) else part.columns(partition, [offset] * len(part))
            found += list(columns)
    return found


# -- who gets what ---------------------------------------------------------------------------------------------------------


def test_should_hand_over_what_tasks_of_the_same_thread_read() -> None:
    routed = repartitions().route({FIRST: [*records(b"a", b"b", b"c"), *records(b"x", topic="out")]})
    assert {p: block.keys.to_pylist() for p, block in routed.handed.items()} == {
        TopicPartition(TOPIC, p): [key for key in (b"a", b"b", b"c") if default_partition(key, PARTITIONS) == p]
        for p in {default_partition(key, PARTITIONS) for key in (b"a", b"b", b"c")}
    }
    assert routed.written == {FIRST: records(b"x", topic="out")}


@pytest.mark.parametrize("missing", TASKS)
def test_should_write_to_the_topic_if_another_thread_has_a_writer_or_a_reader(missing: TaskId) -> None:
    made = repartitions(running=[task for task in TASKS if task != missing])
    routed = made.route({FIRST: records(b"a", b"b", b"c")})
    uses = PLAN.subtopologies[missing.subtopology]
    if TOPIC in (*uses.source_topics, *uses.sink_topics):
        assert not routed.handed
        assert {row.key for row in as_read(routed.written[FIRST])} == {b"a", b"b", b"c"}
    else:
        assert routed.handed
        assert not routed.written[FIRST]


def test_should_write_to_the_topic_while_something_is_left_in_it() -> None:
    made = repartitions(drained=False)
    assert not made.route({FIRST: records(b"a", b"b", b"c")}).handed
    made.begin(TASKS, ENDS)
    assert made.route({FIRST: records(b"a", b"b", b"c")}).handed
    made.wrote({TARGETS[0]: 9})
    made.begin(TASKS, ENDS)
    assert not made.route({FIRST: records(b"a", b"b", b"c")}).handed
    made.begin(TASKS, {**ENDS, TARGETS[0]: 10})
    assert made.route({FIRST: records(b"a", b"b", b"c")}).handed


def test_should_write_to_the_topic_if_its_end_is_not_known() -> None:
    made = Repartitions(PLAN, "blocks", 100_000)
    made.begin(TASKS, ENDS)
    assert not made.route({FIRST: records(b"a")}).handed


@pytest.mark.parametrize("partition", [None, 0])
@pytest.mark.parametrize("drained", [True, False])
def test_should_keep_the_order_of_what_one_task_wrote_in_several_parts(drained: bool, partition: int | None) -> None:
    """A task writes its outputs in parts, with other outputs between them; timestamps may go back from part to part."""
    first = [ProducedRecord(TOPIC, partition, b"a", b"early", 900, ()), ProducedRecord("out", None, b"x", b"", 1, ())]
    second = [ProducedRecord(TOPIC, partition, b"a", b"late", 100, ())]
    routed = repartitions(drained=drained).route({FIRST: [*first, *second]})
    blocks = [block.values.to_pylist() for block in routed.handed.values()]
    rows = [row.value for row in as_read([r for r in routed.written[FIRST] if r.topic == TOPIC])]
    assert [*blocks, *([rows] if rows else [])] == [[b"early", b"late"]]


# -- where records go ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("format", ["blocks", "records"])
def test_should_write_each_record_to_the_partition_of_its_key(format: str) -> None:
    keys = [b"k%d" % number for number in range(50)]
    routed = repartitions(format, drained=False).route({FIRST: records(*keys), SECOND: records(*keys)})
    rows = as_read([item for written in routed.written.values() for item in written])
    assert Counter(row.key for row in rows) == Counter([*keys, *keys])
    assert all(row.partition == default_partition(row.key or b"", PARTITIONS) for row in rows)
    blocks = [r for written in routed.written.values() for r in records_of(written)]
    assert len(blocks) == (PARTITIONS if format == "blocks" else 100)


@pytest.mark.parametrize("drained", [True, False])
def test_should_leave_records_in_the_partition_that_a_partitioner_has_chosen(drained: bool) -> None:
    outputs: list[Any] = [*records(b"a", b"b", partition=1), *records(b"c", b"d", partition=0)]
    columns = ProducedBatch(TOPIC, 1, [b"e", None], [b"", None], [8, 9], None)
    made = repartitions(drained=drained)
    routed = made.route({FIRST: [*outputs, columns]})
    if drained:
        found = {p.partition: block.keys.to_pylist() for p, block in routed.handed.items()}
    else:
        rows = as_read(routed.written[FIRST])
        found = {p: [row.key for row in rows if row.partition == p] for p in range(PARTITIONS)}
    assert found == {1: [b"a", b"b", b"e", None], 0: [b"c", b"d"]}


def test_should_spread_records_without_a_key() -> None:
    made = repartitions(drained=False)
    rows = [row for _ in range(2) for row in as_read(made.route({FIRST: records(*[None] * 5)}).written[FIRST])]
    assert Counter(row.partition for row in rows) == {0: 5, 1: 5}


def test_should_keep_the_order_of_a_task_and_merge_tasks_by_time() -> None:
    late = [ProducedRecord(TOPIC, 0, b"k", b"second", at, ()) for at in (1, 4, 2)]
    first = [ProducedRecord(TOPIC, 0, b"k", b"first", at, ()) for at in (3, 5)]
    [block] = repartitions().route({FIRST: first, SECOND: late}).handed.values()
    assert list(zip(block.values.to_pylist(), block.timestamps.tolist())) == [
        (b"second", 1),
        (b"first", 3),
        (b"second", 4),
        (b"second", 2),
        (b"first", 5),
    ]


def test_should_number_records_that_are_handed_over_beyond_all_before() -> None:
    made = repartitions()
    assert made.number(TARGETS[0], 3, 5) == range(5, 8)
    assert made.number(TARGETS[0], 2, 5) == range(8, 10)
    assert made.number(TARGETS[0], 1, 20) == range(20, 21)
    assert made.number(TARGETS[1], 1, 0) == range(1)


@pytest.mark.parametrize("format", ["blocks", "records"])
def test_should_write_back_what_was_not_processed(format: str) -> None:
    rows = [RawRecord(*TARGETS[1], 7 + n, n, key, b"v", (("h", b"%d" % n),)) for n, key in enumerate((b"a", None, b"c"))]
    written = repartitions(format).write_back(RawBatch.of(*TARGETS[1], rows))
    found = as_read(written)
    assert [(r.partition, r.timestamp, r.key, r.value, r.headers) for r in found] == [
        (1, r.timestamp, r.key, r.value, r.headers) for r in rows
    ]


# -- counts ----------------------------------------------------------------------------------------------------------------


def test_should_send_one_row_for_each_key_that_is_only_counted() -> None:
    keys = [b"a", b"b", b"a", b"c", b"a", b"b"]
    routed = repartitions().route({FIRST: records(*keys, topic=COUNTED), SECOND: records(b"a", topic=COUNTED)})
    found = {}
    for block in routed.handed.values():
        assert block.weights is not None
        found |= dict(zip(block.keys.to_pylist(), zip(block.weights.tolist(), block.timestamps.tolist())))
    assert found == {b"a": (4, 4), b"b": (2, 5), b"c": (1, 3)}
    assert sum(block.records for block in routed.handed.values()) == 7


@pytest.mark.parametrize("partition", [None, 1])
def test_should_leave_rows_without_a_key_or_a_value_as_they_are(partition: int | None) -> None:
    outputs = [
        *records(b"a", None, b"a", topic=COUNTED, partition=partition),
        ProducedRecord(COUNTED, partition, b"a", None, 9, ()),
    ]
    routed = repartitions().route({FIRST: outputs})
    rows = [
        (key, value is None, weight)
        for block in routed.handed.values()
        if block.weights is not None
        for key, value, weight in zip(block.keys.to_pylist(), block.values.to_pylist(), block.weights.tolist())
    ]
    assert Counter(rows) == {(b"a", False, 1): 2, (None, False, 1): 1, (b"a", True, 1): 1}


def test_should_not_count_in_records_that_other_applications_read() -> None:
    plan = make(**{"repartition.format": "records"})
    made = Repartitions(plan, "records", 100_000)
    made.begin([], {})
    written = made.route({FIRST: records(b"a", b"a", topic=COUNTED)}).written[FIRST]
    assert [record.value for record in records_of(written)] == [b"v0", b"v1"]


# -- blocks and plain records ----------------------------------------------------------------------------------------------

MARKED: Headers = ((BLOCK_HEADER, b"1"), ("own", b"x"))


def test_should_never_make_a_block_of_a_users_record_with_the_reserved_header() -> None:
    """The value of the record is a block that somebody has made."""
    hostile = RecordBlock(pa.array([b"evil"]), pa.array([b"evil"]), np.array([1], np.int64)).to_bytes()
    outputs = [ProducedRecord(TOPIC, 0, b"k", hostile, 1, MARKED)]
    handed = repartitions().route({FIRST: outputs}).handed
    assert [(block.keys.to_pylist(), block.headers) for block in handed.values()] == [([b"k"], [MARKED])]
    for format, headers in (("blocks", MARKED), ("records", MARKED[1:])):
        written = repartitions(format, drained=False).route({FIRST: outputs}).written[FIRST]
        assert [(row.key, row.value, row.headers) for row in as_read(written)] == [(b"k", hostile, headers)]


@pytest.mark.parametrize("value", [None, b"", b"no block", b"\xff" * 50])
@pytest.mark.parametrize("version", [b"1", b"2", None, b""])
def test_should_take_what_cannot_be_read_as_a_block_for_a_plain_record(value: bytes | None, version: bytes | None) -> None:
    """An application in Java passes headers on."""
    rows = [RawRecord(*TARGETS[0], 3, 1, b"k", value, ((BLOCK_HEADER, version),)), RawRecord(*TARGETS[0], 4, 2, b"l", b"v", ())]
    [(part, offset)] = expand(RawBatch.of(*TARGETS[0], rows), False)
    assert isinstance(part, RawBatch)
    assert list(part) == rows
    assert offset == 4


def test_should_take_a_block_of_counts_for_a_plain_record_where_nothing_is_counted() -> None:
    counts = RecordBlock(pa.array([b"k"]), pa.array([b""]), np.array([1]), None, np.array([3])).to_bytes()
    rows = [RawRecord(*TARGETS[0], 3, 1, None, counts, ((BLOCK_HEADER, b"1"),))]
    [(part, _)] = expand(RawBatch.of(*TARGETS[0], rows), takes_counts=False)
    assert isinstance(part, RawBatch)
    [(part, _)] = expand(RawBatch.of(*TARGETS[0], rows), takes_counts=True)
    assert isinstance(part, RecordBlock)


def test_should_split_what_was_read_into_rows_and_blocks_in_their_order() -> None:
    [first] = RecordBlock.of_records(records(b"a", b"b")).records_for(TARGETS[0], 10_000)
    plain = RawRecord(*TARGETS[0], 0, 5, b"k", b"v", ())
    block = RawRecord(*TARGETS[0], 0, first.timestamp, None, first.value, first.headers)
    log = [row._replace(offset=10 + 2 * at) for at, row in enumerate([plain, plain, block, block, plain])]
    found = expand(RawBatch.of(*TARGETS[0], log), False)
    assert [(isinstance(part, RawBatch), len(part), offset) for part, offset in found] == [
        (True, 2, 12),
        (False, 2, 14),
        (False, 2, 16),
        (True, 1, 18),
    ]
    assert expand(RawBatch.of(*TARGETS[0], []), False) == []


def test_should_split_blocks_that_brokers_would_not_take() -> None:
    made = Repartitions(PLAN, "blocks", 2_000)
    made.begin([], {})
    many = [ProducedRecord(TOPIC, 0, b"k%d" % n, b"v" * 50, n, ()) for n in range(100)]
    written = list(records_of(made.route({FIRST: many}).written[FIRST]))
    assert len(written) > 2
    assert all(len(record.value or b"") <= 2_000 for record in written)
    assert sum(len(block_of(record.value, record.headers)) for record in written) == 100
    assert [row.key for row in as_read(written)] == [record.key for record in many]
