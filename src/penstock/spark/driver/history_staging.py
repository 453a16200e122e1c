"""Stages the history of source topics: one Spark job writes the sorted rows, which stream threads then read like their topics.

For each topic with history of which something is left:

1. Read the table, and check its columns. Where the topic takes over is asked of the brokers, or is in the manifest.
2. If a manifest is there, an earlier start has staged the rows. Its query, schema and number of partitions must be the same.
3. Otherwise Spark makes bytes of keys and values, assigns Kafka's partition, sorts by time within it, and writes Parquet files.
4. The manifest is written last. Without it files are left over from a crash, and are deleted.

Equal rows are staged in the same order, so a position holds for rows that were staged again, also by another instance. The
fingerprint of the rows tells whether they are equal.
"""

from __future__ import annotations

import hashlib
import inspect
import json
import logging
import os
import re
import shutil
import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    MapType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from penstock.config.streams_config import StreamsConfig
from penstock.errors import StreamsError
from penstock.history import SourceHistory, SparkHistory
from penstock.ids import TopicPartition
from penstock.kafka.admin import Admin
from penstock.runtime.offset_metadata import OffsetAndMetadata
from penstock.serdes.contract import as_serializer
from penstock.spark.history_rows import RowFormat, row_writer
from penstock.spark.hosts import is_local
from penstock.spark.internals import analyzed_plan
from penstock.spark.staged_history import StagedPartition, history_rows, is_set
from penstock.state.directory import HISTORY_FOLDER, state_dir_here

_log = logging.getLogger(__name__)

_MANIFEST, _VERSION, _MOST_BYTES = "manifest.json", 1, 64 << 20
_HEADERS = "array<struct<key:string,value:binary>>"
_OURS = re.compile(r"StreamsError: (the history of [^\n]+)")

Starts = Callable[[Iterable[TopicPartition]], Mapping[TopicPartition, int]]


def is_left(committed: OffsetAndMetadata | None) -> bool:
    """Whether history of a partition is left to be read: nothing is committed, or a position in history."""
    return committed is None or history_rows(committed) is not None


@dataclass(frozen=True)
class HistoryStaging:
    """Stages histories for one application. `starts` tells where reset policies have topics read from."""

    config: StreamsConfig
    session: Callable[[], SparkSession]
    admin: Admin
    starts: Starts
    committed_only: bool

    def stage(
        self,
        histories: Mapping[str, SourceHistory],
        partitions: Mapping[str, int],
        committed: Mapping[TopicPartition, OffsetAndMetadata],
    ) -> dict[TopicPartition, StagedPartition]:
        """Stage what is left of the histories; topics have so many `partitions`."""
        staged: dict[TopicPartition, StagedPartition] = {}
        for topic, source in histories.items():
            numbers = [TopicPartition(topic, number) for number in range(partitions[topic])]
            known = {p: committed[p] for p in numbers if p in committed and not is_set(committed[p])}
            given = {p: committed[p].offset for p in numbers if p in committed and is_set(committed[p])}
            if any(is_left(known.get(partition)) for partition in numbers):
                staged |= _TopicStaging(self, source, numbers, known, given).stage()
            else:
                delete_history(self.config, [topic])
        return staged


