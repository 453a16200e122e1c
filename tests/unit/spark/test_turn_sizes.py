"""How large what is sent for a turn is: it grows with the partitions there are, never with their square."""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from typing import Any

from penstock import Consumed, Repartitioned, Serdes, StreamsBuilder, StreamsConfig
from penstock.client.scheduling.positions import Positions
from penstock.client.scheduling.stages import ReadableWindow, Stage, StagePart, plan_stage
from penstock.client.scheduling.turns import Turn, plan_turn
from penstock.clock import SystemClock
from penstock.ids import TopicPartition
from penstock.kafka.fetch import FetchRange
from penstock.runtime.carry_over import OffsetAndMetadata
from penstock.spark.answers import read_answer, write_answer
from penstock.spark.messages import LaneAnswer, ProcessTurn, UpstreamWork, even_shares
from penstock.spark.plan import Plan, make_plan
from penstock.spark.vectors import Vector

WORDS = "sizes-words-repartition"


def plan_of(partitions: int) -> Plan:
    builder = StreamsBuilder()
    lines = builder.stream("lines", Consumed(Serdes.string(), Serdes.string()))
    repartitioned = lines.select_key(lambda _, value: value).repartition(
        Repartitioned(name="words", key_serde=Serdes.string(), value_serde=Serdes.string())
    )
    repartitioned.foreach(lambda key, value: None)
    config = StreamsConfig({"application.id": "sizes", "bootstrap.servers": "localhost:9"})
    internal = builder.build().internal_topology_builder
    internal.rewrite_topology(config)
    return make_plan(internal.subtopologies("sizes", {}), {"lines": partitions, WORDS: partitions}, config)


def sources(partitions: int) -> list[TopicPartition]:
    return [TopicPartition("lines", partition) for partition in range(partitions)]


def turns_of(partitions: int, ahead: int = 0) -> tuple[Stage, dict[int, Turn]]:
    """A stage that reads all sources, and the turns of two lanes behind it.

    Targets with odd numbers are `ahead` of the others, as after a crash of one lane.
    """
    plan, unused = plan_of(partitions), Any
    positions = Positions(plan, "sizes", unused, unused, unused, "earliest", SystemClock(), committed_only=True)  # type: ignore[arg-type]
    for target in range(partitions):
        at = 1_000_000 + ahead * (target % 2)
        positions.vectors[TopicPartition(WORDS, target)] = dict.fromkeys(sources(partitions), at)
    ends, vectors = dict.fromkeys(sources(partitions), 1_000_100), positions.vectors
    feeds = {task: positions.fed(task) for task in plan.tasks()}
    # The whole window, for all tasks: with the vectors of those that are ahead there is the most to send.
    lowest = min(at for vector in vectors.values() for at in vector.values())
    window = ReadableWindow(feeds, {source: (lowest, end) for source, end in ends.items()})
    stage = plan_stage(plan, "unit", window, vectors, lambda backlog: backlog)
    assert stage is not None
    turns = {}
    for lane in (0, 1):
        tasks = [task for task in plan.tasks() if task.partition % 2 == lane]
        part = StagePart(stage, {task: feeds[task] for task in tasks})
        turn = plan_turn(plan, positions, ends, tasks, (), lambda backlog: backlog, part=part)
        assert turn is not None
        turns[lane] = turn
    return stage, turns


def lane_bytes(turns: Mapping[int, Turn]) -> int:
    return sum(len(pickle.dumps(ProcessTurn("key", lane, t.work, (), b"", read=t.read))) for lane, t in turns.items())


def test_should_send_lanes_so_much_as_there_are_partitions() -> None:
    small, large = lane_bytes(turns_of(50)[1]), lane_bytes(turns_of(200)[1])
    assert large < 4.5 * small
    assert large < 20_000


def test_should_send_each_task_before_a_shuffle_only_what_is_its_own() -> None:
    small, large = turns_of(50)[0], turns_of(200)[0]
    assert len(pickle.dumps(large.upstream)) < 4.5 * len(pickle.dumps(small.upstream))
    small, large = turns_of(50, ahead=50)[0], turns_of(200, ahead=50)[0]
    for stage in (small, large):
        assert all(
            work.skip and {s for skip in work.skip.values() for s in skip} == {work_source(work)} for work in stage.upstream
        )
    assert len(pickle.dumps(large.upstream[0])) < 4.5 * len(pickle.dumps(small.upstream[0]))


def work_source(work: Any) -> TopicPartition:
    return TopicPartition("lines", work.partition)


def answer_of(partitions: int) -> LaneAnswer:
    vector = dict.fromkeys(sources(partitions), 1_000_000)
    offsets = {TopicPartition(WORDS, n): Vector(n, vector).committed(f"time{n}", sources(partitions)) for n in range(partitions)}
    return LaneAnswer("worker", offsets=offsets)


def test_should_answer_with_positions_that_tasks_share_only_once() -> None:
    small, large = len(write_answer(answer_of(50))), len(write_answer(answer_of(200)))
    assert large < 4.5 * small
    assert large < 30_000


def test_should_read_an_answer_as_it_was() -> None:
    answer = answer_of(7)
    answer.offsets[TopicPartition("orders", 0)] = OffsetAndMetadata(9, "AgAAAA==")
    answer.offsets[TopicPartition("orders", 1)] = OffsetAndMetadata(9, "times|had|words=4,6")
    answer.offsets[TopicPartition("orders", 2)] = OffsetAndMetadata(9)
    assert read_answer(write_answer(answer)) == answer


def work_of(partition: int, records: int) -> UpstreamWork:
    return UpstreamWork(0, partition, (FetchRange("lines", partition, 100, 100 + records),))


def test_should_spread_what_comes_before_a_shuffle_evenly_over_few_tasks() -> None:
    upstream = [work_of(0, 1000), *(work_of(partition, 10) for partition in range(1, 101))]
    shares = even_shares(upstream, 4)
    assert sorted(sum(work.records for work in share) for share in shares) == [330, 330, 340, 1000]
    assert sorted((work for share in shares for work in share), key=lambda work: work.partition) == upstream


def test_should_have_no_more_tasks_before_a_shuffle_than_there_is_work() -> None:
    assert even_shares([work_of(0, 5), work_of(1, 7)], 8) == [(work_of(1, 7),), (work_of(0, 5),)]
    shares = even_shares([work_of(partition, 0) for partition in range(6)], 3)
    assert [len(share) for share in shares] == [2, 2, 2]
