"""What Spark stages of a table: sorted rows of each partition. What is refused, in one sentence, before anything is processed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime, timezone
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock import Serdes, SparkHistory, StreamsConfig
from penstock.errors import StreamsError
from penstock.hashing import default_partition
from penstock.history import SourceHistory
from penstock.ids import TopicPartition
from penstock.runtime.offset_metadata import OffsetAndMetadata
from penstock.spark.driver.history_staging import HistoryStaging, delete_history
from penstock.spark.worker.history_follower import HistoryFollower

TOPIC, PARTITIONS = "orders", 3
P = [TopicPartition(TOPIC, number) for number in range(PARTITIONS)]
START = 1_700_000_000_000
ROWS = 1_000
MOMENT = datetime.fromtimestamp(START / 1000, timezone.utc)

Stage = Callable[..., dict[TopicPartition, Any]]


def config_of(folder: Path) -> StreamsConfig:
    return StreamsConfig({"application.id": "app", "bootstrap.servers": "b:1", "state.dir": str(folder)})


@pytest.fixture
def table(tmp_path: Path) -> str:
    """A thousand rows, the latest first."""
    numbers = range(ROWS - 1, -1, -1)
    columns = {
        "key": pa.array([f"k{n % 10}" for n in numbers]),
        "value": pa.array(list(numbers), pa.int64()),
        "timestamp": pa.array([START + n for n in numbers], pa.timestamp("ms", "UTC")),
        "maybe": pa.array([None if n == 7 else START + n for n in numbers], pa.timestamp("ms", "UTC")),
        "text": pa.array(["2026-01-01"] * ROWS),
    }
    folder = tmp_path / "table"
    folder.mkdir()
    pq.write_table(pa.table(columns), folder / "part.parquet")
    return str(folder)


@pytest.fixture
def stage(spark: Any, tmp_path: Path) -> Stage:
    """Stage a history as an application with such logs and commits would."""

    def staged(
        history: SparkHistory,
        value_serde: Any = None,
        logs: tuple[int, int] = (0, 100),
        at: Callable[[int], int] = lambda ms: 0,
        committed: Mapping[TopicPartition, OffsetAndMetadata] | None = None,
        partitions: int = PARTITIONS,
    ) -> dict[TopicPartition, Any]:
        admin: Any = SimpleNamespace(
            log_starts=lambda asked: dict.fromkeys(asked, logs[0]),
            log_ends=lambda asked, committed_only: dict.fromkeys(asked, logs[1]),
            offsets_at=lambda asked, ms, committed_only: dict.fromkeys(asked, at(ms)),
        )
        staging = HistoryStaging(config_of(tmp_path), lambda: spark, admin, lambda asked: dict.fromkeys(asked, 40), True)
        source = SourceHistory(TOPIC, history, Serdes.string(), value_serde or Serdes.long())
        return staging.stage({TOPIC: source}, {TOPIC: partitions}, committed or {})

    return staged


def rows_of(staged: Mapping[TopicPartition, Any]) -> dict[TopicPartition, list[tuple[int, bytes, bytes]]]:
    """What a thread reads of it: time, key and value of each row."""
    follower = HistoryFollower({}, None, staged)
    follower._go_live = lambda: None  # type: ignore[method-assign]  # there is no broker
    follower.follow({p: some.first for p, some in staged.items()})
    found: dict[TopicPartition, list[tuple[int, bytes, bytes]]] = {p: [] for p in staged}
    while follower.waiting:
        for partition, columns in follower.take(100).columns.items():
            found[partition] += zip(columns.timestamps, columns.keys, columns.values)  # type: ignore[arg-type]
    return found


def test_should_stage_each_row_once_in_its_partition_and_in_the_order_of_time(stage: Stage, table: str, tmp_path: Path) -> None:
    staged = stage(SparkHistory(table))
    assert {p: (some.end, some.first) for p, some in staged.items()} == {p: (40, 40 - staged[p].rows) for p in P}
    rows = rows_of(staged)
    assert all(some == sorted(some) for some in rows.values())
    expected: dict[TopicPartition, list[tuple[int, bytes, bytes]]] = {p: [] for p in P}
    for n in range(ROWS):
        key = f"k{n % 10}".encode()
        expected[P[default_partition(key, PARTITIONS)]].append((START + n, key, n.to_bytes(8, "big")))
    assert rows == expected
    folder = tmp_path / "app" / "history" / TOPIC
    assert (folder.stat().st_mode & 0o777) == 0o700
    full = max(staged.values(), key=lambda some: some.rows)
    assert full.offset_at(START - 1) == full.first
    assert full.offset_at(START + ROWS) is None
    again = stage(SparkHistory(table), committed={P[0]: OffsetAndMetadata(40, f"|history=3,{full.stage}")})
    assert again == staged, "it is staged once"
    delete_history(config_of(tmp_path), [TOPIC])
    anew = stage(SparkHistory(table), committed={P[0]: OffsetAndMetadata(40, f"|history=3,{full.stage}")})
    assert {p: (some.stage, some.rows) for p, some in anew.items()} == {p: (some.stage, some.rows) for p, some in staged.items()}
    with pytest.raises(StreamsError, match="its query, its columns or the number of partitions changed"):
        stage(SparkHistory(table, value="timestamp"), committed={P[0]: OffsetAndMetadata(40, f"|history=3,{full.stage}")})
    delete_history(config_of(tmp_path), [TOPIC])
    with pytest.raises(StreamsError, match="its rows changed"):
        stage(SparkHistory(table), committed={P[0]: OffsetAndMetadata(40, "|history=3,beef")})
    assert stage(SparkHistory(table), committed=dict.fromkeys(P, OffsetAndMetadata(50, "AgAA"))) == {}, "it is read to its end"
    reset = stage(SparkHistory(table), committed=dict.fromkeys(P, OffsetAndMetadata(3)))
    assert {some.end for some in reset.values()} == {3}, "an offset without metadata was set by a tool: all is read again"


def test_should_cut_off_rows_from_a_time_on(stage: Stage, table: str) -> None:
    half = datetime.fromtimestamp((START + 500) / 1000, timezone.utc)
    staged = stage(SparkHistory(table, until=half), at=lambda ms: 60)
    assert sum(some.rows for some in staged.values()) == 500
    assert {some.end for some in staged.values()} == {60}


@pytest.mark.parametrize(
    ("given", "match"),
    [
        ({"key": "customer"}, r"has no column customer, it has key, value, timestamp.*SparkHistory\(key=…\)"),
        ({"timestamp": "text"}, "timestamps of type string"),
        ({"timestamp": "maybe"}, "1 rows without a timestamp"),
        ({"value": "text"}, "column text of type string cannot be written"),
        ({"headers": "text"}, "headers of type string"),
        ({"format": "nonsense"}, "cannot be read: .*nonsense"),
        ({"source": "/nowhere/at/all"}, "cannot be read: .*nowhere"),
        ({"source": "no_such_table"}, "cannot be read: .*no_such_table"),
        ({"source": lambda: 7}, "has returned int"),
        ({"until": {0: 5}}, "until names the partitions 0, and the topic has 3"),
        ({"until": {0: 5, 1: 5, 2: 500}}, "until says offset 500 of orders-2, which ends at 100"),
        ({"until": {0: 5, 1: 50, 2: 50}, "logs": (10, 100)}, "there is a gap .*orders-0 begins at offset 10, after 5"),
        ({"until": MOMENT, "logs": (10, 100), "at": lambda ms: 10}, "there is a gap .*begins at offset 10, after 2023"),
    ],
)
def test_should_refuse_in_one_sentence(stage: Stage, table: str, given: dict[str, Any], match: str) -> None:
    environment = {name: given.pop(name) for name in ("logs", "at") if name in given}
    with pytest.raises(StreamsError, match=match) as refused:
        stage(SparkHistory(given.pop("source", table), **given), **environment)
    assert "\n" not in str(refused.value)


def test_should_go_on_behind_a_gap_if_that_is_allowed(stage: Stage, table: str) -> None:
    staged = stage(SparkHistory(table, until={0: 5, 1: 50, 2: 50}, allow_gap=True), logs=(10, 100))
    assert {p: some.end for p, some in staged.items()} == {P[0]: 10, P[1]: 50, P[2]: 50}


def test_should_refuse_a_path_without_permission(stage: Stage, tmp_path: Path) -> None:
    source = tmp_path / "secret"
    source.mkdir()
    (source / "part.parquet").write_bytes(b"")
    source.chmod(0)
    try:
        with pytest.raises(StreamsError, match="the history of orders cannot be read"):
            stage(SparkHistory(str(source)))
    finally:
        source.chmod(0o700)