class _TopicStaging:
    def __init__(
        self,
        staging: HistoryStaging,
        source: SourceHistory,
        partitions: list[TopicPartition],
        committed: Mapping[TopicPartition, OffsetAndMetadata],
        given: Mapping[TopicPartition, int],
    ) -> None:
        self._staging, self._source, self._partitions = staging, source, partitions
        self._committed, self._given = committed, given
        self._topic, self._history = source.topic, source.history
        self._folder = _folder(staging.config, source.topic)

    def stage(self) -> dict[TopicPartition, StagedPartition]:
        """Return what is staged of the partitions whose history is not read to its end."""
        session = self._staging.session()
        if self._staging.config["history.dir"] is None and not is_local(session.sparkContext):
            raise StreamsError(
                f"the history of {self._topic} is staged in files, and Spark runs on a cluster: set history.dir to a folder that "
                "the driver and all executors share"
            )
        frame = self._guarded(lambda: self._selected(self._table(session)))
        query = self._query(frame)
        manifest = self._manifest()
        if manifest is not None:
            if manifest["query"] == query:
                return self._staged(manifest)
            if self._committed:
                raise self._changed("its query, its columns or the number of partitions")
        ends = self._ends()
        data = self._folder / f"data-{uuid.uuid4().hex}"
        self._make_folder()
        try:
            _log.info("the history of %s is read and sorted by Spark", self._topic)
            manifest = {"version": _VERSION, "query": query, **self._guarded(lambda: self._write(session, frame, data, ends))}
            _log.info("the history of %s has %d rows", self._topic, sum(rows for some in manifest["files"] for _, rows in some))
        except BaseException:
            shutil.rmtree(data, ignore_errors=True)
            raise
        other = self._manifest()
        if other is not None and (other["query"], other["stage"]) == (query, manifest["stage"]):
            shutil.rmtree(data, ignore_errors=True)  # an instance with the same history.dir was faster, and reads its files
            return self._staged(other)
        file = self._folder / f"{_MANIFEST}.{uuid.uuid4().hex}"
        file.write_text(json.dumps(manifest))
        os.replace(file, self._folder / _MANIFEST)
        for left in self._folder.glob("data-*"):
            if left != data:
                shutil.rmtree(left, ignore_errors=True)
        return self._staged(manifest)

    # -- the table -----------------------------------------------------------------------------------------------------

    def _guarded(self, step: Callable[[], Any]) -> Any:
        """Do a step with Spark; whatever it raises becomes one sentence."""
        try:
            return step()
        except StreamsError:
            raise
        except Exception as exc:
            text = str(exc)
            if (found := _OURS.search(text)) is not None:
                raise StreamsError(found[1]) from exc
            if (thrown := getattr(exc, "java_exception", None)) is not None:  # one that pyspark does not translate
                text = thrown.toString()
            first = next((line.strip() for line in text.splitlines() if line.strip()), type(exc).__name__)
            raise StreamsError(f"the history of {self._topic} cannot be read: {first}") from exc

    def _table(self, session: SparkSession) -> DataFrame:
        source, format_ = self._history.source, self._history.format
        if callable(source):
            frame = source(session) if inspect.signature(source).parameters else source()
            if not isinstance(frame, DataFrame):
                raise StreamsError(
                    f"the history of {self._topic} is no DataFrame: its function has returned {type(frame).__name__}"
                )
            return frame
        if isinstance(source, Path) or "/" in source or Path(source).exists():
            reader = session.read.format(format_)
            if format_ == "csv":
                reader = reader.option("header", True).option("inferSchema", True)
            return reader.load(str(source))
        return session.table(source)

    def _selected(self, frame: DataFrame) -> DataFrame:
        """The columns of records: key, value, timestamp in milliseconds, headers."""
        history, fields = self._history, {field.name: field.dataType for field in frame.schema.fields}
        wanted = {"key": history.key, "value": history.value, "timestamp": history.timestamp, "headers": history.headers}
        for parameter, name in wanted.items():
            if name is not None and name not in fields:
                raise StreamsError(
                    f"the history of {self._topic} has no column {name}, it has {', '.join(fields) or 'none'}: name it with "
                    f"SparkHistory({parameter}=…)"
                )
        columns = [] if history.key is None else [F.col(f"`{history.key}`").alias("key")]
        columns.append(F.col(f"`{history.value}`").alias("value"))
        columns.append(self._milliseconds(history, fields[history.timestamp]).alias("timestamp"))
        if history.headers is not None:
            columns.append(self._headers(history.headers, fields[history.headers]).alias("headers"))
        selected = frame.select(*columns)
        if isinstance(history.until, datetime):
            time = F.col("timestamp")  # rows without one are refused later
            selected = selected.where(time.isNull() | (time < _ms(history.until)))
        return selected

    def _milliseconds(self, history: SparkHistory, kind: DataType) -> Any:
        column = F.col(f"`{history.timestamp}`")
        if isinstance(kind, (LongType, IntegerType)):
            return column.cast("long")
        if isinstance(kind, (TimestampType, TimestampNTZType)):
            return F.unix_millis(column.cast("timestamp"))
        raise StreamsError(
            f"the history of {self._topic} has timestamps of type {kind.simpleString()} (column {history.timestamp}): make them "
            "timestamps, or integers in milliseconds, in the query"
        )

    def _headers(self, name: str, kind: DataType) -> Any:
        column = F.col(f"`{name}`")
        if isinstance(kind, MapType):
            return F.map_entries(column).cast(_HEADERS)
        if isinstance(kind, ArrayType) and isinstance(kind.elementType, StructType) and len(kind.elementType.fields) == 2:
            return column.cast(_HEADERS)
        raise StreamsError(
            f"the history of {self._topic} has headers of type {kind.simpleString()} (column {name}): an array of structs of key "
            "and value is expected, or a map"
        )

    def _query(self, frame: DataFrame) -> str:
        """A fingerprint of what is asked of the table; rows that were added to it since do not change it."""
        history = self._history
        source = re.sub(r"#\d+L?", "", analyzed_plan(frame)) if callable(history.source) else str(history.source)
        names = history.format, history.key, history.value, history.timestamp, history.headers
        until = history.until.isoformat() if isinstance(history.until, datetime) else repr(history.until)
        parts = source, *map(str, names), until, frame.schema.simpleString(), str(len(self._partitions))
        return hashlib.sha256("\0".join(parts).encode()).hexdigest()

    # -- where the topic takes over ------------------------------------------------------------------------------------

    def _ends(self) -> dict[TopicPartition, int]:
        """The offset of each partition from which on the topic is read."""
        until, admin, partitions = self._history.until, self._staging.admin, self._partitions
        if until is None:
            return {**self._staging.starts([p for p in partitions if p not in self._given]), **self._given}
        starts = admin.log_starts(partitions)
        if isinstance(until, datetime):
            ends = admin.offsets_at(partitions, _ms(until), self._staging.committed_only)
            # Records that retention has deleted may lie between the time and the first record that is left.
            first = [partition for partition, end in ends.items() if end <= starts[partition] and starts[partition] > 0]
            later = admin.offsets_at(first, _ms(until) + 1, self._staging.committed_only) if first else {}
            gaps = {p: f"{p} begins at offset {starts[p]}, after {until.isoformat()}" for p in first if later[p] == ends[p]}
        else:
            if set(until) != {partition.partition for partition in partitions}:
                named = ", ".join(map(str, sorted(until))) or "none"
                raise self._refused(f"until names the partitions {named}, and the topic has {len(partitions)}")
            ends, logs = {p: until[p.partition] for p in partitions}, admin.log_ends(partitions, False)
            for partition, end in ends.items():
                if end > logs[partition]:
                    raise self._refused(f"until says offset {end} of {partition}, which ends at {logs[partition]}")
            gaps = {p: f"{p} begins at offset {starts[p]}, after {end}" for p, end in ends.items() if end < starts[p]}
        if gaps and not self._history.allow_gap:
            raise self._refused(
                f"there is a gap between table and topic ({'; '.join(gaps.values())}). Let the table reach further and "
                "choose a later until, or set allow_gap=True"
            )
        return {partition: max(end, starts[partition]) for partition, end in ends.items()}

    def _refused(self, reason: str) -> StreamsError:
        return StreamsError(f"the history of {self._topic} cannot be read: {reason}")

    # -- the files -----------------------------------------------------------------------------------------------------

    def _make_folder(self) -> None:
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._folder.chmod(0o700)
        except OSError as exc:
            raise StreamsError(
                f"the history of {self._topic} cannot be staged: {self._folder} cannot be made ({exc.strerror or exc}). "
                "Set history.dir to another folder"
            ) from exc

    def _write(self, session: SparkSession, frame: DataFrame, data: Path, ends: Mapping[TopicPartition, int]) -> dict[str, Any]:
        """Have Spark write the rows; returns what the manifest says of them."""
        count = len(self._partitions)
        slots = _slots(session, count)
        history, config = self._history, self._staging.config
        kinds = {field.name: field.dataType for field in frame.schema.fields}

        def serializer(which: str, given: Any) -> Any:
            if which not in kinds or isinstance(kinds[which], BinaryType):
                return None
            return as_serializer(given if given is not None else getattr(config, f"default_{which}_serde"))

        rows = RowFormat(
            self._topic,
            slots,
            serializer("key", self._source.key_serde),
            serializer("value", self._source.value_serde),
            history.headers is not None,
            (history.key, history.value, history.timestamp),
        )
        schema = "slot int, partition int, timestamp long, key binary, value binary"
        order = ["partition", "timestamp", "key", "value"]
        if rows.has_headers:
            schema, order = f"{schema}, headers {_HEADERS}", [*order, "headers"]
        placed = frame.mapInArrow(row_writer(rows), schema).repartition(count, "slot")
        location = data.absolute().as_uri()
        placed.sortWithinPartitions(*order).drop("slot").write.partitionBy("partition").parquet(location)
        shutil.copymode(self._folder, data)
        found = session.read.parquet(location) if any(data.glob("partition=*")) else None
        files = [self._files_of(data, partition.partition) for partition in self._partitions]
        sums: list[tuple[int, int, str]] = []
        if found is not None:
            hashed = F.xxhash64(*(F.col(name) for name in order[1:])).cast("decimal(38,0)")
            summed = found.groupBy("partition").agg(F.count("*").alias("rows"), F.sum(hashed).alias("hash")).collect()
            sums = sorted((int(row["partition"]), row["rows"], str(row["hash"])) for row in summed)
        counted = {number: rows for number, rows, _ in sums}
        if any(sum(rows for _, rows in some) != counted.get(number, 0) for number, some in enumerate(files)):
            raise StreamsError(
                f"the history of {self._topic} was staged in {data}, and not all of it is there: history.dir must be a folder "
                "that the driver and all executors share"
            )
        stage = hashlib.sha256(repr(sums).encode()).hexdigest()[:16]
        return {"stage": stage, "ends": [ends[p] for p in self._partitions], "files": files}

    def _files_of(self, data: Path, number: int) -> list[tuple[str, int]]:
        """The files of a partition with their rows. One task of Spark has written them, and has numbered them in their order."""
        files = sorted((data / f"partition={number}").glob("*.parquet"))
        return [(str(file.absolute()), pq.ParquetFile(file).metadata.num_rows) for file in files]

    def _manifest(self) -> Any:
        """The manifest of an earlier start; None if there is none, or its files are gone."""
        try:
            with (self._folder / _MANIFEST).open() as file:
                found = json.loads(file.read(_MOST_BYTES))
            there = all(os.path.exists(path) for some in found["files"] for path, _ in some)
            return found if there and found["version"] == _VERSION and len(found["ends"]) == len(found["files"]) else None
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def _staged(self, manifest: Mapping[str, Any]) -> dict[TopicPartition, StagedPartition]:
        ends, files, stage = manifest["ends"], manifest["files"], str(manifest["stage"])
        staged = {}
        for partition, end, some in zip(self._partitions, ends, files):
            committed = self._committed.get(partition)
            if is_left(committed):
                end = int(end) if committed is None else committed.offset
                staged[partition] = StagedPartition(tuple((str(path), int(rows)) for path, rows in some), end, stage)
                if committed is not None and (begun := history_rows(committed)) is not None and begun[1] != stage:
                    raise self._changed("its rows")
        return staged

    def _changed(self, what: str) -> StreamsError:
        return self._refused(
            f"{what} changed since a part of it was processed. Undo that, or reset the application (penstock reset) to start over"
        )


def delete_history(config: StreamsConfig, topics: Iterable[str]) -> None:
    """Delete the files of topics whose history is read."""
    for topic in topics:
        shutil.rmtree(_folder(config, topic), ignore_errors=True)


def _folder(config: StreamsConfig, topic: str) -> Path:
    """Where the files of a topic are."""
    base: Path = state_dir_here(config["state.dir"]) / config["application.id"] / HISTORY_FOLDER
    if config["history.dir"] is not None:
        base = Path(config["history.dir"]) / config["application.id"]
    return base / topic


def _ms(moment: datetime) -> int:
    return round(moment.timestamp() * 1000)


def _slots(session: SparkSession, count: int) -> tuple[int, ...]:
    """A number for each partition that Spark's hash puts into a task of its own: partitions are sorted side by side."""
    target = F.pmod(F.hash(F.col("slot")), F.lit(count))
    numbers = session.range(64 * count + 256).select(F.col("id").cast("int").alias("slot")).select("slot", target.alias("target"))
    found = {row["target"]: row["slot"] for row in numbers.groupBy("target").agg(F.min("slot").alias("slot")).collect()}
    return tuple(found.get(number, number) for number in range(count))
