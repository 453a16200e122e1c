"""Files out: what is committed is in the files once, whatever happens; what does not fit is refused with a reason."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pyarrow as pa
import pyarrow.dataset as ds
import pytest

from penstock import Consumed, LogAndContinueProcessingExceptionHandler, Serdes, StreamsBuilder, TopologyTestDriver
from penstock.errors import PenstockError, StreamsError, TopologyError
from penstock.ids import TaskId
from penstock.operators.files.options import FilesOptions, checked_options
from penstock.operators.files.sink import FilesProcessor
from penstock.operators.files.staging import StagingFolder
from penstock.record import Record

pytest.importorskip("deltalake")
from deltalake import DeltaTable

FORMATS = ["parquet", "delta"]
COLUMNS = pa.schema([("id", pa.int64()), ("day", pa.string())])
text = Serdes.string()


@dataclasses.dataclass
class Order:
    id: int
    day: str | None = None


def lake(path: Path, format: str = "parquet") -> list[dict[str, Any]]:
    """The rows that readers see."""
    if not path.exists():
        return []
    if format == "delta":
        table = DeltaTable(str(path)).to_pyarrow_table()
    else:
        files = [str(file) for file in path.rglob("*.parquet")]
        if not files:
            return []
        table = ds.dataset(str(path), partitioning="hive").to_table()
    return sorted(({"id": row["id"], "day": row.get("day")} for row in table.to_pylist()), key=lambda row: row["id"])


def rows(*ids: int) -> list[dict[str, Any]]:
    return [{"id": number, "day": None} for number in ids]


@contextmanager
def driver(path: Path, format: str = "parquet", config: Any = None, **options: Any) -> Iterator[tuple[Any, Any]]:
    builder = StreamsBuilder()
    serde = Serdes.json()
    options.setdefault("schema", COLUMNS)
    builder.stream("orders", Consumed(text, serde)).to_files(path, format, name="lake", **options)
    with TopologyTestDriver(builder.build(), config, initial_wall_clock_time=0) as made:
        yield made, made.create_input_topic("orders", text, serde)


# -- when files appear -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("format", FORMATS)
def test_should_publish_what_is_left_when_the_task_closes(tmp_path: Path, format: str) -> None:
    with driver(tmp_path, format) as (_, orders):
        orders.pipe_input("k", {"id": 1})
        assert lake(tmp_path, format) == []
    assert lake(tmp_path, format) == rows(1)


@pytest.mark.parametrize("format", FORMATS)
def test_should_publish_when_the_time_is_over(tmp_path: Path, format: str) -> None:
    with driver(tmp_path, format, roll_ms=1_000) as (made, orders):
        orders.pipe_input("k", {"id": 1})
        made.advance_wall_clock_time(999)
        assert lake(tmp_path, format) == []
        made.advance_wall_clock_time(1)
        assert lake(tmp_path, format) == rows(1)


@pytest.mark.parametrize("format", FORMATS)
def test_should_publish_when_enough_is_staged(tmp_path: Path, format: str) -> None:
    with driver(tmp_path, format, roll_bytes=1) as (_, orders):
        orders.pipe_input("k", {"id": 1})
        assert lake(tmp_path, format) == rows(1)
        orders.pipe_input("k", {"id": 2})
        assert lake(tmp_path, format) == rows(1, 2)


def test_should_stage_nothing_and_need_no_timer_without_rows(tmp_path: Path) -> None:
    with driver(tmp_path, roll_ms=10) as (made, _):
        made.advance_wall_clock_time(100)
        assert not list(tmp_path.rglob("*.arrows"))


def test_should_write_what_waits_for_a_commit_when_it_closes(tmp_path: Path) -> None:
    builder = StreamsBuilder()
    builder.stream("orders", Consumed(text, Serdes.json())).to_files(tmp_path, schema=COLUMNS, name="lake")
    with TopologyTestDriver(builder.build(), commit_every_record=False) as made:
        made.create_input_topic("orders", text, Serdes.json()).pipe_input("k", {"id": 1})
        assert not list(tmp_path.rglob("*.arrows"))
    assert lake(tmp_path) == rows(1)


@pytest.mark.parametrize("format", FORMATS)
def test_should_put_partition_columns_into_folders(tmp_path: Path, format: str) -> None:
    days = ["mon", "a b/c=d", None, "mon"]
    with driver(tmp_path, format, partition_by="day") as (_, orders):
        for number, day in enumerate(days):
            orders.pipe_input("k", {"id": number, "day": day})
    assert lake(tmp_path, format) == [{"id": number, "day": day} for number, day in enumerate(days)]
    assert (tmp_path / "day=mon").is_dir()


def test_should_hide_staged_rows_from_readers_of_the_folder(tmp_path: Path) -> None:
    with driver(tmp_path) as (_, orders):
        orders.pipe_input("k", {"id": 1})
        assert ds.dataset(str(tmp_path)).files == []
        assert not list(tmp_path.rglob("*.parquet"))


# -- rows --------------------------------------------------------------------------------------------------------------


def test_should_take_the_columns_from_the_type_of_the_values(tmp_path: Path) -> None:
    builder = StreamsBuilder()
    builder.stream("orders", Consumed(text, Serdes.json(Order))).to_files(tmp_path)
    with TopologyTestDriver(builder.build()) as made:
        made.create_input_topic("orders", text, Serdes.json(Order)).pipe_input("k", Order(1, "mon"))
    assert lake(tmp_path) == [{"id": 1, "day": "mon"}]


def test_should_take_the_columns_from_an_annotated_mapper(tmp_path: Path) -> None:
    def parsed(line: str) -> Order:
        return Order(int(line))

    builder = StreamsBuilder()
    builder.stream("lines", Consumed(text, text)).map_values(parsed).to_files(tmp_path)
    with TopologyTestDriver(builder.build()) as made:
        made.create_input_topic("lines", text, text).pipe_input("k", "7")
    assert lake(tmp_path) == rows(7)


@pytest.mark.parametrize(
    ("value", "reason"),
    [({"id": "x"}, "x"), ({"id": 1, "price": 2}, "price"), ([1], "list"), ({"id": None}, "requires")],
    ids=["another type", "an unknown field", "no row", "a required field"],
)
@pytest.mark.parametrize("count", [1, 40], ids=["record by record", "batch"])
def test_should_ask_the_handler_about_a_row_that_does_not_fit_and_write_the_others(
    tmp_path: Path, value: Any, reason: str, count: int
) -> None:
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False), ("day", pa.string())])
    asked: list[tuple[str, Any]] = []

    class Handler(LogAndContinueProcessingExceptionHandler):
        def handle_error(self, context: Any, record: Any, exception: Exception) -> Any:
            asked.append((str(exception), record.value))
            return super().handle_error(context, record, exception)

    config = {"processing.exception.handler": Handler()}
    with driver(tmp_path, config=config, schema=schema) as (_made, orders):
        orders.pipe_key_values([("k", {"id": number}) for number in range(count)])
        orders.pipe_input("k", value)
        orders.pipe_input("k", {"id": count})
    assert lake(tmp_path) == rows(*range(count + 1))
    assert [bad for _, bad in asked] == [value]
    assert reason in asked[0][0]


def test_should_leave_out_records_without_a_value(tmp_path: Path) -> None:
    with driver(tmp_path) as (_, orders):
        orders.pipe_input("k", None)
        orders.pipe_input("k", {"id": 1})
    assert lake(tmp_path) == rows(1)


# -- exactly once ------------------------------------------------------------------------------------------------------


class Crashed(Exception):
    """Ends a task at a step."""


class Store:
    """A logged store: what is not committed is gone when the task is opened again."""

    def __init__(self) -> None:
        self.committed: dict[str, Any] = {}
        self.entries: dict[str, Any] = {}

    def open(self) -> None:
        self.entries = dict(self.committed)

    def commit(self) -> None:
        self.committed = dict(self.entries)

    @contextmanager
    def all(self) -> Iterator[Any]:
        yield iter(self.entries.items())

    def put(self, key: str, value: Any) -> None:
        self.entries[key] = value

    def delete(self, key: str) -> None:
        del self.entries[key]


class Task:
    """One task of a sink with its commits, as `StreamTask` makes them."""

    def __init__(self, options: FilesOptions, store: Store) -> None:
        store.open()
        self.store = store
        self.processor = FilesProcessor(options, "lake", "store")
        context = Mock(app_configs={"application.id": "app"}, task_id=TaskId(0, 3))
        context.get_state_store.return_value = store
        self.processor.set_up(context)

    def write(self, ids: list[int]) -> None:
        for number in ids:
            self.processor.process(Record("k", {"id": number, "day": f"d{number % 3}"}, 0))

    def commit(self, crash: str | None = None) -> None:
        self.processor.before_commit()
        if crash == "staged":
            raise Crashed
        self.store.commit()
        if crash == "committed":
            raise Crashed
        self.processor.after_commit()


def options(path: Path, format: str, **given: Any) -> FilesOptions:
    values: dict[str, Any] = {"partition_by": None, "roll_bytes": 2_000, "roll_ms": 60_000} | given
    return checked_options(path, format, COLUMNS, **values)


@pytest.mark.parametrize("partition_by", [None, "day"], ids=["one file", "folders"])
@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("seed", range(4))
def test_should_write_each_committed_row_once_though_tasks_die_at_any_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, format: str, partition_by: str | None, seed: int
) -> None:
    chance, store, expected, last = random.Random(seed), Store(), list[int](), 0
    given = options(tmp_path, format, partition_by=partition_by)
    is_dying = [False]
    mark = StagingFolder.mark_published

    def dying(folder: StagingFolder, roll: str) -> None:
        """Die when the files are in their places, and the mark is not."""
        if is_dying[0]:
            raise Crashed
        mark(folder, roll)

    monkeypatch.setattr(StagingFolder, "mark_published", dying)
    task = Task(given, store)
    for _ in range(40):
        ids = list(range(last, last := last + chance.randrange(20)))
        crash = chance.choice([None, None, "staged", "committed", "published"])
        is_dying[0] = crash == "published"
        try:
            task.write(ids)
            task.commit(crash)
            if chance.random() < 0.1:
                task.processor._time_is_over(0)
                task.commit()
            elif chance.random() < 0.1:
                task.processor.close()
                task = Task(given, store)
        except Crashed:
            is_dying[0] = False
            if crash == "staged":
                last -= len(ids)  # the input was not committed: the next task reads it again
                ids = []
            task = Task(given, store)
        is_dying[0] = False
        expected += ids
        seen = [row["id"] for row in lake(tmp_path, format)]
        assert len(set(seen)) == len(seen)
        assert set(seen) <= set(expected)
    task.processor.close()
    assert [row["id"] for row in lake(tmp_path, format)] == expected


@pytest.mark.parametrize("format", FORMATS)
def test_should_publish_once_though_a_task_that_was_lost_publishes_too(tmp_path: Path, format: str) -> None:
    store = Store()
    lost = Task(options(tmp_path, format), store)
    lost.write([1, 2])
    lost.commit()
    owner = Task(options(tmp_path, format), store)
    owner.write([3])
    owner.commit()
    with suppress(StreamsError):  # its rows are published, and no longer staged
        lost.processor.close()
    owner.processor.close()
    assert [row["id"] for row in lake(tmp_path, format)] == [1, 2, 3]


def test_should_not_publish_what_may_not_be_committed(tmp_path: Path) -> None:
    store = Store()
    task = Task(options(tmp_path, "parquet"), store)
    task.write([1])
    task.processor.before_commit()
    task.processor.close()
    assert lake(tmp_path) == []


def test_should_not_bring_back_published_rows_that_somebody_has_moved(tmp_path: Path) -> None:
    with driver(tmp_path) as (_, orders):
        orders.pipe_input("k", {"id": 1})
    store = Store()
    task = Task(options(tmp_path, "parquet"), store)
    task.write([2])
    task.commit()
    task.processor.close()
    for file in tmp_path.rglob("*.parquet"):
        file.unlink()
    Task(options(tmp_path, "parquet"), store).processor.close()
    assert lake(tmp_path) == []


def test_should_tell_that_staged_rows_are_missing(tmp_path: Path) -> None:
    store = Store()
    task = Task(options(tmp_path, "parquet"), store)
    task.write([1])
    task.commit()
    for file in tmp_path.rglob("*.arrows"):
        file.unlink()
    with pytest.raises(StreamsError, match="are missing"):
        Task(options(tmp_path, "parquet"), store)


def test_should_go_on_in_a_delta_table_after_a_reset_of_the_application(tmp_path: Path) -> None:
    for number in (1, 2):
        task = Task(options(tmp_path, "delta"), Store())
        task.write([number])
        task.commit()
        task.processor.close()
    assert lake(tmp_path, "delta") == [{"id": number, "day": f"d{number}"} for number in (1, 2)]


# -- bad input ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"format": "orc"}, "the format 'orc' is unknown"),
        ({"partition_by": "hour"}, "partition_by names the column 'hour', which the schema does not have"),
        ({"partition_by": ["day", "day"]}, "names a column twice"),
        ({"partition_by": ["id", "day"]}, "all columns"),
        ({"roll_bytes": 0}, "roll_bytes=0 is not a positive"),
        ({"roll_ms": -1}, "roll_ms"),
        ({"path": "s3://lake/orders"}, "is not a local path"),
        ({"path": ""}, "is empty"),
        ({"schema": None}, "the columns of the files are not known"),
        ({"schema": pa.schema([])}, "has no columns"),
        ({"schema": pa.schema([("x", pa.duration("s"))])}, "the column 'x' is of type duration"),
        ({"schema": pa.schema([("x", pa.uint8())]), "format": "delta"}, "which delta does not have"),
        ({"schema": int}, "has no fields"),
    ],
)
def test_should_refuse_options_that_cannot_work(tmp_path: Path, given: Any, message: str) -> None:
    path = given.pop("path", tmp_path)
    stream = StreamsBuilder().stream("orders", Consumed(text, Serdes.json()))
    with pytest.raises(PenstockError if "roll_ms" not in given else (PenstockError, ValueError), match=message):
        stream.to_files(path, **({"schema": COLUMNS} | given))


def test_should_name_the_extra_where_deltalake_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.operators.files.sink.has_deltalake", lambda: False)
    stream = StreamsBuilder().stream("orders", Consumed(text, Serdes.json()))
    with pytest.raises(TopologyError, match=r"pip install \"penstock-streams\[delta\]\""):
        stream.to_files(tmp_path, "delta", schema=COLUMNS)


def test_should_refuse_a_path_that_cannot_be_written_before_anything_is_processed(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(TopologyError, match="cannot write to"), driver(tmp_path / "file" / "lake"):
        pass


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize(
    ("second", "message"),
    [
        ({"schema": pa.schema([("id", pa.string()), ("day", pa.string())])}, "id is int64 there and string here"),
        ({"schema": pa.schema([("id", pa.int64()), ("year", pa.string())])}, "it has day; it lacks year"),
        ({"partition_by": "day"}, "are partitioned by nothing, and partition_by is day"),
    ],
    ids=["another type", "another column", "other folders"],
)
def test_should_refuse_a_schema_that_differs_from_the_table(
    tmp_path: Path, format: str, second: dict[str, Any], message: str
) -> None:
    with driver(tmp_path, format) as (_, orders):
        orders.pipe_input("k", {"id": 1, "day": "mon"})
    with pytest.raises(TopologyError, match=message), driver(tmp_path, format, **second):
        pass


@pytest.mark.parametrize(("first", "second"), [("parquet", "delta"), ("delta", "parquet")])
def test_should_not_mix_formats_in_a_folder(tmp_path: Path, first: str, second: str) -> None:
    with driver(tmp_path, first) as (_, orders):
        orders.pipe_input("k", {"id": 1})
    with pytest.raises(TopologyError, match=r'Use format="'), driver(tmp_path, second):
        pass
